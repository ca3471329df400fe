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

// MaxVault limits the size of a vault in a request, in bytes.
const MaxVault = 32 << 10

// Forms of a vault in the vault parameter.
const (
	vaultAge   = "age"
	vaultNIP44 = "nip44"
	expiredToo = "allow-expired"
)

// ageHeads are the beginnings of an age file, binary and armored.
var ageHeads = [...]string{"age-encryption.org/v1\n", "-----BEGIN AGE ENCRYPTED FILE-----"}

// Vault has the credentials for a bundle: sealed for the provider, or protected only by the encryption of the request.
// It is not part of the bundle, its hash or the job hash, so that it can be sealed again for another provider. The
// signature of the request covers it.
type Vault struct {
	Sealed   []byte       // an age file for a key of the provider; or
	Document vault.Secret // the unsealed document; only the encryption of the request protects it

	AllowExpired bool // the customer knows that credentials have expired
}

// IsSealedVault reports whether b looks like a vault that is sealed with age. Anything else must not be stored or sent
// as a vault.
func IsSealedVault(b []byte) bool {
	return slices.ContainsFunc(ageHeads[:], func(head string) bool { return bytes.HasPrefix(b, []byte(head)) })
}

// String describes the vault without its content.
func (v Vault) String() string {
	form, b := v.content()
	return fmt.Sprintf("vault of %d bytes, %s", len(b), form)
}

// Format prevents every format verb from printing the credentials.
func (v Vault) Format(s fmt.State, _ rune) { fmt.Fprint(s, v.String()) }

// MarshalJSON returns an error, as Parcel.MarshalJSON does.
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

// SetVault sets the vault of r and replaces an earlier one. Then r can only be sent with Sealed.
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

// Vault returns the vault of r, checked against its hash, or nil if there is none. Its errors do not contain any part
// of it.
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

// parseVault parses the values of the parameter: the form, the bytes as base64, and optionally "allow-expired".
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

// Redacted returns the event without the values of parameters that may not be in clear. Use it to store or show a
// refused event.
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
