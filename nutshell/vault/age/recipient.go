package age

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"filippo.io/age"
	"filippo.io/age/plugin"
)

// Passphrase is the recipient that stands for a passphrase, for which the person is asked.
const Passphrase = "passphrase"

// maxRecipient limits the length of a recipient, in bytes. Post-quantum ones have about two thousand.
const maxRecipient = 8 << 10

// workFactor is log2 of scrypt's N for passphrases. As in age, it costs 256 MiB and a second.
const workFactor = 18

// Errors of recipients.
var (
	ErrRecipient = errors.New("is not a recipient: want age1…, ssh-ed25519 …, ssh-rsa … or passphrase")
	ErrAlone     = errors.New("a passphrase must be the only recipient")
	ErrMixed     = errors.New("post-quantum recipients cannot be mixed with others, which would open the same vault")
	ErrNoOne     = errors.New("the vault has no recipients")
)

// CheckRecipients returns an error unless Seal can seal for each of them: age1… (X25519), age1pq1… (post-quantum),
// age1name1… (the plugin age-plugin-name), ssh-ed25519 … or ssh-rsa …, or Passphrase alone.
func CheckRecipients(all []string) error {
	if len(all) > maxStanzas {
		return fmt.Errorf("%d recipients, more than %d", len(all), maxStanzas)
	}
	quantum := 0
	for _, text := range all {
		if text == Passphrase {
			if len(all) > 1 {
				return ErrAlone
			}
			continue
		}
		if _, err := parse(text, UI{}); err != nil {
			return err
		}
		if strings.HasPrefix(text, "age1pq1") {
			quantum++
		}
	}
	if quantum != 0 && quantum != len(all) && !slices.ContainsFunc(all, isPlugin) {
		return ErrMixed // only the plugin knows whether its recipients are post-quantum
	}
	return nil
}

// Canonical returns the form in which a recipient is compared and listed: an SSH key without its comment.
func Canonical(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == Passphrase {
		return text, nil
	}
	if _, err := parse(text, UI{}); err != nil {
		return "", err
	}
	if strings.HasPrefix(text, "ssh-") {
		return withoutComment(text)
	}
	return text, nil
}

// IsNative reports whether a recipient is a key of age itself, classic or post-quantum. Sealing for one runs no program
// and asks no person, so it may come from a stranger.
func IsNative(text string) bool {
	_, err := parse(text, UI{})
	return err == nil && strings.HasPrefix(text, "age1") && !isPlugin(text)
}

// isPlugin reports whether a recipient is that of a plugin. In bech32 the last 1 is before the data.
func isPlugin(text string) bool {
	return strings.HasPrefix(text, "age1") && strings.Count(text, "1") > 1 && !strings.HasPrefix(text, "age1pq1")
}

// parse parses one recipient other than Passphrase. Its errors do not repeat it: it may be a secret key by mistake.
func parse(text string, ui UI) (age.Recipient, error) {
	r, err := parseAny(text, ui)
	upper := strings.ToUpper(text)
	switch {
	case err == nil:
		return r, nil
	case strings.Contains(upper, "AGE-SECRET-KEY-") || strings.Contains(upper, "PRIVATE KEY"):
		return nil, errors.New("a secret key was given in place of a recipient")
	case strings.HasPrefix(text, "age1"), strings.HasPrefix(text, "ssh-"):
		return nil, fmt.Errorf("%.24q %w", text, ErrRecipient)
	}
	return nil, fmt.Errorf("one of them %w", ErrRecipient)
}

func parseAny(text string, ui UI) (age.Recipient, error) {
	switch {
	case len(text) > maxRecipient, strings.ContainsAny(text, "\r\n"):
		return nil, ErrRecipient
	case strings.HasPrefix(text, "age1pq1"):
		return age.ParseHybridRecipient(text)
	case isPlugin(text):
		return plugin.NewRecipient(text, ui.client(context.Background()))
	case strings.HasPrefix(text, "age1"):
		return age.ParseX25519Recipient(text)
	case strings.HasPrefix(text, "ssh-"):
		return parseSSH(text)
	}
	return nil, ErrRecipient
}

// wrappers returns the recipients as age's types. It asks for the passphrase, if they are one.
func (s *Sealer) wrappers(ctx context.Context) ([]age.Recipient, error) {
	if len(s.recipients) == 0 {
		return nil, ErrNoOne
	}
	var all []age.Recipient
	for _, text := range s.recipients {
		r, err := s.wrapper(ctx, text)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func (s *Sealer) wrapper(ctx context.Context, text string) (age.Recipient, error) {
	switch {
	case text == Passphrase:
		return s.newPassphrase()
	case isPlugin(text):
		return pluginRecipient{ctx, text, s.ui}, nil
	}
	return parse(text, s.ui)
}

// newPassphrase asks for a passphrase twice.
func (s *Sealer) newPassphrase() (age.Recipient, error) {
	first, err := s.ui.ask("New passphrase of the vault: ")
	if err != nil {
		return nil, err
	}
	again, err := s.ui.ask("Again: ")
	switch {
	case err != nil:
		return nil, err
	case !bytes.Equal(first, again):
		return nil, errors.New("the two passphrases differ")
	case len(first) == 0:
		return nil, errors.New("the passphrase is empty")
	}
	r, err := age.NewScryptRecipient(string(first))
	if err == nil {
		r.SetWorkFactor(s.workFactor)
	}
	return r, err
}
