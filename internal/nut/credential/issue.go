package credential

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/hand/dial"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// fetchTimeout limits the time that fetching a vault may take.
const fetchTimeout = 30 * time.Second

func (p program) vaultIssuerCommand() *cobra.Command {
	var dir, at string
	cmd := &cobra.Command{
		Use:   "issuer [NPUB]",
		Short: "Name the key that may issue newer vaults for the bundle",
		Long: `Write into the manifest whose newer vaults take the place of the one that comes
with the bundle: a Nostr public key, yours if none is given; and, with --url,
where they are found. Do that before you pack; then 'vault rotate' and 'vault
issue' can change the vault while the packed bundle stays as it is.`,
		Example: p.Examples("vault issuer", "vault issuer --url https://example.com/task.nut.vault"),
		Args:    cli.Arity(cobra.MaximumNArgs(1), "one public key at most"),
	}
	host.DirFlag(cmd.Flags(), &dir)
	cmd.Flags().StringVar(&at, "url", "", "where newer vaults are found: an https `address`")
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		k, err := p.issuerKey(cmd.Context(), args)
		if err != nil {
			return nil, err
		}
		return p.nameIssuer(dir, k, at)
	})
}

// issuerKey returns the key that was given, or the person's own.
func (p program) issuerKey(ctx context.Context, args []string) (nostr.PubKey, error) {
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
	return k, cli.WithHint(cli.Usage(errors.New("that is not a public key")), "a public key starts with npub1, or has 64 hex digits")
}

type issuerResult struct {
	PubKey string `json:"pubkey"`
	URL    string `json:"url"`

	key nostr.PubKey
}

func (p program) nameIssuer(dir string, k nostr.PubKey, at string) (host.Result, error) {
	if at != "" {
		if err := checkVaultURL(at); err != nil {
			return nil, cli.Usage(fmt.Errorf("--url: %w", err))
		}
	}
	if err := p.Editable(dir); err != nil {
		return nil, err
	}
	err := host.RewriteManifest(dir, func(m *nutshell.Manifest) error {
		err := m.Set("credentials.rotation.pubkey", k.Hex())
		if err == nil && at != "" {
			err = m.Set("credentials.rotation.url", at)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return issuerResult{PubKey: k.Hex(), URL: at, key: k}, nil
}

// Print implements host.Result.
func (r issuerResult) Print(p *host.Program) error {
	_, err := fmt.Fprintf(p.Out, "%s may issue vaults for this bundle\n", nip19.EncodeNpub(r.key))
	return err
}

func (p program) vaultIssueCommand() *cobra.Command {
	var f vaultFlags
	cmd := &cobra.Command{
		Use:   "issue BUNDLE.nut",
		Short: "Write the vault beside a packed bundle, signed by your key",
		Long: `Write the sealed vault of a directory as BUNDLE.nut.vault, an event signed by
your key, which the manifest of the bundle must name
(credentials.rotation.pubkey). Who has the bundle takes this vault in place of
the one it came with; the bundle stays as it is. It is not opened for that.`,
		Example:           p.Examples("vault issue ../task.nut"),
		Args:              cli.OneArg("a packed bundle"),
		ValidArgsFunction: host.CompleteBundles,
	}
	host.DirFlag(cmd.Flags(), &f.dir)
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		s, err := p.readVault(cmd.Context(), f)
		if err != nil {
			return nil, err
		}
		if len(s.sealed) == 0 {
			return nil, cli.WithHint(fmt.Errorf("%s: %w", f.dir, errNoVault), "make one with '"+p.Hint("add-credential --name NAME")+"'")
		}
		r, err := p.issue(cmd.Context(), s, args[0])
		if err != nil {
			return nil, err
		}
		return newIssueResult(args[0], r), nil
	})
}

func (p program) vaultFetchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fetch BUNDLE.nut",
		Short: "Fetch the newest vault of a packed bundle",
		Long: `Fetch the vault from where the manifest of the bundle says that newer ones are
found, and put it beside the bundle as BUNDLE.nut.vault. It must be signed by
the key that the manifest names, and not be older than the one that is there.`,
		Example:           p.Examples("vault fetch task.nut"),
		Args:              cli.OneArg("a packed bundle"),
		ValidArgsFunction: host.CompleteBundles,
	}
	return p.Verb(cmd, "print it as JSON", func(cmd *cobra.Command, args []string) (host.Result, error) {
		transport := &http.Transport{DialContext: dial.Public, ForceAttemptHTTP2: true, TLSHandshakeTimeout: fetchTimeout, DisableKeepAlives: true}
		r, err := p.fetchVault(cmd.Context(), transport, args[0])
		if err != nil {
			return nil, err
		}
		return newIssueResult(args[0], r), nil
	})
}

// issueResult describes a vault that lies beside a bundle now.
type issueResult struct {
	CreatedAt string `json:"created_at"`
	Event     string `json:"event"`
	File      string `json:"file"`
}

func newIssueResult(bundle string, r vault.Revision) issueResult {
	return issueResult{CreatedAt: r.CreatedAt.Time().UTC().Format(time.RFC3339), Event: r.ID.Hex(), File: bundle + vault.RevisionSuffix}
}

// Print implements host.Result.
func (r issueResult) Print(p *host.Program) error {
	_, err := fmt.Fprintf(p.Out, "wrote %s\n", cli.Clean(r.File))
	return err
}

// fetchVault fetches the newest vault of a bundle file and puts it beside it, unless a newer one is there.
func (p program) fetchVault(ctx context.Context, transport http.RoundTripper, bundle string) (vault.Revision, error) {
	b, err := p.OpenBundle(bundle)
	if err != nil {
		return vault.Revision{}, err
	}
	defer b.Close()
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
	known, err := readRevision(bundle, m)
	if err == nil {
		err = r.After(known)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return vault.Revision{}, err
	}
	return r, writeRevision(bundle, raw)
}

// checkVaultURL refuses any address but https, and one with a password in it.
func checkVaultURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return fmt.Errorf("%.140q is not an https address", text)
	}
	return nil
}

// get fetches a vault from an https address. It follows redirects to https addresses only.
func get(ctx context.Context, transport http.RoundTripper, from string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if len(via) >= 5 {
			return errors.New("too many redirects")
		}
		return checkVaultURL(req.URL.String())
	}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, errors.Unwrap(err) // without the address, which the caller adds
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return host.ReadAtMost(resp.Body, vault.MaxRevision, vault.ErrTooLarge)
}
