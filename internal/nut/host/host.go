// Package host is shared by all verbs for bundles: the program that they are part of, the printing of results, and the
// bundles and directories of this machine. It has no verb of its own.
package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode"

	"fiatjaf.com/nostr"

	"guild/internal/cli"
	"guild/nutshell"
)

// Program is the program that the verbs are part of.
type Program struct {
	Name string // how a person calls it, for hints: "nutshell" or "guild nut"

	In       io.Reader
	Out, Err io.Writer
	Now      func() time.Time
	Random   io.Reader

	Limits nutshell.Limits // of the bundles that are packed and read; --limit changes it

	// Signer returns the person's Nostr key. It may ask for a passphrase.
	Signer func(context.Context) (nostr.Keyer, error)

	// Decrypt returns the content of a bundle that is encrypted as a whole, with the person's own age key. No such bundle is
	// read if it is nil.
	Decrypt func(context.Context, io.Reader) (io.Reader, error)

	// ConfigDir returns the directory of the person's age identity. It need not exist.
	ConfigDir func() (string, error)

	// Judged returns which tools for the criteria in the files of a request this machine lacks, and why no judge could use
	// the criteria, as exam.Engine.Ready does. Nothing is checked if it is nil.
	Judged func(tree fs.FS) (lacks []string, fault error)

	// AskSecret reads a line without echo, as cli.AskSecret does.
	AskSecret func(prompt string) ([]byte, error)
}

// Hint returns how to call a verb of this program.
func (p *Program) Hint(verb string) string { return p.Name + " " + verb }

// Within returns how to call a verb for a directory, without --dir if that is the current one.
func (p *Program) Within(dir, verb string) string {
	if dir == "." {
		return p.Hint(verb)
	}
	if strings.ContainsFunc(dir, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./", r)
	}) {
		dir = "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	return p.Hint(verb + " --dir " + dir)
}

// Asks reports whether there is a person to ask, on a terminal.
func (p *Program) Asks() bool { return cli.IsTerminal(p.In) && cli.IsTerminal(p.Out) }

// Asker returns a prompt on the terminal. The error is cli.ErrNoTerminal if there is none.
func (p *Program) Asker(ctx context.Context) (*cli.Prompt, error) {
	if !p.Asks() {
		return nil, cli.ErrNoTerminal
	}
	return cli.NewPrompt(ctx, p.In, p.Out), nil
}

// DirFlag adds --dir, for verbs that work on a directory.
func DirFlag(flags interface {
	StringVarP(p *string, name, shorthand, value, usage string)
}, dir *string) {
	flags.StringVarP(dir, "dir", "d", ".", "directory of the bundle")
}

// NewID returns a random id for a bundle: "nut-" and a UUID of version 4.
func NewID(random io.Reader) (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("a random id: %w", err)
	}
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("nut-%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), nil
}

// Slug returns a file name made from a title, or otherwise if the title has no letters.
func Slug(title, otherwise string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	slug := b.String()
	return cmp.Or(strings.Trim(slug[:min(len(slug), 40)], "-"), otherwise)
}
