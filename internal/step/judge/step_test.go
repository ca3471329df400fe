package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/canon"
	"guild/internal/hand/blob"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
	"guild/internal/step/steptest"
	"guild/nutshell"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// court is a journal with the running step, and a function in place of the engine.
type court struct {
	*steptest.World
	fold    *Fold
	step    *Step
	blobs   *blob.Store
	scratch string

	mu   sync.Mutex
	runs int
	does func(context.Context, Case) (guild.Verdict, Evidence, error)
}

func newCourt(t *testing.T) *court {
	t.Helper()
	c := &court{World: steptest.New(t), fold: NewFold(), scratch: t.TempDir()}
	c.does = func(context.Context, Case) (guild.Verdict, Evidence, error) {
		return guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Tier: "none"}, Evidence("fine"), nil
	}
	var err error
	if c.blobs, err = blob.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	c.OpenJournal(c.fold)
	c.step = NewStep(StepConfig{Blobs: c.blobs, Scratch: c.scratch, Examine: c.examine}, c.fold)
	c.RunWith(&due.Runner{Limits: map[string]int{Class: 1}, Sources: []due.Source{c.step.Due}})
	return c
}

func (c *court) examine(ctx context.Context, hearing Case) (guild.Verdict, Evidence, error) {
	c.mu.Lock()
	c.runs++
	does := c.does
	c.mu.Unlock()
	return does(ctx, hearing)
}

// cases counts the cases without a verdict.
func (c *court) cases() int {
	return fold.Read(c.fold.State, func(s *state) int { return s.Cases.Len() })
}

func (c *court) put(b []byte) guild.Hash {
	c.Helper()
	h, err := c.blobs.PutBytes(c.Context(), b)
	if err != nil {
		c.Fatal(err)
	}
	return h
}

