package registry

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/due"
	"guild/internal/due/duetest"
	"guild/internal/fact"
	"guild/internal/fold/foldtest"
	"guild/internal/journal"
	"guild/internal/journal/journaltest"
	"guild/internal/key"
	"guild/internal/policy"
	"guild/nip89"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// provider is somebody who announces services.
type provider struct {
	signer *key.Signer
	key    nostr.PubKey
}

func newProvider(n byte) provider {
	secret := key.NewSecret(nostr.SecretKey{31: n})
	return provider{key.NewSigner(secret), secret.PubKey()}
}

func (p provider) service(d string) guild.Service { return guild.Service{PubKey: p.key, D: d} }

// world is a journal with the step at work.
type world struct {
	*testing.T
	*Registry
	latest   atomic.Pointer[Registry] // for the runner, which goes on while the test opens another
	fold     *Fold
	claims   *due.Claims
	journal  *journal.Journal
	observed *Observed
	follow   []nostr.PubKey
	hears    func() time.Time // of Config
	changes  int
	attempts int

	clock time.Time // of a light world
	seq   uint64    // its latest entry
}

// newWorld opens a journal in a directory of its own and runs the step on it.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, fold: newFold(), claims: due.NewClaims(), observed: NewObserved(), follow: []nostr.PubKey{newProvider(200).key}}
	w.journal = journaltest.Open(t, w.claims, w.fold, w.observed)
	w.open()
	duetest.Run(t, &due.Runner{Journal: w.journal, Claims: w.claims, Sources: []due.Source{func(now time.Time) []due.Work { return w.latest.Load().Due(now) }}})
	return w
}

// The numbers that the tests count with, as the specification has them.
const (
	day      = 24 * time.Hour
	quiet    = day      // after silence, section 2.3.3
	cooldown = day      // after a first failed evaluation, section 3.4.3
	month    = 30 * day // after three failures at once, section 3.2.3
)

func newFold() *Fold { return NewFold(policy.Default()) }

// leftover is what the fold still has of attempts and meetings that are over, and of debts.
func (w *world) leftover() (n int) {
	w.fold.View(func(st *state) {
		n = st.Asked.Len() + st.Jobs.Len() + st.Meetings.Len()
		for _, r := range st.Services.All() {
			n += len(r.Owed)
			if r.Meeting != "" {
				n++
			}
		}
	})
	return n
}

// open makes the registry anew, from what the journal has seen.
func (w *world) open() {
	w.Helper()
	r, err := Open(w.Context(), Config{Journal: w.journal, Now: time.Now, Changed: func() { w.changes++ },
		Synonyms: map[string][]string{"python": {"py"}}, Observed: w.observed, Follow: w.follow, Hears: w.hears}, w.fold)
	if err != nil {
		w.Fatal(err)
	}
	w.Registry = r
	w.latest.Store(r)
}

// observe signs an event as p and has it observed. It is dated now unless it says otherwise.
func (w *world) observe(p provider, e nostr.Event) error {
	w.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
	}
	v, err := guild.Sign(w.Context(), p.signer, e)
	if err != nil {
		w.Fatal(err)
	}
	return w.Observe(w.Context(), "wss://relay.example.com", v)
}

// announces has p announce a service now.
func (w *world) announces(p provider, h nip89.Handler) {
	w.Helper()
	if err := w.observe(p, h.Event()); err != nil {
		w.Fatal(err)
	}
}

func python(d string) nip89.Handler {
	return nip89.Handler{D: d, Name: d, Kinds: []int{5000}, Tasks: []string{"python"}, Encryption: []string{"nip44"},
		Relays: []string{"wss://" + d + ".example"}, Price: 7, MaxConcurrent: 3}
}

// names lists what is offered for a task.
func (w *world) names(task string) (names []string) {
	for _, o := range w.Offers(task, 5000) {
		names = append(names, o.Name)
	}
	return names
}

func wantDrop(t *testing.T, err error, want guild.Reason) {
	t.Helper()
	if dropped, ok := errors.AsType[*guild.DropError](err); !ok || dropped.Reason != want {
		t.Errorf("got %v, want %q dropped", err, want)
	}
}

func TestAnAnnouncementBecomesAnOffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("alice"))
		if err := w.observe(alice, nostr.Event{Kind: KindRelays, Tags: nostr.Tags{
			{"r", "wss://read.example", "read"}, {"r", "wss://write.example", "write"}, {"r", "wss://both.example"}, {"r"}}}); err != nil {
			t.Fatal(err)
		}
		offers := w.Offers("python", 5000)
		if len(offers) != 1 {
			t.Fatalf("%d offers", len(offers))
		}
		o := offers[0]
		relays := []string{"wss://alice.example", "wss://relay.example.com", "wss://both.example", "wss://read.example"}
		if o.Service != alice.service("alice") || o.State != guild.Seen || !o.Encrypts || o.Price != 7 || o.Slots != 3 ||
			!slices.Equal(o.Relays, relays) || o.Announced != time.Now().Unix() || o.Confidence != 1 || !o.Confirmed {
			t.Errorf("%+v", o)
		}
		if w.Name(o.Service) != "alice" || w.Len() != 1 || w.changes != 2 {
			t.Errorf("%q, %d services, %d changes", w.Name(o.Service), w.Len(), w.changes)
		}
		if w.journal.Last() != 0 {
			t.Error("what a stranger wrote became a fact")
		}
	})
}

func TestTheSurestOffersComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		latency := 5.0
		inferred := nip89.Handler{D: "inferred", Name: "inferred", Kinds: []int{5000}, Performance: nip89.Performance{TypicalLatencyMs: &latency}}
		pattern, synonym := python("pattern"), python("synonym")
		pattern.Tasks, synonym.Tasks = []string{"pyth*"}, []string{"py"}
		other := python("other")
		other.Tasks = []string{"rust"}
		for n, h := range []nip89.Handler{inferred, other, synonym, pattern, python("exact")} {
			w.announces(newProvider(byte(n+1)), h)
		}
		got := w.names("python")
		if len(got) != 4 || got[0] != "exact" || got[3] != "inferred" {
			t.Errorf("%v", got)
		}
		if all := w.names(""); len(all) != 5 {
			t.Errorf("all: %v", all)
		}
	})
}

func TestTheNewestAnnouncementCountsWhateverOrderTheyComeIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		now := nostr.Timestamp(time.Now().Unix())
		dated := func(name string, at nostr.Timestamp) nostr.Event {
			h := python("alice")
			h.Name = name
			e := h.Event()
			e.CreatedAt = at
			return e
		}
		for _, e := range []nostr.Event{dated("second", now-10), dated("third", now)} {
			if err := w.observe(alice, e); err != nil {
				t.Fatal(err)
			}
		}
		wantDrop(t, w.observe(alice, dated("first", now-20)), guild.Outdated)
		if err := w.observe(alice, dated("third", now)); err != nil {
			t.Errorf("what a relay sends again is no reason for a word: %v", err)
		}
		if got := w.names("python"); len(got) != 1 || got[0] != "third" || w.changes != 2 {
			t.Errorf("%v after %d changes", got, w.changes)
		}
	})
}

func TestTwoSpellingsOfAServiceAreOneService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("My  Service"))
		time.Sleep(time.Second)
		w.announces(alice, python("my service"))
		if w.Len() != 1 {
			t.Errorf("%d services", w.Len())
		}
	})
}

func TestWhatMakesNoSenseIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		future := python("alice").Event()
		future.CreatedAt = nostr.Timestamp(time.Now().Add(time.Hour + time.Second).Unix())
		wantDrop(t, w.observe(alice, future), guild.Future)
		wantDrop(t, w.observe(alice, nostr.Event{Kind: Kind, Content: "{"}), guild.Malformed)
		wantDrop(t, w.observe(alice, nostr.Event{Kind: 1}), guild.Unexpected)
		wantDrop(t, w.observe(alice, nostr.Event{Kind: KindDeletion}), guild.Misdirected)
		wantDrop(t, w.observe(alice, nostr.Event{Kind: KindDeletion, Tags: nostr.Tags{{"a"}, {"e", "x"}, {"a", "30023:x:y"}}}), guild.Misdirected)
		if w.Len() != 0 || w.changes != 0 {
			t.Errorf("%d services, %d changes", w.Len(), w.changes)
		}
	})
}

// deletion takes back services by their addresses.
func deletion(p provider, ds ...string) nostr.Event {
	e := nostr.Event{Kind: KindDeletion}
	for _, d := range ds {
		e.Tags = append(e.Tags, nostr.Tag{"a", fmt.Sprintf("%d:%s:%s", Kind, p.key.Hex(), d)})
	}
	return e
}

