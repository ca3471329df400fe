package review

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/journal/fact"
	"guild/internal/policy"
	"guild/internal/step/steptest"
	"guild/nip90"
)

// office is a journal with a running Mail.
type office struct {
	*steptest.World
	*Mail
	fold   *Letters
	change func(*Config)

	mu       sync.Mutex
	sent     []guild.Verified
	relays   [][]string // the relays of each
	refuses  error
	attempts int
}

func newOffice(t *testing.T, change func(*Config)) *office {
	t.Helper()
	o := &office{World: steptest.New(t), change: change}
	o.start()
	return o
}

func (o *office) start() {
	o.Helper()
	o.fold = NewLetters()
	o.OpenJournal(o.fold)
	c := Config{
		Journal: o.Journal, Keyer: owner.signer, PubKey: owner.key, Now: time.Now, Policy: policy.Specification, Publish: o.publish,
		Relays: func() []string { return []string{"wss://ours.example"} },
		Offer: func(s guild.Service) (guild.Offer, bool) {
			return guild.Offer{Service: s, Relays: []string{"wss://theirs.example", "wss://ours.example"}}, true
		},
	}
	if o.change != nil {
		o.change(&c)
	}
	o.Mail = NewMail(c, o.fold)
	o.Run(o.Due)
}

func (o *office) restart() {
	o.Helper()
	o.start()
	o.Pass(0)
}

func (o *office) publish(_ context.Context, v guild.Verified, relays []string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refuses == nil {
		o.sent, o.relays = append(o.sent, v), append(o.relays, relays)
	}
	return o.refuses
}

// asks plans an attempt by a provider.
func (o *office) asks(p person) nostr.ID {
	o.Helper()
	o.attempts++
	id, job := nostr.ID{0xa, byte(o.attempts)}, guild.JobID{byte(o.attempts)}
	o.Write(fact.JobSubject(job), fact.JobOpened{Job: job, Task: python, Kind: 5000})
	o.Write(fact.JobSubject(job), fact.AttemptPlanned{Attempt: id, Job: job, Provider: p.service()})
	return id
}

// failed returns a verdict whose cause names a hidden test.
func failed(passed, expected int) guild.Verdict {
	return guild.Verdict{Outcome: guild.Failure, Score: guild.Score(passed * guild.Micro / expected), Passed: passed, Expected: expected,
		Cause: "7 of 10 tests did not pass: test_secret_edge", Tests: []guild.Test{{ID: "test_secret_edge", State: guild.TestFailed, Message: "want 42"}},
		Hidden: []guild.Commitment{{}}}
}

// judges gives a verdict, and records it.
func (o *office) judges(attempt nostr.ID, v guild.Verdict) {
	o.Helper()
	o.Write(jobOf(attempt), fact.AttemptJudged{Attempt: attempt, Hash: guild.Sum([]byte(v.Outcome)), Verdict: v})
	o.records(attempt)
}

func (o *office) records(attempt nostr.ID) {
	o.Helper()
	x, _ := o.fold.of(attempt)
	o.Write(jobOf(attempt), fact.AttemptRecorded{Attempt: attempt, Receipt: "r-" + string(rune('1'+x.Round)), Stored: guild.Sum(attempt[:])})
	o.Pass(0)
}

// inbox returns the messages that a person can read, each once.
func (o *office) inbox(p person) (all []dm.Message) {
	o.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, v := range o.sent {
		m, err := dm.Open(o.Context(), p.signer, p.key, v)
		if _, other := errors.AsType[*guild.DropError](err); other {
			continue
		} else if err != nil {
			o.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(before dm.Message) bool { return before.ID == m.ID }) {
			all = append(all, m)
		}
	}
	return all
}

// hears returns the last message that a person got, as a verdict.
func (o *office) hears(p person, count int) (dm.Verdict, dm.Message) {
	o.Helper()
	all := o.inbox(p)
	if len(all) != count {
		o.Fatalf("%d messages, want %d", len(all), count)
	}
	v, err := dm.DecodeVerdict(all[count-1].Content)
	if err != nil {
		o.Fatal(err)
	}
	return v, all[count-1]
}

