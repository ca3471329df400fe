package vault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell"
	"guild/nutshell/object"
)

// Version is the version of the vault's document that this package writes.
const Version = "0.2.0"

// File is the usual path of a bundle's vault. The manifest's credentials.vault has the actual one.
const File = "credentials/vault.enc.json"

// Limits of a vault.
const (
	MaxCredentials = 1000
	maxWord        = 128 // characters of a name or a type
)

// Vault is an open vault. It keeps the text of the document, so that unknown members of it and of every entry survive
// reading, changing and writing. New and Parse make one; the zero Vault is not usable.
type Vault struct {
	text    Secret
	expires nutshell.Timestamp
	entries []Credential
}

// Credential is one entry of a vault. Only Value is secret.
type Credential struct {
	Name         string
	Type         string // postgresql, bearer_token, …
	Value        Secret // the text of a JSON object or string; ValueOf makes one
	Scopes       []string
	Restrictions json.RawMessage    // tables, endpoints, rate limits: a JSON object; nil if there are none
	ExpiresAt    nutshell.Timestamp // empty for the vault's own
}

// document has the known members of a vault's document.
type document struct {
	Version     string             `json:"vault_version"`
	ExpiresAt   nutshell.Timestamp `json:"expires_at"`
	Credentials []jsontext.Value   `json:"credentials"`
}

// entry has the known members of a credential.
type entry struct {
	Name         string             `json:"name"`
	Type         string             `json:"type"`
	Value        jsontext.Value     `json:"value"`
	Scopes       []string           `json:"scopes"`
	Restrictions jsontext.Value     `json:"restrictions"`
	ExpiresAt    nutshell.Timestamp `json:"expires_at"`
}

// vaultText is a vault's document in errors.
var vaultText = text{"vault", MaxSealed}

// New returns an empty vault.
func New(now time.Time) *Vault {
	top := object.Members{}.WithText("vault_version", Version).WithText("created_at", string(moment(now))).
		With("credentials", jsontext.Value("[]"))
	return &Vault{text: NewSecret(append(lines(top, ""), '\n'))}
}

// moment formats a time as the specification does.
func moment(t time.Time) nutshell.Timestamp {
	return nutshell.Timestamp(t.UTC().Format(time.RFC3339))
}

// Parse parses the document of a vault. Every entry needs a unique name, a value that is an object or a string, and an
// expiry that is a time, if it has one. The errors are those of nutshell.ParseManifest. They name members and lines and
// repeat nothing of the text.
func Parse(document Secret) (*Vault, error) {
	raw := document.Reveal()
	if err := vaultText.check(raw); err != nil {
		return nil, err
	}
	v := &Vault{text: document}
	if err := v.read(raw); err != nil {
		return nil, err
	}
	return v, nil
}

func (v *Vault) read(raw []byte) error {
	var d document
	if err := vaultText.decode("", raw, &d); err != nil {
		return err
	}
	switch {
	case !strings.HasPrefix(d.Version, "0."):
		return vaultText.problem("vault_version", "is not 0.x")
	case !isTime(d.ExpiresAt):
		return vaultText.problem("expires_at", "is not a time in RFC 3339")
	case len(d.Credentials) > MaxCredentials:
		return &nutshell.LimitError{What: "credentials of a vault", Limit: MaxCredentials}
	}
	v.expires = d.ExpiresAt
	seen := make(map[string]bool)
	for i, raw := range d.Credentials {
		c, err := readEntry(fmt.Sprintf("credentials.%d", i), raw)
		if err != nil {
			return err
		}
		if seen[c.Name] {
			return vaultText.problem(fmt.Sprintf("credentials.%d.name", i), "duplicate name")
		}
		seen[c.Name] = true
		v.entries = append(v.entries, c)
	}
	return nil
}

func readEntry(path string, raw jsontext.Value) (Credential, error) {
	var e entry
	if err := vaultText.decode(path, raw, &e); err != nil {
		return Credential{}, err
	}
	c := Credential{Name: e.Name, Type: e.Type, Value: NewSecret(e.Value), Scopes: e.Scopes, ExpiresAt: e.ExpiresAt}
	if kind := e.Restrictions.Kind(); len(e.Restrictions) > 0 && kind != 'n' {
		c.Restrictions = json.RawMessage(bytes.Clone(e.Restrictions))
	}
	if field, reason := c.problem(); reason != "" {
		return Credential{}, vaultText.problem(under(path, field), reason)
	}
	return c, nil
}

// problem says which member of an entry is wrong, and why.
func (c Credential) problem() (field, reason string) {
	switch {
	case !isWord(c.Name) || c.Name == "":
		return "name", fmt.Sprintf("must be 1 to %d characters that can be printed", maxWord)
	case !isWord(c.Type):
		return "type", fmt.Sprintf("must be at most %d characters that can be printed", maxWord)
	case !isValue(c.Value.Reveal()):
		return "value", "must be a JSON object or string"
	case len(c.Restrictions) > 0 && !isObject(jsontext.Value(c.Restrictions)):
		return "restrictions", "must be a JSON object"
	case !isTime(c.ExpiresAt):
		return "expires_at", "is not a time in RFC 3339"
	}
	return "", ""
}

