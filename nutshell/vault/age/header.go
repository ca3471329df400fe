package age

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"filippo.io/age"
	"golang.org/x/crypto/ssh"

	"guild/nutshell/vault"
)

// SealedFor returns what the header of a sealed vault says of each of its recipients. It names the kind of key, because age
// does not say whose it is, except for SSH keys, where a part of the key's hash follows. The error is vault.ErrNotSealed.
func SealedFor(sealed []byte) ([]string, error) {
	in, ok := unarmoured(sealed)
	if !ok || len(sealed) > vault.MaxSealed {
		return nil, vault.ErrNotSealed
	}
	var h header
	_, err := age.Decrypt(in, &h)
	if !h.read {
		return nil, errors.Join(vault.ErrNotSealed, err)
	}
	slices.Sort(h.kinds)
	return h.kinds, nil
}

// IsFor reports whether the header of a sealed vault, as SealedFor returns it, can be that of one for these recipients.
func IsFor(kinds, recipients []string) bool {
	if slices.ContainsFunc(recipients, isPlugin) {
		return len(kinds) > 0 // only the plugin knows which stanzas it writes
	}
	var want []string
	for _, r := range recipients {
		want = append(want, kindOf(r))
	}
	slices.Sort(want)
	return slices.Equal(want, kinds)
}

// header is an age.Identity that opens nothing, and keeps the kinds of the recipients.
type header struct {
	kinds []string
	read  bool
}

// Unwrap implements age.Identity.
func (h *header) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	h.read = true
	for _, s := range stanzas {
		kind := s.Type
		switch {
		case strings.HasSuffix(s.Type, "-grease"):
			continue // a recipient that nobody is, as age's specification allows
		case strings.HasPrefix(s.Type, "ssh-") && len(s.Args) > 0:
			kind += " " + s.Args[0]
		}
		if len(h.kinds) < maxStanzas {
			h.kinds = append(h.kinds, kind)
		}
	}
	return nil, age.ErrIncorrectIdentity
}

// kindOf returns the kind of a recipient as SealedFor names it.
func kindOf(recipient string) string {
	switch {
	case recipient == Passphrase:
		return "scrypt"
	case strings.HasPrefix(recipient, "age1pq1"):
		return "mlkem768x25519"
	case strings.HasPrefix(recipient, "age1"):
		return "X25519"
	}
	k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(recipient))
	if err != nil {
		return recipient
	}
	sum := sha256.Sum256(k.Marshal())
	return k.Type() + " " + base64.RawStdEncoding.EncodeToString(sum[:4])
}
