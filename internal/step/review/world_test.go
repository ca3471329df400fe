package review

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/policy"
	"guild/internal/step/steptest"
	"guild/nipreview"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// person is a key pair.
type person struct {
	signer *key.Signer
	key    nostr.PubKey
}

func newPerson(n int) person {
	secret := key.NewSecret(nostr.SecretKey{29: byte(n >> 16), 30: byte(n >> 8), 31: byte(n)})
	return person{key.NewSigner(secret), secret.PubKey()}
}

// The keys in these tests: the owner writes the reviews, alice is the provider.
var (
	owner = newPerson(1)
	alice = newPerson(2)
	bob   = newPerson(3)
	carol = newPerson(4)
)

const python = "python"

func (p person) service() guild.Service { return guild.Service{PubKey: p.key, D: "runner"} }

// publication is an event that the step published.
type publication struct {
	nostr.Event
	relays []string
	at     time.Duration // since the test began
}

// world is a journal with a running step. Functions of the test stand in for the rest of the node.
type world struct {
	*steptest.World
	*Review
	fold   *Fold
	began  time.Time
	change func(*Config) // before a start

	mu        sync.Mutex
	published []publication
	refuses   error // what relays answer; nil accepts all
	attempts  int
	p50, p95  int64
}

// newWorld starts a world. change, if not nil, changes the configuration.
func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := &world{World: steptest.New(t), began: time.Now(), change: change}
	w.start()
	return w
}

// start opens the journal and runs the step.
func (w *world) start() {
	w.Helper()
	w.fold = NewFold()
	w.OpenJournal(w.fold)
	c := Config{
		Journal: w.Journal, Keyer: owner.signer, PubKey: owner.key, Now: time.Now, Policy: policy.Specification, Publish: w.publish,
		Relays: func() []string { return []string{"wss://ours.example"} },
		Offer: func(s guild.Service) (guild.Offer, bool) {
			return guild.Offer{Service: s, Relays: []string{"wss://theirs.example", "wss://ours.example"}}, true
		},
		Measured: func(guild.Service) (int64, int64) { return w.p50, w.p95 },
	}
	if w.change != nil {
		w.change(&c)
	}
	r, err := Open(w.Context(), c, w.fold)
	if err != nil {
		w.Fatal(err)
	}
	w.Review = r
	w.Run(r.Due)
}

// restart stops everything and starts it on the same journal.
func (w *world) restart() {
	w.Helper()
	w.start()
	w.Pass(0)
}

func (w *world) publish(_ context.Context, v guild.Verified, relays []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuses == nil {
		w.published = append(w.published, publication{v.Event(), relays, time.Since(w.began)})
	}
	return w.refuses
}

// relays sets the answer of the relays from now on.
func (w *world) relays(say error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refuses = say
}

var errNoRelay = errors.New("no relay")

// asks plans an attempt of a service, and returns the attempt.
func (w *world) asks(s guild.Service) nostr.ID {
	w.Helper()
	w.attempts++
	id, job := nostr.ID{0xa, byte(w.attempts)}, guild.JobID{byte(w.attempts)}
	w.Write(fact.JobSubject(job), fact.JobOpened{Job: job, Task: python, Kind: 5000})
	w.Write(fact.JobSubject(job), fact.AttemptPlanned{Attempt: id, Job: job, Provider: s, Request: nostr.Event{Kind: 5000}})
	w.Write(fact.JobSubject(job), fact.AttemptRequested{Attempt: id})
	return id
}

func jobOf(attempt nostr.ID) fact.Subject { return fact.JobSubject(guild.JobID{attempt[1]}) }

// judges gives a verdict on an attempt, with its receipt.
func (w *world) judges(attempt nostr.ID, outcome guild.Outcome, score guild.Score) {
	w.Helper()
	verdict := guild.Sum(append(attempt[:], outcome...))
	w.Write(jobOf(attempt), fact.AttemptJudged{Attempt: attempt, Hash: verdict, Verdict: guild.Verdict{Outcome: outcome, Score: score}})
	w.Write(jobOf(attempt), fact.AttemptRecorded{Attempt: attempt, Receipt: "r-" + attempt.Hex()[:4], Stored: guild.Sum(attempt[:])})
}

