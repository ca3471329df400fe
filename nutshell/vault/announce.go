package vault

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell"
)

// Scopes returns the scopes of the entries as a manifest lists them, without values.
func (v *Vault) Scopes() []nutshell.Scope {
	var all []nutshell.Scope
	for _, c := range v.entries {
		all = append(all, nutshell.Scope{
			Name: c.Name, Type: c.Type, AccessLevel: accessLevel(c.Scopes), RateLimit: c.rateLimit(), ExpiresAt: v.expiry(c),
		})
	}
	return all
}

// accessLevel joins scopes as the specification's example does: read, read-write, invoke.
func accessLevel(scopes []string) string {
	sorted := slices.Clone(scopes)
	place := func(s string) int {
		if i := slices.Index([]string{"read", "write"}, s); i >= 0 {
			return i
		}
		return 2
	}
	slices.SortStableFunc(sorted, func(a, b string) int { return place(a) - place(b) })
	return strings.Join(sorted, "-")
}

// rateLimit returns the rate_limit of the restrictions, if it is a string.
func (c Credential) rateLimit() string {
	raw := objectOf(c.Restrictions).Value("rate_limit")
	if raw.Kind() != '"' {
		return ""
	}
	plain, _ := jsontext.AppendUnquote(nil, raw) // checked before
	return string(plain)
}

// Placement says where a vault is and for whom, for a manifest.
type Placement struct {
	Path       string   // in the bundle; File if empty
	Form       string   // one of the forms of encryption
	Recipients []string // whom it is sealed for; empty if the form has no such list
	Removed    []string // names that the manifest should not promise any more
}

// Announce writes the vault into a manifest: credentials.vault, encryption, recipients and scopes. A scope that the
// vault lacks stays, because it says which credential is still needed; unknown members stay too.
func Announce(m *nutshell.Manifest, v *Vault, p Placement) error {
	if p.Path == "" {
		p.Path = File
	}
	if p.Recipients == nil {
		p.Recipients = []string{}
	}
	scopes, err := v.mergeScopes(m, p.Removed)
	if err != nil {
		return err
	}
	changed, err := nutshell.ParseManifest(m.Bytes())
	if err != nil {
		return err
	}
	for _, c := range []struct {
		path  string
		value any
	}{
		{"credentials.vault", p.Path}, {"credentials.encryption", p.Form},
		{"credentials.scopes", json.RawMessage(scopes)}, {"credentials.recipients", p.Recipients},
	} {
		if c.path == "credentials.recipients" && len(p.Recipients) == 0 && len(m.Credentials().Recipients) == 0 {
			continue
		}
		if err := changed.Set(c.path, c.value); err != nil {
			return err
		}
	}
	*m = *changed
	return nil
}

// mergeScopes returns the manifest's list of scopes with those of the vault in it, as JSON.
func (v *Vault) mergeScopes(m *nutshell.Manifest, removed []string) (jsontext.Value, error) {
	own := list(objectOf(objectOf(m.Bytes()).Value("credentials")).Value("scopes"))
	var all []jsontext.Value
	place := make(map[string]int)
	for i, s := range m.Credentials().Scopes {
		if !slices.Contains(removed, s.Name) {
			place[s.Name] = len(all)
			all = append(all, own[i])
		}
	}
	for _, s := range v.Scopes() {
		i, ok := place[s.Name]
		if !ok {
			i, all = len(all), append(all, jsontext.Value("{}"))
		}
		all[i] = objectOf(all[i]).WithText("name", s.Name).WithText("type", s.Type).WithText("access_level", s.AccessLevel).
			WithText("rate_limit", s.RateLimit).WithText("expires_at", string(s.ExpiresAt)).Text()
	}
	return listText(all), nil
}

// Promise sets the expiry of some scopes of a manifest that has no vault yet. An empty time means never.
func Promise(m *nutshell.Manifest, until nutshell.Timestamp, names ...string) error {
	all := list(objectOf(objectOf(m.Bytes()).Value("credentials")).Value("scopes"))
	for i, s := range m.Credentials().Scopes {
		if slices.Contains(names, s.Name) {
			all[i] = objectOf(all[i]).WithText("expires_at", string(until)).Text()
		}
	}
	return m.Set("credentials.scopes", json.RawMessage(listText(all)))
}
