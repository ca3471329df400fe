package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
)

// errNoVault is that there is no vault yet.
var errNoVault = errors.New("there is no vault")

// vaultFlags are how the verbs for the vault find it and open it.
type vaultFlags struct {
	dir        string
	identities []string
	insecure   bool
	mount, key string
}

func (f *vaultFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.StringArrayVarP(&f.identities, "identity", "i", nil, "`file` of an age or SSH key that opens the vault (repeatable)")
	flags.BoolVar(&f.insecure, "insecure-plaintext", false, "allow a vault that is not encrypted")
	flags.StringVar(&f.mount, "transit-mount", "", "where the transit engine is, for the form vault")
	flags.StringVar(&f.key, "transit-key", "", "key of the transit engine, for the form vault")
	_ = cmd.MarkFlagFilename("identity")
	_ = cmd.MarkFlagDirname("dir")
}

// vaultSealer closes and opens vaults of a form, for these recipients.
func (p program) vaultSealer(form string, recipients []string, f vaultFlags) (vault.Sealer, error) {
	return p.sealer(sealerOptions{
		Form: form, Recipients: recipients, Identities: f.identities, Mount: f.mount, Key: f.key, Insecure: f.insecure,
	})
}

// safe is a vault that is open, and where it came from.
type safe struct {
	p program
	f vaultFlags
	m *nutshell.Manifest
	v *vault.Vault

	path   string // within the directory
	form   string
	sealed []byte
	lock   *os.File // nil if it cannot be changed
}

// vaultTree reads the manifest of a tree and its vault. A newer vault beside a bundle file takes the place of the
// one in it.
func (p program) vaultTree(ctx context.Context, f vaultFlags) (*safe, error) {
	tree, done, err := p.OpenTree(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := nutshell.ReadManifest(tree)
	if err != nil {
		return nil, err
	}
	s := &safe{p: p, f: f, m: m, path: m.Credentials().Vault, form: m.Credentials().Encryption}
	if s.path == "" {
		s.path = vault.File
	}
	if s.form == "" {
		s.form = vault.Age
	}
	if !fs.ValidPath(s.path) || s.path == "." || s.path == nutshell.ManifestFile {
		return nil, fmt.Errorf("credentials.vault: %q is no place in a bundle", s.path)
	}
	if host.IsFile(f.dir) {
		if found, err := s.revised(); found || err != nil {
			return s, err
		}
	}
	s.sealed, err = readSealed(tree, s.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return s, err
}

func readSealed(tree fs.FS, path string) ([]byte, error) {
	file, err := tree.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, vault.MaxSealed+1))
	if err != nil {
		return nil, err
	}
	if len(b) > vault.MaxSealed {
		return nil, fmt.Errorf("%s: %w", path, vault.ErrTooLarge)
	}
	return b, nil
}

// revised takes the vault that lies beside a bundle file, if there is one by the key that the manifest names.
func (s *safe) revised() (found bool, err error) {
	r, err := readRevision(s.f.dir, s.m)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.path, s.sealed = s.f.dir+vault.RevisionSuffix, r.Sealed
	if r.Form != "" {
		s.form = r.Form
	}
	return true, nil
}

// readRevision reads the vault beside a bundle file. It is fs.ErrNotExist if there is none.
func readRevision(bundle string, m *nutshell.Manifest) (vault.Revision, error) {
	path := bundle + vault.RevisionSuffix
	raw, err := readBeside(path)
	if err != nil {
		return vault.Revision{}, err
	}
	by, err := rotationKey(m)
	if err != nil {
		return vault.Revision{}, fmt.Errorf("%s: %w", path, err)
	}
	r, err := vault.ParseRevision(raw, m.ID(), by)
	if err != nil {
		return vault.Revision{}, cli.WithHint(fmt.Errorf("%s: %w", path, err), "ask the publisher for it again, or take it away")
	}
	return r, nil
}

// readBeside reads the file of a vault beside a bundle. Whoever sent the bundle may have sent anything under that name.
func readBeside(path string) ([]byte, error) {
	f, err := host.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, vault.MaxRevision+1))
	if err == nil && len(raw) > vault.MaxRevision {
		err = fmt.Errorf("%s: %w", path, vault.ErrTooLarge)
	}
	return raw, err
}

// rotationKey is the key that may issue vaults for a bundle.
func rotationKey(m *nutshell.Manifest) (nostr.PubKey, error) {
	r := m.Credentials().Rotation
	if r == nil {
		return nostr.PubKey{}, errors.New("the manifest names no key that may issue vaults (credentials.rotation.pubkey)")
	}
	k, err := nostr.PubKeyFromHex(r.PubKey)
	if err != nil {
		return nostr.PubKey{}, errors.New("credentials.rotation.pubkey is no key")
	}
	return k, nil
}

// openVault opens the vault of a directory or bundle file, to be read.
func (p program) openVault(ctx context.Context, f vaultFlags) (*safe, error) {
	s, err := p.vaultTree(ctx, f)
	if err != nil {
		return nil, err
	}
	return s, s.open(ctx)
}

