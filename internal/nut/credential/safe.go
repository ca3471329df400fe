package credential

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
	"guild/nutshell/vault/age"
	"guild/nutshell/vault/sops"
)

var errNoVault = errors.New("there is no vault")

// safe is a vault, with the manifest that it belongs to.
type safe struct {
	p program
	f vaultFlags
	m *nutshell.Manifest
	v *vault.Vault // nil until it is opened

	path   string // in the directory, or that of the file beside a bundle
	form   string // of encryption
	sealed []byte // empty if there is no vault
}

// readVault reads the manifest and the sealed vault of a directory or bundle file. The vault that lies beside a bundle
// file takes the place of the one in it.
func (p program) readVault(ctx context.Context, f vaultFlags) (*safe, error) {
	tree, done, err := p.OpenTree(ctx, f.dir)
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := nutshell.ReadManifest(tree)
	if err != nil {
		return nil, err
	}
	c := m.Credentials()
	s := &safe{p: p, f: f, m: m, path: cmp.Or(c.Vault, vault.File), form: cmp.Or(c.Encryption, vault.Age)}
	if !fs.ValidPath(s.path) || s.path == "." || s.path == nutshell.ManifestFile {
		return nil, fmt.Errorf("credentials.vault: %q is not a path in a bundle", s.path)
	}
	if host.IsFile(f.dir) {
		r, err := readRevision(f.dir, m)
		if err == nil {
			s.path, s.sealed, s.form = f.dir+vault.RevisionSuffix, r.Sealed, cmp.Or(r.Form, s.form)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return s, err
		}
	}
	file, err := tree.Open(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s.sealed, err = host.ReadAtMost(file, vault.MaxSealed, fmt.Errorf("%s: %w", s.path, vault.ErrTooLarge))
	return s, err
}

// openVault opens the vault of a directory or bundle file, to read it.
func (p program) openVault(ctx context.Context, f vaultFlags) (*safe, error) {
	s, err := p.readVault(ctx, f)
	if err != nil {
		return nil, err
	}
	return s, s.open(ctx)
}

func (s *safe) open(ctx context.Context) error {
	if len(s.sealed) == 0 {
		err := fmt.Errorf("%s: %w in %s", s.f.dir, errNoVault, s.path)
		return cli.WithHint(err, "make one with '"+s.p.Hint("add-credential --name NAME --type TYPE")+"'")
	}
	sealer, err := s.p.sealer(s.form, nil, s.f)
	if err != nil {
		return err
	}
	s.v, err = vault.Open(ctx, sealer, s.sealed)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", s.path, err)
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

// sealing says how edit seals the vault again.
type sealing struct {
	create      bool     // the vault may be new; only a new one may get another form
	form        string   // of encryption; as it was if empty
	add, remove []string // recipients
	always      bool     // seal it even if the context has ended meanwhile
}

// edit opens the vault of a directory, lets change alter it, seals it again and announces it in the manifest.
// Until it returns, no other verb can edit the vault. If change fails, nothing is written.
func (p program) edit(ctx context.Context, f vaultFlags, to sealing, change func(*safe) error) (*safe, error) {
	known := []string{"", vault.Age, vault.Sops, vault.Transit, vault.Plaintext}
	if !slices.Contains(known, to.form) {
		return nil, cli.Usage(fmt.Errorf("%.40q is not a form of encryption: want %s", to.form, strings.Join(known[1:], ", ")))
	}
	if host.IsFile(f.dir) {
		err := cli.Usage(fmt.Errorf("%s is packed: only the vault of a directory can be changed", f.dir))
		return nil, cli.WithHint(err, "unpack it with '"+p.Hint("unpack "+f.dir)+"'")
	}
	lock, err := lockDir(f.dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	s, err := p.readVault(ctx, f)
	if err != nil {
		return nil, err
	}
	form := cmp.Or(to.form, s.form)
	if to.create && len(s.sealed) == 0 {
		s.v = vault.New(p.Now())
	} else if err := s.open(ctx); err != nil {
		return nil, err
	} else if to.create && form != s.form {
		err := cli.Usage(fmt.Errorf("the vault is sealed with %s already", s.form))
		return nil, cli.WithHint(err, "'"+p.Hint("vault rekey --encryption "+form)+"' changes that")
	}
	recipients, err := s.recipients(ctx, form, to.add, to.remove)
	if err != nil {
		return nil, err
	}
	before := s.v.Credentials()
	if err := change(s); err != nil {
		return nil, err
	}
	if to.always {
		ctx = context.WithoutCancel(ctx)
	}
	var gone []string
	for _, c := range before {
		if _, ok := s.v.Credential(c.Name); !ok {
			gone = append(gone, c.Name)
		}
	}
	return s, s.save(ctx, vault.Placement{Path: s.path, Form: form, Recipients: recipients, Removed: gone})
}

// save seals the vault, writes it, and announces it in the manifest. The vault is written first: if the process dies in
// between, no secret is lost, and an audit shows where the two differ.
func (s *safe) save(ctx context.Context, to vault.Placement) error {
	sealer, err := s.p.sealer(to.Form, to.Recipients, s.f)
	if err != nil {
		return err
	}
	seal := sealer.Seal
	if native, ok := sealer.(*sops.Sealer); ok && s.form == vault.Sops && sops.IsNative(s.sealed) && s.isFor(to.Recipients) {
		seal = func(ctx context.Context, document vault.Secret) ([]byte, error) {
			return native.Change(ctx, s.sealed, document)
		}
	}
	sealed, err := seal(ctx, s.v.Document())
	if errors.Is(err, age.ErrNoOne) {
		return cli.WithHint(cli.Usage(err), "name them: '"+s.p.Hint("vault rekey --recipient AGE1…")+"'")
	}
	if err != nil {
		return err
	}
	if err := host.Replace(s.f.dir, s.path, sealed); err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	s.sealed, s.form = sealed, to.Form
	return host.RewriteManifest(s.f.dir, func(m *nutshell.Manifest) error {
		s.m = m
		return vault.Announce(m, s.v, to)
	})
}

// isFor reports whether a file that sops sealed is for these recipients; without recipients, whether its own can be read.
func (s *safe) isFor(recipients []string) bool {
	own, err := sops.SealedFor(s.sealed)
	slices.Sort(own)
	return err == nil && (len(recipients) == 0 || slices.Equal(own, slices.Sorted(slices.Values(recipients))))
}

// lockDir keeps other verbs from editing the vault of a directory until the file is closed.
func lockDir(dir string) (*os.File, error) {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	d, err := durable.LockDir(real)
	if errors.Is(err, durable.ErrLocked) {
		return nil, cli.WithHint(fmt.Errorf("%s: another command is changing the vault", dir), "wait until it is done")
	}
	return d, err
}

// find returns the credential of this name.
func (s *safe) find(name string) (vault.Credential, error) {
	c, ok := s.v.Credential(name)
	if !ok {
		err := fmt.Errorf("%.140s: %w", name, vault.ErrNoEntry)
		return c, cli.WithHint(err, "'"+s.p.Hint("vault show")+"' lists what is in it")
	}
	return c, nil
}

// recipients returns for whom the vault is sealed from now on: those that the manifest lists, or the person for a new
// vault, with some added and some removed.
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
	all, err := canonical(s.m.Credentials().Recipients)
	if err != nil {
		return nil, err
	}
	switch {
	case len(all) > 0 || form == vault.Sops: // sops has rules of its own
	case len(s.sealed) > 0 && s.form == vault.Age && len(add) == 0:
		err := cli.Usage(errors.New("the manifest does not say for whom the vault is sealed"))
		return nil, cli.WithHint(err, "name them again, so that nobody is left out by accident: '"+s.p.Hint("vault rekey --recipient AGE1…")+"'")
	default:
		if all, err = s.p.ownRecipients(ctx, s.f.identities); err != nil {
			return nil, err
		}
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
	if all, err = s.withOpener(ctx, form, all, remove); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(r string) bool { return slices.Contains(remove, r) }), nil
}

// withOpener adds the key that has opened the vault to the recipients, if they have none of the person's keys: who can
// open it now must not be left out by accident.
func (s *safe) withOpener(ctx context.Context, form string, all, remove []string) ([]string, error) {
	if s.form != vault.Age || len(s.sealed) == 0 || form != vault.Age && len(all) == 0 {
		return all, nil
	}
	kinds, err := age.SealedFor(s.sealed)
	if err != nil || age.IsFor(kinds, []string{age.Passphrase}) {
		return all, err
	}
	identities, err := s.p.ageIdentities(s.f.identities)
	if err != nil {
		return nil, err
	}
	var own []string
	for _, id := range identities {
		some, err := id.Recipients(ctx, s.p.ageUI())
		if err != nil {
			return nil, err
		}
		own = append(own, some...)
	}
	switch {
	case slices.ContainsFunc(own, func(r string) bool { return slices.Contains(all, r) || slices.Contains(remove, r) }):
		return all, nil
	case len(own) != 1:
		err := cli.Usage(errors.New("none of your keys would open the vault any more: the manifest lists others for whom it is sealed"))
		return nil, cli.WithHint(err, "name the one key that opens it with --identity")
	}
	fmt.Fprintf(s.p.Err, "note: the vault stays sealed for your key %s, which the manifest did not list\n", cli.Clean(own[0]))
	return append(all, own...), nil
}

// canonical returns each recipient once, in the form in which they are compared.
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
