package partner

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
	"guild/internal/market/registry"
	"guild/internal/policy"
	"guild/internal/step/steptest"
	"guild/nip89"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// provider is a key that announces services.
type provider struct {
	signer *key.Signer
	key    nostr.PubKey
}

func newProvider(n byte) provider {
	secret := key.NewSecret(nostr.SecretKey{31: n})
	return provider{key.NewSigner(secret), secret.PubKey()}
}

func (p provider) service(d string) guild.Service { return guild.Service{PubKey: p.key, D: d} }

func python(d string) nip89.Handler {
	return nip89.Handler{D: d, Name: d, Kinds: []int{5000}, Tasks: []string{"python"}, Encryption: []string{"nip44"},
		Relays: []string{"wss://" + d + ".example"}, Price: 7, MaxConcurrent: 3}
}

// world is a journal with a running step, and a registry.
type world struct {
	*steptest.World // without a journal in a light world
	*Partners
	running  atomic.Pointer[Partners] // for the runner, which continues while the test opens another
	registry *registry.Registry       // nil in a light world
	fold     *Fold
	observed *Observed
	hears    func() time.Time // of Config
	attempts int

	clock  time.Time                       // of a light world
	seq    uint64                          // its latest entry
	latest map[registry.ID]registry.Latest // its announcements
}

// offers lists the offers for a task.
func (w *world) offers(task string) []guild.Offer {
	return slices.Collect(w.registry.Offers(task, 5000))
}

// newWorld opens a journal in a directory of its own and runs the step on it.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: steptest.New(t), fold: newFold(), observed: NewObserved()}
	w.OpenJournal(w.fold, w.observed)
	w.open()
	w.Run(func(now time.Time) []due.Work { return w.running.Load().Due(now) })
	return w
}

// The numbers of the specification.
const (
	day      = 24 * time.Hour
	quiet    = day      // after silence, section 2.3.3
	cooldown = day      // after a first failed evaluation, section 3.4.3
	month    = 30 * day // after three failures at once, section 3.2.3
)

func newFold() *Fold { return NewFold(policy.Specification()) }

// open creates the step anew.
func (w *world) open() {
	w.Helper()
	var err error
	w.registry, err = registry.Open(w.Context(), registry.Config{Journal: w.Journal, Now: time.Now, Observed: w.observed}, w.fold)
	if err != nil {
		w.Fatal(err)
	}
	w.Partners = New(Config{Journal: w.Journal, Now: time.Now, Latest: w.registry.Latest, Services: w.registry.Services, Hears: w.hears}, w.fold)
	w.running.Store(w.Partners)
}

// leftover counts what the fold still keeps of ended attempts and meetings, and pending events.
func (w *world) leftover() (n int) {
	w.fold.View(func(st *state) {
		n = st.Asked.Len() + st.Jobs.Len() + st.Meetings.Len()
		for _, r := range st.Services.All() {
			n += len(r.Pending)
			if r.Meeting != "" {
				n++
			}
		}
	})
	return n
}

// observe signs an event as p and gives it to the registry. If it has no date, it is dated now.
func (w *world) observe(p provider, e nostr.Event) error {
	w.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
	}
	v, err := guild.Sign(w.Context(), p.signer, e)
	if err != nil {
		w.Fatal(err)
	}
	return w.registry.Observe(w.Context(), "wss://relay.example.com", v)
}

// announces has p announce a service now.
func (w *world) announces(p provider, h nip89.Handler) {
	w.Helper()
	if err := w.observe(p, h.Event()); err != nil {
		w.Fatal(err)
	}
}

// attempt writes the life of one attempt with a service, and waits until the step has followed.
func (w *world) attempt(s guild.Service, end func(nostr.ID) fact.Fact) {
	w.Helper()
	w.attempts++
	id := nostr.ID{byte(w.attempts)}
	if w.light() {
		w.write(fact.AttemptPlanned{Attempt: id, Provider: s}, end(id))
		w.settle()
		return
	}
	w.Write(fact.JobSubject(guild.JobID{byte(w.attempts)}), fact.AttemptPlanned{Attempt: id, Provider: s}, end(id))
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

// wantCheckup checks the purpose of the benchmark that is due for a service, "" for none.
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

func TestSilenceQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.announces(alice, python("alice"))
		w.attempt(alice.service("alice"), silent)
		w.wantState(alice.service("alice"), guild.Unresponsive)
		if o := w.offers("python")[0]; o.State != guild.Unresponsive || o.Until != time.Now().Add(quiet).UnixMilli() {
			t.Errorf("offered as %s until %d", o.State, o.Until)
		}
		w.wantState(alice.service("another"), guild.Seen)
		time.Sleep(quiet - time.Millisecond)
		w.wantState(alice.service("alice"), guild.Unresponsive)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		w.wantState(alice.service("alice"), guild.Seen)
		last := w.Journal.Last()
		time.Sleep(time.Hour)
		if w.Journal.Last() != last {
			t.Error("the end of the quarantine is recorded again")
		}
	})
}

