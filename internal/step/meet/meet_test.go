package meet

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
	"guild/internal/judging/suite"
	"guild/internal/step/steptest"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// key returns a public key by its number.
func key(n byte) nostr.PubKey { return nostr.SecretKey{31: n}.Public() }

var self = key(9)

func service(n byte) guild.Service { return guild.Service{PubKey: key(n), D: "solver"} }

// seen returns an offer of a service that was never tried.
func seen(n byte, confidence float64) guild.Offer {
	return guild.Offer{Service: service(n), State: guild.Seen, Confidence: confidence}
}

// world is a journal with the step. It also stands in for the rest of the node: it has offers and opens jobs.
type world struct {
	*steptest.World
	*Meet
	fold   *Fold
	config Config

	mu     sync.Mutex
	offers map[string][]guild.Offer // by task
	opened []Run
	looks  int
}

func newWorld(t *testing.T, c Config) *world {
	t.Helper()
	w := &world{World: steptest.New(t), config: c, offers: map[string][]guild.Offer{}}
	w.open()
	return w
}

// open opens the journal and creates the step.
func (w *world) open() {
	w.Helper()
	w.fold = NewFold()
	w.OpenJournal(w.fold)
	c := w.config
	c.Journal, c.Self, c.Now = w.Journal, self, time.Now
	if c.Secret == nil {
		c.Secret = []byte("secret")
	}
	c.Kind = guild.KindOf
	c.OffersOf = func(p nostr.PubKey, _ string, _ int) (all []guild.Offer) {
		for _, offers := range w.offers {
			for _, o := range offers {
				if o.Service.PubKey == p {
					o.Confidence = 0
					all = append(all, o)
				}
			}
		}
		return all
	}
	c.Offers = func(task string, _ int) iter.Seq[guild.Offer] {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.looks++
		return slices.Values(slices.Clone(w.offers[task]))
	}
	c.Run = w.benchmark
	w.Meet = New(c, w.fold)
}

// looked counts the calls of Offers since its own last call.
func (w *world) looked() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, w.looks = w.looks, 0
	return n
}

// benchmark opens a job as jobs does: calling it again opens no second one.
func (w *world) benchmark(ctx context.Context, r Run) error {
	w.mu.Lock()
	w.opened = append(w.opened, r)
	w.mu.Unlock()
	return w.Journal.Do(ctx, fact.JobSubject(r.Job), "", func(tx *journal.Tx) error {
		for _, m := range w.fold.All() {
			if slices.ContainsFunc(m.Runs, func(known Result) bool { return known.Job == r.Job }) {
				return nil
			}
		}
		tx.Append(fact.JobOpened{Job: r.Job, Task: r.Task, Bid: r.Bid, Meeting: &r.Meeting})
		return nil
	})
}

// attempt returns the id of the only attempt of a job.
func attempt(job guild.JobID) nostr.ID { return nostr.ID(append(job[:], job[:]...)) }

// planned returns the fact that plans the attempt of a job.
func planned(job guild.JobID) fact.Fact {
	return fact.AttemptPlanned{Attempt: attempt(job), Job: job, Provider: service(1), Request: nostr.Event{PubKey: self}}
}

// life returns the facts of a job that ends with a verdict.
func life(job guild.JobID, v guild.Verdict) []fact.Fact {
	return []fact.Fact{
		planned(job),
		fact.AttemptProgressed{Attempt: attempt(job)},
		fact.AttemptJudged{Attempt: attempt(job), Verdict: v},
		fact.JobClosed{Job: job, Ending: guild.JobAccepted},
	}
}

// writeEach appends facts about a job, each as an entry of its own.
func (w *world) writeEach(job guild.JobID, facts ...fact.Fact) {
	w.Helper()
	for _, f := range facts {
		w.Write(fact.JobSubject(job), f)
	}
}

// pending returns the run that waits for the provider.
func (w *world) pending() (r Result, n int, ok bool) {
	for _, m := range w.fold.underWay() {
		for i, r := range m.Runs {
			if r.Closed == 0 {
				return r, i + 1, true
			}
		}
	}
	return Result{}, 0, false
}

func (w *world) only() *Meeting {
	w.Helper()
	all := w.fold.All()
	if len(all) != 1 {
		w.Fatalf("%d meetings", len(all))
	}
	return all[0]
}

