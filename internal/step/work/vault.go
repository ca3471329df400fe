package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"guild/nip90"
	"guild/nutshell/vault"
)

// vaultFile is the name of an opened vault, in a directory of its own.
const vaultFile = "vault.json"

// opened holds the credentials of one request while its worker runs and its delivery is packed.
type opened struct {
	*watch        // for the credentials and the worker's own secrets
	file   string // the document, in a directory of its own; empty without credentials
	used   []vault.Used
}

// openVault opens the credentials that came with a request and writes them to a file for its worker. The worker's own
// secrets are watched too.
func (w *Work) openVault(ctx context.Context, r nip90.Request, s Service) (*opened, error) {
	sent, err := r.Vault()
	if err != nil {
		return nil, err
	}
	if sent == nil || s.NoCredentials {
		return &opened{watch: newWatch(s.Secrets)}, nil
	}
	document := sent.Document
	if document.IsZero() {
		if document, err = w.c.Unseal(ctx, sent.Sealed); err != nil {
			return nil, fmt.Errorf("the credentials: %w", err)
		}
	}
	v, err := vault.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("the credentials: %w", err)
	}
	now := w.c.Now()
	if err := v.Current(now); err != nil && !sent.AllowExpired {
		return nil, err
	}
	return w.layOut(v, now, s.Secrets)
}

// layOut writes the document to a directory that only we can read.
func (w *Work) layOut(v *vault.Vault, now time.Time, own []Secret) (*opened, error) {
	dir, err := os.MkdirTemp(cmp.Or(w.c.Secrets, w.c.Scratch), "vault-") // 0700
	if err != nil {
		return nil, err
	}
	o := &opened{file: filepath.Join(dir, vaultFile)}
	if err := os.WriteFile(o.file, v.Document().Reveal(), 0o600); err != nil {
		return nil, errors.Join(err, o.shut())
	}
	secrets := slices.Clone(own)
	for _, c := range v.Credentials() {
		o.used = append(o.used, vault.Used{Name: c.Name, At: now})
		secrets = append(secrets, secretsOf(c)...)
	}
	o.watch = newWatch(secrets)
	return o, nil
}

// shut removes the document. The watch stays, so that the delivery can be searched.
func (o *opened) shut() error {
	if o.file == "" {
		return nil
	}
	return os.RemoveAll(filepath.Dir(o.file))
}

// mark adds to a result which credentials were opened, and when.
func (o *opened) mark(result json.RawMessage) (json.RawMessage, error) {
	if o.file == "" {
		return result, nil
	}
	return vault.MarkUsed(result, o.used)
}

// secretsOf lists the secret strings in a credential's value.
func secretsOf(c vault.Credential) []Secret {
	var value any
	if json.Unmarshal(c.Value.Reveal(), &value) != nil {
		return nil
	}
	var all []Secret
	collect(value, func(text string) {
		all = append(all, Secret{What: fmt.Sprintf("a secret of the credential %q", c.Name), Text: vault.NewSecret([]byte(text))})
	})
	return all
}

// collect calls add with each string of a value that is long enough and not public by its name.
func collect(value any, add func(string)) {
	switch v := value.(type) {
	case string:
		if len(v) >= shortest {
			add(v)
		}
	case []any:
		for _, one := range v {
			collect(one, add)
		}
	case map[string]any:
		for name, one := range v {
			if text, isText := one.(string); !isText || !isPublic(strings.ToLower(name), text) {
				collect(one, add)
			}
		}
	}
}
