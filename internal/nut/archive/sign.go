package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/nut/draft"
	"guild/internal/nut/host"
	"guild/nutshell/signature"
)

// signOptions are the flags of sign.
type signOptions struct {
	output string // the file of signatures; beside the bundle if empty
	url    string
	verify bool
}

func (p program) signCommand() *cobra.Command {
	var o signOptions
	cmd := &cobra.Command{
		Use:   "sign FILE.nut",
		Short: "Sign a bundle with your Nostr key",
		Long: `Sign the hash of a bundle's file with your Nostr key. The signature goes into
FILE.nut.sig and is added to those of others that are there. Each line of it is
a Nostr event (kind 1063, NIP-94), which any Nostr program can check and
publish; with --url it says where the bundle can be had.

A signature holds for these bytes: pack again, and there is another bundle to
sign. The vault that travels beside a bundle may change, and the signature stays
good.

Exit code 0: signed, or with --verify: every signature holds. 1: not.`,
		Example:           p.Examples("sign my-task.nut", "sign my-task.nut --url https://example.com/my-task.nut", "sign --verify my-task.nut"),
		Args:              cli.OneArg("a bundle"),
		ValidArgsFunction: host.CompleteBundles,
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "", "the file of signatures (default FILE.nut.sig)")
	cmd.Flags().StringVar(&o.url, "url", "", "where the bundle can be had, to be signed with it")
	cmd.Flags().BoolVar(&o.verify, "verify", false, "check the signatures that are there, and sign nothing")
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		return p.sign(cmd.Context(), args[0], o)
	})
}

func (p program) sign(ctx context.Context, path string, o signOptions) (host.Result, error) {
	if path == "-" && o.output == "" {
		err := cli.Usage(errors.New("the signature of a bundle on standard input has no place"))
		return nil, cli.WithHint(err, "name its file with --output")
	}
	o.output = cmp.Or(o.output, path+signature.Suffix)
	s, err := p.subject(path)
	if err != nil {
		return nil, err
	}
	if o.verify {
		return p.verifySigned(path, s.Hash, o)
	}
	s.URL = o.url
	return p.addSignature(ctx, path, s, o)
}

// subject reads a bundle from end to end: one that cannot be opened is not signed.
func (p program) subject(path string) (signature.Subject, error) {
	b, err := p.OpenBundle(path)
	if err != nil {
		return signature.Subject{}, cli.WithHint(err, "what cannot be opened cannot be signed; '"+p.Hint("pack --dir DIR")+"' makes a bundle")
	}
	defer b.Close()
	hash, err := b.Hash()
	if err != nil {
		return signature.Subject{}, err
	}
	head := make([]byte, 8)
	n, err := b.File.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return signature.Subject{}, err
	}
	m := b.Manifest()
	title := cmp.Or(m.Task().Title, m.BundleType()+" "+m.ID()) // a delivery may have no title
	return signature.Subject{Hash: hash, Size: b.Size, MIME: signature.MediaType(head[:n]), ID: m.ID(), Title: title}, nil
}

// addSignature signs, once it is known that there is a place for the signature.
func (p program) addSignature(ctx context.Context, path string, s signature.Subject, o signOptions) (host.Result, error) {
	before, err := draft.ReadSignatures(o.output)
	if err != nil {
		return nil, err
	}
	if before != nil {
		if _, err := signature.Verify(before, s.Hash); err != nil {
			hint := "remove it, or name another file with --output"
			if errors.Is(err, signature.ErrOther) {
				hint = "it belongs to another version of the bundle: " + hint
			}
			return nil, cli.WithHint(fmt.Errorf("%s: %w", o.output, err), hint)
		}
	}
	signer, err := p.Signer(ctx)
	if err != nil {
		return nil, err
	}
	event := signature.Event(s, p.Now())
	if event.PubKey, err = signer.GetPublicKey(ctx); err != nil {
		return nil, err
	}
	v, err := guild.Sign(ctx, signer, event)
	if err != nil {
		return nil, err
	}
	after, err := signature.Add(before, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.output, err)
	}
	err = p.WriteOutput(o.output, func(w io.Writer) error { _, err := w.Write(after); return err })
	if err != nil {
		return nil, err
	}
	e := v.Event()
	return signResult{
		Hash: s.Hash, Signer: draft.NewSignature(e.PubKey, e.CreatedAt.Time().UTC()), Event: e.ID.Hex(), File: o.output, bundle: path,
	}, nil
}

// signResult is a signature that was made.
type signResult struct {
	Hash   guild.Hash      `json:"hash"`
	Signer draft.Signature `json:"signer"`
	Event  string          `json:"event"`
	File   string          `json:"file"`

	bundle string
}

// Print implements host.Result.
func (s signResult) Print(p *host.Program) error {
	_, err := fmt.Fprintf(p.Out, "signed %s as %s\n%s\nthe signature is in %s\n", cli.Clean(s.bundle), s.Signer.Npub, s.Hash, cli.Clean(s.File))
	return err
}

// verifySigned checks the signatures of a bundle.
func (p program) verifySigned(path string, hash guild.Hash, o signOptions) (host.Result, error) {
	file, err := draft.ReadSignatures(o.output)
	if err == nil && file == nil {
		err = cli.WithHint(fmt.Errorf("%s is not signed: there is no %s", path, o.output), "sign it with '"+p.Hint("sign "+path)+"'")
	}
	if err != nil {
		return nil, err
	}
	all, err := signature.Verify(file, hash)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.output, err)
	}
	result := verifyResult{Hash: hash, Signatures: []draft.Signature{}}
	for _, s := range all {
		result.Signatures = append(result.Signatures, draft.NewSignature(s.Signer, s.At))
	}
	return result, nil
}

// verifyResult lists the signatures of a bundle, which are all valid.
type verifyResult struct {
	Hash       guild.Hash        `json:"hash"`
	Signatures []draft.Signature `json:"signatures"`
}

// Print implements host.Result.
func (v verifyResult) Print(p *host.Program) error {
	text := fmt.Sprintln(v.Hash)
	for _, s := range v.Signatures {
		text += fmt.Sprintf("signed by %s on %s\n", s.Npub, s.SignedAt.Format(time.DateTime))
	}
	_, err := io.WriteString(p.Out, text)
	return err
}
