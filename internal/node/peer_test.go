package node

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"testing"
	"testing/fstest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/nip89"
	"guild/nip90"
	"guild/nutshell"
)

// peer is a client of a relay that is not a guild node, so it can send what no guild node would.
type peer struct {
	t      *testing.T
	key    *key.Signer
	pubkey nostr.PubKey
	pool   *relay.Pool
	inbox  chan nostr.Event // events addressed to it
}

func newPeer(t *testing.T, url string) *peer {
	t.Helper()
	secret := key.NewSecret(nostr.Generate())
	p := &peer{t: t, key: key.NewSigner(secret), pubkey: secret.PubKey(), inbox: make(chan nostr.Event, 1000)}
	p.pool = relay.New(relay.Config{
		URLs: []string{url}, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Receive: func(_ context.Context, _ string, v guild.Verified) { p.inbox <- v.Event() },
	})
	run(t, p.pool.Run)
	p.pool.Subscribe("inbox", []nostr.Filter{{Tags: nostr.TagMap{"p": {p.pubkey.Hex()}}}})
	return p
}

// sign returns an event signed by the peer.
func (p *peer) sign(e nostr.Event) guild.Verified {
	p.t.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Now()
	}
	v, err := guild.Sign(p.t.Context(), p.key, e)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// publish signs an event and publishes it at the relay.
func (p *peer) publish(e nostr.Event) nostr.Event {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), ample)
	defer cancel()
	v := p.sign(e)
	if _, err := p.pool.Publish(ctx, v); err != nil {
		p.t.Fatal(err)
	}
	return v.Event()
}

// announce announces a service for the task "echo".
func (p *peer) announce(encryption ...string) {
	p.t.Helper()
	p.publish(p.announcement(encryption...))
}

func (p *peer) announcement(encryption ...string) nostr.Event {
	return nip89.Handler{D: "echo", Name: "peer", Kinds: []int{5000}, Tasks: []string{"echo"}, Encryption: encryption}.Event()
}

// next waits for the next event of a kind that is addressed to the peer.
func (p *peer) next(kind nostr.Kind) nostr.Event {
	p.t.Helper()
	for late := time.After(ample); ; {
		select {
		case e := <-p.inbox:
			if e.Kind == kind {
				return e
			}
		case <-late:
			p.t.Fatalf("no event of kind %d came", kind)
		}
	}
}

// feedback returns a kind 7000 event for a request with exactly these tags.
func (p *peer) feedback(request nostr.Event, tags ...nostr.Tag) nostr.Event {
	return nostr.Event{Kind: nip90.KindFeedback, Tags: append(answers(request), tags...)}
}

// result returns a result for a request, in clear.
func (p *peer) result(request nostr.Event) nostr.Event {
	p.t.Helper()
	r := nip90.Result{Kind: nip90.ResultKind(int(request.Kind)), Request: request.ID, Customer: request.PubKey}
	if err := r.SetDelivery(nip90.NewParcel(delivery(p.t))); err != nil {
		p.t.Fatal(err)
	}
	e, err := r.Event()
	if err != nil {
		p.t.Fatal(err)
	}
	return e
}

func answers(request nostr.Event) nostr.Tags {
	return nostr.Tags{{"e", request.ID.Hex()}, {"p", request.PubKey.Hex()}}
}

// delivery returns a small delivery bundle, as a worker of "echo" produces it.
func delivery(t *testing.T) []byte {
	t.Helper()
	packed := bundle(t)
	request, err := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), nutshell.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	left := fstest.MapFS{"out.txt": {Data: []byte("hello")}}
	tree, err := nutshell.Delivery(request.Manifest(), nil, left, nutshell.DeliveryInfo{
		ID: "nut-00000000-0000-4000-8000-000000000001", Deliverer: "peer", CompletedAt: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return pack(t, tree)
}

// stored returns the events that a relay stores, parsed and as text.
func (p *peer) stored(kinds ...nostr.Kind) (events []nostr.Event, text string) {
	p.t.Helper()
	found, err := p.pool.Query(p.t.Context(), []nostr.Filter{{Kinds: kinds}})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, v := range found {
		events = append(events, v.Event())
	}
	raw, err := json.Marshal(events)
	if err != nil {
		p.t.Fatal(err)
	}
	return events, string(raw)
}
