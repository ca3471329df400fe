package jobs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/hand/key"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/market/route"
	"guild/internal/policy"
	"guild/internal/step/steptest"
	"guild/nip90"
	"guild/nutshell"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// person holds a key.
type person struct {
	signer *key.Signer
	key    nostr.PubKey
}

func newPerson(n byte) person {
	secret := key.NewSecret(nostr.SecretKey{31: n})
	return person{key.NewSigner(secret), secret.PubKey()}
}

// The cast. Offers are asked in the order of their price.
var (
	customer = newPerson(1)
	alice    = newPerson(2)
	bob      = newPerson(3)
	carol    = newPerson(4)
	mallory  = newPerson(5)
)

func (p person) service() guild.Service { return guild.Service{PubKey: p.key, D: "python"} }

// offers returns the offer of p at a price.
func (p person) offers(price guild.Msat) guild.Offer {
	return guild.Offer{Service: p.service(), Tasks: []string{"python"}, Kinds: []int{5000}, Price: price, State: guild.Seen, Confidence: 1, Confirmed: true,
		Relays: []string{"wss://first.example", "wss://second.example"}}
}

// publication is an event on its way to relays.
type publication struct {
	nostr.Event
	relays []string
	at     time.Duration // since the world began
}

// world is the step running on a journal, with functions in place of the rest of the node.
type world struct {
	*steptest.World
	*Jobs
	blobDir string
	blobs   *blob.Store
	runner  *due.Runner
	began   time.Time

	slow map[string]int // relays by how slow they are

	mu        sync.Mutex
	offers    []guild.Offer
	trust     map[guild.Service]guild.Trust
	published []publication
	own       keyring                                                         // of this node, for credentials
	relay     func(ctx context.Context, e nostr.Event, relays []string) error // what relays do; nil takes all
	remote    map[string][]byte                                               // by URL
	patience  Patience
	limits    Limits
	look      func(request nostr.ID) ([]guild.Verified, error) // what relays have stored; nothing if nil
	hears     func() time.Time

	configures func(*Config) // what else the step is configured with, from the next start on
}

// orderly is the policy without random choices and shares: the most trusted provider is asked first, of equals the
// cheapest, and of those the one with fewer requests.
func orderly() (policy.Policy, guild.Hash) {
	whole := policy.Specification()
	p := &whole.Routing
	p.Weights = policy.Weights{Trust: 895_000, Cost: 100_000, Load: 5_000}
	p.Tiers[0].Share, p.Tiers[1].Share, p.Tiers[2].Share = guild.Micro, 0, 0
	p.Epsilon, p.EpsilonFloor, p.Share, p.Providers = 0, 0, guild.Micro, 0
	return whole, guild.Sum([]byte("orderly"))
}

// newWorld begins a world with these offers.
func newWorld(t *testing.T, offers ...guild.Offer) *world {
	t.Helper()
	w := &world{World: steptest.New(t), blobDir: journaltest.Dir(t), began: time.Now(), offers: offers,
		trust: map[guild.Service]guild.Trust{}, remote: map[string][]byte{}}
	var err error
	if w.blobs, err = blob.Open(w.blobDir); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

// start opens the journal and runs the step, until the test ends or stop is called.
func (w *world) start() {
	w.Helper()
	fold := NewFold()
	w.OpenJournal(fold)
	c := Config{
		Journal: w.Journal, Blobs: w.blobs, Keyer: customer.signer, PubKey: customer.key, Node: "test", Now: time.Now,
		Market: offered(w.offered), Network: network{w}, Trust: w.trusted,
		Upload: w.upload, Fetch: w.fetched, Unseal: w.unseal, SealFor: sealFor, Patience: w.patience,
		Limits: w.limits, Policy: orderly,
	}
	if w.configures != nil {
		w.configures(&c)
	}
	w.Jobs = New(c, fold)
	w.runner = &due.Runner{Sources: []due.Source{w.Due}}
	w.RunWith(w.runner)
}

// restart stops everything and starts it on the same journal.
func (w *world) restart() {
	w.Helper()
	w.start()
	w.pass(0)
}

func (w *world) offered(string, int) []guild.Offer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.offers)
}

func (w *world) trusted(_ string, s guild.Service) (guild.Trust, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, met := w.trust[s]
	return t, met
}

// offered is a market that only knows these offers.
type offered func(task string, kind int) []guild.Offer

func (o offered) Offers(task string, kind int) iter.Seq[guild.Offer] {
	return slices.Values(o(task, kind))
}

func (o offered) OffersOf(p nostr.PubKey, task string, kind int) []guild.Offer {
	return slices.DeleteFunc(o(task, kind), func(o guild.Offer) bool { return o.Service.PubKey != p })
}

func (offered) Provider(s guild.Service) guild.Provider {
	return guild.Provider{Service: s, State: guild.Seen}
}

func (offered) Measured(guild.Service, time.Time) route.Measured { return route.Measured{} }

// network implements Network in a world.
type network struct{ *world }

func (network) Relays() []string { return []string{"wss://ours.example"} }

func (w network) Rank(relays []string) []string {
	ranked := slices.Clone(relays)
	slices.SortStableFunc(ranked, func(a, b string) int { return cmp.Compare(w.slow[a], w.slow[b]) })
	return ranked
}

func (w network) Hears() time.Time {
	if w.hears == nil {
		return time.UnixMilli(1) // always
	}
	return w.hears()
}

