package node

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/step/judge"
)

// tape records the facts that a node writes.
type tape struct{ entries chan fact.Entry }

func newTape() tape { return tape{make(chan fact.Entry, 1000)} }

func (n tape) take(e fact.Entry) { n.entries <- e }

// until waits for a fact.
func until[F fact.Fact](t *testing.T, n tape, fits func(F) bool) (found F) {
	t.Helper()
	eventually(t, "there is a "+found.Type(), func() bool {
		for {
			select {
			case e := <-n.entries:
				for _, f := range e.Facts {
					if f, ok := f.(F); ok && fits(f) {
						found = f
						return true
					}
				}
			default:
				return false
			}
		}
	})
	return found
}

func whatever[F fact.Fact](F) bool { return true }

// startNode runs a node with a relay until the test ends, and returns it once it is ready.
func startNode(t *testing.T, relay string, change func(*Config)) *Node {
	t.Helper()
	dir, secret, ready := t.TempDir(), key.NewSecret(nostr.Generate()), make(chan struct{})
	c := Config{Dir: dir, Identity: key.Identity{Signer: key.NewSigner(secret), PubKey: secret.PubKey()}, NoSync: true, Relays: []string{relay},
		Version: "test", Ready: func(Ready) { close(ready) }}
	change(&c)
	if err := journal.Init(filepath.Join(dir, "journal")); err != nil {
		t.Fatal(err)
	}
	n := &Node{c: c.withDefaults()}
	n.started = n.c.Now()
	if err := n.open(t.Context()); err != nil {
		t.Fatal(errors.Join(err, n.close()))
	}
	run(t, func(ctx context.Context) error { return errors.Join(n.run(ctx), n.close()) })
	<-ready
	return n
}

// A provider receives a verdict over a real relay and its owner objects. The customer judges again and sends the new
// verdict.
func TestDispute(t *testing.T) {
	url := startRelay(t)
	theirs, ours := newTape(), newTape()
	provider := startNode(t, url, func(c *Config) { c.Workers, c.Appended = []Worker{{Task: "echo", Do: echo}}, theirs.take })
	var heard atomic.Int32
	customer, _ := start(t, url, func(c *Config) {
		c.Appended = ours.take
		c.Examine = func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
			if heard.Add(1) == 1 {
				return guild.Verdict{Outcome: guild.Failure, Strength: guild.Strong, Tier: "none", Expected: 10, Passed: 3, Cause: "test_secret"}, judge.Evidence("no"), nil
			}
			return guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Tier: "none", Expected: 10, Passed: 10}, judge.Evidence("yes"), nil
		}
	})
	hire(t, customer, control.Hire{Tries: 1})
	first := until(t, theirs, whatever[fact.RequestJudged])
	if first.Outcome != guild.Failure || first.Until == 0 {
		t.Fatalf("%+v", first)
	}
	if err := provider.work.Object(t.Context(), first.Request, "the test is wrong"); err != nil {
		t.Fatal(err)
	}
	disputed := until(t, ours, whatever[fact.AttemptDisputed])
	if disputed.By != "provider" || disputed.Reason != "the test is wrong" || disputed.Attempt != first.Request {
		t.Errorf("%+v", disputed)
	}
	until(t, ours, func(c fact.TrustChanged) bool { return c.Attempt == first.Request })
	second := until(t, theirs, whatever[fact.RequestJudged])
	if second.Outcome != guild.Success || second.Until != 0 {
		t.Errorf("%+v", second)
	}
}
