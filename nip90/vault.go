package nip90

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nutshell/vault"
)

// MaxVault is the largest vault, in bytes, that travels with a request.
const MaxVault = 32 << 10

// Forms in which a vault travels, as the vault parameter names them.
const (
	vaultAge   = "age"
	vaultNIP44 = "nip44"
	expiredToo = "allow-expired"
)

// ageHeads are how an age file begins, binary and armored.
var ageHeads = [...]string{"age-encryption.org/v1\n", "-----BEGIN AGE ENCRYPTED FILE-----"}

// Vault is the credentials that travel with a bundle: sealed for the provider, or only inside the encrypted request.
// It is no part of the bundle, its hash or the job hash, so that another provider can get it sealed anew. What binds
// it is the signature of the request.
type Vault struct {
	Sealed   []byte       // an age file for a key of the provider's; or
	Document vault.Secret // the document of the vault, which nothing but the encryption of the request closes

	AllowExpired bool // what has expired is sent on purpose
}

// IsSealedVault reports whether b looks like a vault that only a key of age opens. What does not must not be kept
// or sent as one.
func IsSealedVault(b []byte) bool {
	return slices.ContainsFunc(ageHeads[:], func(head string) bool { return bytes.HasPrefix(b, []byte(head)) })
}

// String describes the vault without what is in it.
func (v Vault) String() string {
	form, b := v.content()
	return fmt.Sprintf("vault of %d bytes, %s", len(b), form)
}

// Format keeps the credentials out of every way of printing.
func (v Vault) Format(s fmt.State, _ rune) { fmt.Fprint(s, v.String()) }

// MarshalJSON fails, as that of a Parcel does.
func (v Vault) MarshalJSON() ([]byte, error) { return nil, vault.ErrSecret }

func (v Vault) content() (form string, b []byte) {
	if v.Document.IsZero() {
		return vaultAge, v.Sealed
	}
	return vaultNIP44, v.Document.Reveal()
}

func (v Vault) check() error {
	form, b := v.content()
	switch {
	case form == vaultNIP44 && len(v.Sealed) > 0:
		return fmt.Errorf("both sealed and open: %w", ErrMalformed)
	case len(b) == 0:
		return fmt.Errorf("it is empty: %w", ErrMalformed)
	case len(b) > MaxVault:
		return fmt.Errorf("%d bytes, and %d at most: %w", len(b), MaxVault, ErrTooBig)
	case form == vaultAge && !IsSealedVault(b):
		return fmt.Errorf("not a file of age: %w", ErrMalformed)
	}
	return nil
}

// SetVault makes v the vault of r, in place of one that was there. r can only be sealed then.
func (r *Request) SetVault(v Vault) error {
	if err := v.check(); err != nil {
		return fmt.Errorf("vault: %w", err)
	}
	form, b := v.content()
	values := []string{form, base64.StdEncoding.EncodeToString(b)}
	if v.AllowExpired {
		values = append(values, expiredToo)
	}
	r.Set(ParamVault, values...)
	r.Set(ParamVaultSHA256, guild.Sum(b).Hex())
	return nil
}

// Vault returns the vault that r carries, checked against its hash, or nil if r has none. Its errors repeat
// nothing of it.
func (r Request) Vault() (*Vault, error) {
	i := slices.IndexFunc(r.Params, Param.isVault)
	if i < 0 {
		return nil, nil
	}
	v, err := parseVault(r.Params[i].Values, r.Get(ParamVaultSHA256))
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return v, nil
}

func (p Param) isVault() bool { return p.Key == ParamVault }

// parseVault reads the values of the parameter: the form, the bytes as base64, and perhaps a word about expiry.
func parseVault(values []string, hash string) (*Vault, error) {
	if len(values) < 2 {
		return nil, fmt.Errorf("%d values: %w", len(values), ErrMalformed)
	}
	if len(values[1]) > base64.StdEncoding.EncodedLen(MaxVault) {
		return nil, fmt.Errorf("%d bytes of base64: %w", len(values[1]), ErrTooBig)
	}
	b, err := base64.StdEncoding.DecodeString(values[1])
	if err != nil {
		return nil, fmt.Errorf("not base64: %w", ErrMalformed)
	}
	want, err := guild.ParseHash(hash)
	if err != nil || guild.Sum(b) != want {
		return nil, fmt.Errorf("the bytes do not match their hash: %w", ErrMalformed)
	}
	v := &Vault{AllowExpired: slices.Contains(values[2:], expiredToo)}
	switch values[0] {
	case vaultAge:
		v.Sealed = b
	case vaultNIP44:
		v.Document = vault.NewSecret(b)
	default:
		return nil, fmt.Errorf("form %.20q: %w", values[0], ErrMalformed)
	}
	return v, v.check()
}

// Redacted returns the event without the values of parameters that must not be in clear, for whoever keeps or shows
// events that were refused.
func Redacted(e nostr.Event) nostr.Event {
	tags := slices.Clone(e.Tags)
	for i, tag := range tags {
		if len(tag) > 2 && tag[0] == "param" && isSecret(tag[1]) {
			tags[i] = nostr.Tag{tag[0], tag[1], "[secret]"}
		}
	}
	e.Tags = tags
	return e
}