func TestVerdictMovesProvider(t *testing.T) {
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
		{"nothing follows a violation", []func(nostr.ID) fact.Fact{judged(guild.Violation, 0), judged(guild.Success, 900_000), silent}, guild.Removed},
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

// Section 3.2.3 of the partnership protocol: one attempt gives a provisional status, three of a kind fix it, other mixes
// extend to five.
func TestFirstDeliveriesGiveProvisionalState(t *testing.T) {
	for _, c := range []struct {
		name  string
		ends  []func(nostr.ID) fact.Fact
		state guild.ProviderState
		want  bool
	}{
		{"one success", repeat(1, well), guild.Active, true},
		{"two successes", repeat(2, well), guild.Active, true},
		{"three successes", repeat(3, well), guild.Active, false},
		{"three in part", repeat(3, parted), guild.Conditional, false},
		{"two successes and a failure", append(repeat(2, well), badly), guild.Warned, true},
		{"a success after a failure after two", append(repeat(2, well), badly, well), guild.Active, true},
		{"five, three of them successes", append(repeat(2, well), badly, well, parted), guild.Active, false},
		{"three successes after a failure", append([]func(nostr.ID) fact.Fact{well, badly}, repeat(3, well)...), guild.Active, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := newWorld(t), newProvider(1).service("alice")
				w.works(s, c.ends...)
				w.wantState(s, c.state)
				if got := w.fold.Provider(s).Provisional; got != c.want {
					t.Errorf("provisional is %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestBenchmarkOrOwnerFixesProvisionalState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice, bob := newWorld(t), newProvider(1).service("alice"), newProvider(2).service("bob")
		w.works(alice, well)
		w.works(bob, well)
		w.meets(alice, guild.Active, well, well, well)
		if _, err := w.Set(t.Context(), bob.PubKey, &bob.D, Force, "it is known"); err != nil {
			t.Fatal(err)
		}
		for _, s := range []guild.Service{alice, bob} {
			if p := w.fold.Provider(s); p.State != guild.Active || p.Provisional {
				t.Errorf("%s: %+v", s.D, p)
			}
		}
	})
}

func TestUnverifiedMovesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.partner(1)
		before := len(w.fold.Story(s))
		for _, o := range []guild.Outcome{guild.Success, guild.Partial, guild.Failure} {
			w.attempt(s, func(id nostr.ID) fact.Fact {
				return fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: o, Strength: guild.Unverified}}
			})
		}
		w.wantState(s, guild.Active)
		if got := len(w.fold.Story(s)); got != before || w.leftover() != 0 {
			t.Errorf("%d transitions, want %d", got, before)
		}
	})
}

func TestRejectedIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		w.attempt(alice.service("alice"), judged(guild.Failure, 0))
		w.sleep(cooldown - time.Millisecond)
		w.wantCheckup(alice.service("alice"), "")
		w.sleep(time.Millisecond)
		w.wantCheckup(alice.service("alice"), guild.PurposeRetry)
		w.wantState(alice.service("alice"), guild.Unqualified) // and it gets no work before it has passed
	})
}

func TestViolationRemovesKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, mallory := newWorld(t), newProvider(1)
		w.attempt(mallory.service("one"), silent) // its quarantine ends later
		w.attempt(mallory.service("two"), judged(guild.Violation, 0))
		w.announces(mallory, python("three"))
		last := w.Journal.Last()
		time.Sleep(quiet + time.Minute)
		synctest.Wait()
		for _, d := range []string{"one", "two", "three"} {
			w.wantState(mallory.service(d), guild.Removed)
		}
		if got := w.offers("python")[0].State; got != guild.Removed {
			t.Errorf("offered as %s, want removed", got)
		}
		if w.Journal.Last() != last || len(w.Due(time.Now())) != 0 {
			t.Errorf("%d moves are still due for a removed provider", len(w.Due(time.Now())))
		}
	})
}

func TestCustomerEndsMoveNobody(t *testing.T) {
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

func TestFoldSnapshot(t *testing.T) {
	foldtest.GoesOn(t, newFold, history, nil)
}

func TestBadSnapshot(t *testing.T) {
	f := newFold()
	f.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{fact.ProviderMoved{Service: newProvider(1).service("x"), To: guild.Active}}})
	foldtest.Refuses(t, f, foldtest.Partial(t, f)...)
}

func TestKnownServices(t *testing.T) {
	f, bob := newFold(), newProvider(2).service("bob")
	asked := newProvider(1).service("alice")
	f.Apply(fact.Entry{Facts: []fact.Fact{fact.AttemptPlanned{Attempt: nostr.ID{1}, Provider: asked, Choice: &fact.Choice{Candidates: []fact.Candidate{
		{Service: bob, Name: "Bob"}, {Service: asked, Name: "Alice"}}}}}})
	if all := f.Known(); len(all) != 1 || all[0] != asked {
		t.Errorf("facts are about %v, want %v", all, asked)
	}
	if all := f.Services(); len(all) != 0 {
		t.Errorf("something was decided about %v", all)
	}
	if name := f.Standing(asked).Name; name != "Alice" {
		t.Errorf("name %q, want Alice", name)
	}
	if name := f.Standing(bob).Name; name != "" {
		t.Errorf("name %q of a service that was never asked", name)
	}
}
