package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/nut/credential"
	"guild/nip90"
	"guild/nutshell"
	nutcheck "guild/nutshell/check"
	"guild/nutshell/vault"
	vaultage "guild/nutshell/vault/age"
)

// releaseOptions select the credentials of a bundle's vault that the provider gets.
type releaseOptions struct {
	Names        []string // of credentials; "all" for every one
	Without      bool     // none, although the task may need some
	Identities   []string // files of keys that open the vault
	AllowExpired bool
	Insecure     bool // the vault may be in clear
}

// releaseHint names the two ways in which a task with credentials can be hired.
const releaseHint = "--release NAME gives one to the provider, --release all every one; --without-credentials gives none"

func (o releaseOptions) check() error {
	switch {
	case o.Without && len(o.Names) > 0:
		return errors.New("--release and --without-credentials exclude each other")
	case len(o.Names) == 0 && (len(o.Identities) > 0 || o.AllowExpired || o.Insecure):
		return errors.New("--identity, --allow-expired and --insecure-plaintext are for --release")
	}
	return nil
}

// credentials opens the bundle's vault and returns the released credentials, nil without any.
func (p *program) credentials(ctx context.Context, source string, o releaseOptions) (*vault.Vault, error) {
	if len(o.Names) == 0 {
		return nil, p.mind(source, o)
	}
	v, err := credential.OpenOf(ctx, p.nut(), credential.Source{Path: source, Identities: o.Identities, Insecure: o.Insecure})
	if err != nil {
		return nil, err
	}
	return o.choose(v, p.now())
}

// choose returns the released credentials of an open vault.
func (o releaseOptions) choose(v *vault.Vault, now time.Time) (*vault.Vault, error) {
	names := slices.Compact(slices.Sorted(slices.Values(o.Names)))
	if slices.Contains(names, "all") {
		names = nil
		for _, c := range v.Credentials() {
			names = append(names, c.Name)
		}
	}
	few, err := v.Only(now, names...)
	switch {
	case errors.Is(err, vault.ErrExpired) && o.AllowExpired:
		return few, nil
	case errors.Is(err, vault.ErrExpired):
		return nil, cli.WithHint(fmt.Errorf("--release: %w", err), "guild nut rotate renews them; --allow-expired releases them all the same")
	case errors.Is(err, vault.ErrNoEntry):
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("--release: %w", err)), "guild nut vault show lists them")
	case err != nil:
		return nil, err
	case len(names) == 0:
		return nil, cli.Usage(errors.New("--release: the vault is empty"))
	}
	return few, nil
}

// mind refuses a task with credentials if no flag says whether they are released.
func (p *program) mind(source string, o releaseOptions) error {
	info, err := os.Stat(source)
	switch {
	case err != nil:
		return cli.Usage(err)
	case info.IsDir():
		return o.mindDir(source)
	case filepath.Ext(source) == ".nut":
		return p.mindFile(source, info.Size(), o)
	}
	return nil // packBundle reports the error
}

func (o releaseOptions) mindDir(dir string) error {
	if o.Without {
		return nil
	}
	report, err := nutcheck.Tree(os.DirFS(dir), nutcheck.Options{Program: "guild nut"})
	if err != nil {
		return nil // packBundle reports the error
	}
	at := slices.IndexFunc(report.Items, func(i nutcheck.Item) bool { return i.Field == "credentials.vault" })
	switch {
	case at < 0:
		return nil
	case report.Items[at].Path == "":
		err := fmt.Errorf("%s asks for credentials and has no vault", dir)
		return cli.WithHint(cli.Usage(err), "guild nut add-credential makes one; then "+releaseHint)
	}
	return unreleased(dir)
}

func unreleased(source string) error {
	return cli.WithHint(cli.Usage(fmt.Errorf("%s has a vault, and nothing of it is released", source)), releaseHint)
}

// mindFile is mind for a bundle file. A vault in it goes as it is, sealed for whomever it is.
func (p *program) mindFile(file string, size int64, o releaseOptions) error {
	f, err := os.Open(file)
	if err != nil {
		return cli.Usage(err)
	}
	defer f.Close()
	b, err := nutshell.Open(f, size, nutshell.Limits{})
	if err != nil {
		return cli.Usage(fmt.Errorf("%s: %w", file, err))
	}
	creds := b.Manifest().Credentials()
	name := path.Clean(creds.Vault)
	switch {
	case slices.ContainsFunc(b.Files(), func(e nutshell.Entry) bool { return e.Path == name }):
		fmt.Fprintf(p.err, "guild: the vault in %s goes as it is: only those whom it is sealed for can open it\n", cli.Clean(file))
		return nil
	case creds.Beside && !o.Without:
		return unreleased(file)
	}
	return nil
}