func TestAnAnnouncementIsTakenBackByItsAuthorOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice, mallory := newWorld(t), newProvider(1), newProvider(2)
		w.announces(alice, python("alice"))
		wantDrop(t, w.observe(mallory, deletion(alice, "alice")), guild.Misdirected)
		if w.Len() != 1 {
			t.Fatal("a stranger took it back")
		}
		if err := w.observe(alice, deletion(alice, "alice")); err != nil || w.Len() != 0 {
			t.Errorf("%v, %d services", err, w.Len())
		}
		old := python("alice").Event()
		old.CreatedAt = nostr.Timestamp(time.Now().Add(-time.Minute).Unix())
		wantDrop(t, w.observe(alice, old), guild.Outdated)
		time.Sleep(time.Second)
		w.announces(alice, python("alice"))
		if w.Len() != 1 {
			t.Error("a later announcement does not count")
		}
	})
}

func TestWhoWasAskedHasANameWhenItHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice, bob := newWorld(t), newProvider(1), newProvider(2)
		w.announces(alice, python("alice"))
		w.announces(bob, python("bob"))
		asked := guild.Service{PubKey: alice.key, D: "alice"}
		w.append(fact.AttemptPlanned{Attempt: nostr.ID{1}, Provider: asked, Choice: &fact.Choice{Candidates: []fact.Candidate{
			{Service: guild.Service{PubKey: bob.key, D: "bob"}, Name: "Bob"}, {Service: asked, Name: "Alice"}}}})
		for _, p := range []provider{alice, bob} {
			if err := w.observe(p, deletion(p, map[nostr.PubKey]string{alice.key: "alice", bob.key: "bob"}[p.key])); err != nil {
				t.Fatal(err)
			}
		}
		if name := w.Name(asked); name != "Alice" {
			t.Errorf("who was asked is called %q", name)
		}
		if name := w.Name(guild.Service{PubKey: bob.key, D: "bob"}); name != "" {
			t.Errorf("who was never asked is called %q", name)
		}
		if all := w.fold.Known(); len(all) != 1 || all[0] != asked {
			t.Errorf("facts are about %v", all)
		}
		if all := w.fold.Services(); len(all) != 0 {
			t.Errorf("it was decided about %v", all)
		}
	})
}

func TestADeletionTakesBackEverythingThatItNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		for _, d := range []string{"one", "two", "three"} {
			w.announces(alice, python(d))
		}
		if err := w.observe(alice, deletion(alice, "one", "three")); err != nil {
			t.Fatal(err)
		}
		if got := w.names(""); len(got) != 1 || got[0] != "two" {
			t.Errorf("left: %v", got)
		}
	})
}

func TestWhatWasSeenIsThereAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("one"))
		w.announces(alice, python("two"))
		if err := w.observe(alice, deletion(alice, "two")); err != nil {
			t.Fatal(err)
		}
		if err := w.observe(alice, nostr.Event{Kind: KindRelays, Tags: nostr.Tags{{"r", "wss://read.example"}}}); err != nil {
			t.Fatal(err)
		}
		before := w.Offers("", 0)
		w.open()
		after := w.Offers("", 0)
		if len(after) != 1 || fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("before %v, after %v", before, after)
		}
	})
}

func TestAnAnnouncementAges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.announces(newProvider(1), python("alice"))
		for _, c := range []struct {
			age  time.Duration
			want []guild.ProviderState
		}{
			{30*day - time.Second, []guild.ProviderState{guild.Seen}},
			{30 * day, []guild.ProviderState{guild.Stale}},
			{90*day - time.Second, []guild.ProviderState{guild.Stale}},
			{90 * day, nil},
		} {
			w.Registry.c.Now = func() time.Time { return time.Now().Add(c.age) }
			var got []guild.ProviderState
			for _, o := range w.Offers("python", 5000) {
				got = append(got, o.State)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("after %v: %v, want %v", c.age, got, c.want)
			}
		}
	})
}

