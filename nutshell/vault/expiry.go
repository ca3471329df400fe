package vault

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell"
	"guild/nutshell/object"
)

// ExpiresAt returns when an entry expires: by its own expiry or the vault's, whichever is earlier. It is zero if there
// is neither.
func (v *Vault) ExpiresAt(name string) time.Time {
	own, _ := v.Credential(name)
	at, _ := v.expiry(own).Time() // Parse has checked it
	return at
}

// Expiry returns when the whole vault expires, or "" if it does not.
func (v *Vault) Expiry() nutshell.Timestamp { return v.expires }

// expiry returns the earlier of an entry's expiry and the vault's, as it is written.
func (v *Vault) expiry(c Credential) nutshell.Timestamp {
	own, ownErr := c.ExpiresAt.Time()
	all, allErr := v.expires.Time()
	switch {
	case ownErr != nil:
		return v.expires
	case allErr == nil && all.Before(own):
		return v.expires
	}
	return c.ExpiresAt
}

// Expired returns the names of the entries that have expired at now.
func (v *Vault) Expired(now time.Time) []string {
	var names []string
	for _, c := range v.entries {
		if at := v.ExpiresAt(c.Name); !at.IsZero() && !now.Before(at) {
			names = append(names, c.Name)
		}
	}
	return names
}

// Current returns an ErrExpired that names the entries that have expired at now, or nil.
func (v *Vault) Current(now time.Time) error {
	names := v.Expired(now)
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %w", strings.Join(names, ", "), ErrExpired)
}

// Only returns the vault with the named entries alone, for somebody who must not get more. Unknown members of the
// document are left out. The error is ErrNoEntry if an entry is missing, and ErrExpired if one has expired at now.
func (v *Vault) Only(now time.Time, names ...string) (*Vault, error) {
	top, all := v.parts()
	var some []jsontext.Value
	for _, name := range names {
		i := v.index(name)
		if i < 0 {
			return nil, fmt.Errorf("%.200q: %w", name, ErrNoEntry)
		}
		some = append(some, all[i])
	}
	few := object.Members{}.With("vault_version", top.Value("vault_version")).With("created_at", top.Value("created_at")).
		With("expires_at", top.Value("expires_at")).With("credentials", listLines(some, "  "))
	only, err := Parse(NewSecret(append(lines(few, ""), '\n')))
	if err != nil {
		return nil, err
	}
	return only, only.Current(now)
}
