package vault

import (
	"encoding/json"
	"time"

	"guild/nutshell"
)

// Version is the version of the vault's document that this package writes.
const Version = "0.2.0"

// File is where the vault of a bundle usually is. The manifest's credentials.vault says where it is.
const File = "credentials/vault.enc.json"

// Vault is an open vault. Unknown members of its document survive reading, changing and writing. The zero Vault is
// not usable: New and Parse make one.
type Vault struct {
	doc document
}

// document is what is known of the document, and all of its text.
type document struct {
	Version     string             `json:"vault_version"`
	CreatedAt   nutshell.Timestamp `json:"created_at"`
	ExpiresAt   nutshell.Timestamp `json:"expires_at,omitempty"`
	Credentials []Credential       `json:"credentials"`
}

// Credential is one entry of a vault. Only Value is secret.
type Credential struct {
	Name         string
	Type         string // postgresql, bearer_token, …
	Value        Secret // a JSON object or string
	Scopes       []string
	Restrictions json.RawMessage    // tables, endpoints, rate limits: a JSON object; nil if there are none
	ExpiresAt    nutshell.Timestamp // empty for the vault's own
}

// New returns an empty vault.
func New(now time.Time) *Vault { panic("not written yet") }

// Parse reads the document of a vault. Names must be unique; its errors are those of nutshell.ParseManifest and
// never hold a value.
func Parse(document Secret) (*Vault, error) { panic("not written yet") }

// Document returns the text of the vault, for a Sealer.
func (v *Vault) Document() Secret { panic("not written yet") }

// Credentials returns the entries in their order.
func (v *Vault) Credentials() []Credential { panic("not written yet") }

// Get returns the entry of this name.
func (v *Vault) Get(name string) (Credential, bool) { panic("not written yet") }

// Put adds an entry, or replaces the one of the same name and keeps its unknown members.
func (v *Vault) Put(c Credential) error { panic("not written yet") }

// Remove takes an entry out. It reports false if there is none.
func (v *Vault) Remove(name string) bool { panic("not written yet") }

// ExpiresAt returns when an entry expires: by its own word or by the vault's, whichever is earlier. It is zero if
// neither says so.
func (v *Vault) ExpiresAt(name string) time.Time { panic("not written yet") }

// Only returns the vault with no other entries than those named, for somebody who is to get no more. It is an error
// if one is missing, and ErrExpired if one has expired at now.
func (v *Vault) Only(now time.Time, names ...string) (*Vault, error) { panic("not written yet") }

// Current is an error that is ErrExpired and names what has expired at now, or nil.
func (v *Vault) Current(now time.Time) error { panic("not written yet") }

// Scopes returns what a manifest may say of the entries: never a value.
func (v *Vault) Scopes() []nutshell.Scope { panic("not written yet") }