// attempt writes the life of one attempt with a service, and lets the step follow.
func (w *world) attempt(s guild.Service, end func(nostr.ID) fact.Fact) {
	w.Helper()
	w.attempts++
	id := nostr.ID{byte(w.attempts)}
	if w.light() {
		w.write(fact.AttemptPlanned{Attempt: id, Provider: s}, end(id))
		w.settle()
		return
	}
	err := w.journal.Do(w.Context(), fact.JobSubject(guild.JobID{byte(w.attempts)}), "", func(tx *journal.Tx) error {
		tx.Append(fact.AttemptPlanned{Attempt: id, Provider: s}, end(id))
		return nil
	})
	if err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func silent(id nostr.ID) fact.Fact {
	return fact.AttemptExpired{Attempt: id, Silent: true, Reason: "no answer"}
}

func judged(o guild.Outcome, s guild.Score) func(nostr.ID) fact.Fact {
	return func(id nostr.ID) fact.Fact {
		return fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: o, Score: s}}
	}
}

// wantCheckup checks for what a service is due to be benchmarked, "" for nothing.
func (w *world) wantCheckup(s guild.Service, want string) {
	w.Helper()
	got := ""
	for _, c := range w.Checkups(w.now()) {
		if c.Service == s {
			got = c.Purpose
		}
	}
	if got != want {
		w.Errorf("benchmark for %q, want %q", got, want)
	}
}

func (w *world) wantState(s guild.Service, want guild.ProviderState) {
	w.Helper()
	if got := w.fold.Provider(s); got.State != want {
		w.Errorf("%s, want %s", got.State, want)
	}
}

func TestASilentProviderIsLeftAloneForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("alice"))
		w.attempt(alice.service("alice"), silent)
		w.wantState(alice.service("alice"), guild.Unresponsive)
		if o := w.Offers("python", 5000)[0]; o.State != guild.Unresponsive || o.Until != time.Now().Add(quiet).UnixMilli() {
			t.Errorf("offered as %s until %d", o.State, o.Until)
		}
		w.wantState(alice.service("another"), guild.Seen)
		time.Sleep(quiet - time.Millisecond)
		w.wantState(alice.service("alice"), guild.Unresponsive)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		w.wantState(alice.service("alice"), guild.Seen)
		last := w.journal.Last()
		time.Sleep(time.Hour)
		if w.journal.Last() != last {
			t.Error("the end of the quarantine is noted again and again")
		}
	})
}

func TestAVerdictMovesAProvider(t *testing.T) {
	for _, c := range []struct {
		name  string
		first []func(nostr.ID) fact.Fact
		want  guild.ProviderState
	}{
		{"0.8 is active", []func(nostr.ID) fact.Fact{judged(guild.Success, 800_000)}, guild.Active},
		{"less is conditional", []func(nostr.ID) fact.Fact{judged(guild.Success, 799_999)}, guild.Conditional},
		{"a good part is conditional at most", []func(nostr.ID) fact.Fact{judged(guild.Partial, 990_000)}, guild.Conditional},
		{"a poor part is rejected", []func(nostr.ID) fact.Fact{judged(guild.Partial, 599_999)}, guild.Unqualified},
		{"a first failure is rejected", []func(nostr.ID) fact.Fact{judged(guild.Failure, 0)}, guild.Unqualified},
		{"a failure after success is a warning", []func(nostr.ID) fact.Fact{judged(guild.Success, 900_000), judged(guild.Failure, 0)}, guild.Warned},
		{"a success ends the warning", []func(nostr.ID) fact.Fact{judged(guild.Success, 900_000), judged(guild.Failure, 0), judged(guild.Success, 900_000)}, guild.Active},
		{"a second failure reduces", []func(nostr.ID) fact.Fact{judged(guild.Success, 900_000), judged(guild.Failure, 0), judged(guild.Failure, 0)}, guild.Reduced},
		{"silence after success is a quarantine", []func(nostr.ID) fact.Fact{judged(guild.Success, 900_000), silent}, guild.Unresponsive},
		{"a violation is the end", []func(nostr.ID) fact.Fact{judged(guild.Success, 900_000), judged(guild.Violation, 0)}, guild.Removed},
		{"and nothing comes after it", []func(nostr.ID) fact.Fact{judged(guild.Violation, 0), judged(guild.Success, 900_000), silent}, guild.Removed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, alice := newWorld(t), newProvider(1)
				for _, end := range c.first {
					w.attempt(alice.service("alice"), end)
				}
				w.wantState(alice.service("alice"), c.want)
				if w.leftover() != 0 {
					t.Errorf("left over: %s", foldtest.Snapshot(t, w.fold))
				}
			})
		})
	}
}

