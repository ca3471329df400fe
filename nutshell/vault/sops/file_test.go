package sops

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"guild/nutshell/vault"
)

// keys is the part of the metadata that names servers, as encoding/json reads it, which sops is written with.
type keys struct {
	Servers []struct {
		Address string `json:"vault_address"`
	} `json:"hc_vault"`
	Groups []keys `json:"key_groups"`
}

func (k keys) addresses() []string {
	var all []string
	for _, s := range k.Servers {
		all = append(all, s.Address)
	}
	for _, g := range k.Groups {
		all = append(all, g.addresses()...)
	}
	return all
}

// FuzzParse holds the reader to encoding/json: an address that sops may see is one that was checked.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"data":"ENC[","sops":{"hc_vault":[{"vault_address":"https://a"}],"key_groups":[{"hc_vault":null}]}}`))
	f.Add([]byte(`{"sops":{"Hc_vault":[{"vault_address":"https://a","VAULT_ADDRESS":"https://b"},{"x":[]}]}}`))
	f.Add([]byte(`{"sops":{"key_groups":[{"key_groups":[{"hc_vault":[{"vault_address":"https://c"}]}]},{"hc_vault":[{"vault_address":"https://a"}, 1]}]}}`))
	f.Add([]byte(`{"SOPS":{},"sops":{}}`))
	f.Add([]byte(`{"sops":{"hc_vault":{"vault_address":"https://a"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		found, err := parse(b)
		if err != nil {
			if !errors.Is(err, vault.ErrNotSealed) {
				t.Fatal(err)
			}
			return
		}
		var seen struct {
			Keys keys `json:"sops"`
		}
		if err := json.Unmarshal(b, &seen); err != nil {
			return // what sops reads up to there is nothing
		}
		for _, address := range seen.Keys.addresses() {
			if address != "" && !slices.Contains(found.vaults, address) {
				t.Fatalf("%q was not found in %s", address, b)
			}
		}
	})
}

func TestSameOrigin(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"https://a", "https://a"}: true, {"https://a/", "https://A/v1"}: true, {"https://a", "http://a"}: false,
		{"https://a", "https://a.evil"}: false, {"https://a", "https://a@evil"}: false, {"https://a", "https://a:8200"}: false,
		{"", ""}: false, {"a", "a"}: false, {"https://a", "https://evil/https://a"}: false,
	} {
		if got := sameServer(pair[0], pair[1]); got != want {
			t.Errorf("%q: %v", pair, got)
		}
	}
}