// objects has a person object to a verdict by guild's own kind of message.
func (o *office) objects(p person, attempt nostr.ID, event byte) error {
	o.Helper()
	content, err := dm.Objection{Request: attempt, Reason: "the test wants Python 2"}.Encode()
	if err != nil {
		o.Fatal(err)
	}
	return o.Read(o.Context(), p.key, nostr.ID{0xe, event}, nostr.ID{}, content)
}

func TestTellVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		id := o.asks(alice)
		o.Write(jobOf(id), fact.AttemptJudged{Attempt: id, Hash: guild.Hash{1}, Verdict: failed(3, 10)})
		judged := time.Now()
		o.Pass(time.Minute)
		if len(o.inbox(alice)) != 0 {
			t.Fatal("it is told before there is a receipt")
		}
		o.records(id)
		v, m := o.hears(alice, 1)
		want := dm.Verdict{Request: id, Task: python, Outcome: guild.Failure, Score: 300_000, Passed: 3, Expected: 10,
			Cause: "7 of 10 tests did not pass", Verdict: guild.Hash{1}, Receipt: "r-1", Stored: guild.Sum(id[:]),
			Until: judged.Add(24 * time.Hour).Unix(), Text: v.Text}
		if v != want || m.From != owner.key || m.Subject == "" {
			t.Errorf("got  %+v\nwant %+v", v, want)
		}
		const says = "Your delivery for request 0a010000 (python) was judged FAILURE, with the score 0.30: 7 of 10 tests did not pass. " +
			"If you think that this is wrong, answer this message with your reason before 2000-01-02 00:00 UTC: then it is judged again, once."
		if v.Text != says {
			t.Errorf("%s", v.Text)
		}
		for _, secret := range []string{"secret", "42"} {
			if strings.Contains(m.Content+m.Subject, secret) {
				t.Errorf("it gives a hidden test away: %s", m.Content)
			}
		}
		told := steptest.Facts[fact.AttemptTold](o)
		if len(told) != 1 || told[0] != (fact.AttemptTold{Attempt: id, Message: m.ID}) {
			t.Errorf("%+v", told)
		}
		o.Pass(3 * 24 * time.Hour)
		o.restart()
		o.hears(alice, 1)
	})
}

func TestCauseText(t *testing.T) {
	for _, c := range []struct {
		verdict guild.Verdict
		want    string
	}{
		{guild.Verdict{Outcome: guild.Success, Expected: 10, Passed: 10}, ""},
		{guild.Verdict{Outcome: guild.Partial, Expected: 10, Passed: 9, Cause: "1 of 10 tests did not pass: test_hidden"}, "1 of 10 tests did not pass"},
		{guild.Verdict{Outcome: guild.Failure, Expected: 10, Passed: 9, Cause: "a smoke test did not pass: test_hidden"}, "1 of 10 tests did not pass"},
		{guild.Verdict{Outcome: guild.Failure, Cause: "the delivery is not a bundle: gzip"}, "nothing in it could be tested"},
		{guild.Verdict{Outcome: guild.Failure, Ruling: &guild.Ruling{Note: "I do not like it"}}, "a person has ruled so"},
		{guild.Verdict{Outcome: guild.Error, Expected: 10, Cause: "AssertionError: 41 != 42"}, "it crashed or ran over a limit"},
		{guild.Verdict{Outcome: guild.Violation, Cause: "openat: /tests/hidden.py"}, "it tried to do what the sandbox forbids"},
	} {
		if got := publicCause(c.verdict); got != c.want {
			t.Errorf("%s, %q: %q, want %q", c.verdict.Outcome, c.verdict.Cause, got, c.want)
		}
	}
}

func TestTellRelays(t *testing.T) {
	for name, c := range map[string]struct {
		letterbox []string
		want      []string
	}{
		"with an inbox":    {[]string{"wss://box.example"}, []string{"wss://box.example"}},
		"without an inbox": {nil, []string{"wss://theirs.example", "wss://ours.example"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t, func(c2 *Config) {
				c2.Letterbox = func(_ context.Context, p nostr.PubKey) []string {
					if p != alice.key {
						t.Errorf("asked for %s", p.Hex())
					}
					return c.letterbox
				}
			})
			o.judges(o.asks(alice), failed(3, 10))
			if len(o.relays) != 1 || !slices.Equal(o.relays[0], c.want) {
				t.Errorf("%s: %v", name, o.relays)
			}
		})
	}
}

