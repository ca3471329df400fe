package node

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/judging/suite"
	"guild/internal/market/registry"
	"guild/internal/policy"
	"guild/internal/step/backup"
	"guild/internal/step/meet"
	"guild/internal/step/partner"
	"guild/internal/step/review"
	"guild/internal/step/trust"
	"guild/internal/step/trust/exchange"
	"guild/internal/step/trust/variables"
	"guild/nip89"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == mcpServer {
		serveMCP(strings.Join(os.Args[2:], " "))
		return
	}
	flag.Parse()
	// The tests mostly wait for relays, retries and deadlines, so more of them run at once than there are processors.
	if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	journaltest.Main(m)
}

// soaking reports whether the tests run for "make soak": with every case, for as long as that takes.
func soaking() bool { return os.Getenv("GUILD_SOAK") != "" }

// deaths is the size of the sample.
const deaths = 15

// learner is a node in which the test replaces only the jobs, their judge and the relays. Everything that learns from
// them is real, with a real journal.
type learner struct {
	*testing.T
	*Node
	steps  []due.Source
	stop   func()
	server *server
}

// server stores blobs. It outlives a process.
type server struct {
	mu    sync.Mutex
	blobs map[guild.Hash][]byte
}

func (s *server) upload(_ context.Context, b []byte) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blobs[guild.Sum(b)] = b
	return []string{"https://ours.example/" + guild.Sum(b).Hex()}, nil
}

func (s *server) fetch(_ context.Context, _ []string, hash guild.Hash) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.blobs[hash]; ok {
		return b, nil
	}
	return nil, errors.New("it is not on the server")
}

const taskLearned, otherTask = "python", "go"