func isWord(s string) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= maxWord && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func isValue(raw jsontext.Value) bool {
	kind := raw.Kind()
	return (kind == '{' || kind == '"') && raw.IsValid()
}

func isObject(raw jsontext.Value) bool { return raw.Kind() == '{' && raw.IsValid() }

func isTime(t nutshell.Timestamp) bool {
	_, err := t.Time()
	return t == "" || err == nil
}

// ValueOf returns the value of a credential from what a person entered: a JSON object as it is, anything else as a
// string.
func ValueOf(input Secret) Secret {
	raw := bytes.TrimSpace(input.Reveal())
	if (text{max: MaxSealed}).check(raw) == nil {
		return NewSecret(raw)
	}
	return NewSecret(object.Quote(string(input.Reveal())))
}

// Field returns one field of a value in clear: of an object the member of that name, as text if it is a string, else
// as JSON; of a string, or an object with a single member, what is in it when name is empty. It reports false if there
// is none.
func (c Credential) Field(name string) (Secret, bool) {
	raw := jsontext.Value(c.Value.Reveal())
	if raw.Kind() == '{' {
		o := objectOf(raw)
		if name == "" && len(o) == 1 {
			name = o[0].Name
		}
		raw = o.Value(name)
	} else if name != "" {
		return Secret{}, false
	}
	if raw.Kind() != '"' {
		return NewSecret(raw), len(raw) > 0
	}
	plain, err := jsontext.AppendUnquote(nil, raw)
	return NewSecret(plain), err == nil
}

// WithField returns the value with one field changed. A number stays one if the new value is one; anything else is as
// ValueOf has made it.
func (c Credential) WithField(name string, value Secret) Secret {
	o, raw := objectOf(c.Value.Reveal()), jsontext.Value(value.Reveal())
	if o.Value(name).Kind() == '0' && raw.Kind() == '"' {
		if plain, err := jsontext.AppendUnquote(nil, raw); err == nil && jsontext.Value(plain).Kind() == '0' && jsontext.Value(plain).IsValid() {
			raw = plain
		}
	}
	return NewSecret(o.With(name, raw).Text())
}

// Fields returns the names of the fields of a value, in their order: none for a string.
func (c Credential) Fields() []string {
	var names []string
	for _, m := range objectOf(c.Value.Reveal()) {
		names = append(names, m.Name)
	}
	return names
}

// Document returns the text of the vault, for a Sealer.
func (v *Vault) Document() Secret { return v.text }

// Credentials returns the entries in their order.
func (v *Vault) Credentials() []Credential { return slices.Clone(v.entries) }

// Credential returns the entry of this name.
func (v *Vault) Credential(name string) (Credential, bool) {
	i := v.index(name)
	if i < 0 {
		return Credential{}, false
	}
	return v.entries[i], true
}

func (v *Vault) index(name string) int {
	return slices.IndexFunc(v.entries, func(c Credential) bool { return c.Name == name })
}

// Put adds an entry, or replaces the one of the same name and keeps its unknown members. If that would make the vault
// invalid, it returns an error and changes nothing.
func (v *Vault) Put(c Credential) error {
	if field, reason := c.problem(); reason != "" {
		return vaultText.problem(under("credential", field), reason)
	}
	scopes, err := json.Marshal(c.Scopes)
	if err != nil {
		return err
	}
	if len(c.Scopes) == 0 {
		scopes = nil
	}
	top, all := v.parts()
	i := v.index(c.Name)
	if i < 0 {
		i, all = len(all), append(all, jsontext.Value("{}"))
	}
	all[i] = lines(objectOf(all[i]).WithText("name", c.Name).WithText("type", c.Type).With("value", c.Value.Reveal()).
		With("scopes", scopes).With("restrictions", jsontext.Value(c.Restrictions)).WithText("expires_at", string(c.ExpiresAt)), "    ")
	return v.change(top, all)
}

// Remove takes an entry out. It reports false if there is none.
func (v *Vault) Remove(name string) bool {
	i := v.index(name)
	if i < 0 {
		return false
	}
	top, all := v.parts()
	return v.change(top, slices.Delete(all, i, i+1)) == nil
}

// SetExpiry sets when the whole vault expires, whatever its entries say. An empty time means never.
func (v *Vault) SetExpiry(at nutshell.Timestamp) error {
	top, all := v.parts()
	return v.change(top.WithText("expires_at", string(at)), all)
}

// parts returns the members of the document, and the entries in it.
func (v *Vault) parts() (object.Members, []jsontext.Value) {
	top := objectOf(v.text.Reveal())
	return top, list(top.Value("credentials"))
}

// change replaces the members and entries of the vault, if the result is valid.
func (v *Vault) change(top object.Members, all []jsontext.Value) error {
	top = top.With("credentials", listLines(all, "  "))
	changed, err := Parse(NewSecret(append(lines(top, ""), '\n')))
	if err != nil {
		return err
	}
	*v = *changed
	return nil
}

// InClear reports whether a file is a vault that is not sealed. Parse reports what else is wrong with it.
func InClear(file []byte) bool {
	return vaultText.check(file) == nil && objectOf(file).Value("vault_version").Kind() == '"'
}