func TestNotTold(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		what   func(o *office)
	}{
		"our own work":          {nil, func(o *office) { o.judges(o.asks(owner), failed(3, 10)) }},
		"when told to be quiet": {func(c *Config) { c.Quiet = true }, func(o *office) { o.judges(o.asks(alice), failed(3, 10)) }},
		"without a verdict": {nil, func(o *office) {
			id := o.asks(alice)
			o.Write(jobOf(id), fact.AttemptExpired{Attempt: id})
			o.Write(jobOf(id), fact.AttemptRecorded{Attempt: id})
		}},
		"long over": {nil, func(o *office) {
			o.Stop()
			o.judges(o.asks(alice), failed(3, 10))
			o.Pass(49 * time.Hour)
			o.restart()
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t, c.change)
			c.what(o)
			o.Pass(time.Minute)
			if len(o.sent) != 0 || len(steptest.Facts[fact.AttemptTold](o)) != 0 {
				t.Errorf("%s: %d messages", name, len(o.sent))
			}
		})
	}
}

func TestTellGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		o.refuses = errNoRelay
		id := o.asks(alice)
		o.judges(id, failed(3, 10))
		o.Pass(time.Hour)
		told := steptest.Facts[fact.AttemptTold](o)
		if len(told) != 1 || !strings.Contains(told[0].Given, errNoRelay.Error()) {
			t.Fatalf("%+v", told)
		}
		if err := o.objects(alice, id, 1); err != nil { // the provider may have learned of the verdict otherwise
			t.Error(err)
		}
	})
}

// In the table of the partnership protocol, section 4.3.3, the last row is: a disputed result (platform objection) is
// held pending investigation. The cases below show who may object, how, and until when.
func TestObjection(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // the time since the verdict
		by    func(o *office, id, message nostr.ID) error
		want  guild.Reason // "" for a dispute
	}{
		{"the provider, in our own form", time.Hour, func(o *office, id, _ nostr.ID) error { return o.objects(alice, id, 1) }, ""},
		{"the provider, by a reply", time.Hour, func(o *office, _, message nostr.ID) error {
			return o.Read(o.Context(), alice.key, nostr.ID{0xe}, message, "I do not think so")
		}, ""},
		{"the provider, by feedback", time.Hour, func(o *office, id, _ nostr.ID) error { return o.says(alice, id, nip90.Error, 0) }, ""},
		{"just in time", 24*time.Hour - time.Second, func(o *office, id, _ nostr.ID) error { return o.objects(alice, id, 1) }, ""},
		{"too late", 24 * time.Hour, func(o *office, id, _ nostr.ID) error { return o.objects(alice, id, 1) }, guild.Late},
		{"somebody else", time.Hour, func(o *office, id, _ nostr.ID) error { return o.objects(bob, id, 1) }, guild.Stranger},
		{"somebody else by a reply", time.Hour, func(o *office, _, message nostr.ID) error {
			return o.Read(o.Context(), bob.key, nostr.ID{0xe}, message, "it is wrong")
		}, guild.Stranger},
		{"about an unknown request", time.Hour, func(o *office, _, _ nostr.ID) error { return o.objects(alice, nostr.ID{9}, 1) }, guild.Unrequested},
		{"a message that replies to nothing", time.Hour, func(o *office, _, _ nostr.ID) error {
			return o.Read(o.Context(), alice.key, nostr.ID{0xe}, nostr.ID{}, "good morning")
		}, guild.Unrequested},
		{"a malformed objection", time.Hour, func(o *office, _, message nostr.ID) error {
			return o.Read(o.Context(), alice.key, nostr.ID{0xe}, message, `{"type":"guild.objection","version":7}`)
		}, guild.Malformed},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := newOffice(t, nil)
			id := o.asks(alice)
			o.judges(id, failed(3, 10))
			_, m := o.hears(alice, 1)
			o.Pass(c.after)
			err := c.by(o, id, m.ID)
			if disputes := steptest.Facts[fact.AttemptDisputed](o); c.want == "" {
				if err != nil || len(disputes) != 1 || disputes[0].By != "provider" || disputes[0].Reason == "" {
					t.Errorf("%s: %v, %+v", c.name, err, disputes)
				}
			} else {
				steptest.WantDrop(t, err, c.want)
				if len(disputes) != 0 {
					t.Errorf("%s: %+v", c.name, disputes)
				}
			}
		})
	}
}

