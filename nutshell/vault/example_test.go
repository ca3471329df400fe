package vault_test

import (
	"fmt"
	"time"

	"guild/nutshell/vault"
)

func Example() {
	now := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	v := vault.New(now)
	err := v.Put(vault.Credential{
		Name: "staging-db", Type: "postgresql", Scopes: []string{"read", "write"}, ExpiresAt: "2026-03-21T10:00:00Z",
		Value: vault.ValueOf(vault.NewSecret([]byte(`{"host": "staging-db.internal", "password": "rotated-token-abc123"}`))),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, _ := v.Credential("staging-db")
	fmt.Println(c.Name, c.Value)
	fmt.Println(v.Scopes()[0].AccessLevel)
	fmt.Println(v.Current(now.AddDate(0, 0, 8)))
	// Output:
	// staging-db [secret]
	// read-write
	// staging-db: the credentials have expired
}

func ExampleCredential_Field() {
	c := vault.Credential{Value: vault.ValueOf(vault.NewSecret([]byte(`{"token": "sk-agent"}`)))}
	token, ok := c.Field("token")
	fmt.Println(string(token.Reveal()), ok)
	// Output: sk-agent true
}