// newLearner opens a node in a directory. Nothing runs until run.
func newLearner(t *testing.T, dir string, server *server) *learner {
	t.Helper()
	secret := key.NewSecret(nostr.SecretKey{31: 1})
	n := &Node{pubkey: secret.PubKey(), keyer: key.NewSigner(secret), c: Config{
		Dir: dir, Identity: key.Identity{PubKey: secret.PubKey()}, Name: "learner", Now: time.Now, NoSync: true, Log: slog.New(slog.DiscardHandler),
		Policy: policy.Specification(), // it has all rules of trust
	}.withDefaults()}
	if err := n.openJournal(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	l := &learner{T: t, Node: n, server: server}
	l.openSteps()
	return l
}

func (l *learner) openSteps() {
	l.Helper()
	var err error
	ours := func() []string { return []string{"wss://ours.example"} }
	born := time.Now()
	l.registry, err = registry.Open(l.Context(), registry.Config{Journal: l.journal, Now: time.Now, Observed: l.folds.observed}, l.folds.partners)
	if err != nil {
		l.Fatal(err)
	}
	l.partners = partner.New(partner.Config{Journal: l.journal, Now: time.Now, Latest: l.registry.Latest, Services: l.registry.Services,
		Hears: func() time.Time { return born }}, l.folds.partners)
	l.folds.exchange.Become(l.pubkey)
	l.trust = trust.New(trust.Config{Journal: l.journal, Now: time.Now}, l.folds.trust)
	l.variables, err = variables.New(variables.Config{Journal: l.journal}, l.folds.variables)
	if err != nil {
		l.Fatal(err)
	}
	c := review.Config{Journal: l.journal, Keyer: l.keyer, PubKey: l.pubkey, Now: time.Now,
		Policy: policy.Specification, Relays: ours, Offer: l.registry.Offer, Publish: l.take,
		Letterbox: func(context.Context, nostr.PubKey) []string { return ours() }}
	if l.review, err = review.Open(l.Context(), c, foldOf[*review.Fold](l.Node)); err != nil {
		l.Fatal(err)
	}
	l.mail = review.NewMail(c, foldOf[*review.Letters](l.Node))
	l.backup = backup.New(backup.Config{Journal: l.journal, Keyer: l.keyer, PubKey: l.pubkey, Now: time.Now, Parts: l.matrixParts(),
		Policy: policy.Specification().Backup, Publish: l.take, Relays: ours, InForce: l.folds.trust.Policy,
		Upload: l.server.upload, Fetch: l.server.fetch}, foldOf[*backup.Fold](l.Node))
	l.meet = meet.New(meet.Config{Journal: l.journal, Self: l.pubkey, Now: time.Now, Secret: make([]byte, 32),
		Offers: l.registry.Offers, Kind: func(string) int { return 5000 }, Checkups: l.partners.Checkups, Run: l.bench,
		Make: func(suite.Spec) (suite.Made, error) { return suite.Made{Name: "python-v1", Title: "a benchmark"}, nil }}, foldOf[*meet.Fold](l.Node))
	l.steps = []due.Source{l.trust.Due, l.partners.Due, l.meet.Due, l.variables.Due, l.review.Due, l.mail.Due, l.backup.Due}
}

// take is a relay that accepts every event.
func (l *learner) take(context.Context, guild.Verified, []string) error { return nil }

// run executes everything that is due, until the test or the process ends.
func (l *learner) run() {
	runner := due.Runner{Journal: l.journal, Claims: l.claims, Node: "learner", Now: time.Now, Sources: l.steps, Log: l.c.Log}
	ctx, cancel := context.WithCancel(l.Context())
	done := make(chan struct{})
	go func() { defer close(done); runner.Run(ctx) }()
	l.stop = func() { cancel(); <-done }
}

// end stops the process in order, and waits for it.
func (l *learner) end() {
	l.Helper()
	if l.stop != nil {
		l.stop()
	}
	if err := l.journal.Close(); err != nil {
		l.Fatal(err)
	}
}

// bench runs a benchmark job to its end in one decision. Meetings learn from it.
func (l *learner) bench(_ context.Context, r meet.Run) error {
	attempt := nostr.ID(sha256.Sum256(r.Job[:]))
	return l.journal.Do(l.Context(), fact.JobSubject(r.Job), "", func(tx *journal.Tx) error {
		if _, known := l.folds.jobs.Job(r.Job); known {
			return nil
		}
		tx.Append(fact.JobOpened{Job: r.Job, Task: r.Task, Meeting: &r.Meeting, Deadline: tx.Now().Add(time.Hour).UnixMilli(), Tries: 1, Kind: 5000},
			fact.AttemptPlanned{Attempt: attempt, Job: r.Job, Provider: r.Service},
			fact.AttemptRequested{Attempt: attempt, Relays: []string{"wss://ours.example"}},
			fact.AttemptDelivered{Attempt: attempt, Delivery: guild.Hash{1}, LatencyMs: 500},
			fact.AttemptJudged{Attempt: attempt, Verdict: guild.Verdict{Outcome: guild.Success, Score: 900_000, Expected: 10, Passed: 10}},
			fact.JobClosed{Job: r.Job, Ending: guild.JobAccepted, Chosen: attempt},
			fact.AttemptRecorded{Attempt: attempt, Receipt: "r-" + attempt.Hex()[:16], Stored: guild.Hash{2}})
		return nil
	})
}

func learnedProvider(n byte) key.Secret { return key.NewSecret(nostr.SecretKey{30: 9, 31: n}) }

func learnedService(n byte) guild.Service {
	return guild.Service{PubKey: learnedProvider(n).PubKey(), D: "runner"}
}

// hear delivers the announcements of four providers. They are not facts, so a restarted node hears them again.
func (l *learner) hear(at time.Time) {
	l.Helper()
	for n := byte(1); n <= 4; n++ {
		e := nip89.Handler{D: "runner", Name: fmt.Sprint("provider ", n), Kinds: []int{5000}, Tasks: []string{taskLearned, otherTask},
			Relays: []string{"wss://ours.example"}}.Event()
		e.CreatedAt = nostr.Timestamp(at.Unix())
		v, err := guild.Sign(l.Context(), key.NewSigner(learnedProvider(n)), e)
		if err != nil {
			l.Fatal(err)
		}
		if err := l.registry.Observe(l.Context(), "wss://ours.example", v); err != nil {
			l.Fatal(err)
		}
	}
}

// deed is one external event, at a time. It may be repeated if the process died during it.
type deed struct {
	at time.Duration // since the start
	do func(l *learner) error
}

// course is a sequence of deeds.
type course struct {
	deeds []deed
	at    time.Duration
	jobs  byte
}

func (c *course) then(after time.Duration, do func(l *learner) error) {
	c.at += after
	c.deeds = append(c.deeds, deed{c.at, do})
}

// decides adds a deed that is one decision under the guard of a job.
func (c *course) decides(after time.Duration, job guild.JobID, facts ...fact.Fact) {
	c.then(after, func(l *learner) error {
		return l.journal.Do(l.Context(), fact.JobSubject(job), deedCause, func(tx *journal.Tx) error { tx.Append(facts...); return nil })
	})
}

// deedCause marks the entries of external events.
const deedCause = "deed"

// job adds a job for a service, which ends with the given facts.
func (c *course) job(task string, s guild.Service, ending guild.Ending, life ...func(nostr.ID) fact.Fact) (guild.JobID, nostr.ID) {
	c.jobs++
	job, attempt := guild.JobID{7, c.jobs}, nostr.ID{7, c.jobs}
	c.decides(3*time.Minute, job, fact.JobOpened{Job: job, Task: task, Kind: 5000, Tries: 1, Class: "critical-path", Deadline: 1 << 50},
		fact.AttemptPlanned{Attempt: attempt, Job: job, Provider: s, Bid: 1000})
	c.decides(time.Second, job, fact.AttemptRequested{Attempt: attempt, Relays: []string{"wss://ours.example"}})
	for _, f := range life {
		c.decides(20*time.Second, job, f(attempt))
	}
	c.decides(time.Second, job, fact.JobClosed{Job: job, Ending: ending})
	c.decides(time.Second, job, fact.AttemptRecorded{Attempt: attempt, Receipt: "r-" + attempt.Hex()[:16], Stored: guild.Hash{3, c.jobs}})
	return job, attempt
}

// meets adds a meeting that a person requests. Automatic meetings are tested elsewhere.
func (c *course) meets(s guild.Service) {
	c.then(10*time.Minute, func(l *learner) error {
		_, err := l.meet.Begin(l.Context(), s, taskLearned, "standard", nil)
		return err
	})
}

func deliveredAfter(ms int64) func(nostr.ID) fact.Fact {
	return func(id nostr.ID) fact.Fact {
		return fact.AttemptDelivered{Attempt: id, Delivery: guild.Hash{4}, LatencyMs: ms}
	}
}

func judgedAs(o guild.Outcome, score guild.Score) func(nostr.ID) fact.Fact {
	return func(id nostr.ID) fact.Fact {
		v := guild.Verdict{Outcome: o, Score: score, Expected: 10, Passed: int(score / 100_000)}
		return fact.AttemptJudged{Attempt: id, Verdict: v, Hash: guild.Hash{5, byte(score / 10_000)}, Stored: guild.Hash{6}}
	}
}

func unheardOf(id nostr.ID) fact.Fact {
	return fact.AttemptExpired{Attempt: id, Reason: "nothing in time", Silent: true}
}

// learning returns the course: meetings, successes, timeouts, a success that reverses a decrease, three changes in the
// wrong direction, an override by the owner and its rollback, an import, a suspension and its end, a violation, and a
// repeated verdict. Reviews and backups follow from these.
func learning() []deed {
	c := &course{}
	good, bad := judgedAs(guild.Success, 900_000), judgedAs(guild.Failure, 200_000)
	one, two, three, four := learnedService(1), learnedService(2), learnedService(3), learnedService(4)
	for _, s := range []guild.Service{one, two, three, four} {
		c.meets(s)
	}
	for range 3 {
		c.job(taskLearned, one, guild.JobAccepted, deliveredAfter(900), good)
	}
	c.job(otherTask, two, guild.JobAccepted, deliveredAfter(400), good)
	c.job(otherTask, two, guild.JobTimedOut, unheardOf)
	c.job(otherTask, two, guild.JobAccepted, deliveredAfter(500), good) // reverses the decrease
	for range 3 {
		c.job(taskLearned, one, guild.JobRejected, deliveredAfter(900), bad) // the third one restores the mean
	}
	c.job(otherTask, three, guild.JobAccepted, deliveredAfter(700), good)
	c.then(2*time.Minute, func(l *learner) error { return l.trust.Set(l.Context(), otherTask, three, 800_000, "a friend") })
	back := c.at + 30*time.Second
	contested, attempt := c.job(otherTask, two, guild.JobRejected, deliveredAfter(450), bad)
	c.decides(5*time.Minute, contested, fact.AttemptDisputed{Attempt: attempt, By: "owner", Reason: "the test was wrong"})
	c.decides(time.Minute, contested, good(attempt))
	c.then(2*time.Minute, func(l *learner) error {
		_, err := l.trust.Rollback(l.Context(), beganAt().Add(back), otherTask)
		return err
	})
	c.then(2*time.Minute, func(l *learner) error {
		_, err := exchange.New(exchange.Config{Journal: l.journal, Now: l.c.Now}, l.folds.exchange).Import(l.Context(), heardOf(four, 720_000), exchange.Terms{})
		return err
	})
	d := three.D
	c.then(2*time.Minute, func(l *learner) error {
		_, err := l.partners.Set(l.Context(), three.PubKey, &d, partner.Suspend, "it is on holiday")
		return err
	})
	c.then(2*time.Hour, func(l *learner) error {
		_, err := l.partners.Set(l.Context(), three.PubKey, &d, partner.Reinstate, "it is back")
		return err
	})
	c.job(taskLearned, four, guild.JobViolated, deliveredAfter(300), judgedAs(guild.Violation, 0))
	for range 3 {
		c.job(otherTask, two, guild.JobTimedOut, unheardOf) // until it is suspended
	}
	c.then(26*time.Hour, func(*learner) error { return nil }) // for the reviews that waited a day, and the cooldown
	c.meets(two)
	c.job(otherTask, two, guild.JobAccepted, deliveredAfter(450), good)
	c.then(2*time.Hour, func(*learner) error { return nil })
	return c.deeds
}

// heardOf returns what another guild reports of a service.
func heardOf(s guild.Service, value int64) exchange.Signed {
	by := key.NewSecret(nostr.SecretKey{29: 5}).PubKey()
	other := by.Hex()
	d := exchange.Document{Version: 1, Guild: other, Timeouts: []exchange.TimeoutEntry{}, Parallelism: []exchange.ParallelismEntry{},
		Entries: []exchange.TrustEntry{{Task: otherTask, PubKey: s.PubKey, D: s.D, Siblings: []fact.VariableSibling{{Value: value, Clock: map[string]uint64{other: 3}}}}}}
	return exchange.Signed{Document: d, By: by, At: beganAt().Unix(), Event: nostr.ID{1}}
}

// beganAt returns the time at which a bubble's clock starts.
func beganAt() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// outcome holds the results of a node's life.
type outcome struct {
	entries []fact.Entry
	ends    []uint64 // last entry of each deed
	matrix  guild.Hash
	told    guild.Hash
	rows    string
	stories string
}

// live performs the remaining deeds, each at its time.
func (l *learner) live(deeds []deed, done int) (o outcome) {
	l.Helper()
	for i := done; i < len(deeds); i++ {
		time.Sleep(time.Until(beganAt().Add(deeds[i].at)))
		synctest.Wait()
		before := l.journal.Last()
		if err := deeds[i].do(l); err != nil {
			l.Fatalf("deed %d: %v", i, err)
		}
		synctest.Wait()
		o.ends = append(o.ends, l.own(before))
	}
	for e, err := range l.journal.Entries(l.Context(), 1) {
		if err != nil {
			l.Fatal(err)
		}
		o.entries = append(o.entries, e)
	}
	var err error
	if o.matrix, err = l.Matrix(); err != nil {
		l.Fatal(err)
	}
	for _, p := range l.matrixParts() {
		rows := p.Rows()
		for _, k := range sorted(rows) {
			o.rows += fmt.Sprintf("  %s %q %s\n", p.Name, k, rows[k])
		}
	}
	o.stories = told(o.entries)
	o.told = guild.Sum([]byte(o.stories))
	return o
}

func sorted(rows map[string]json.RawMessage) (keys []string) {
	for k := range rows {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// own returns the last entry after another that an external event caused, or 0.
func (l *learner) own(after uint64) (last uint64) {
	l.Helper()
	for seq := after + 1; seq <= l.journal.Last(); seq++ {
		e, err := l.journal.Entry(l.Context(), seq)
		if err != nil {
			l.Fatal(err)
		}
		mine := e.Cause == deedCause
		switch f := e.Facts[0].(type) {
		case fact.TrustChanged:
			mine = f.Rule == fact.RuleOwner || f.Rule == fact.RuleRollback || f.Rule == fact.RuleMerged
		case fact.ProviderMoved:
			mine = f.Signal == fact.SignalOwner || f.Signal == fact.SignalReleased
		case fact.MeetingBegan:
			mine = f.Asked
		}
		if mine {
			last = seq
		}
	}
	return last
}

// told returns what this node has published: its reviews, its backups, and the verdicts. Items of one time are sorted,
// since their order is arbitrary. Ids that derive from the random ids of meetings are omitted.
func told(entries []fact.Entry) string {
	drafts, backups, runs, says := map[nostr.ID]fact.ReviewDrafted{}, map[string]fact.BackupMade{}, map[nostr.ID]string{}, []string{}
	for _, e := range entries {
		meeting := ""
		for _, one := range e.Facts {
			switch f := one.(type) {
			case fact.JobOpened:
				if f.Meeting != nil {
					meeting = fmt.Sprintf("told of run %d with %s", f.Meeting.Run, *f.Meeting.Service)
				}
			case fact.AttemptPlanned:
				if meeting != "" {
					runs[f.Attempt] = meeting
				}
			case fact.ReviewDrafted:
				drafts[f.Review] = f
			case fact.ReviewPublished:
				d := drafts[f.Review]
				says = append(says, fmt.Sprintf("review of %s for %s: %v for %s, %d events", d.Service, d.Task, d.Trust, d.Cause, len(d.Events)))
			case fact.AttemptTold:
				says = append(says, cmp.Or(runs[f.Attempt], fmt.Sprintf("told %s of %s", f.Message, f.Attempt)))
			case fact.BackupMade:
				backups[f.Backup] = f
			case fact.BackupSent:
				says = append(says, fmt.Sprintf("backup of %s", backups[f.Backup].Matrix))
			}
		}
	}
	slices.Sort(says)
	return strings.Join(says, "\n")
}

func TestKillAtEveryFact(t *testing.T) {
	var whole outcome
	blobs := &server{blobs: map[guild.Hash][]byte{}}
	synctest.Test(t, func(t *testing.T) {
		l := newLearner(t, initialised(t), blobs)
		l.run()
		l.hear(beganAt())
		whole = l.live(learning(), 0)
		l.end()
	})
	checkCourse(t, whole)
	all := soaking()
	step := max(1, len(whole.entries)/deaths)
	for died := 1; died < len(whole.entries); died++ {
		if !all && died%step != 0 {
			continue
		}
		for _, saved := range []bool{false, true} {
			if !all && saved == (died/step%2 == 0) {
				continue
			}
			t.Run(fmt.Sprintf("after %d, snapshot %v", died, saved), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { dies(t, blobs, whole, died, saved) })
			})
		}
	}
	if !all {
		t.Logf("%d entries; died after every %dth (after each by make soak)", len(whole.entries), step)
	}
}

// dies kills a node after an entry, with a snapshot halfway to it or none, and compares the state after a restart.
func dies(t *testing.T, blobs *server, whole outcome, died int, saved bool) {
	t.Helper()
	dir := initialised(t)
	first := newLearner(t, dir, blobs)
	for i, e := range whole.entries[:died] {
		time.Sleep(time.Until(time.UnixMilli(e.At)))
		if err := first.journal.Do(t.Context(), e.Subject, e.Cause, func(tx *journal.Tx) error { tx.Append(e.Facts...); return nil }); err != nil {
			t.Fatal(err)
		}
		if saved && i == died/2 {
			if err := first.journal.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	first.end()
	forgetSnapshots(t, dir, uint64(died), saved)

	second := newLearner(t, dir, blobs)
	second.run()
	second.hear(beganAt())
	synctest.Wait()
	done := 0
	for done < len(whole.ends) && whole.ends[done] <= uint64(died) {
		done++
	}
	o := second.live(learning(), done)
	second.end()
	last := whole.entries[died-1]
	what := fmt.Sprintf("died after %d of %d, %s of %s (snapshot: %v)", died, len(whole.entries), last.Facts[0].Type(), last.Subject, saved)
	if o.matrix != whole.matrix {
		t.Errorf("%s: the matrix is\n%s\nwant\n%s", what, o.rows, whole.rows)
	}
	if o.told != whole.told {
		t.Errorf("%s: published is\n%s\nwant\n%s", what, o.stories, whole.stories)
	}
}

// initialised returns a directory with an empty journal.
func initialised(t *testing.T) string {
	t.Helper()
	dir := journaltest.Dir(t)
	if err := journal.Init(filepath.Join(dir, "journal")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// forgetSnapshots removes the snapshots that an orderly stop wrote after the last entry; or all of them if some is
// false.
func forgetSnapshots(t *testing.T, dir string, last uint64, some bool) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, "journal", "snapshot", "*.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		if some && !strings.Contains(path, fmt.Sprintf(".%020d.", last)) {
			continue
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// checkCourse checks that the course contains everything that the test is meant to cover.
func checkCourse(t *testing.T, whole outcome) {
	t.Helper()
	happened := map[string]int{}
	for _, e := range whole.entries {
		for _, f := range e.Facts {
			happened[f.Type()]++
			switch f := f.(type) {
			case fact.TrustChanged:
				happened["rule "+f.Rule]++
			case fact.ProviderMoved:
				happened["to "+string(f.To)]++
			}
		}
	}
	t.Logf("%d entries: %v", len(whole.entries), happened)
	for _, what := range []string{"rule ", "rule " + fact.RuleContradiction, "rule " + fact.RuleMean, "rule " + fact.RuleOwner, "rule " + fact.RuleRollback,
		"rule " + fact.RuleRejudged, "rule " + fact.RuleMerged, "to " + string(guild.Suspended), "to " + string(guild.Removed), "to " + string(guild.Active),
		fact.MeetingEnded{}.Type(), fact.VariableChanged{}.Type(), fact.ReviewPublished{}.Type(), fact.BackupSent{}.Type(),
		fact.AttemptTold{}.Type()} {
		if happened[what] == 0 {
			t.Errorf("nothing in the course is %q", what)
		}
	}
}