func TestARejectedProviderIsEvaluatedAgainAfterItsCooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.attempt(alice.service("alice"), judged(guild.Failure, 0))
		w.sleep(cooldown - time.Millisecond)
		w.wantCheckup(alice.service("alice"), "")
		w.sleep(time.Millisecond)
		w.wantCheckup(alice.service("alice"), guild.PurposeRetry)
		w.wantState(alice.service("alice"), guild.Unqualified) // and gets no work before it has passed
	})
}

func TestAViolationRemovesAProviderWithAllItsServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mallory := newWorld(t), newProvider(1)
		w.attempt(mallory.service("one"), silent) // its quarantine ends later
		w.attempt(mallory.service("two"), judged(guild.Violation, 0))
		w.announces(mallory, python("three"))
		last := w.journal.Last()
		time.Sleep(quiet + time.Minute)
		synctest.Wait()
		for _, d := range []string{"one", "two", "three"} {
			w.wantState(mallory.service(d), guild.Removed)
		}
		if got := w.Offers("python", 5000)[0].State; got != guild.Removed {
			t.Errorf("offered as %s", got)
		}
		if w.journal.Last() != last || len(w.Due(time.Now())) != 0 {
			t.Errorf("%d moves are still due for a removed provider", len(w.Due(time.Now())))
		}
	})
}

func TestWhatTheCustomerDidDoesNotMoveAProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		for _, end := range []func(nostr.ID) fact.Fact{
			func(id nostr.ID) fact.Fact { return fact.AttemptCancelled{Attempt: id} },
			func(id nostr.ID) fact.Fact { return fact.AttemptParked{Attempt: id} },
			func(id nostr.ID) fact.Fact { return fact.AttemptRefused{Attempt: id, Later: true} },
			func(id nostr.ID) fact.Fact { return fact.AttemptExpired{Attempt: id} },
		} {
			w.attempt(alice.service("alice"), end)
			w.wantState(alice.service("alice"), guild.Seen)
		}
		if w.leftover() != 0 {
			t.Errorf("left over: %s", foldtest.Snapshot(t, w.fold))
		}
	})
}

// history draws entries as a journal could hold them.
func history(t *rapid.T) (all []fact.Entry) {
	for n := range rapid.IntRange(0, 10).Draw(t, "attempts") {
		id, s := nostr.ID{byte(n + 1)}, newProvider(byte(n%2+1)).service(fmt.Sprint(n%3))
		end := rapid.SampledFrom([]fact.Fact{
			silent(id), judged(guild.Success, 900_000)(id), judged(guild.Failure, 0)(id), judged(guild.Violation, 0)(id),
			fact.AttemptRefused{Attempt: id}, fact.AttemptCancelled{Attempt: id}, fact.AttemptParked{Attempt: id},
			fact.ProviderMoved{Service: s, To: guild.Warned, Until: 7, Attempt: id}, fact.ProviderMoved{Service: s, To: guild.Removed},
		}).Draw(t, "end")
		job, meeting := guild.JobID{byte(n + 1)}, fmt.Sprint("m", n%4)
		opened := fact.JobOpened{Job: job}
		if rapid.Bool().Draw(t, "of a meeting") {
			opened.Meeting = &fact.Benchmark{Meeting: meeting}
		}
		turn := rapid.SampledFrom([]fact.Fact{fact.MeetingBegan{Meeting: meeting, Service: s}, fact.JobClosed{Job: job},
			fact.MeetingEnded{Meeting: meeting, Service: s, To: guild.Unqualified}, fact.AttemptProgressed{Attempt: id}}).Draw(t, "turn")
		for _, f := range []fact.Fact{opened, fact.AttemptPlanned{Attempt: id, Job: job, Provider: s}, turn, end} {
			all = append(all, fact.Entry{Seq: uint64(len(all) + 1), At: int64(len(all)), Facts: []fact.Fact{f}})
		}
	}
	return all
}

func TestARestoredFoldGoesOnAsIfNothingHadHappened(t *testing.T) {
	foldtest.GoesOn(t, newFold, history, nil)
}

func TestAGarbledSnapshotIsRefusedAndChangesNothing(t *testing.T) {
	f := newFold()
	f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{fact.ProviderMoved{Service: newProvider(1).service("x"), To: guild.Active}}})
	foldtest.Refuses(t, f, foldtest.Partial(t, f)...)
}