// release seals the credentials for their providers, gives them to the node, and returns their name there. For named
// providers that announce an age key, they are sealed for that key, and the node cannot open them.
func (p *program) release(ctx context.Context, client *control.Client, v *vault.Vault, providers []string, o releaseOptions) (string, error) {
	recipients, err := p.recipients(ctx, client, providers)
	if err != nil {
		return "", err
	}
	r := control.Release{AllowExpired: o.AllowExpired}
	for _, c := range v.Credentials() {
		r.Names = append(r.Names, c.Name)
		if at := v.ExpiresAt(c.Name); !at.IsZero() && (r.Expires == 0 || at.UnixMilli() < r.Expires) {
			r.Expires = at.UnixMilli()
		}
	}
	for _, recipient := range recipients {
		sealed, err := sealFor(ctx, recipient, v.Document())
		if err != nil {
			return "", fmt.Errorf("seal the credentials for %s: %w", recipient, err)
		}
		r.Vaults = append(r.Vaults, control.SealedVault{For: recipient, Sealed: sealed})
	}
	kept, err := control.KeepRelease.Call(ctx, client, r)
	return kept.Hash, err
}

// sealFor seals a document for one key. It is an error if that is too large for a request.
func sealFor(ctx context.Context, recipient string, document vault.Secret) ([]byte, error) {
	s, err := vaultage.New(vaultage.Config{Recipients: []string{recipient}})
	if err != nil {
		return nil, err
	}
	sealed, err := s.Seal(ctx, document)
	if err == nil && len(sealed) > nip90.MaxVault {
		err = fmt.Errorf("they are %d bytes, and %d travel at most with a request", len(sealed), nip90.MaxVault)
		err = cli.WithHint(err, "release fewer, by their names")
	}
	return sealed, err
}

// recipients returns the age keys to seal for: those of the named providers, and the node's own if none is named or one of
// them announces no age key. The node then seals again for the provider that it asks.
func (p *program) recipients(ctx context.Context, client *control.Client, providers []string) ([]string, error) {
	var all []string
	own := len(providers) == 0
	for _, key := range providers {
		services, err := p.services(ctx, client, key)
		if err != nil {
			return nil, err
		}
		for _, s := range services {
			own = own || s.Recipient == ""
			if s.Recipient != "" && !slices.Contains(all, s.Recipient) {
				all = append(all, s.Recipient)
			}
		}
	}
	if !own {
		return all, nil
	}
	node, err := control.NodeRecipient.Call(ctx, client)
	return append(all, node.Recipient), err
}

// services returns the services of a named provider that read encrypted requests. A node that was just started
// is given the time to meet it.
func (p *program) services(ctx context.Context, client *control.Client, key string) ([]control.Provider, error) {
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	patience := time.After(c.Timeouts.Discover)
	for {
		all, err := control.Providers.Call(ctx, client)
		if err != nil {
			return nil, err
		}
		known := slices.DeleteFunc(all, func(s control.Provider) bool { return s.PubKey != key })
		if len(known) > 0 {
			return encrypting(known)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-patience:
			err := fmt.Errorf("nobody knows how to seal credentials for %s: it is not announced", cli.ShortNpub(npubOf(key)))
			return nil, cli.WithHint(err, "guild market ls shows who is")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// encrypting keeps the services that read encrypted requests, and wants at least one.
func encrypting(known []control.Provider) ([]control.Provider, error) {
	fit := slices.DeleteFunc(slices.Clone(known), func(s control.Provider) bool { return !s.Encrypts })
	if len(fit) > 0 {
		return fit, nil
	}
	err := fmt.Errorf("%s does not read encrypted requests, so that it gets no credentials", describeProvider(known[0]))
	return nil, cli.WithHint(cli.Usage(err), "ask another one, or give it none with --without-credentials")
}

func describeProvider(s control.Provider) string {
	if s.Name == "" {
		return cli.ShortNpub(s.Npub)
	}
	return strings.TrimSpace(cli.Cut(cli.Clean(s.Name), 40) + " (" + cli.ShortNpub(s.Npub) + ")")
}

// npubOf returns the npub of a key in hex, or the text itself if it is not one.
func npubOf(key string) string {
	k, err := nostr.PubKeyFromHex(key)
	if err != nil {
		return key
	}
	return npub(k)
}
