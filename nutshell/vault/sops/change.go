package sops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json/jsontext"

	members "guild/nutshell/object"
	"guild/nutshell/vault"
)

// IsNative reports whether a file was sealed by sops as JSON, with the names readable and each value encrypted, and not as
// Seal does it.
func IsNative(sealed []byte) bool {
	f, err := parse(sealed)
	return err == nil && !f.binary
}

// Change returns a native file with another document. Keys, rules, and the values that are the same are kept as they are.
// The error is vault.ErrNotSealed if the file is not native, and that of Open if it cannot be opened. sops writes numbers in
// its own spelling; if it would change one otherwise, that is an error.
func (s *Sealer) Change(ctx context.Context, sealed []byte, document vault.Secret) ([]byte, error) {
	if !IsNative(sealed) {
		return nil, fmt.Errorf("%w: sops has not sealed it as JSON", vault.ErrNotSealed)
	}
	before, env, err := s.opened(ctx, sealed)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sops-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, filepath.Base(name))
	if err := os.WriteFile(file, sealed, 0o600); err != nil {
		return nil, err
	}
	was, err := members.Parse(before.Reveal())
	if err != nil {
		return nil, err
	}
	becomes, err := members.Parse(document.Reveal())
	if err != nil {
		return nil, err
	}
	for _, e := range edits(was, becomes) {
		args := []string{"--config", os.DevNull, "unset", file, e.index}
		if len(e.value) > 0 {
			args = []string{"--config", os.DevNull, "set", "--value-stdin", file, e.index}
		}
		if _, err := s.run(ctx, env, e.value, args...); err != nil {
			return nil, sealing(err)
		}
	}
	changed, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if len(changed) > vault.MaxSealed {
		return nil, vault.ErrTooLarge
	}
	after, err := s.Open(ctx, changed)
	if err == nil && !same(after.Reveal(), document.Reveal()) {
		err = errors.New("sops would write a number of this document differently; seal the vault in another form")
	}
	return changed, err
}

// edit sets the value at an index as sops reads it, or removes it if the value is empty.
type edit struct {
	index string
	value jsontext.Value
}

// edits lists what turns one object into another. sops sets no list as a whole, so those of the object, such as the
// credentials, are changed element by element.
func edits(was, becomes members.Members) []edit {
	var all []edit
	for _, m := range becomes {
		old, at := was.Value(m.Name), "["+string(members.Quote(m.Name))+"]"
		switch {
		case same(m.Value, old):
		case m.Value.Kind() == '[' && old.Kind() == '[':
			before, after := members.Elements(old), members.Elements(m.Value)
			for i, value := range after {
				if i >= len(before) || !same(value, before[i]) {
					all = append(all, edit{fmt.Sprintf("%s[%d]", at, i), value})
				}
			}
			for i := len(before) - 1; i >= len(after); i-- {
				all = append(all, edit{fmt.Sprintf("%s[%d]", at, i), nil})
			}
		default:
			all = append(all, edit{at, m.Value})
		}
	}
	for _, m := range was {
		if len(becomes.Value(m.Name)) == 0 {
			all = append(all, edit{"[" + string(members.Quote(m.Name)) + "]", nil})
		}
	}
	return all
}

// same reports whether two JSON values are equal but for white space, the order of names and the spelling of numbers.
func same(a, b jsontext.Value) bool {
	a, b = a.Clone(), b.Clone()
	return a.Canonicalize() == nil && b.Canonicalize() == nil && bytes.Equal(a, b)
}