// packed returns a bundle with one file.
func packed(t *testing.T, kind, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	tree := fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"` + kind + `","id":"nut-1","task":{"title":"x"}}`)},
		name:            {Data: []byte(content)},
	}
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// delivered records a job with an attempt and its delivery.
func (c *court) delivered(n byte, delivery guild.Hash, away *fact.Place) nostr.ID {
	c.Helper()
	id, job := nostr.ID{n}, guild.JobID{n}
	c.append(job, fact.JobOpened{Job: job, Bundle: c.put(packed(c.T, "request", "tests/x.sh", "true"))},
		fact.AttemptPlanned{Attempt: id, Job: job}, fact.AttemptDelivered{Attempt: id, Delivery: delivery, Away: away})
	return id
}

func (c *court) append(job guild.JobID, facts ...fact.Fact) {
	c.Helper()
	c.Write(fact.JobSubject(job), facts...)
	synctest.Wait()
}

// written lists the facts after those of delivered.
func (c *court) written(n byte) (all []fact.Fact) {
	c.Helper()
	// The first entry has a request without a key, which cannot be decoded.
	for seq := uint64(2); seq <= c.Journal.Last(); seq++ {
		e, err := c.Journal.Entry(c.Context(), seq)
		if err == nil && e.Subject == fact.JobSubject(guild.JobID{n}) {
			all = append(all, e.Facts...)
		}
	}
	return all
}

func types(facts []fact.Fact) (names []string) {
	for _, f := range facts {
		names = append(names, f.Type())
	}
	return names
}

func TestOneVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		c.does = func(_ context.Context, h Case) (guild.Verdict, Evidence, error) {
			if b, err := os.ReadFile(filepath.Join(h.Bundle, "tests", "x.sh")); err != nil || string(b) != "true" {
				return guild.Verdict{}, nil, fmt.Errorf("the bundle: %q, %w", b, err)
			}
			if b, err := os.ReadFile(filepath.Join(h.Delivery, "delivery", "x")); err != nil || string(b) != "done" {
				return guild.Verdict{}, nil, fmt.Errorf("the delivery: %q, %w", b, err)
			}
			v := guild.Verdict{Outcome: guild.Partial, Score: 900_000, Strength: guild.Strong, Tier: "none", Expected: 60, Passed: 59}
			for i := range 60 {
				v.Tests = append(v.Tests, guild.Test{ID: fmt.Sprint(i), State: guild.TestPassed})
			}
			return v, Evidence("the full output"), nil
		}
		c.delivered(1, c.put(packed(t, "delivery", "delivery/x", "done")), nil)
		time.Sleep(time.Hour)
		facts := c.written(1)
		if got := types(facts); !slices.Equal(got, []string{"effect.claimed", "effect.settled", "attempt.judged"}) {
			t.Fatalf("facts %v", got)
		}
		judged := facts[2].(fact.AttemptJudged)
		if judged.Verdict.Outcome != guild.Partial || len(judged.Verdict.Tests) != shown || c.runs != 1 {
			t.Errorf("%+v after %d runs", judged.Verdict, c.runs)
		}
		whole, err := c.blobs.ReadAll(judged.Stored, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		var v guild.Verdict
		hash, err := canon.Hash(whole)
		if err != nil || hash != judged.Hash || json.Unmarshal(whole, &v) != nil || len(v.Tests) != 60 {
			t.Errorf("the whole verdict: %d tests, %v", len(v.Tests), err)
		}
		if evidence, err := c.blobs.ReadAll(v.Evidence, 1<<20); err != nil || string(evidence) != "the full output" {
			t.Errorf("the evidence: %q, %v", evidence, err)
		}
		if left, _ := os.ReadDir(c.scratch); len(left) != 0 {
			t.Errorf("left in scratch: %v", left)
		}
		if c.cases() != 0 {
			t.Errorf("left in the fold: %s", foldtest.Snapshot(t, c.fold))
		}
	})
}

func TestDisputed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		c.does = func(context.Context, Case) (guild.Verdict, Evidence, error) {
			return guild.Verdict{Outcome: guild.Failure, Cause: fmt.Sprint("run ", c.runs)}, nil, nil
		}
		id := c.delivered(1, c.put(packed(t, "delivery", "delivery/x", "done")), nil)
		c.append(guild.JobID{1}, fact.JobClosed{Job: guild.JobID{1}})
		time.Sleep(24 * time.Hour)
		for again := 2; again <= 3; again++ {
			c.append(guild.JobID{1}, fact.AttemptDisputed{Attempt: id})
			facts := c.written(1)
			judged, ok := facts[len(facts)-1].(fact.AttemptJudged)
			if !ok || judged.Verdict.Cause != fmt.Sprint("run ", again) || c.runs != again || c.cases() != 0 {
				t.Fatalf("after %d runs %+v", c.runs, facts[len(facts)-1])
			}
		}
	})
}

func TestDisputedTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		id := c.delivered(1, c.put(packed(t, "delivery", "delivery/x", "done")), nil)
		time.Sleep(48 * time.Hour)
		c.delivered(2, c.put(packed(t, "delivery", "delivery/x", "done")), nil)
		c.append(guild.JobID{1}, fact.AttemptDisputed{Attempt: id})
		c.fold.View(func(s *state) {
			if c.runs != 2 || s.Heard.Len() != 1 || len(s.Order) != 1 {
				t.Errorf("%d runs, %d cases kept", c.runs, s.Heard.Len())
			}
		})
	})
}

func TestDeliveryNotABundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		c.delivered(1, c.put([]byte("\x7fELF")), nil)
		judged, ok := c.written(1)[2].(fact.AttemptJudged)
		if !ok || judged.Verdict.Outcome != guild.Failure || !strings.HasPrefix(judged.Verdict.Cause, "the delivery is not a bundle") || c.runs != 0 {
			t.Errorf("%+v after %d runs", judged.Verdict, c.runs)
		}
	})
}

func TestLostBlob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		c.delivered(1, guild.Sum([]byte("lost")), nil)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		got := types(c.written(1))
		if slices.Contains(got, "attempt.judged") || !slices.Contains(got, "attempt.parked") || c.runs != 0 {
			t.Errorf("facts %v", got)
		}
	})
}

func TestDeliveryAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		id := c.delivered(1, c.put(packed(t, "delivery", "delivery/x", "done")), &fact.Place{URL: "https://x"})
		time.Sleep(time.Hour)
		if c.runs != 0 {
			t.Fatal("judged before it was here")
		}
		c.append(guild.JobID{1}, fact.AttemptFetched{Attempt: id})
		if c.runs != 1 {
			t.Errorf("%d runs", c.runs)
		}
	})
}

func TestEndedJobNotJudged(t *testing.T) {
	for name, end := range map[string]func(nostr.ID) fact.Fact{
		"refused":   func(id nostr.ID) fact.Fact { return fact.AttemptRefused{Attempt: id} },
		"parked":    func(id nostr.ID) fact.Fact { return fact.AttemptParked{Attempt: id} },
		"cancelled": func(id nostr.ID) fact.Fact { return fact.AttemptCancelled{Attempt: id} },
		"expired":   func(id nostr.ID) fact.Fact { return fact.AttemptExpired{Attempt: id} },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCourt(t)
			id := c.delivered(1, c.put(packed(t, "delivery", "delivery/x", "done")), &fact.Place{URL: "https://x"})
			c.append(guild.JobID{1}, end(id), fact.AttemptFetched{Attempt: id})
			time.Sleep(time.Minute)
			if c.runs != 0 || c.cases() != 0 {
				t.Errorf("%s: %d runs, %s", name, c.runs, foldtest.Snapshot(t, c.fold))
			}
		})
	}
}

func TestUndecidedParks(t *testing.T) {
	for name, err := range map[string]error{
		"criteria that make no sense": fmt.Errorf("criteria: %w", exam.ErrUndecided),
		"no sandbox":                  &sandbox.UnusableError{},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCourt(t)
			c.does = func(context.Context, Case) (guild.Verdict, Evidence, error) {
				return guild.Verdict{}, nil, err
			}
			c.delivered(1, c.put(packed(t, "delivery", "delivery/x", "done")), nil)
			want := []string{"effect.claimed", "effect.settled", "attempt.undecided", "attempt.parked"}
			if got := types(c.written(1)); !slices.Equal(got, want) || c.runs != 1 {
				t.Errorf("%s: facts %v after %d runs", name, got, c.runs)
			}
		})
	}
}

func TestFailingJudgeParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		c.does = func(context.Context, Case) (guild.Verdict, Evidence, error) {
			return guild.Verdict{}, nil, errors.New("out of memory")
		}
		c.delivered(1, c.put(packed(t, "delivery", "delivery/x", "done")), nil)
		time.Sleep(time.Hour)
		facts := c.written(1)
		last, ok := facts[len(facts)-1].(fact.AttemptParked)
		if !ok || c.runs != 8 || !strings.HasPrefix(last.Reason, "the judge failed: judge attempt ") || !strings.HasSuffix(last.Reason, "out of memory") {
			t.Errorf("%v after %d runs: %s", types(facts), c.runs, last.Reason)
		}
	})
}

func TestJudgingOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t)
		var order []string
		c.does = func(_ context.Context, h Case) (guild.Verdict, Evidence, error) {
			b, err := os.ReadFile(filepath.Join(h.Delivery, "delivery", "x"))
			order = append(order, string(b)) // one at a time
			time.Sleep(time.Minute)
			return guild.Verdict{Outcome: guild.Success}, nil, err
		}
		for _, n := range []byte{3, 1, 2} {
			c.delivered(n, c.put(packed(t, "delivery", "delivery/x", fmt.Sprint(n))), nil)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		if !slices.Equal(order, []string{"3", "1", "2"}) {
			t.Errorf("%v", order)
		}
	})
}

// history draws entries about a few attempts, some of them contradictory.
func history(t *rapid.T) (all []fact.Entry) {
	for n := range byte(rapid.IntRange(0, 5).Draw(t, "attempts")) {
		id, job := nostr.ID{n + 1}, guild.JobID{n/2 + 1}
		one := rapid.SampledFrom([]fact.Fact{
			fact.JobOpened{Job: job, Bundle: guild.Hash{1}}, fact.AttemptPlanned{Attempt: id, Job: job},
			fact.AttemptDelivered{Attempt: id, Delivery: guild.Hash{2}}, fact.AttemptDelivered{Attempt: id, Away: &fact.Place{}},
			fact.AttemptFetched{Attempt: id}, fact.AttemptJudged{Attempt: id}, fact.AttemptRefused{Attempt: id},
			fact.AttemptParked{Attempt: id}, fact.AttemptUndecided{Attempt: id, Held: guild.Hash{3}}, fact.JobClosed{Job: job},
			fact.AttemptDisputed{Attempt: id},
		})
		for _, f := range rapid.SliceOfN(one, 0, 6).Draw(t, "life") {
			seq := len(all) + 1
			all = append(all, fact.Entry{Seq: uint64(seq), At: int64(seq), Subject: fact.JobSubject(job), Facts: []fact.Fact{f}})
		}
	}
	return all
}

func TestFoldRestored(t *testing.T) {
	foldtest.GoesOn(t, NewFold, history, nil)
}

func TestGarbledSnapshot(t *testing.T) {
	f := NewFold()
	f.Apply(fact.Entry{Seq: 1, Subject: "job.1", Facts: []fact.Fact{fact.JobOpened{Job: guild.JobID{1}}}})
	foldtest.Refuses(t, f, foldtest.Partial(t, f)...)
}