// learns moves trust because of an attempt.
func (w *world) learns(s guild.Service, attempt nostr.ID, to guild.Trust) {
	w.Helper()
	l, _ := w.fold.line(lineKey(python, s))
	w.Write(fact.TrustSubject(python), fact.TrustChanged{Task: python, Service: s, From: l.Trust, To: to, First: !l.Met, Attempt: attempt})
}

// works has an attempt succeed, which moves trust to to.
func (w *world) works(s guild.Service, to guild.Trust) nostr.ID {
	w.Helper()
	id := w.asks(s)
	w.judges(id, guild.Success, 950_000)
	w.learns(s, id, to)
	return id
}

// meets has a service complete a meeting with the given result.
func (w *world) meets(s guild.Service, id string, to guild.ProviderState, score guild.Score) {
	w.Helper()
	w.Write(fact.MeetingSubject, fact.MeetingBegan{Meeting: id, Service: s, Task: python})
	w.Write(fact.MeetingSubject, fact.MeetingEnded{Meeting: id, Service: s, Task: python, To: to, Score: score, Runs: 3})
}

// sent lists the events of a kind that relays took.
func (w *world) sent(kind nostr.Kind) (of []publication) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.published {
		if p.Kind == kind {
			of = append(of, p)
		}
	}
	return of
}

// reviews lists the reviews of kind 2020 that relays took.
func (w *world) reviews() (all []nipreview.Review) {
	w.Helper()
	for _, p := range w.sent(Kind) {
		if _, err := guild.Verify(p.Event); err != nil {
			w.Errorf("relays would refuse it: %v", err)
		}
		r, err := nipreview.Parse(p.Event)
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// wants checks the number of published reviews and the rating of the latest, which it returns.
func (w *world) wants(count int, stars string) nipreview.Review {
	w.Helper()
	all := w.reviews()
	if len(all) != count {
		w.Fatalf("%d reviews are published, want %d", len(all), count)
	}
	if count == 0 {
		return nipreview.Review{}
	}
	if last := all[count-1]; last.Stars.String() != stars {
		w.Errorf("the latest says %s stars, want %s", last.Stars, stars)
	}
	return all[count-1]
}

// causes lists the causes of the drafted reviews.
func (w *world) causes() (all []string) {
	for _, d := range steptest.Facts[fact.ReviewDrafted](w) {
		all = append(all, d.Cause)
	}
	return all
}

// says has a person publish a review, which the step then observes.
func (w *world) says(p person, r nipreview.Review, at time.Time) (nostr.ID, error) {
	w.Helper()
	e := r.Event()
	e.CreatedAt = nostr.Timestamp(at.Unix())
	return w.hears(p, e)
}

func (w *world) hears(p person, e nostr.Event) (nostr.ID, error) {
	w.Helper()
	v, err := guild.Sign(w.Context(), p.signer, e)
	if err != nil {
		w.Fatal(err)
	}
	raw, err := json.Marshal(v.Event()) // as from a relay
	if err != nil {
		w.Fatal(err)
	}
	var back nostr.Event
	if err := json.Unmarshal(raw, &back); err != nil {
		w.Fatal(err)
	}
	if v, err = guild.Verify(back); err != nil {
		w.Fatal(err)
	}
	return back.ID, w.Observe(w.Context(), "wss://relay.example", v)
}

// of returns a review of a provider's Python work, without evidence.
func of(p person, trust guild.Trust) nipreview.Review {
	return nipreview.Review{Kind: Kind, Subject: p.key, Stars: nipreview.StarsOf(trust), Task: python}
}

func states(all []Ours) (s []string) {
	for _, o := range all {
		s = append(s, o.State)
	}
	return s
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
