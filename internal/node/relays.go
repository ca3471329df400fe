package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/blossom"
	"guild/internal/hand/bunker"
	"guild/internal/hand/dial"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/internal/hand/relayd"
	"guild/internal/journal/due"
	"guild/internal/market/registry"
)

// openRelays opens the embedded relay if configured, connects to the signer, and creates the client for all relays.
func (n *Node) openRelays(ctx context.Context) (err error) {
	n.urls = append(n.urls, n.c.Relays...)
	if n.c.Embed {
		if err := n.embed(ctx); err != nil {
			return err
		}
	}
	if err := n.identify(ctx); err != nil {
		return err
	}
	if n.marks, err = relay.OpenWatermarks(watermarksIn(n.c.Dir)); err != nil {
		return err
	}
	n.metrics = newMetrics(n)
	n.pool = relay.New(relay.Config{
		URLs: n.urls, Now: n.c.Now, Receive: n.receive, Ignore: n.asksOthers, Signer: n.keyer, Watermarks: n.marks, Log: n.c.Log,
		// Relays that strangers name are connected to only at public addresses; those of the owner may be private.
		Dial: dial.Except(localAddresses(n.urls)),
		Reject: func(ctx context.Context, from string, reason relay.Reason, raw []byte) {
			n.drop(ctx, string(reason), from, raw)
		},
	})
	n.payloads = payloads{
		client: &blossom.Client{Signer: n.keyer, Now: n.c.Now, Allow: localHosts(slices.Concat(n.urls, n.c.Blossom))},
		home:   n.blossomServers(), scratch: n.scratch(),
	}
	return nil
}

// embed opens the embedded relay. If another node of this machine has one at the same address, it uses that one.
func (n *Node) embed(ctx context.Context) error {
	config := relayd.Config{Dir: filepath.Join(n.c.Dir, "relay"), Addr: n.c.Addr, Now: n.c.Now, Log: n.c.Log}
	local, err := relayd.Open(config)
	if errors.Is(err, syscall.EADDRINUSE) {
		// Two nodes of one machine share a relay, so that they meet. If another program has the port, a free one is used.
		if speaksNostr(ctx, n.c.Addr) {
			n.urls = append(n.urls, "ws://"+n.c.Addr)
			return nil
		}
		host, _, _ := net.SplitHostPort(n.c.Addr) // Open has parsed it, so it has this form
		config.Addr = net.JoinHostPort(host, "0")
		local, err = relayd.Open(config)
	}
	if err != nil {
		return fmt.Errorf("open the embedded relay: %w", err)
	}
	n.local = local
	n.urls = append(n.urls, local.URL())
	return nil
}

// speaksNostr reports whether a relay answers at a loopback address, by its information document (NIP-11).
func speaksNostr(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr, nil)
	if err != nil {
		return false
	}
	r.Header.Set("Accept", "application/nostr+json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/nostr+json")
}

// signer returns the signer of the running node, or of the stopped node's configuration; nil without an identity.
func (n *Node) signer() nostr.Keyer {
	if n.keyer != nil {
		return n.keyer
	}
	return n.c.Identity.Signer
}

// identify sets our key, which must be the one that the directory belongs to. A remote signer is reached over relays of its
// own.
func (n *Node) identify(ctx context.Context) (err error) {
	n.keyer, n.pubkey = n.c.Identity.Signer, n.c.Identity.PubKey
	if n.keyer != nil {
		return key.Claim(n.c.Dir, n.pubkey)
	}
	slow := time.AfterFunc(signerSlow, func() { n.c.Log.Warn("waiting for the remote signer", "bunker", n.c.Identity.Bunker) })
	defer slow.Stop()
	signer, stop, err := openSigner(ctx, n.c)
	n.stopSigner = stop
	if err != nil {
		return err
	}
	n.keyer = signer
	if n.pubkey, err = signer.GetPublicKey(ctx); err != nil {
		return err
	}
	return key.Claim(n.c.Dir, n.pubkey)
}

