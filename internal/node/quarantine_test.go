package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/step/judge"
	"guild/internal/step/work"
)

// dueOf returns the effects that sources make due now, without quarantined ones.
func (n *Node) dueOf(sources []due.Source) (keys []string) {
	now := time.Now()
	for _, source := range sources {
		for _, w := range source(now) {
			if !n.journal.Held(w.Guard) && !w.Ready.After(now) {
				keys = append(keys, fmt.Sprintf("%s under %s", w.Key, w.Guard))
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// lose copies the data of a stopped node without its blobs, removes an entry and repairs the copy.
func lose(t *testing.T, dir string, seq uint64) (left string, r Repaired) {
	t.Helper()
	return repairedAfter(t, dir, func(journal string) { journaltest.Lose(t, journal, seq) })
}

func repairedAfter(t *testing.T, dir string, damage func(journal string)) (left string, r Repaired) {
	t.Helper()
	left = journaltest.Dir(t)
	if err := os.CopyFS(filepath.Join(left, "journal"), os.DirFS(filepath.Join(dir, "journal"))); err != nil {
		t.Fatal(err)
	}
	damage(filepath.Join(left, "journal"))
	r, err := Repair(t.Context(), Config{Dir: left, Now: time.Now, NoSync: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return left, r
}

// A missing entry in the history of the learning steps must not make anything due that was not due before, under any
// guard.
func TestLostEntryMakesNothingDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, blobs := initialised(t), &server{blobs: map[guild.Hash][]byte{}}
		l := newLearner(t, dir, blobs)
		l.run()
		l.hear(beganAt())
		entries := l.live(learning(), 0).entries
		l.end()
		l = newLearner(t, dir, blobs)
		l.hear(beganAt())
		intact := l.dueOf(l.steps)
		l.end()
		step := max(1, len(entries)/deaths)
		if soaking() {
			step = 1
		}
		for i := 0; i < len(entries); i += step {
			e := entries[i]
			left, r := lose(t, dir, e.Seq)
			if e.Subject != fact.JournalSubject && !slices.Equal(r.Quarantined, []fact.Subject{e.Subject}) {
				t.Errorf("entry %d of %s: in quarantine are %v", e.Seq, e.Subject, r.Quarantined)
			}
			l := newLearner(t, left, blobs)
			l.hear(beganAt())
			for _, key := range l.dueOf(l.steps) {
				if !slices.Contains(intact, key) {
					t.Errorf("without entry %d of %s, %s: due is %s", e.Seq, e.Subject, e.Facts[0].Type(), key)
				}
			}
			l.end()
		}
	})
}

// home is a node that can be stopped and started again.
type home struct {
	c       Config
	entries []fact.Entry // the entries when it was last stopped
}

func newHome(t *testing.T, relay string, workers ...Worker) *home {
	t.Helper()
	secret := key.NewSecret(nostr.Generate())
	return &home{c: Config{
		Dir: initialised(t), Socket: socket(t), Identity: key.Identity{Signer: key.NewSigner(secret), PubKey: secret.PubKey()}, NoSync: true,
		Relays: []string{relay}, Version: "test", Workers: workers, Log: slog.New(slog.DiscardHandler),
		Examine: func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
			return guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Strength: guild.Strong, Tier: "none", Expected: 1, Passed: 1}, judge.Evidence("fine"), nil
		},
	}}
}

// up runs the node until it is stopped.
func (h *home) up(t *testing.T) (client *control.Client, stop func()) {
	t.Helper()
	ready, c := make(chan struct{}), h.c
	c.Ready = func(Ready) { close(ready) }
	end := run(t, func(ctx context.Context) error { return Run(ctx, c) })
	select {
	case <-ready:
	case <-time.After(ample):
		t.Fatal("the node is not ready")
	}
	return control.Dial(c.Socket), func() {
		end()
		h.entries = h.read(t)
	}
}

// read returns the whole journal of the stopped node.
func (h *home) read(t *testing.T) (all []fact.Entry) {
	t.Helper()
	j, err := journal.Open(t.Context(), journal.Options{Dir: filepath.Join(h.c.Dir, "journal"), Now: time.Now, Log: h.c.Log})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range j.Entries(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}

// losing returns a copy of the node that lost an entry and was repaired.
func (h *home) losing(t *testing.T, seq uint64) (*home, Repaired) {
	t.Helper()
	left, r := lose(t, h.c.Dir, seq)
	if err := os.CopyFS(filepath.Join(left, "blob"), os.DirFS(filepath.Join(h.c.Dir, "blob"))); err != nil {
		t.Fatal(err)
	}
	c := h.c
	c.Dir = left
	return &home{c: c}, r
}

// due returns the effects that are due when the node starts.
func (h *home) due(t *testing.T) []string {
	t.Helper()
	n := &Node{c: h.c.withDefaults()}
	n.started = n.c.Now()
	if err := n.open(t.Context()); err != nil {
		t.Fatal(errors.Join(err, n.close()))
	}
	sources := n.runner.Sources
	for _, l := range n.runner.Large {
		sources = append(sources, l.All)
	}
	keys := n.dueOf(sources)
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
	return keys
}

// traded returns a customer and a provider that are stopped after two jobs.
func traded(t *testing.T, relay string) (customer, provider *home, jobs []control.Job) {
	t.Helper()
	provider, customer = newHome(t, relay, Worker{Task: "echo", Do: echo}), newHome(t, relay)
	_, closeShop := provider.up(t)
	client, leave := customer.up(t)
	for _, private := range []bool{false, true} {
		job := hire(t, client, control.Hire{Private: private})
		if job.Ending != guild.JobAccepted || len(job.Attempts) != 1 {
			t.Fatalf("%+v", job)
		}
		jobs = append(jobs, job)
	}
	leave()
	closeShop()
	return customer, provider, jobs
}

func TestFinishedJobsAreNotRepeated(t *testing.T) {
	customer, provider, _ := traded(t, startRelay(t))
	for what, h := range map[string]*home{"customer": customer, "provider": provider} {
		intact := h.due(t)
		for _, e := range h.entries {
			left, r := h.losing(t, e.Seq)
			if e.Subject != fact.JournalSubject && !slices.Equal(r.Quarantined, []fact.Subject{e.Subject}) {
				t.Errorf("%s, entry %d of %s: in quarantine are %v", what, e.Seq, e.Subject, r.Quarantined)
			}
			for _, key := range left.due(t) {
				if !slices.Contains(intact, key) {
					t.Errorf("%s, without entry %d of %s, %s: due is %s", what, e.Seq, e.Subject, e.Facts[0].Type(), key)
				}
			}
		}
	}
}

// entryOf returns the entry with a fact under a guard.
func entryOf[F fact.Fact](t *testing.T, h *home, guard fact.Subject) uint64 {
	t.Helper()
	for _, e := range h.entries {
		for _, f := range e.Facts {
			if _, ok := f.(F); ok && e.Subject == guard {
				return e.Seq
			}
		}
	}
	var none F
	t.Fatalf("%s has no %s", guard, none.Type())
	return 0
}

// about counts the entries of a guard, and the changes of trust for its job.
func (h *home) about(guard fact.Subject) (entries, changes int) {
	for _, e := range h.entries {
		if e.Subject == guard {
			entries++
		}
		for _, f := range e.Facts {
			if f, ok := f.(fact.TrustChanged); ok && fact.JobSubject(f.Job) == guard {
				changes++
			}
		}
	}
	return entries, changes
}

func TestNodeAfterRepair(t *testing.T) {
	relay := startRelay(t)
	customer, provider, jobs := traded(t, relay)
	observer := newPeer(t, relay)
	_, closeShop := provider.up(t)
	defer closeShop()
	guard := fact.Subject("job." + jobs[0].ID)
	asked, _ := observer.stored(5000)
	for what, seq := range map[string]uint64{
		"planned": entryOf[fact.AttemptPlanned](t, customer, guard), "delivered": entryOf[fact.AttemptDelivered](t, customer, guard),
		"judged": entryOf[fact.AttemptJudged](t, customer, guard), "recorded": entryOf[fact.AttemptRecorded](t, customer, guard),
		"closed": entryOf[fact.JobClosed](t, customer, guard),
	} {
		left, r := customer.losing(t, seq)
		if len(r.Jobs) != 1 || r.Jobs[0].Job.String() != jobs[0].ID || r.Jobs[0].Title != jobs[0].Title || !r.Jobs[0].Known {
			t.Errorf("%s: the report names %+v", what, r.Jobs)
		}
		client, leave := left.up(t)
		job, err := control.OneJob.Call(t.Context(), client, jobs[0].ID)
		if err != nil || !job.Quarantined {
			t.Errorf("%s: %+v, %v", what, job, err)
		}
		if other, err := control.OneJob.Call(t.Context(), client, jobs[1].ID); err != nil || other.Quarantined {
			t.Errorf("%s: %+v, %v", what, other, err)
		}
		if s, err := control.NodeStatus.Call(t.Context(), client); err != nil || !slices.Equal(s.Quarantined, []string{string(guard)}) {
			t.Errorf("%s: status lists %v, %v", what, s.Quarantined, err)
		}
		if _, err := control.ReceiptExport.Call(t.Context(), client, jobs[1].ID); err != nil {
			t.Errorf("%s: what the last seal covered cannot be proven any more: %v", what, err)
		}
		if next := hire(t, client, control.Hire{}); next.Ending != guild.JobAccepted {
			t.Errorf("%s: another job is %+v", what, next)
		}
		leave()
		wantEntries, wantChanges := customer.about(guard)
		if entries, changes := left.about(guard); entries != wantEntries-1 || changes != wantChanges {
			t.Errorf("%s: %d entries and %d changes of trust, want %d and %d", what, entries, changes, wantEntries-1, wantChanges)
		}
		before := len(asked)
		if asked, _ = observer.stored(5000); len(asked) != before+1 {
			t.Errorf("%s: %d more requests at the relay, want that of the other job", what, len(asked)-before)
		}
	}
}

// A person closes a job in quarantine by cancelling it. Nothing is asked, judged or learned again, then or after a restart.
func TestClosedJobInQuarantineEnds(t *testing.T) {
	relay := startRelay(t)
	customer, _, jobs := traded(t, relay)
	observer := newPeer(t, relay)
	guard := fact.Subject("job." + jobs[0].ID)
	asked, _ := observer.stored(5000)
	deleted, _ := observer.stored(5)
	for what, c := range map[string]struct {
		seq    uint64
		ending guild.Ending
	}{
		"planned":   {entryOf[fact.AttemptPlanned](t, customer, guard), guild.JobAccepted},
		"requested": {entryOf[fact.AttemptRequested](t, customer, guard), guild.JobAccepted},
		"judged":    {entryOf[fact.AttemptJudged](t, customer, guard), guild.JobAccepted},
		"recorded":  {entryOf[fact.AttemptRecorded](t, customer, guard), guild.JobAccepted},
		"closed":    {entryOf[fact.JobClosed](t, customer, guard), guild.JobCancelled},
	} {
		left, _ := customer.losing(t, c.seq)
		intact := left.due(t)
		client, leave := left.up(t)
		if what == "closed" {
			_, err := control.DisputeJob.Call(t.Context(), client, control.Reason{Reason: "doubtful"}, jobs[0].ID)
			problem, ok := errors.AsType[*control.ProblemError](err)
			if !ok || problem.Problem.Code != "quarantined" || !strings.Contains(problem.Hint(), "guild journal release "+string(guard)) {
				t.Errorf("disputed: %v", err)
			}
		}
		for range 2 {
			job, err := control.CancelJob.Call(t.Context(), client, jobs[0].ID)
			if err != nil || job.Ending != c.ending || job.Quarantined {
				t.Errorf("%s: %+v, %v", what, job, err)
			}
		}
		if job := finish(t, client, jobs[0].ID); job.Ending != c.ending {
			t.Errorf("%s: its watch ends with %+v", what, job)
		}
		if s, err := control.NodeStatus.Call(t.Context(), client); err != nil || len(s.Quarantined) != 0 {
			t.Errorf("%s: status lists %v, %v", what, s.Quarantined, err)
		}
		if _, err := control.ReleaseGuards.Call(t.Context(), client, control.Releasing{Guards: []string{string(guard)}}); err == nil {
			t.Errorf("%s: it was released after it was closed", what)
		}
		if released, err := control.ReleaseGuards.Call(t.Context(), client, control.Releasing{All: true}); err != nil || len(released) != 0 {
			t.Errorf("%s: released %+v, %v", what, released, err)
		}
		leave()
		_, wantChanges := customer.about(guard)
		if _, changes := left.about(guard); changes != wantChanges {
			t.Errorf("%s: %d changes of trust, want %d", what, changes, wantChanges)
		}
		for _, key := range left.due(t) {
			if !slices.Contains(intact, key) {
				t.Errorf("%s: due is %s", what, key)
			}
		}
	}
	if now, _ := observer.stored(5000); len(now) != len(asked) {
		t.Errorf("%d requests at the relay, want %d", len(now), len(asked))
	}
	if now, _ := observer.stored(5); len(now) != len(deleted) {
		t.Errorf("%d deletions at the relay, want %d", len(now), len(deleted))
	}
}

func TestReleasedJobContinues(t *testing.T) {
	customer, _, jobs := traded(t, startRelay(t))
	guard := "job." + jobs[0].ID
	left, _ := customer.losing(t, entryOf[fact.JobClosed](t, customer, fact.Subject(guard)))
	client, _ := left.up(t)
	for _, how := range []control.Releasing{{}, {Guards: []string{"job.none"}}, {Guards: []string{guard}, All: true}} {
		_, err := control.ReleaseGuards.Call(t.Context(), client, how)
		if problem, ok := errors.AsType[*control.ProblemError](err); !ok || problem.Hint() != "in quarantine: "+guard {
			t.Errorf("%+v: %v", how, err)
		}
	}
	released, err := control.ReleaseGuards.Call(t.Context(), client, control.Releasing{Guards: []string{guard[:12]}})
	if err != nil || len(released) != 1 || released[0].Guard != guard || released[0].Job == nil || released[0].Job.Quarantined {
		t.Fatalf("%+v, %v", released, err)
	}
	if job := finish(t, client, jobs[0].ID); job.Ending != guild.JobAccepted || job.Quarantined {
		t.Errorf("%+v", job)
	}
}

// Events for a quarantined job are dropped, and other events do not wait for them.
func TestEventForQuarantinedJobIsDropped(t *testing.T) {
	customer, provider, jobs := traded(t, startRelay(t))
	request, err := nostr.IDFromHex(jobs[0].Attempts[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	guard := fact.RequestSubject(request)
	left, r := provider.losing(t, entryOf[fact.RequestReceived](t, provider, guard))
	if len(r.Jobs) != 0 {
		t.Errorf("the report names %+v", r.Jobs)
	}
	shop, closeShop := left.up(t)
	client, _ := customer.up(t)
	if job := hire(t, client, control.Hire{}); job.Ending != guild.JobAccepted {
		t.Errorf("%+v", job)
	}
	eventually(t, "the request is dropped", func() bool {
		s, err := control.NodeStatus.Call(t.Context(), shop)
		return err == nil && s.Dropped["in quarantine"] > 0
	})
	closeShop()
	want, _ := provider.about(guard)
	if entries, _ := left.about(guard); entries != want-1 {
		t.Errorf("%d entries, want %d", entries, want-1)
	}
}

// A command that runs its own node for one job does not wait for a job in quarantine.
func TestIdleNodeEndsDespiteQuarantine(t *testing.T) {
	customer, _, jobs := traded(t, startRelay(t))
	left, _ := customer.losing(t, entryOf[fact.JobClosed](t, customer, fact.Subject("job."+jobs[0].ID)))
	quit := make(chan struct{})
	close(quit)
	left.c.Quit = quit
	ctx, cancel := context.WithTimeout(t.Context(), ample)
	defer cancel()
	if err := Run(ctx, left.c); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

// Entries lost at the end of a journal leave no trace of their guards. So every guard is quarantined except the
// finished ones.
func TestLostEndKeepsFinishedJobs(t *testing.T) {
	customer, provider, jobs := traded(t, startRelay(t))
	first, second := fact.Subject("job."+jobs[0].ID), fact.Subject("job."+jobs[1].ID)
	planned := entryOf[fact.AttemptPlanned](t, customer, second) // in a separate entry, after the one that opened the job
	_, r := repairedAfter(t, customer.c.Dir, func(journal string) { journaltest.CutOff(t, journal, planned+1) })
	for guard, want := range map[fact.Subject]bool{first: false, second: true, fact.TrustSubject("echo"): true, fact.JournalSubject: false} {
		if got := slices.Contains(r.Quarantined, guard); got != want {
			t.Errorf("%s in quarantine: %v, want %v", guard, got, want)
		}
	}
	if len(r.Jobs) != 1 || r.Jobs[0].Ending != guild.Open || !r.Jobs[0].Known {
		t.Errorf("the report names %+v", r.Jobs)
	}
	n := &Node{c: provider.c.withDefaults()}
	if err := n.openJournal(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	defer n.close()
	for guard, want := range map[fact.Subject]bool{
		"request." + fact.Subject(jobs[0].Attempts[0].ID): true, "request." + fact.Subject(strings.Repeat("0", 64)): false,
		"request.x": false, first: false, fact.TrustSubject("echo"): false,
	} {
		if got := foldOf[*work.Fold](n).Finished(guard); got != want {
			t.Errorf("%s finished: %v, want %v", guard, got, want)
		}
	}
}