func (w network) Publish(ctx context.Context, v guild.Verified, relays []string) error {
	w.mu.Lock()
	w.published = append(w.published, publication{v.Event(), relays, time.Since(w.began)})
	relay := w.relay
	w.mu.Unlock()
	if relay == nil {
		return nil
	}
	return relay(ctx, v.Event(), relays)
}

func (w network) Look(_ context.Context, _ nostr.PubKey, request nostr.ID, kind nostr.Kind, _ []string) ([]guild.Verified, error) {
	if w.look == nil {
		return nil, nil
	}
	stored, err := w.look(request)
	return slices.DeleteFunc(stored, func(v guild.Verified) bool { return v.Event().Kind != kind }), err
}

// relays replaces the behaviour of the relays from now on.
func (w *world) relays(do func(ctx context.Context, e nostr.Event, relays []string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.relay = do
}

var errNoRelay = errors.New("no relay")

func deaf(context.Context, nostr.Event, []string) error { return errNoRelay }

// slow is a relay that never answers.
func slow(ctx context.Context, _ nostr.Event, _ []string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (w *world) upload(_ context.Context, bundle []byte, seal bool) (string, *[32]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remote["https://blob.example/bundle"] = bundle
	if !seal {
		return "https://blob.example/bundle", nil, nil
	}
	return "https://blob.example/bundle", &[32]byte{7}, nil
}

func (w *world) fetched(_ context.Context, p fact.Place, _ guild.Hash, _ int64) (io.ReadCloser, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, ok := w.remote[p.URL]
	if !ok {
		return nil, errors.New("404")
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// pass lets time pass, until nothing more happens.
func (w *world) pass(d time.Duration) { w.Pass(d) }

// opens opens a job for the task, and waits until nothing more happens at once.
func (w *world) opens(o Order) guild.JobID {
	w.Helper()
	o.Task, o.Title, o.Kind = "python", "Do it", 5000
	if o.Bundle == nil {
		o.Bundle = []byte("the task")
	}
	id, err := w.Open(w.Context(), o)
	if err != nil {
		w.Fatal(err)
	}
	w.pass(0)
	return id
}

// wants compares the states of a job's attempts.
func (w *world) wants(id guild.JobID, states ...guild.State) {
	w.Helper()
	job, _ := w.fold.Job(id)
	var got []guild.State
	for _, a := range job.Attempts {
		got = append(got, a.State)
	}
	if !slices.Equal(got, states) {
		w.Errorf("the attempts are %v, want %v", got, states)
	}
}

// ends compares the ending of a job.
func (w *world) ends(id guild.JobID, want guild.Ending) *Job {
	w.Helper()
	job, _ := w.fold.Job(id)
	if job.Ending != want {
		w.Errorf("the job is %q (%s), want %q", job.Ending, job.Reason, want)
	}
	return job
}

// attempt returns the latest attempt of a job.
func (w *world) attempt(id guild.JobID) Attempt {
	w.Helper()
	job, _ := w.fold.Job(id)
	if len(job.Attempts) == 0 {
		w.Fatalf("no attempt; the job is %q: %s", job.Ending, job.Reason)
	}
	return job.Attempts[len(job.Attempts)-1]
}

// sent lists the published events of a kind.
func (w *world) sent(kind nostr.Kind) (all []publication) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.published {
		if p.Kind == kind {
			all = append(all, p)
		}
	}
	return all
}

// facts lists the types of the facts about a job.
func (w *world) facts(id guild.JobID) []string { return w.FactTypes(fact.JobSubject(id)) }

// says has p sign an event and the step observe it.
func (w *world) says(p person, e nostr.Event) error {
	w.Helper()
	e.CreatedAt = nostr.Timestamp(time.Now().Unix())
	v, err := guild.Sign(w.Context(), p.signer, e)
	if err != nil {
		w.Fatal(err)
	}
	err = w.Observe(w.Context(), v)
	w.pass(0)
	return err
}

// delivers has p answer a request with a delivery in clear.
func (w *world) delivers(p person, request nostr.ID, delivery []byte) error {
	w.Helper()
	return w.says(p, result(w.T, request, nip90.NewParcel(delivery)))
}

func result(t *testing.T, request nostr.ID, p nip90.Parcel) nostr.Event {
	t.Helper()
	r := nip90.Result{Kind: 6000, Request: request, Customer: customer.key}
	err := r.SetDelivery(p)
	if err != nil {
		t.Fatal(err)
	}
	e, err := r.Event()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func feedback(request nostr.ID, s nip90.Status, text string) nostr.Event {
	return nip90.Feedback{Request: request, Customer: customer.key, Status: s, Text: text}.Event()
}

// judges appends a verdict, as the judge would.
func (w *world) judges(id guild.JobID, o guild.Outcome) {
	w.Helper()
	a := w.attempt(id)
	w.append(id, fact.AttemptJudged{Attempt: a.ID, Verdict: guild.Verdict{Outcome: o, Score: guild.Micro}})
}

func (w *world) append(id guild.JobID, facts ...fact.Fact) {
	w.Helper()
	w.Write(fact.JobSubject(id), facts...)
	w.pass(0)
}

// delivery returns a delivery bundle with that status.
func delivery(t *testing.T, status string) []byte {
	t.Helper()
	tree := fstest.MapFS{
		"nutshell.json":        {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-1","task":{"title":"x"}}`)},
		"delivery/result.json": {Data: []byte(`{"status":"` + status + `","summary":"no compiler here"}`)},
	}
	var b bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
