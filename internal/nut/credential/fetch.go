package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/dial"
	"guild/internal/durable"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// fetchTimeout is how long fetching a vault may take.
const fetchTimeout = 30 * time.Second

func (p program) vaultIssuerCommand() *cobra.Command {
	var dir, at string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "issuer [NPUB]",
		Short: "Name the key that may issue newer vaults for the bundle",
		Long: `Write into the manifest whose newer vaults take the place of the one that comes
with the bundle: a Nostr public key, yours if none is given; and, with --url,
where they are found. Do that before you pack; then 'vault rotate' and 'vault
issue' can change the vault while the packed bundle stays as it is.`,
		Example: "  " + p.Hint("vault issuer") + "\n  " + p.Hint("vault issuer --url https://example.com/task.nut.vault"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one public key at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := p.issuer(cmd.Context(), args)
			if err != nil {
				return err
			}
			return p.nameIssuer(dir, k, at, asJSON)
		},
	}
	host.DirFlag(cmd.Flags(), &dir)
	cmd.Flags().StringVar(&at, "url", "", "where newer vaults are found: an https `address`")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

// issuer is the key that was given, or the person's own.
func (p program) issuer(ctx context.Context, args []string) (nostr.PubKey, error) {
	if len(args) == 0 {
		signer, err := p.Signer(ctx)
		if err != nil {
			return nostr.PubKey{}, err
		}
		return signer.GetPublicKey(ctx)
	}
	k, err := nostr.PubKeyFromHex(args[0])
	if err == nil {
		return k, nil
	}
	if _, value, err := nip19.Decode(args[0]); err == nil {
		if k, ok := value.(nostr.PubKey); ok {
			return k, nil
		}
	}
	return k, cli.WithHint(cli.Usage(errors.New("that is no public key")), "a public key starts with npub1, or has 64 hex digits")
}

func (p program) nameIssuer(dir string, k nostr.PubKey, at string, asJSON bool) error {
	if at != "" {
		if err := checkVaultURL(at); err != nil {
			return cli.Usage(fmt.Errorf("--url: %w", err))
		}
	}
	if err := p.Editable(dir); err != nil {
		return err
	}
	err := host.RewriteManifest(dir, func(m *nutshell.Manifest) error {
		err := m.Set("credentials.rotation.pubkey", k.Hex())
		if err == nil && at != "" {
			err = m.Set("credentials.rotation.url", at)
		}
		return err
	})
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(p.Out, map[string]string{"pubkey": k.Hex(), "url": at})
	}
	_, err = fmt.Fprintf(p.Out, "%s may issue vaults for this bundle\n", nip19.EncodeNpub(k))
	return err
}

// checkVaultURL asks for an https address without a password in it.
func checkVaultURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return fmt.Errorf("%.140q is no https address", text)
	}
	return nil
}

func (p program) vaultFetchCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fetch BUNDLE.nut",
		Short: "Fetch the newest vault of a packed bundle",
		Long: `Fetch the vault from where the manifest of the bundle says that newer ones are
found, and put it beside the bundle as BUNDLE.nut.vault. It must be signed by
the key that the manifest names, and not be older than the one that is there.`,
		Example: "  " + p.Hint("vault fetch task.nut"),
		Args:    cli.OneArg("a packed bundle"),
		RunE: func(cmd *cobra.Command, args []string) error {
			transport := &http.Transport{DialContext: dial.Public, ForceAttemptHTTP2: true, TLSHandshakeTimeout: fetchTimeout, DisableKeepAlives: true}
			r, err := p.fetchVault(cmd.Context(), transport, args[0])
			if err != nil {
				return err
			}
			return p.printIssued(args[0]+vault.RevisionSuffix, r, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	cmd.ValidArgsFunction = cobra.FixedCompletions([]string{"nut"}, cobra.ShellCompDirectiveFilterFileExt)
	return cmd
}

// fetchVault fetches the newest vault of a bundle file and puts it beside it.
func (p program) fetchVault(ctx context.Context, transport http.RoundTripper, bundle string) (vault.Revision, error) {
	b, _, done, err := p.OpenBundle(bundle)
	if err != nil {
		return vault.Revision{}, err
	}
	defer done()
	m := b.Manifest()
	by, err := rotationKey(m)
	if err != nil {
		return vault.Revision{}, fmt.Errorf("%s: %w", bundle, err)
	}
	from := m.Credentials().Rotation.URL
	if err := checkVaultURL(from); err != nil {
		return vault.Revision{}, cli.WithHint(fmt.Errorf("%s: credentials.rotation.url: %w", bundle, err), "get the vault from the publisher by hand")
	}
	raw, err := get(ctx, transport, from)
	if err != nil {
		return vault.Revision{}, fmt.Errorf("%s: %w", from, err)
	}
	r, err := vault.ParseRevision(raw, m.ID(), by)
	if err != nil {
		return vault.Revision{}, fmt.Errorf("%s: %w", from, err)
	}
	return r, p.keepNewest(bundle, m, r, raw)
}

// keepNewest puts a vault beside a bundle, unless a newer one is there.
func (p program) keepNewest(bundle string, m *nutshell.Manifest, r vault.Revision, raw []byte) error {
	known, err := readRevision(bundle, m)
	if err == nil {
		err = r.After(known)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	path := bundle + vault.RevisionSuffix
	if err := durable.WriteBytes(path, raw); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}

// get fetches what is at an https address, and goes nowhere else but to other ones.
func get(ctx context.Context, transport http.RoundTripper, from string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) >= 5 {
			return errors.New("leads to too many other addresses")
		}
		return checkVaultURL(req.URL.String())
	}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, errors.Unwrap(err) // without the address, which is named by the caller
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, vault.MaxRevision+1))
	if err == nil && len(raw) > vault.MaxRevision {
		err = vault.ErrTooLarge
	}
	return raw, err
}