// changeVault opens the vault of a directory, to be changed: until close, no other verb can. With create it may be a
// new one.
func (p program) changeVault(ctx context.Context, f vaultFlags, create bool) (*safe, error) {
	if host.IsFile(f.dir) {
		err := cli.Usage(fmt.Errorf("%s is packed: only the vault of a directory can be changed", f.dir))
		return nil, cli.WithHint(err, "unpack it with '"+p.Hint("unpack "+f.dir)+"'")
	}
	lock, err := lockDir(f.dir)
	if err != nil {
		return nil, err
	}
	s, err := p.vaultTree(ctx, f)
	if err == nil && len(s.sealed) == 0 && create {
		s.v = vault.New(p.Now())
	} else if err == nil {
		err = s.open(ctx)
	}
	if err != nil {
		lock.Close()
		return nil, err
	}
	s.lock = lock
	return s, nil
}

// lockDir keeps other verbs from changing the vault of a directory at the same time.
func lockDir(dir string) (*os.File, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		d.Close()
		return nil, cli.WithHint(fmt.Errorf("%s: another command is changing the vault", dir), "wait until it is done")
	}
	return d, nil
}

// close lets other verbs change the vault again.
func (s *safe) close() { s.lock.Close() }

// open opens the sealed vault.
func (s *safe) open(ctx context.Context) error {
	if len(s.sealed) == 0 {
		err := fmt.Errorf("%s: %w in %s", s.f.dir, errNoVault, s.path)
		return cli.WithHint(err, "make one with '"+s.p.Hint("add-credential --name NAME --type TYPE")+"'")
	}
	sealer, err := s.p.vaultSealer(s.form, nil, s.f)
	if err != nil {
		return err
	}
	s.v, err = vault.Open(ctx, sealer, s.sealed)
	if err != nil {
		return s.explain(fmt.Errorf("%s: %w", s.path, err))
	}
	return nil
}

// explain adds what a person can do about a vault that does not open.
func (s *safe) explain(err error) error {
	switch {
	case cli.HintOf(err) != "":
		return err
	case errors.Is(err, cli.ErrNoTerminal):
		return cli.WithHint(err, "run it on a terminal")
	case errors.Is(err, vault.ErrNotFor) && s.form == vault.Age:
		return cli.WithHint(err, "name the file of the key that opens it with --identity")
	case errors.Is(err, vault.ErrNotSealed):
		return cli.WithHint(err, "credentials.encryption in nutshell.json says that its form is "+s.form)
	case errors.Is(err, vault.ErrTampered):
		return cli.WithHint(err, "get the file again from whoever sealed it")
	}
	return err
}

// placement is how a changed vault is put away.
type placement struct {
	form       string   // as it was, if empty
	recipients []string // canonical
	removed    []string // names that are gone
}

// save seals the vault, writes it, and makes the manifest say what is in it.
func (s *safe) save(ctx context.Context, to placement) error {
	if to.form == "" {
		to.form = s.form
	}
	sealer, err := s.p.vaultSealer(to.form, to.recipients, s.f)
	if err != nil {
		return err
	}
	sealed, err := sealer.Seal(ctx, s.v.Document())
	if errors.Is(err, age.ErrNoOne) {
		return cli.WithHint(cli.Usage(err), "name them with --recipient")
	}
	if err != nil {
		return err
	}
	if err := host.Replace(s.f.dir, s.path, sealed); err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.sealed, s.form = sealed, to.form
	return host.RewriteManifest(s.f.dir, func(m *nutshell.Manifest) error {
		s.m = m
		return vault.Announce(m, s.v, vault.Placement{Path: s.path, Form: to.form, Recipients: to.recipients, Removed: to.removed})
	})
}

// recipients are whom the vault is sealed for from now on: those that the manifest lists, or the person for a new one,
// with some added and some removed.
func (s *safe) recipients(ctx context.Context, form string, add, remove []string) ([]string, error) {
	if form == vault.Transit || form == vault.Plaintext {
		if len(add) > 0 {
			return nil, cli.Usage(fmt.Errorf("the form %s has no recipients", form))
		}
		return nil, nil
	}
	add, err := canonical(add)
	if err != nil {
		return nil, err
	}
	remove, err = canonical(remove)
	if err != nil {
		return nil, err
	}
	if slices.Equal(add, []string{age.Passphrase}) {
		return add, nil
	}
	all, err := s.listed(ctx, form, len(add) > 0)
	if err != nil {
		return nil, err
	}
	for _, r := range add {
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	for _, r := range remove {
		if !slices.Contains(all, r) {
			return nil, cli.WithHint(cli.Usage(fmt.Errorf("the vault is not sealed for %.60s", r)), "'"+s.p.Hint("vault show")+"' lists for whom it is")
		}
	}
	return slices.DeleteFunc(all, func(r string) bool { return slices.Contains(remove, r) }), nil
}

// listed are the recipients before any change.
func (s *safe) listed(ctx context.Context, form string, others bool) ([]string, error) {
	all, err := canonical(s.m.Credentials().Recipients)
	if err != nil || len(all) > 0 {
		return all, err
	}
	switch {
	case form == vault.Sops:
		return nil, nil // sops has rules of its own for whom it seals
	case len(s.sealed) > 0 && s.form == vault.Age && !others:
		err := cli.Usage(errors.New("the manifest does not say for whom the vault is sealed"))
		return nil, cli.WithHint(err, "name them again with --recipient, so that nobody is left out by accident")
	}
	return s.p.ownRecipients(ctx, s.f.identities)
}

// canonical is each recipient once, as they are compared.
func canonical(texts []string) ([]string, error) {
	var all []string
	for _, text := range texts {
		r, err := age.Canonical(text)
		if err != nil {
			return nil, cli.WithHint(cli.Usage(err), "an age recipient starts with age1, a public SSH key with ssh-")
		}
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all, nil
}