// signerSlow is the time after which a start says that it waits for the remote signer.
const signerSlow = 3 * time.Second

// openSigner connects to the remote signer of a configuration. stop ends the connection; it is nil if there is none.
func openSigner(ctx context.Context, c Config) (signer *bunker.Signer, stop func(), err error) {
	companion, err := key.Companion(c.Dir)
	if err != nil {
		return nil, nil, err
	}
	pool := relay.New(relay.Config{Now: c.Now, Log: c.Log})
	stop = runPool(ctx, pool)
	signer, err = bunker.Open(ctx, bunker.Config{
		Pool: pool, URL: string(c.Identity.Bunker), Key: companion, Now: c.Now, Timeout: c.SignerTimeout,
		AuthURL: func(url string) { c.Log.Warn("the remote signer wants you to confirm", "url", url) },
	})
	if err != nil {
		return nil, stop, fmt.Errorf("remote signer: %w", err)
	}
	return signer, stop, nil
}

// TrySigner asks the remote signer of a configuration for its public key, to see whether it answers.
func TrySigner(ctx context.Context, c Config) (nostr.PubKey, error) {
	signer, stop, err := openSigner(ctx, c.withDefaults())
	if stop != nil {
		defer stop()
	}
	if err != nil {
		return nostr.ZeroPK, err
	}
	defer signer.Close()
	return signer.GetPublicKey(ctx)
}

// runPool runs a pool until stop is called, which waits for its end. It ignores the cancellation of ctx, because a
// stopping node still signs.
func runPool(ctx context.Context, pool *relay.Pool) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = pool.Run(ctx) // it fails only for an invalid URL, and has none
	}()
	return func() {
		cancel()
		<-done
	}
}

func (n *Node) relays() []string { return n.urls }

// publish publishes an event at relays, or at ours if none are given. The error matches due.ErrLater if none of our
// relays is connected: the cause is then not the event, and the try does not count as failed.
func (n *Node) publish(ctx context.Context, e guild.Verified, relays []string) error {
	if len(relays) == 0 {
		relays = n.urls
	}
	_, err := n.pool.Publish(ctx, e, relays...)
	if errors.Is(err, relay.ErrNoRelay) && n.connectivity.offline() {
		return fmt.Errorf("%w: %w", due.ErrLater, err)
	}
	return err
}

// deletesAnnouncement reports whether an event is a deletion of an announcement (NIP-09, the k tag).
func deletesAnnouncement(e nostr.Event) bool {
	return e.Kind == registry.KindDeletion && e.Tags.FindWithValue("k", "31990") != nil
}

// blossomServers returns the servers for large bundles: the configured ones, or else the relays with the scheme ws.
// These run on this machine and belong to guild, so they have a Blossom server.
func (n *Node) blossomServers() []string {
	if len(n.c.Blossom) > 0 {
		return n.c.Blossom
	}
	var servers []string
	for _, u := range n.urls {
		if parsed, err := url.Parse(u); err == nil && parsed.Scheme == "ws" {
			servers = append(servers, "http://"+parsed.Host)
		}
	}
	return servers
}

// localHosts returns the hosts of URLs that the owner configured, as written. They may have private addresses.
func localHosts(urls []string) []string {
	var hosts []string
	for _, u := range urls {
		if parsed, err := url.Parse(u); err == nil {
			hosts = append(hosts, parsed.Host)
		}
	}
	return hosts
}

// localAddresses returns the same hosts in the form in which they are dialled: lower case, with a port.
func localAddresses(urls []string) []string {
	var addresses []string
	for _, u := range urls {
		parsed, err := url.Parse(u)
		if err != nil {
			continue
		}
		port := parsed.Port()
		if port == "" {
			port = map[string]string{"ws": "80", "wss": "443"}[parsed.Scheme]
		}
		addresses = append(addresses, net.JoinHostPort(strings.ToLower(parsed.Hostname()), port))
	}
	return addresses
}
