package draft

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr/nip19"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/check"
	"guild/nutshell/signature"
)

// validity is what validate found.
type validity struct {
	Valid      bool                  `json:"valid"`
	Hash       *guild.Hash           `json:"hash,omitempty"` // of the bundle's file
	Errors     []check.Item          `json:"errors"`
	Warnings   []check.Item          `json:"warnings"`
	Signatures []Signature           `json:"signatures"`
	Hidden     []nutshell.HiddenTest `json:"hidden_tests"`
}

// Signature is a signature that holds.
type Signature struct {
	PubKey   string    `json:"pubkey"`
	Npub     string    `json:"npub"`
	SignedAt time.Time `json:"signed_at"`
}

func (p program) validateCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "validate FILE.nut|DIR",
		Short: "Say whether a bundle holds together",
		Long: `Read a bundle the way that a stranger would, every byte of it, and say what would
make an agent or a reader fail: a damaged archive, a file that is not the one
listed, a path that leads nowhere, a deadline that has passed. Signatures in
FILE.nut.sig are checked, and shown.

Exit code 0: valid. 1: invalid, or it cannot be read.`,
		Example: "  " + p.Hint("validate my-task.nut") + "\n  " + p.Hint("validate my-task --json"),
		Args:    cli.OneArg("a bundle or a directory"),
		RunE:    func(cmd *cobra.Command, args []string) error { return p.validate(cmd.Context(), args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

func (p program) validate(ctx context.Context, path string, asJSON bool) error {
	look := p.validateDir
	if host.IsFile(path) {
		look = p.validateFile
	}
	v, err := look(ctx, path)
	if err != nil {
		return err
	}
	v.Valid = len(v.Errors) == 0
	if asJSON {
		err = cli.PrintJSON(p.Out, v)
	} else {
		err = p.printValidity(path, v)
	}
	if err != nil || v.Valid {
		return err
	}
	return cli.Shown(fmt.Errorf("%s is invalid", path))
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

// fault adds one thing that is wrong with a bundle as a whole.
func (v *validity) fault(err error) *validity {
	v.Errors = append(v.Errors, check.Item{Mark: check.Missing, Text: err.Error()})
	return v
}

// warn adds what is odd about a packed bundle, unless the check of its tree has said so already.
func (v *validity) warn(texts []string) {
	for _, text := range texts {
		said := func(i check.Item) bool {
			return i.Text == text || i.Field != "" && strings.HasPrefix(text, i.Field+" ")
		}
		if !slices.ContainsFunc(slices.Concat(v.Errors, v.Warnings), said) {
			v.Warnings = append(v.Warnings, check.Item{Mark: check.Warning, Text: text})
		}
	}
}

// validateDir looks at a directory in which somebody works.
func (p program) validateDir(ctx context.Context, dir string) (*validity, error) {
	tree, done, err := p.OpenTree(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer done()
	return p.validateTree(newValidity(), tree, false)
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

// validateFile looks at a packed bundle, and at the signatures beside it. A file that is no sound bundle is invalid;
// one that cannot be read is an error.
func (p program) validateFile(ctx context.Context, path string) (*validity, error) {
	v := newValidity()
	if path != "-" {
		f, err := host.OpenRegular(path)
		if err != nil {
			return nil, err
		}
		f.Close()
	}
	b, f, done, err := p.OpenBundle(path)
	if err != nil {
		return v.fault(errors.Unwrap(err)), nil
	}
	defer done()
	hash, err := host.HashOf(f)
	if err != nil {
		return nil, err
	}
	v.Hash = &hash
	dir, err := os.MkdirTemp("", "nutshell-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	tree, err := p.UnpackInto(ctx, b, filepath.Join(dir, "tree"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer tree.Close()
	if v, err = p.validateTree(v, tree, true); err != nil {
		return nil, err
	}
	v.warn(b.Warnings)
	if path == "-" {
		return v, nil
	}
	return v, v.checkSignatures(path+signature.Suffix, hash)
}

// checkSignatures reads the file of signatures beside a bundle, if there is one.
func (v *validity) checkSignatures(path string, hash guild.Hash) error {
	f, err := host.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, signature.MaxFile+1))
	if err != nil {
		return err
	}
	all, err := signature.Verify(raw, hash)
	if err != nil {
		v.fault(fmt.Errorf("%s: %w", filepath.Base(path), err))
		return nil
	}
	for _, s := range all {
		v.Signatures = append(v.Signatures, Signature{s.Signer.Hex(), nip19.EncodeNpub(s.Signer), s.At})
	}
	return nil
}

func (p program) printValidity(path string, v *validity) error {
	var b strings.Builder
	word := "valid"
	if !v.Valid {
		word = "invalid: " + cli.Count(len(v.Errors), "fault", "faults")
	}
	if path == "-" {
		path = "standard input"
	}
	fmt.Fprintf(&b, "%s is %s\n", cli.Clean(path), word)
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