// says has a person publish feedback on an attempt, dated off from now.
func (o *office) says(p person, id nostr.ID, status nip90.Status, off time.Duration) error {
	o.Helper()
	e := nip90.Feedback{Request: id, Customer: owner.key, Status: status, Text: "the test is wrong"}.Event()
	e.CreatedAt = nostr.Timestamp(time.Now().Add(off).Unix())
	v, err := guild.Sign(o.Context(), p.signer, e)
	if err != nil {
		o.Fatal(err)
	}
	if !o.Objects(v.Event()) {
		return guild.Drop(guild.Unexpected, "no objection")
	}
	return o.Observe(o.Context(), v)
}

func TestNoObjection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		id := o.asks(alice)
		steptest.WantDrop(t, o.says(alice, id, nip90.Error, 0), guild.Unexpected) // a refusal of the request
		o.Pass(time.Hour)
		o.judges(id, failed(3, 10))
		steptest.WantDrop(t, o.says(alice, id, nip90.Success, 0), guild.Unexpected)
		steptest.WantDrop(t, o.says(bob, id, nip90.Error, 0), guild.Unexpected)
		steptest.WantDrop(t, o.says(alice, nostr.ID{9}, nip90.Error, 0), guild.Unexpected)
		steptest.WantDrop(t, o.says(alice, id, nip90.Error, -time.Minute), guild.Unexpected) // from before the verdict
		if len(steptest.Facts[fact.AttemptDisputed](o)) != 0 {
			t.Error("it is judged again")
		}
		for _, odd := range []nostr.Event{
			{Kind: 7000, PubKey: alice.key, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"e"}, {"status"}}},
			{Kind: 7000, PubKey: alice.key, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"e", id.Hex()}, {"status"}}},
			{Kind: 7000, PubKey: alice.key, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"e", id.Hex()}}},
			{Kind: 7000, PubKey: alice.key, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"e", "xx"}, {"status", "error"}}},
			{Kind: 6000, PubKey: alice.key, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"e", id.Hex()}, {"status", "error"}}},
		} {
			if o.Objects(odd) {
				t.Errorf("%v is an objection", odd.Tags)
			}
		}
	})
}

func TestOneObjectionPerVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		id := o.asks(alice)
		o.judges(id, failed(3, 10))
		if err := o.objects(alice, id, 1); err != nil {
			t.Fatal(err)
		}
		steptest.WantDrop(t, o.objects(alice, id, 1), guild.Repeated) // a relay sends it again
		steptest.WantDrop(t, o.objects(alice, id, 2), guild.Repeated)
		o.Pass(time.Hour)
		o.judges(id, failed(4, 10))
		steptest.WantDrop(t, o.objects(alice, id, 3), guild.Repeated)
		v, _ := o.hears(alice, 2)
		if v.Passed != 4 || v.Until != 0 || v.Receipt != "r-2" || !strings.Contains(v.Text, "judged again: FAILURE") || !strings.Contains(v.Text, "final") {
			t.Errorf("%+v", v)
		}
		if len(steptest.Facts[fact.AttemptDisputed](o)) != 1 {
			t.Error("it is judged a third time")
		}
	})
}

func TestObjectionsPerDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		var ids []nostr.ID
		for range 5 {
			ids = append(ids, o.asks(alice))
			o.judges(ids[len(ids)-1], failed(3, 10))
		}
		other := o.asks(bob)
		o.judges(other, failed(3, 10))
		for i, id := range ids[:3] {
			if err := o.objects(alice, id, byte(i)); err != nil {
				t.Error(err)
			}
		}
		steptest.WantDrop(t, o.objects(alice, ids[3], 4), guild.Flood)
		if err := o.objects(bob, other, 5); err != nil {
			t.Error(err)
		}
		o.restart()
		steptest.WantDrop(t, o.objects(alice, ids[3], 4), guild.Flood)
		o.Pass(20 * time.Hour)
		late := o.asks(alice)
		o.judges(late, failed(3, 10))
		o.Pass(4 * time.Hour)
		if err := o.objects(alice, late, 6); err != nil { // a day after the first three
			t.Error(err)
		}
	})
}

func TestConcurrentObjections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		for range 8 {
			o.judges(o.asks(alice), failed(3, 10))
		}
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() { _ = o.objects(alice, nostr.ID{0xa, byte(i + 1)}, byte(i)) })
		}
		all.Wait()
		if n := len(steptest.Facts[fact.AttemptDisputed](o)); n != 3 {
			t.Errorf("%d are judged again", n)
		}
	})
}

func TestAnswerToSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		id := o.asks(alice)
		o.judges(id, guild.Verdict{Outcome: guild.Success, Score: 850_000, Passed: 10, Expected: 10})
		_, m := o.hears(alice, 1)
		steptest.WantDrop(t, o.Read(t.Context(), alice.key, nostr.ID{0xe}, m.ID, "thank you"), guild.Unrequested)
		if err := o.objects(alice, id, 1); err != nil {
			t.Error(err)
		}
	})
}

func TestOwnerDispute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		id := o.asks(alice)
		if err := o.Dispute(t.Context(), id, "odd"); !errors.Is(err, ErrNoVerdict) {
			t.Error(err)
		}
		o.judges(id, guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Passed: 10, Expected: 10})
		if err := o.Dispute(t.Context(), id, "odd"); err != nil {
			t.Fatal(err)
		}
		if err := o.Dispute(t.Context(), id, "odd"); !errors.Is(err, ErrDisputed) {
			t.Error(err)
		}
		if d := steptest.Facts[fact.AttemptDisputed](o); len(d) != 1 || d[0] != (fact.AttemptDisputed{Attempt: id, By: "owner", Reason: "odd"}) {
			t.Errorf("%+v", d)
		}
		o.judges(id, failed(3, 10))
		if err := o.objects(alice, id, 1); err != nil { // against the second verdict, which it has just learned of
			t.Error(err)
		}
		o.judges(id, failed(3, 10))
		o.Pass(24 * time.Hour)
		if err := o.Dispute(t.Context(), id, "odd"); !errors.Is(err, ErrFinal) {
			t.Error(err)
		}
	})
}

func TestRejudgingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		id := o.asks(alice)
		o.judges(id, failed(3, 10))
		if err := o.objects(alice, id, 1); err != nil {
			t.Fatal(err)
		}
		o.Write(jobOf(id), fact.AttemptUndecided{Attempt: id, Reason: "no sandbox"}, fact.AttemptParked{Attempt: id, Reason: "no sandbox"})
		o.records(id)
		v, _ := o.hears(alice, 2)
		if v.Outcome != guild.Failure || v.Passed != 3 || v.Until != 0 || !strings.Contains(v.Text, "could not be judged again") {
			t.Errorf("%+v", v)
		}
	})
}

func TestOldVerdictsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, nil)
		old, doubted := o.asks(alice), o.asks(bob)
		o.judges(old, failed(3, 10))
		o.judges(doubted, failed(3, 10))
		if err := o.objects(bob, doubted, 1); err != nil {
			t.Fatal(err)
		}
		o.Pass(49 * time.Hour)
		o.judges(o.asks(carol), failed(3, 10))
		steptest.WantDrop(t, o.objects(alice, old, 2), guild.Unrequested)
		if s := o.fold.Copy(); s.Judged.Len() != 2 || s.Messages.Len() != 2 || s.Open.Len() != 0 || s.Owed.Len() != 0 {
			t.Errorf("%d attempts, %d messages", s.Judged.Len(), s.Messages.Len())
		}
		o.judges(doubted, failed(4, 10)) // judged again only now
		if v, _ := o.hears(bob, 2); v.Passed != 4 {
			t.Errorf("%+v", v)
		}
	})
}
