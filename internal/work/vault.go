package work

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"guild/nip90"
	"guild/nutshell/vault"
)

// vaultFile is what an opened vault is called, in a directory of its own.
const vaultFile = "vault.json"

// shortest is the length from which a string is looked for in what a worker leaves and says, in bytes: shorter ones
// stand in any text by accident.
const shortest = 8

// opened is the credentials of one request, from the start of its worker to the packing of the delivery. The nil
// *opened has none.
type opened struct {
	file    string // the document, in a directory of its own
	used    []vault.Used
	secrets []secret // the longest first
}

// secret is one string of a credential's value.
type secret struct {
	credential string
	text       vault.Secret
}

// openVault opens the credentials that came with a request and lays them out for its worker. It returns nil if none
// came.
func (w *Work) openVault(ctx context.Context, r nip90.Request) (*opened, error) {
	sent, err := r.Vault()
	if err != nil || sent == nil {
		return nil, err
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
	return w.layOut(v, now)
}

// layOut writes the document where its worker finds it, and nobody else.
func (w *Work) layOut(v *vault.Vault, now time.Time) (*opened, error) {
	dir, err := os.MkdirTemp(cmp.Or(w.c.Secrets, w.c.Scratch), "vault-") // 0700
	if err != nil {
		return nil, err
	}
	o := &opened{file: filepath.Join(dir, vaultFile)}
	if err := os.WriteFile(o.file, v.Document().Reveal(), 0o600); err != nil {
		return nil, errors.Join(err, o.shut())
	}
	for _, c := range v.Credentials() {
		o.used = append(o.used, vault.Used{Name: c.Name, At: now})
		o.secrets = append(o.secrets, secretsOf(c)...)
	}
	slices.SortStableFunc(o.secrets, func(a, b secret) int {
		return cmp.Compare(len(b.text.Reveal()), len(a.text.Reveal()))
	})
	return o, nil
}

// shut removes the document. What a worker leaves can still be searched.
func (o *opened) shut() error {
	if o == nil {
		return nil
	}
	return os.RemoveAll(filepath.Dir(o.file))
}

// path is where the worker finds the document, or nothing.
func (o *opened) path() string {
	if o == nil {
		return ""
	}
	return o.file
}

// mark notes in a result which credentials were opened, and when.
func (o *opened) mark(result json.RawMessage) (json.RawMessage, error) {
	if o == nil {
		return result, nil
	}
	return vault.MarkUsed(result, o.used)
}

// public are members of a value that say where something is and who asks, not with which secret. A delivery may
// well name them.
var public = []string{
	"host", "hostname", "address", "server", "endpoint", "base_url", "port", "database", "dbname", "db", "schema", "bucket",
	"region", "scheme", "driver", "user", "username", "login", "account", "email", "role", "project", "organization", "type", "name",
}

// secretsOf lists the strings of a credential's value that must not be seen.
func secretsOf(c vault.Credential) []secret {
	var value any
	if json.Unmarshal(c.Value.Reveal(), &value) != nil {
		return nil
	}
	var all []secret
	collect(value, func(text string) {
		all = append(all, secret{c.Name, vault.NewSecret([]byte(text))})
	})
	return all
}

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
			if _, isText := one.(string); !isText || !slices.Contains(public, strings.ToLower(name)) {
				collect(one, add)
			}
		}
	}
}

// hide takes the secrets out of a text.
func (o *opened) hide(text string) string {
	if o == nil {
		return text
	}
	for _, s := range o.secrets {
		text = strings.ReplaceAll(text, string(s.text.Reveal()), s.text.String())
	}
	return text
}

// hideIn is hide for an error, which keeps its kind where there is nothing to hide.
func (o *opened) hideIn(err error) error {
	if o == nil || err == nil || o.hide(err.Error()) == err.Error() {
		return err
	}
	return errors.New(o.hide(err.Error()))
}

// leak is an error if one of the secrets stands, word for word, in a file of a tree or in its name.
func (o *opened) leak(tree fs.FS) error {
	if o == nil || len(o.secrets) == 0 {
		return nil
	}
	return fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		found := o.find([]byte(p))
		if found == nil && d.Type().IsRegular() {
			found, err = o.search(tree, p)
		}
		if found != nil {
			return fmt.Errorf("the worker left a secret of the credential %q in %s, so that nothing is delivered", found.credential, o.hide(p))
		}
		return err
	})
}

// find returns a secret that stands in b, or nil.
func (o *opened) find(b []byte) *secret {
	for i, s := range o.secrets {
		if bytes.Contains(b, s.text.Reveal()) {
			return &o.secrets[i]
		}
	}
	return nil
}

// search looks for the secrets in a file, of which it holds little at a time.
func (o *opened) search(tree fs.FS, p string) (*secret, error) {
	f, err := tree.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	overlap := len(o.secrets[0].text.Reveal()) - 1
	buf := make([]byte, 64<<10+overlap)
	for kept := 0; ; {
		n, err := io.ReadFull(f, buf[kept:])
		text := buf[:kept+n]
		if found := o.find(text); found != nil {
			return found, nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		kept = copy(buf, text[max(0, len(text)-overlap):])
	}
}
