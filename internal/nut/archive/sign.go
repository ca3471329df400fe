package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"fiatjaf.com/nostr/nip19"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/nut/draft"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/signature"
)

// signOptions are the flags of sign.
type signOptions struct {
	output string // the file of signatures; beside the bundle if empty
	url    string
	verify bool
	json   bool
}

func (p program) signCommand() *cobra.Command {
	var o signOptions
	cmd := &cobra.Command{
		Use:   "sign FILE.nut",
		Short: "Vouch for a bundle with your Nostr key",
		Long: `Sign the hash of a bundle's file with your Nostr key. The signature goes into
FILE.nut.sig and is added to those of others that are there. Each line of it is a
Nostr event (kind 1063, NIP-94), which any Nostr program can check and publish;
with --url it says where the bundle can be had.

A signature holds for these bytes: pack again, and there is another bundle to sign.
The vault that travels beside a bundle may change, and the signature stays good.

Exit code 0: signed, or with --verify: every signature holds. 1: not.`,
		Example: "  " + p.Hint("sign my-task.nut") + "\n  " + p.Hint("sign my-task.nut --url https://example.com/my-task.nut") +
			"\n  " + p.Hint("sign --verify my-task.nut"),
		Args: cli.OneArg("a bundle"),
		RunE: func(cmd *cobra.Command, args []string) error { return p.sign(cmd.Context(), args[0], o) },
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "the file of signatures (default FILE.nut.sig)")
	cmd.Flags().StringVar(&o.url, "url", "", "where the bundle can be had, to be signed with it")
	cmd.Flags().BoolVar(&o.verify, "verify", false, "check the signatures that are there, and sign nothing")
	cmd.Flags().BoolVar(&o.json, "json", false, "print it as JSON")
	cmd.ValidArgsFunction = cobra.FixedCompletions([]string{"nut"}, cobra.ShellCompDirectiveFilterFileExt)
	return cmd
}

func (p program) sign(ctx context.Context, path string, o signOptions) error {
	if path == "-" && o.output == "" {
		err := cli.Usage(errors.New("the signature of a bundle on standard input has no place"))
		return cli.WithHint(err, "name its file with --output")
	}
	if o.output == "" {
		o.output = path + signature.Suffix
	}
	s, err := p.subject(path)
	if err != nil {
		return err
	}
	if s.URL = o.url; o.verify {
		return p.verifySigned(path, s.Hash, o)
	}
	return p.addSignature(ctx, path, s, o)
}

// subject reads a bundle from end to end: what does not open is not signed.
func (p program) subject(path string) (signature.Subject, error) {
	b, f, done, err := p.OpenBundle(path)
	if err != nil {
		return signature.Subject{}, cli.WithHint(err, "what cannot be opened cannot be signed; '"+p.Hint("pack --dir DIR")+"' makes a bundle")
	}
	defer done()
	hash, err := host.HashOf(f)
	if err != nil {
		return signature.Subject{}, err
	}
	info, err := f.Stat()
	if err != nil {
		return signature.Subject{}, err
	}
	head := make([]byte, 8)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return signature.Subject{}, err
	}
	m := b.Manifest()
	return signature.Subject{Hash: hash, Size: info.Size(), MIME: signature.MediaType(head[:n]), ID: m.ID(), Title: title(m)}, nil
}

// title is what a bundle is about. A delivery may have no title of its own.
func title(m *nutshell.Manifest) string {
	if m.Task().Title == "" {
		return m.BundleType() + " " + m.ID()
	}
	return m.Task().Title
}

// readSignatures reads a file of signatures; none is nil.
func readSignatures(path string) ([]byte, error) {
	f, err := host.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, signature.MaxFile+1))
	if b == nil {
		b = []byte{}
	}
	return b, err
}

// addSignature signs, once it is known that there is a place for the signature.
func (p program) addSignature(ctx context.Context, path string, s signature.Subject, o signOptions) error {
	before, err := readSignatures(o.output)
	if err != nil {
		return err
	}
	if before != nil {
		if _, err := signature.Verify(before, s.Hash); err != nil {
			return p.wrongSignatures(o.output, err)
		}
	}
	signer, err := p.Signer(ctx)
	if err != nil {
		return err
	}
	event := signature.Event(s, p.Now())
	if event.PubKey, err = signer.GetPublicKey(ctx); err != nil {
		return err
	}
	v, err := guild.Sign(ctx, signer, event)
	if err != nil {
		return err
	}
	after, err := signature.Add(before, v)
	if err != nil {
		return fmt.Errorf("%s: %w", o.output, err)
	}
	if err := writePublic(o.output, after); err != nil {
		return err
	}
	return p.printSigned(path, s, v, o)
}

// wrongSignatures says what to do about a file of signatures that cannot be added to.
func (p program) wrongSignatures(path string, err error) error {
	err = fmt.Errorf("%s: %w", path, err)
	if errors.Is(err, signature.ErrOther) {
		return cli.WithHint(err, "it belongs to another version of the bundle: remove it, or name another file with --output")
	}
	return cli.WithHint(err, "remove it, or name another file with --output")
}

// writePublic writes a file that everybody may read.
func writePublic(path string, b []byte) error {
	return durable.Write(path, func(w io.Writer) error {
		if f, ok := w.(*os.File); ok {
			if err := f.Chmod(0o644); err != nil {
				return err
			}
		}
		_, err := w.Write(b)
		return err
	})
}

func (p program) printSigned(path string, s signature.Subject, v guild.Verified, o signOptions) error {
	e := v.Event()
	npub := nip19.EncodeNpub(e.PubKey)
	if !o.json {
		_, err := fmt.Fprintf(p.Out, "signed %s as %s\n%s\nthe signature is in %s\n", cli.Clean(path), npub, s.Hash, cli.Clean(o.output))
		return err
	}
	return cli.PrintJSON(p.Out, struct {
		Hash   guild.Hash      `json:"hash"`
		Signer draft.Signature `json:"signer"`
		Event  string          `json:"event"`
		File   string          `json:"file"`
	}{s.Hash, draft.Signature{PubKey: e.PubKey.Hex(), Npub: npub, SignedAt: e.CreatedAt.Time().UTC()}, e.ID.Hex(), o.output})
}

// verifySigned checks the signatures of a bundle and shows whose they are.
func (p program) verifySigned(path string, hash guild.Hash, o signOptions) error {
	file, err := readSignatures(o.output)
	if err == nil && file == nil {
		err = cli.WithHint(fmt.Errorf("%s is not signed: there is no %s", path, o.output), "sign it with '"+p.Hint("sign "+path)+"'")
	}
	if err != nil {
		return err
	}
	all, err := signature.Verify(file, hash)
	if err != nil {
		return fmt.Errorf("%s: %w", o.output, err)
	}
	who := []draft.Signature{}
	for _, s := range all {
		who = append(who, draft.Signature{PubKey: s.Signer.Hex(), Npub: nip19.EncodeNpub(s.Signer), SignedAt: s.At})
	}
	if o.json {
		return cli.PrintJSON(p.Out, struct {
			Hash       guild.Hash        `json:"hash"`
			Signatures []draft.Signature `json:"signatures"`
		}{hash, who})
	}
	text := fmt.Sprintln(hash)
	for _, s := range who {
		text += fmt.Sprintf("signed by %s on %s\n", s.Npub, s.SignedAt.Format(time.DateTime))
	}
	_, err = io.WriteString(p.Out, text)
	return err
}
