package age_test

import (
	"context"
	"fmt"
	"time"

	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
)

func Example() {
	ctx := context.Background()
	now := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	key, recipient, err := age.Generate(now)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := age.New(age.Config{Recipients: []string{recipient}, Identities: []age.Identity{{Name: "age.key", Text: key}}})
	if err != nil {
		fmt.Println(err)
		return
	}
	sealed, err := s.Seal(ctx, vault.New(now).Document())
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := vault.Open(ctx, s, sealed)
	fmt.Println(len(v.Credentials()), err)
	// Output: 0 <nil>
}
