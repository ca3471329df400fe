package age

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"filippo.io/age"

	"guild/nutshell/vault"
)

// Limits of an identity file.
const (
	MaxIdentity = 64 << 10 // bytes
	maxKeys     = 100
)

// Identity is the content of an identity file: lines of age keys (AGE-SECRET-KEY-1…, AGE-SECRET-KEY-PQ-1…,
// AGE-PLUGIN-…), the same encrypted with a passphrase by age, or a private SSH key, with or without a passphrase.
type Identity struct {
	Name   string // for questions and errors: its path
	Text   vault.Secret
	Public []byte // the .pub file of an SSH key in PEM with a passphrase, which does not say whose it is
}

// Generate makes a new X25519 key: the text of its identity file, and its recipient.
func Generate(now time.Time) (text vault.Secret, recipient string, err error) {
	k, err := age.GenerateX25519Identity()
	if err != nil {
		return vault.Secret{}, "", err
	}
	recipient = k.Recipient().String()
	b := fmt.Appendf(nil, "# created: %s\n# public key: %s\n%s\n", now.UTC().Format(time.RFC3339), recipient, k)
	return vault.NewSecret(b), recipient, nil
}

// Recipients returns the public halves of the keys in an identity, for Seal. It may ask for the passphrase of a locked
// file. It leaves out the keys of plugins, whose public halves only the plugin knows.
func (id Identity) Recipients(ctx context.Context, ui UI) ([]string, error) {
	keys, err := id.openers(ui)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, k := range keys {
		some, err := k.recipients(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Keys are tried in this order.
const (
	never  = iota // it needs no person
	seldom        // it runs a plugin, which may ask
	always        // it asks for a passphrase
)

// opener is one key, or a locked file of keys.
type opener interface {
	asks() int
	// open returns age.ErrIncorrectIdentity if none of the stanzas is for the key.
	open(ctx context.Context, stanzas []*age.Stanza) ([]byte, error)
	recipients(ctx context.Context) ([]string, error)
}

// openers parses the identity. Errors name it and a line, and repeat nothing of it.
func (id Identity) openers(ui UI) ([]opener, error) {
	raw := id.Text.Reveal()
	if len(raw) > MaxIdentity {
		return nil, id.wrong("has more than %d bytes", MaxIdentity)
	}
	if _, ok := unarmoured(raw); ok {
		return []opener{&locked{id: id, ui: ui}}, nil
	}
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("-----BEGIN")) {
		k, err := id.sshKey(ui)
		return []opener{k}, err
	}
	return id.lines(raw, ui)
}

func (id Identity) wrong(format string, args ...any) error {
	return fmt.Errorf("%s: "+format, append([]any{id.Name}, args...)...)
}

// lines parses a file with one key a line.
func (id Identity) lines(raw []byte, ui UI) ([]opener, error) {
	var keys []opener
	n := 0
	for line := range strings.Lines(string(raw)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, reason := parseKey(line, ui)
		if reason != "" {
			return nil, id.wrong("line %d %s", n, reason)
		}
		if keys = append(keys, k); len(keys) > maxKeys {
			return nil, id.wrong("has more than %d keys", maxKeys)
		}
	}
	if len(keys) == 0 {
		return nil, id.wrong("holds no key")
	}
	return keys, nil
}

// parseKey parses one key.
func parseKey(line string, ui UI) (k opener, reason string) {
	const broken = "is not a whole age key"
	switch {
	case strings.HasPrefix(line, "AGE-PLUGIN-"):
		if !isPluginIdentity(line) {
			return nil, broken
		}
		return pluginKey{line, ui}, ""
	case strings.HasPrefix(line, "AGE-SECRET-KEY-PQ-1"):
		id, err := age.ParseHybridIdentity(line)
		if err != nil {
			return nil, broken
		}
		return native{id, id.Recipient().String()}, ""
	case strings.HasPrefix(line, "AGE-SECRET-KEY-1"):
		id, err := age.ParseX25519Identity(line)
		if err != nil {
			return nil, broken
		}
		return native{id, id.Recipient().String()}, ""
	case strings.HasPrefix(line, "age1"):
		return nil, "is a recipient, not the key that opens"
	}
	return nil, "is not an age key"
}

// native is a key that opens vaults without asking anybody.
type native struct {
	age.Identity
	public string
}

func (native) asks() int { return never }

func (n native) open(_ context.Context, stanzas []*age.Stanza) ([]byte, error) {
	return n.Unwrap(stanzas)
}

func (n native) recipients(context.Context) ([]string, error) { return []string{n.public}, nil }

// locked is an identity file that age encrypted with a passphrase.
type locked struct {
	id Identity
	ui UI

	mu   sync.Mutex
	keys []opener // once it is open
}

func (*locked) asks() int { return always }

func (l *locked) open(ctx context.Context, stanzas []*age.Stanza) ([]byte, error) {
	keys, err := l.unlocked()
	if err != nil {
		return nil, err
	}
	ring := &keyring{ctx: ctx, keys: keys, ui: l.ui}
	return ring.Unwrap(stanzas)
}

func (l *locked) recipients(ctx context.Context) ([]string, error) {
	keys, err := l.unlocked()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, k := range keys {
		some, err := k.recipients(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// unlocked returns the keys in the file. It asks for the passphrase the first time.
func (l *locked) unlocked() ([]opener, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keys != nil {
		return l.keys, nil
	}
	phrase, err := l.ui.ask(fmt.Sprintf("Passphrase of %s: ", l.id.Name))
	if err != nil {
		return nil, l.id.wrong("%w", err)
	}
	in, _ := unarmoured(l.id.Text.Reveal())
	r, err := age.Decrypt(in, onlyPassphrase(phrase))
	if err != nil {
		return nil, l.id.wrong("%w", lockedError(err))
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxIdentity+1))
	if err != nil || len(text) > MaxIdentity {
		return nil, l.id.wrong("is damaged")
	}
	l.keys, err = l.id.lines(text, l.ui)
	return l.keys, err
}

// lockedError reports why an identity file stays locked.
func lockedError(err error) error {
	_, other := errors.AsType[*age.NoIdentityMatchError](err)
	switch {
	case errors.Is(err, errWrongPassphrase):
		return errWrongPassphrase
	case other:
		return errors.New("is locked with a key, not with a passphrase")
	}
	return errors.New("is damaged")
}

// onlyPassphrase opens files that have a passphrase, and no others.
type onlyPassphrase []byte

// Unwrap implements age.Identity.
func (p onlyPassphrase) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	if len(stanzas) != 1 || stanzas[0].Type != "scrypt" {
		return nil, age.ErrIncorrectIdentity
	}
	return unlock(p, stanzas, maxWorkFactor)
}
