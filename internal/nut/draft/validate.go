package draft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/check"
	"guild/nutshell/signature"
)

// validity is the result of validate.
type validity struct {
	Valid      bool                  `json:"valid"`
	Hash       *guild.Hash           `json:"hash,omitempty"` // of the bundle's file
	Errors     []check.Item          `json:"errors"`
	Warnings   []check.Item          `json:"warnings"`
	Signatures []Signature           `json:"signatures"`
	Hidden     []nutshell.HiddenTest `json:"hidden_tests"`

	path string
}

// Signature is a valid signature of a bundle.
type Signature struct {
	PubKey   string    `json:"pubkey"`
	Npub     string    `json:"npub"`
	SignedAt time.Time `json:"signed_at"`
}

// NewSignature returns the signature of a key.
func NewSignature(k nostr.PubKey, at time.Time) Signature {
	return Signature{PubKey: k.Hex(), Npub: nip19.EncodeNpub(k), SignedAt: at}
}

func (p program) validateCommand() *cobra.Command {
	var compat bool
	cmd := &cobra.Command{
		Use:   "validate FILE.nut|DIR|FILE.json",
		Short: "Say whether a bundle holds together",
		Long: `Read a bundle the way that a stranger would, every byte of it, and say what
would make an agent or a reader fail: a damaged archive, a file that is not the
one listed, a path that leads nowhere, a deadline that has passed. Signatures in
FILE.nut.sig are checked, and shown. Of a manifest alone, FILE.json, the files
that it names are not looked for.

Exit code 0: valid. 1: invalid, or it cannot be read.`,
		Example: p.Examples("validate my-task.nut", "validate my-task --json"),
		Args:    cli.OneArg("a bundle or a directory"),
	}
	p.LimitFlag(cmd)
	host.CompatFlag(cmd, &compat)
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		path := args[0]
		var v *validity
		var err error
		if host.IsManifest(path) {
			v, err = p.validateManifest(cmd.Context(), path)
		} else if host.IsFile(path) {
			v, err = p.validateFile(cmd.Context(), path)
		} else if tree, done, failed := p.OpenTree(cmd.Context(), path); failed == nil {
			defer done()
			v, err = p.validateTree(newValidity(), tree, false)
		} else {
			err = failed
		}
		if err != nil {
			return nil, err
		}
		v.path, v.Valid = path, len(v.Errors) == 0
		var result host.Result = v
		if compat {
			result = host.Compat{Result: v, JSON: v.compat()}
		}
		if !v.Valid {
			return result, cli.Shown(fmt.Errorf("%s is invalid", path))
		}
		return result, nil
	})
}

// compat has the members of the reference program's validate --json.
func (v *validity) compat() any {
	return struct {
		Valid    bool     `json:"valid"`
		Errors   []string `json:"errors"`
		Warnings []string `json:"warnings"`
	}{v.Valid, textsOf(v.Errors), textsOf(v.Warnings)}
}

func textsOf(items []check.Item) []string {
	texts := []string{}
	for _, i := range items {
		texts = append(texts, i.Text)
	}
	return texts
}

// validateManifest checks a manifest without its bundle.
func (p program) validateManifest(ctx context.Context, path string) (*validity, error) {
	tree, done, err := p.OpenTree(ctx, path)
	if err != nil {
		return nil, err
	}
	defer done()
	v := newValidity()
	m, err := nutshell.ReadManifest(tree)
	if err != nil {
		return v.fault(err), nil
	}
	warnings, err := m.Validate()
	if err != nil {
		return v.fault(err), nil
	}
	v.take(check.Deadline(m, check.Options{Now: p.Now(), Program: p.Name}))
	v.warn(warnings)
	v.Hidden = append(v.Hidden, m.Acceptance().HiddenTests...)
	return v, nil
}

func newValidity() *validity {
	return &validity{Errors: []check.Item{}, Warnings: []check.Item{}, Signatures: []Signature{}, Hidden: []nutshell.HiddenTest{}}
}

// take adds what a check of the tree found.
func (v *validity) take(items []check.Item) {
	for _, i := range items {
		switch i.Mark {
		case check.Missing:
			v.Errors = append(v.Errors, i)
		case check.Warning:
			v.Warnings = append(v.Warnings, i)
		}
	}
}

