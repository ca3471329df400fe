package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"github.com/coder/websocket"

	"guild"
	"guild/internal/hand/key"
)

// NIP-90 kinds of the floor's events.
const (
	kindRequest nostr.Kind = 5050
	kindResult  nostr.Kind = 6050
)

// floor is a customer and a provider that know only each other's keys and the relay.
type floor struct {
	customer, provider *peer
	request, result    int // bytes of content

	mu      sync.Mutex
	results map[nostr.ID]chan struct{} // requests without a result so far
}

// openFloor connects both. request and result are the content sizes of the loop's events.
func openFloor(ctx context.Context, url string, request, result int) (*floor, error) {
	f := &floor{request: request, result: result, results: map[nostr.ID]chan struct{}{}}
	var err error
	if f.customer, err = dial(ctx, url, kindResult); err != nil {
		return nil, err
	}
	if f.provider, err = dial(ctx, url, kindRequest); err != nil {
		f.customer.ws.CloseNow()
		return nil, err
	}
	return f, nil
}

// run reads events for both until ctx ends.
func (f *floor) run(ctx context.Context) error {
	defer f.customer.ws.CloseNow()
	go f.customer.read(ctx, f.arrived)
	err := f.provider.read(ctx, func(e nostr.Event) error { return f.answer(ctx, e) })
	f.provider.ws.CloseNow()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("floor: %w", err)
}

// lap publishes a request and waits until its result was read and verified.
func (f *floor) lap(ctx context.Context) (lap, error) {
	start := time.Now()
	e, err := f.customer.sign(ctx, kindRequest, f.request, nostr.Tags{{"p", f.provider.pubkey.Hex()}})
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	f.mu.Lock()
	f.results[e.ID] = done
	f.mu.Unlock()
	if err := f.customer.publish(ctx, e); err != nil {
		return nil, err
	}
	select {
	case <-done:
		return lap{requestToResult: time.Since(start)}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (f *floor) answer(ctx context.Context, request nostr.Event) error {
	e, err := f.provider.sign(ctx, kindResult, f.result, nostr.Tags{
		{"e", request.ID.Hex()}, {"p", request.PubKey.Hex()},
	})
	if err != nil {
		return err
	}
	return f.provider.publish(ctx, e)
}

func (f *floor) arrived(result nostr.Event) error {
	id, err := nostr.IDFromHex(result.Tags.Find("e")[1])
	f.mu.Lock()
	defer f.mu.Unlock()
	if done, ok := f.results[id]; ok && err == nil {
		close(done)
		delete(f.results, id)
	}
	return err
}

// peer is one client with its own connection.
type peer struct {
	ws     *websocket.Conn
	signer *key.Signer
	pubkey nostr.PubKey
}

// dial connects with a new key and subscribes to events addressed to it.
func dial(ctx context.Context, url string, reads nostr.Kind) (*peer, error) {
	ws, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	ws.SetReadLimit(1 << 20)
	secret := key.NewSecret(nostr.Generate())
	p := &peer{ws: ws, signer: key.NewSigner(secret), pubkey: secret.PubKey()}
	req := fmt.Sprintf(`["REQ","in",{"kinds":[%d],"#p":["%s"]}]`, reads, p.pubkey.Hex())
	if err := ws.Write(ctx, websocket.MessageText, []byte(req)); err != nil {
		ws.CloseNow()
		return nil, fmt.Errorf("floor: %w", err)
	}
	return p, nil
}

func (p *peer) sign(ctx context.Context, kind nostr.Kind, size int, tags nostr.Tags) (nostr.Event, error) {
	v, err := guild.Sign(ctx, p.signer, nostr.Event{
		Kind: kind, CreatedAt: nostr.Now(), Tags: tags, Content: nostr.Generate().Hex() + strings.Repeat("A", size),
	})
	return v.Event(), err
}

func (p *peer) publish(ctx context.Context, e nostr.Event) error {
	frame, err := nostr.EventEnvelope{Event: e}.MarshalJSON()
	if err != nil {
		return err
	}
	return p.ws.Write(ctx, websocket.MessageText, frame)
}

// read passes every event to take, after verifying it once.
func (p *peer) read(ctx context.Context, take func(nostr.Event) error) error {
	for {
		_, frame, err := p.ws.Read(ctx)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(frame, []byte(`["EVENT"`)) {
			continue
		}
		var parts []json.RawMessage
		if err := json.Unmarshal(frame, &parts); err != nil {
			return err
		}
		var e nostr.Event
		if err := e.UnmarshalJSON(parts[len(parts)-1]); err != nil {
			return err
		}
		v, err := guild.Verify(e)
		if err != nil {
			return err
		}
		if err := take(v.Event()); err != nil {
			return err
		}
	}
}
