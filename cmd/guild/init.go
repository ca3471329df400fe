package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/node"
)

type initOptions struct {
	Passphrase bool // seal the key (NIP-49)
	Import     bool // read a key or a bunker address from standard input
	AsJSON     bool // ask nothing
}

// initReport is the output of init --json.
type initReport struct {
	Identity string `json:"identity"` // nsec, ncryptsec, bunker or environment
	Npub     string `json:"npub,omitempty"`
	PubKey   string `json:"pubkey,omitempty"`
	Config   string `json:"config"`
	Data     string `json:"data"`
	Journal  string `json:"journal"`
}

func (p *program) initCommand() *cobra.Command {
	var o initOptions
	cmd := p.local(&cobra.Command{
		Use:   "init",
		Short: "Make an identity, a config file and an empty journal",
		Long: `init makes what a node needs: an identity (a Nostr key), a commented config file
and an empty journal. It never overwrites any of them. On a terminal it asks
whether guild up may benchmark providers that it has not met (meeting.auto), but
not with --json. A home that is new or empty gets a .gitignore too, so that no
checkout takes its key along.

The key rests in a file that only you can read. With --passphrase it is also
encrypted (NIP-49). With --import the key is read from standard input instead of
made: nsec…, 64 hex digits, or bunker://… for a remote signer (NIP-46), which is
then asked for its public key. One that does not answer within timeouts.discover
is kept all the same: the node asks it again when it starts.`,
		Example: "  guild init\n  guild init --passphrase\n  guild init --import < nsec.txt\n  guild init --home ./node1",
	}, func(cmd *cobra.Command, _ []string) (*cli.Result, error) {
		o.AsJSON = cli.AsJSON(cmd)
		result, err := p.runInit(cmd.Context(), o)
		if _, onDisk := errors.AsType[*fs.PathError](err); onDisk && cli.HintOf(err) == "" {
			err = cli.WithHint(err, "name a directory that can be written: --home DIR")
		}
		return result, err
	})
	cmd.Flags().BoolVar(&o.Passphrase, "passphrase", false, "encrypt the key with a passphrase")
	cmd.Flags().BoolVar(&o.Import, "import", false, "read the key from standard input")
	return cmd
}

func (p *program) runInit(ctx context.Context, o initOptions) (*cli.Result, error) {
	c, err := p.config()
	if err != nil {
		return nil, err
	}
	if err := hideFromGit(c.Paths); err != nil {
		return nil, err
	}
	public, err := p.makeIdentity(c.Paths.Data, o)
	kept := errors.Is(err, key.ErrExists) && !o.Import && !o.Passphrase
	if err != nil && !kept {
		return nil, err
	}
	if err := p.writeConfig(ctx, c.Paths.Config, o); err != nil {
		return nil, err
	}
	if err := c.Paths.MakeDirs(); err != nil {
		return nil, err
	}
	initErr := journal.Init(c.JournalDir())
	switch {
	case errors.Is(initErr, journal.ErrInitialised) && kept:
		return nil, err // nothing was missing
	case initErr != nil && !errors.Is(initErr, journal.ErrInitialised):
		return nil, initErr
	}
	if o.Import && public == nostr.ZeroPK {
		public = p.trySigner(ctx, c)
	}
	return p.reportInit(c, public), nil
}

// trySigner asks the remote signer that was imported for its public key. If that fails, it prints why and returns the zero key.
func (p *program) trySigner(ctx context.Context, c config.Config) nostr.PubKey {
	id, err := p.identity(c)
	if err != nil {
		p.say(err)
		return nostr.ZeroPK
	}
	done := p.waiting(func() string { return "asking the remote signer" })
	public, err := node.TrySigner(ctx, node.Config{Dir: c.Paths.Data, Identity: id, SignerTimeout: c.Timeouts.Discover, Log: p.logger(p.err)})
	done()
	if err != nil {
		p.say(cli.WithHint(err, "see that it runs and reads its relay; guild up asks it again"))
	}
	return public
}

// say prints an error that does not end the program.
func (p *program) say(err error) { cli.Report(p.err, "guild", err, hintOf(err)) }

// hideFromGit lets git ignore a home that is made in a checkout, for a key will be in it. A directory that has something
// in it already may be the checkout itself, and is left alone; so are the XDG directories.
func hideFromGit(paths config.Paths) error {
	if filepath.Dir(paths.Config) != paths.Data {
		return nil
	}
	there, err := os.ReadDir(paths.Data)
	if err != nil && !errors.Is(err, fs.ErrNotExist) || len(there) > 0 {
		return nil // whether there can be a home is for others to say
	}
	if err := os.MkdirAll(paths.Data, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(paths.Data, ".gitignore"), []byte("*\n"), 0o600)
}

// makeIdentity returns the zero key when it is not known: of a remote signer that has not answered yet, or of
// an identity that was there before.
func (p *program) makeIdentity(dir string, o initOptions) (nostr.PubKey, error) {
	if os.Getenv("NOSTR_SECRET_KEY") != "" && !o.Import {
		id, err := p.identity(config.Config{})
		return id.PubKey, err
	}
	if _, err := key.Form(dir); !errors.Is(err, key.ErrNone) {
		return nostr.PubKey{}, fmt.Errorf("%s: %w", filepath.Join(dir, key.File), key.ErrExists)
	}
	var text string
	if o.Import {
		b, err := io.ReadAll(io.LimitReader(p.in, 16<<10))
		if err != nil {
			return nostr.PubKey{}, err
		}
		text = string(b)
	}
	var passphrase []byte
	if o.Passphrase {
		var err error
		if passphrase, err = newPassphrase(); err != nil {
			return nostr.PubKey{}, err
		}
	}
	if o.Import {
		return key.Import(dir, text, passphrase)
	}
	return key.Create(dir, passphrase)
}

// writeConfig writes the commented config file, unless there is one. On a terminal it asks whether new providers may be
// benchmarked, because that costs money. A program that wants JSON is not asked.
func (p *program) writeConfig(ctx context.Context, path string, o initOptions) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	text := config.Template
	if in, out, ok := p.terminal(); ok && !o.AsJSON {
		meet, err := cli.NewPrompt(ctx, in, out).Choose("Shall guild up benchmark new providers by itself? It bids at most 100 sat a day.", "no", "no", "yes")
		if err != nil {
			return err
		}
		if meet == "yes" {
			text = config.WithMeetings(text)
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func (p *program) reportInit(c config.Config, public nostr.PubKey) *cli.Result {
	r := initReport{Identity: "environment", Config: c.Paths.Config, Data: c.Paths.Data, Journal: c.JournalDir()}
	if form, err := key.Form(c.Paths.Data); err == nil {
		r.Identity = form
	}
	if public != (nostr.PubKey{}) {
		r.Npub, r.PubKey = npub(public), public.Hex()
	}
	next := "guild up"
	if p.home != "" {
		next += " --home " + p.home
	}
	return &cli.Result{JSON: r, Show: func() error {
		_, err := fmt.Fprintf(p.out, "identity  %s\nconfig    %s\njournal   %s\n\nnext: %s\n", cmp.Or(r.Npub, r.Identity), r.Config, r.Journal, next)
		return err
	}}
}