func success950() guild.Verdict { return guild.Verdict{Outcome: guild.Success, Score: 950_000} }

func TestMeetCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Auto: true})
		w.offers["python"] = []guild.Offer{seen(1, 1)}
		w.Run(w.Due)
		for range 3 {
			synctest.Wait()
			r, _, ok := w.pending()
			if !ok {
				t.Fatal("no run is under way")
			}
			w.writeEach(r.Job, life(r.Job, success950())...)
		}
		synctest.Wait()
		m := w.only()
		if m.Ended == nil || m.Ended.To != guild.Active || m.Ended.Score != 950_000 || m.Ended.Runs != 3 || m.Asked {
			t.Errorf("%+v", m.Ended)
		}
		if m.Bid != 1000 || m.Task != "python" || m.Kind != 5000 || m.Suite != "python-v2" || m.Variant != "standard" ||
			!slices.Equal(m.Modules, suite.Modules) || m.Service != service(1) {
			t.Errorf("%+v", m.MeetingBegan)
		}
		if len(w.opened) != 3 {
			t.Fatalf("%d jobs", len(w.opened))
		}
		for i, r := range w.opened {
			if r.Job != jobOf(m.Meeting, i+1) || r.Meeting.Run != i+1 || *r.Meeting.Service != service(1) || r.Meeting.Limit == 0 || len(r.Hidden) == 0 ||
				i > 0 && bytes.Equal(r.Bundle, w.opened[i-1].Bundle) {
				t.Errorf("run %d: %+v", i+1, r.Meeting)
			}
		}
	})
}

func TestUnverifiedRunTeachesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Auto: true})
		w.offers["python"] = []guild.Offer{seen(1, 1)}
		w.Run(w.Due)
		synctest.Wait()
		r, _, ok := w.pending()
		if !ok {
			t.Fatal("no run is under way")
		}
		v := success950()
		v.Strength = guild.Unverified
		w.writeEach(r.Job, life(r.Job, v)...)
		synctest.Wait()
		if m := w.only(); m.Ended == nil || m.Ended.To != "" || m.Ended.Score != 0 {
			t.Errorf("%+v", m.Ended)
		}
	})
}

func TestSilenceAfterAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(id nostr.ID) []fact.Fact
		want grade
	}{
		{"no answer at all", func(id nostr.ID) []fact.Fact {
			return []fact.Fact{fact.AttemptExpired{Attempt: id, Silent: true, Reason: "no answer"}}
		}, nothing},
		{"it took the work and never delivered", func(id nostr.ID) []fact.Fact {
			return []fact.Fact{fact.AttemptProgressed{Attempt: id}, fact.AttemptExpired{Attempt: id, Reason: "silent for too long"}}
		}, failure},
		{"at capacity", func(id nostr.ID) []fact.Fact {
			return []fact.Fact{fact.AttemptRefused{Attempt: id, Later: true, Reason: "busy"}}
		}, nothing},
		{"an answer against the protocol", func(id nostr.ID) []fact.Fact { return []fact.Fact{fact.AttemptRefused{Attempt: id, Fault: true}} }, failure},
		{"trouble of our own", func(id nostr.ID) []fact.Fact { return []fact.Fact{fact.AttemptParked{Attempt: id, Reason: "no relay"}} }, nothing},
		{"cancelled by a person", func(id nostr.ID) []fact.Fact { return []fact.Fact{fact.AttemptCancelled{Attempt: id}} }, nothing},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := NewFold()
			job := jobOf("m", 1)
			facts := []fact.Fact{fact.MeetingBegan{Meeting: "m", Service: service(1), Task: "python"},
				fact.JobOpened{Job: job, Meeting: &fact.Benchmark{Meeting: "m", Run: 1}}, planned(job)}
			facts = append(append(facts, c.end(attempt(job))...), fact.JobClosed{Job: job, Ending: guild.JobUnclaimed, Reason: "no more tries"})
			for i, one := range facts {
				f.Apply(fact.Entry{Seq: uint64(i + 1), At: int64(i + 1), Facts: []fact.Fact{one}})
			}
			m, _ := f.Meeting("m")
			if got := m.Runs[0]; got.grade() != c.want || got.Cause == "" || got.Closed == 0 {
				t.Errorf("%+v", got)
			}
			if n := fold.Read(f.State, func(s *state) int { return s.Jobs.Len() + s.Attempts.Len() }); n != 0 {
				t.Errorf("left over: %s", foldtest.Snapshot(t, f))
			}
		})
	}
}

