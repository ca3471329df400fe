package transit

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell/vault"
)

// file is a sealed vault as it is stored. It does not contain the address of the server.
type file struct {
	Mount      string // where the transit engine is
	Key        string // name of the key
	Ciphertext string // vault:v<version of the key>:<base64>
}

// wire is the JSON of a file. All members are required, and no others allowed.
type wire struct {
	Encryption string `json:"encryption"` // vault.Transit
	Version    int    `json:"version"`    // 1
	Mount      string `json:"mount"`
	Key        string `json:"key"`
	Ciphertext string `json:"ciphertext"`
}

const version = 1

// encode returns the file, if a reader would accept it.
func (f file) encode() ([]byte, error) {
	b, err := json.Marshal(wire{Encryption: vault.Transit, Version: version, Mount: f.Mount, Key: f.Key, Ciphertext: f.Ciphertext}, jsontext.WithIndent("  "))
	if err != nil {
		return nil, errAnswer
	}
	if b = append(b, '\n'); len(b) > vault.MaxSealed {
		return nil, vault.ErrTooLarge
	}
	if _, err := parse(b); err != nil {
		return nil, errAnswer
	}
	return b, nil
}

// parse parses a file. The error is vault.ErrNotSealed if it is not one, or vault.ErrTooLarge.
func parse(b []byte) (file, error) {
	if len(b) > vault.MaxSealed {
		return file{}, vault.ErrTooLarge
	}
	var w wire
	if err := json.Unmarshal(b, &w, json.RejectUnknownMembers(true)); err != nil {
		return file{}, fmt.Errorf("%w: it is not the JSON of one", vault.ErrNotSealed)
	}
	switch {
	case w.Encryption != vault.Transit:
		return file{}, fmt.Errorf("%w: its encryption is %.20q", vault.ErrNotSealed, w.Encryption)
	case w.Version != version:
		return file{}, fmt.Errorf("%w: its version is %d, only %d is known", vault.ErrNotSealed, w.Version, version)
	case !isMount(w.Mount) || !isKey(w.Key):
		return file{}, fmt.Errorf("%w: it names no key", vault.ErrNotSealed)
	case !strings.HasPrefix(w.Ciphertext, "vault:v"):
		return file{}, fmt.Errorf("%w: it has no ciphertext", vault.ErrNotSealed)
	}
	return file{w.Mount, w.Key, w.Ciphertext}, nil
}

// isMount reports whether a name can be that of a mount, and cannot change a request's path in another way.
func isMount(name string) bool {
	const segments = 8
	all := strings.Split(name, "/")
	for _, one := range all {
		if !isKey(one) {
			return false
		}
	}
	return len(all) <= segments
}

// isKey reports whether a name can be that of a key (Vault's generic name, without dots at its ends).
func isKey(name string) bool {
	const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	odd := strings.ContainsFunc(name, func(r rune) bool { return !strings.ContainsRune(characters, r) })
	return name != "" && len(name) <= 128 && !odd && name == strings.Trim(name, ".")
}