// fault adds a fault of a bundle as a whole.
func (v *validity) fault(err error) *validity {
	v.Errors = append(v.Errors, check.Item{Mark: check.Missing, Text: err.Error()})
	return v
}

// warn adds warnings about a manifest, unless a check has found something about the same field.
func (v *validity) warn(texts []string) {
	for _, text := range texts {
		known := func(i check.Item) bool {
			about, found := strings.CutPrefix(text, i.Field)
			return i.Text == text || i.Field != "" && found && (strings.HasPrefix(about, " ") || strings.HasPrefix(about, ":"))
		}
		if !slices.ContainsFunc(slices.Concat(v.Errors, v.Warnings), known) {
			v.Warnings = append(v.Warnings, check.Item{Mark: check.Warning, Text: text})
		}
	}
}

func (p program) validateTree(v *validity, tree fs.FS, packed bool) (*validity, error) {
	o, err := p.checkOptions(tree, packed)
	if err != nil {
		return nil, err
	}
	r, err := check.Validate(tree, o)
	if err != nil {
		return nil, err
	}
	v.take(r.Items)
	if m, err := nutshell.ReadManifest(tree); err == nil {
		v.Hidden = append(v.Hidden, m.Acceptance().HiddenTests...)
	}
	return v, nil
}

// validateFile checks a packed bundle, and the signatures beside it. A file that is not a sound bundle is invalid; one
// that cannot be read is an error.
func (p program) validateFile(ctx context.Context, path string) (*validity, error) {
	v := newValidity()
	f, err := p.OpenFile(path)
	if err != nil {
		return nil, err
	}
	b, err := p.ReadBundle(f)
	if err != nil {
		return v.fault(err), nil
	}
	defer b.Close()
	hash, err := b.Hash()
	if err != nil {
		return nil, err
	}
	v.Hash = &hash
	tree, done, err := b.Unpack(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer done()
	if v, err = p.validateTree(v, tree, true); err != nil {
		return nil, err
	}
	v.warn(b.Warnings)
	if err := nutshell.RefuseVersionControl(b.Files()); err != nil {
		v.fault(err)
	}
	if path == "-" {
		return v, nil
	}
	return v, v.checkSignatures(path+signature.Suffix, hash)
}

// checkSignatures checks the signatures beside a bundle, if there are any.
func (v *validity) checkSignatures(path string, hash guild.Hash) error {
	raw, err := ReadSignatures(path)
	if err != nil || raw == nil {
		return err
	}
	all, err := signature.Verify(raw, hash)
	if err != nil {
		v.fault(fmt.Errorf("%s: %w", filepath.Base(path), err))
		return nil
	}
	for _, s := range all {
		v.Signatures = append(v.Signatures, NewSignature(s.Signer, s.At))
	}
	return nil
}

// ReadSignatures reads a file of signatures. It returns nil if there is none.
func ReadSignatures(path string) ([]byte, error) {
	f, err := host.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, signature.MaxFile+1)) // signature.Verify refuses more than MaxFile
}

// Print implements host.Result.
func (v *validity) Print(p *host.Program) error {
	var b strings.Builder
	word := "valid"
	if !v.Valid {
		word = "invalid: " + cli.Count(len(v.Errors), "fault", "faults")
	}
	name := v.path
	if name == "-" {
		name = "standard input"
	}
	fmt.Fprintf(&b, "%s is %s\n", cli.Clean(name), word)
	colours := cli.Colours(p.Out)
	printItems(&b, v.Errors, colours)
	printItems(&b, v.Warnings, colours)
	for _, s := range v.Signatures {
		fmt.Fprintf(&b, "  %s signed by %s on %s\n", sign(check.OK, colours), s.Npub, s.SignedAt.Format(time.DateTime))
	}
	if n := len(v.Hidden); n > 0 {
		fmt.Fprintf(&b, "  %s %s committed to\n", sign(check.OK, colours), cli.Count(n, "hidden test", "hidden tests"))
	}
	_, err := io.WriteString(p.Out, b.String())
	return err
}