// The recommended one is met first, then the two that were seen first, then by chance the one that is left.
func TestNewcomersInOrder(t *testing.T) {
	w := newWorld(t, Config{Auto: true})
	recommended := seen(3, 0.8)
	recommended.Recommended = 2
	tried, waiting, gone := seen(6, 1), seen(7, 1), seen(8, 1)
	tried.State, gone.State = guild.Active, guild.Removed
	waiting.Until = time.Now().Add(time.Hour).UnixMilli()
	mine := seen(10, 1)
	mine.Service.PubKey = self
	second, third, first := seen(2, 0.8), seen(4, 0.6), seen(1, 1)
	first.First, second.First, third.First = 1000, 2000, 3000
	w.offers["benchmark-task"] = []guild.Offer{third, second, recommended, tried, waiting, gone, mine}
	w.offers["shell"] = []guild.Offer{first}
	var order []byte
	people := map[nostr.PubKey]byte{}
	for n := range byte(20) {
		people[key(n+1)] = n + 1
	}
	for {
		began, ok := w.candidate(time.Now())
		if !ok {
			break
		}
		order = append(order, people[began.Service.PubKey])
		w.writeEach(guild.JobID{}, began, fact.MeetingEnded{Meeting: began.Meeting, Service: began.Service})
	}
	if !slices.Equal(order, []byte{3, 1, 2, 4}) {
		t.Errorf("met in the order %v", order)
	}
}

func TestOrderIsUnpredictable(t *testing.T) {
	offers := make([]guild.Offer, 20)
	for n := range offers {
		offers[n] = seen(byte(n+1), 1)
	}
	first := map[guild.Service]bool{}
	for secret := range byte(8) {
		m := New(Config{Secret: []byte{secret}, Now: time.Now, Self: self, Kind: guild.KindOf,
			Offers: func(string, int) iter.Seq[guild.Offer] { return slices.Values(offers) }}, NewFold())
		one, ok := m.candidate(time.Now())
		slices.Reverse(offers)
		again, _ := m.candidate(time.Now())
		if !ok || again.Service != one.Service {
			t.Errorf("%v, then %v", one.Service, again.Service)
		}
		first[one.Service] = true
	}
	if len(first) < 3 {
		t.Errorf("eight nodes begin with the same %d services", len(first))
	}
}

func TestSuiteChangedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		for task, name := range map[string]string{"python": "python-v0", "cobol": "cobol-v1"} {
			began := w.meeting(guild.Offer{Service: service(1)}, task)
			began.Suite = name
			w.writeEach(guild.JobID{1}, began)
			job := jobOf(began.Meeting, 1)
			w.writeEach(job, append([]fact.Fact{fact.JobOpened{Job: job, Meeting: &fact.Benchmark{Meeting: began.Meeting, Run: 1}}}, life(job, success950())...)...)
		}
		w.Run(w.Due)
		synctest.Wait()
		for _, m := range w.fold.All() {
			if m.Ended == nil || m.Ended.To != "" || m.Ended.Runs != 1 || !strings.Contains(m.Ended.Cause, m.Suite) {
				t.Errorf("%s: %+v", m.Suite, m.Ended)
			}
		}
		if len(w.opened) != 0 {
			t.Errorf("%d more runs", len(w.opened))
		}
	})
}

func TestOffersAreReadRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Auto: true})
		w.Run(w.Due)
		synctest.Wait()
		first := w.looked()
		for n := range 200 {
			w.writeEach(guild.JobID{byte(n)}, fact.JobCancelled{})
			w.OffersChanged()
			time.Sleep(10 * time.Millisecond)
		}
		tasks := len(suite.Tasks())
		if more := w.looked(); first != tasks || more > tasks {
			t.Errorf("looked %d times, then %d: want once for each task", first, more)
		}
		time.Sleep(time.Minute) // the last search
		w.looked()
		w.mu.Lock()
		w.offers["python"] = []guild.Offer{seen(1, 1)}
		w.mu.Unlock()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if n := w.looked(); n == 0 || n > 3*tasks || len(w.fold.All()) != 1 {
			t.Errorf("looked %d times, %d meetings", n, len(w.fold.All()))
		}
	})
}

func TestNewOffersAreReadSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Auto: true})
		w.Run(w.Due)
		synctest.Wait()
		w.mu.Lock()
		w.offers["python"] = []guild.Offer{seen(1, 1)}
		w.mu.Unlock()
		w.OffersChanged()
		w.writeEach(guild.JobID{1}, fact.JobCancelled{}) // any fact wakes the runner
		time.Sleep(soon + 2*time.Second)
		synctest.Wait()
		if len(w.fold.All()) != 1 {
			t.Error("no meeting")
		}
	})
}

func TestPauseAfterMeeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Auto: true})
		w.offers["python"] = []guild.Offer{seen(1, 1)}
		w.Run(w.Due)
		synctest.Wait()
		r, _, _ := w.pending()
		w.writeEach(r.Job, planned(r.Job), fact.AttemptRefused{Attempt: attempt(r.Job), Later: true, Reason: "busy"},
			fact.JobClosed{Job: r.Job, Ending: guild.JobUnclaimed})
		synctest.Wait()
		if m := w.only(); m.Ended == nil || m.Ended.To != "" || m.Ended.Cause != "busy" {
			t.Fatalf("%+v", m.Ended)
		}
		time.Sleep(again - time.Minute)
		w.only()
		time.Sleep(3 * time.Minute)
		if n := len(w.fold.All()); n != 2 {
			t.Errorf("%d meetings after a day", n)
		}
	})
}

func TestPauseGrows(t *testing.T) {
	f, offers := NewFold(), []guild.Offer{seen(1, 1)}
	m := New(Config{Self: self, Secret: []byte("secret"), Kind: guild.KindOf, Now: time.Now, Offers: func(task string, _ int) iter.Seq[guild.Offer] {
		if task != "python" {
			return slices.Values[[]guild.Offer](nil)
		}
		return slices.Values(offers)
	}}, f)
	now, seq := time.Now(), uint64(0)
	apply := func(facts ...fact.Fact) {
		seq++
		f.Apply(fact.Entry{Seq: seq, At: now.UnixMilli(), Subject: fact.JobSubject(guild.JobID{}), Facts: facts})
	}
	for _, days := range []int{1, 2, 4, 8, 16, 32, 32} {
		began, ok := m.candidate(now)
		if !ok {
			t.Fatalf("not met again before a pause of %d days", days)
		}
		apply(began)
		apply(fact.MeetingEnded{Meeting: began.Meeting, Service: began.Service, Cause: "busy"})
		now = now.Add(time.Duration(days)*24*time.Hour - time.Minute)
		if _, ok := m.candidate(now); ok {
			t.Errorf("met again within %d days", days)
		}
		now = now.Add(time.Minute)
	}
	began, _ := m.candidate(now)
	apply(began)
	apply(fact.MeetingEnded{Meeting: began.Meeting, Service: began.Service, To: guild.Active})
	if last := f.last(began.Service); last.Vain != 0 || last.pause() != again {
		t.Errorf("after something was learned it is left alone for %s", last.pause())
	}
}

func TestAutoOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		w.offers["python"] = []guild.Offer{seen(1, 1)}
		w.Run(w.Due)
		time.Sleep(time.Hour)
		if n := w.looked(); n != 0 || len(w.fold.All()) != 0 {
			t.Errorf("looked %d times, %d meetings", n, len(w.fold.All()))
		}
	})
}

func TestBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Count: 1, Daily: 1})
		active, removed := seen(1, 1), seen(2, 1)
		active.State, removed.State = guild.Active, guild.Removed
		w.offers["python"] = []guild.Offer{active, removed}
		w.offers["shell"] = []guild.Offer{seen(3, 0.8), {Service: guild.Service{PubKey: key(1), D: "other"}, State: guild.Seen, Confidence: 0.8}}
		s, task, err := w.Find(key(1), nil, "")
		if err != nil || s != service(1) || task != "python" {
			t.Fatalf("%v %s %v", s, task, err)
		}
		other := "other"
		if s, task, err := w.Find(key(1), &other, ""); err != nil || s.D != "other" || task != "shell" {
			t.Errorf("%v %s %v", s, task, err)
		}
		id, err := w.Begin(t.Context(), s, task, "stress", []string{"io", "memory"})
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.Begin(t.Context(), s, task, "", nil)
		if err != nil || again != id {
			t.Errorf("a second meeting with the same service: %s, %v", again, err)
		}
		if m := w.only(); !m.Asked || m.Variant != "stress" || !slices.Equal(m.Modules, []string{"memory", "io"}) {
			t.Errorf("%+v", m)
		}
		for _, bad := range []struct {
			p    byte
			task string
			want error
		}{{2, "python", ErrRemoved}, {2, "shell", ErrRemoved}, {5, "shell", ErrUnoffered}, {3, "", nil}, {5, "", ErrUnoffered}, {9, "", ErrSelf}, {1, "cobol", suite.ErrUnknown}} {
			if _, _, err := w.Find(key(bad.p), nil, bad.task); !errors.Is(err, bad.want) {
				t.Errorf("%d %s: %v", bad.p, bad.task, err)
			}
		}
		if s, task, err := w.Find(key(3), nil, "python"); err != nil || s != service(3) || task != "python" {
			t.Errorf("whoever names the task gets it, although the provider offers shell: %v %s %v", s, task, err)
		}
		if _, err := w.Begin(t.Context(), service(3), "python", "", nil); err != nil {
			t.Error(err)
		}
		if _, err := w.Begin(t.Context(), service(2), "python", "", nil); !errors.Is(err, ErrRemoved) {
			t.Errorf("%v", err)
		}
		if _, err := w.Begin(t.Context(), s, task, "easy", nil); !errors.Is(err, suite.ErrUnknown) {
			t.Errorf("%v", err)
		}
	})
}

// TestKilledAtEveryFact restarts after every entry and does all due work twice, as a process does that was killed
// before it recorded what it did.
func TestKilledAtEveryFact(t *testing.T) {
	for _, c := range []struct {
		name     string
		verdicts []guild.Verdict
		want     guild.ProviderState
	}{
		{"three successes", []guild.Verdict{success950(), success950(), success950()}, guild.Active},
		{"three failures", []guild.Verdict{{Outcome: guild.Failure}, {Outcome: guild.Error}, {Outcome: guild.Failure}}, guild.Unqualified},
		{"five runs", []guild.Verdict{success950(), {Outcome: guild.Partial, Score: 700_000}, success950(), {Outcome: guild.Failure}, {Outcome: guild.Partial, Score: 650_000}}, guild.Conditional},
		{"a violation", []guild.Verdict{success950(), {Outcome: guild.Violation}}, guild.Removed},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{Auto: true})
			w.offers["python"] = []guild.Offer{seen(1, 1)}
			for entries := 0; ; entries++ {
				if entries > 100 {
					t.Fatal("the meeting does not end")
				}
				w.open()
				again := w.Due(time.Now()) // decided before the fact below was applied
				if _, acted := w.ActOnce(w.Due); acted {
					for _, work := range again {
						w.Act(work)
					}
					continue
				}
				r, n, ok := w.pending()
				if !ok {
					break
				}
				for _, f := range life(r.Job, c.verdicts[n-1]) {
					w.writeEach(r.Job, f)
					w.open()
					if f.Type() == "job.closed" {
						continue
					}
					if work, acted := w.ActOnce(w.Due); acted {
						t.Errorf("%s was due after %s", work.Key, f.Type())
					}
				}
			}
			m := w.only()
			if m.Ended == nil || m.Ended.To != c.want || len(m.Runs) != len(c.verdicts) || m.Ended.Runs != len(c.verdicts) {
				t.Errorf("%+v after %d runs, want %s after %d", m.Ended, len(m.Runs), c.want, len(c.verdicts))
			}
			jobs := map[guild.JobID][]byte{}
			for _, r := range w.opened {
				if first, known := jobs[r.Job]; known && !bytes.Equal(first, r.Bundle) {
					t.Errorf("run %d was asked for with two bundles", r.Meeting.Run)
				}
				jobs[r.Job] = r.Bundle
			}
			began, ended, opened := steptest.Facts[fact.MeetingBegan](w), steptest.Facts[fact.MeetingEnded](w), steptest.Facts[fact.JobOpened](w)
			if len(began) != 1 || len(ended) != 1 || len(opened) != len(c.verdicts) {
				t.Errorf("%v", w.FactTypes(""))
			}
		})
	}
}
