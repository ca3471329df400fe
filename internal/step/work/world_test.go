package work

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
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

// The cast.
var (
	us       = newPerson(1)
	customer = newPerson(2)
	mallory  = newPerson(3)
)

// opener decrypts what was written to p.
func (p person) opener() nip90.Opener {
	return func(sender nostr.PubKey, ciphertext string) (string, error) {
		return p.signer.Decrypt(context.Background(), ciphertext, sender)
	}
}

// publication is an event on its way to relays.
type publication struct {
	nostr.Event
	relays []string
	at     time.Duration // since the world began
}

// world is a journal with the step at work, and the Relays and Payloads that are the rest of the node to it.
type world struct {
	*steptest.World
	*Work
	blobs    *blob.Store
	services []Service
	keys     keyring // for credentials
	secrets  string  // where they are opened
	began    time.Time
	worker   *runs // where a test needs to know it
	money    Money // nil if nothing can be paid
	runner   *due.Runner
	heard    *Judgements

	inboxes []string                                                                             // relays at which anybody reads private messages
	stored  func(ctx context.Context, f nostr.Filter, relays []string) ([]guild.Verified, error) // finds events; none if nil

	mu        sync.Mutex
	published []publication
	deaf      bool              // no relay takes any event
	remote    map[string][]byte // by URL
}

// newWorld begins a world in which we offer these services.
func newWorld(t *testing.T, services ...Service) *world {
	t.Helper()
	w := &world{World: steptest.New(t), began: time.Now(), services: services, keys: newKeyring(t), secrets: journaltest.Dir(t), remote: map[string][]byte{}}
	var err error
	if w.blobs, err = blob.Open(journaltest.Dir(t)); err != nil {
		t.Fatal(err)
	}
	w.start()
	return w
}

// start opens the journal and runs the step.
func (w *world) start() {
	w.Helper()
	fold := NewFold()
	w.heard = NewJudgements()
	w.OpenJournal(fold, w.heard)
	w.Work = New(Config{
		Journal: w.Journal, Blobs: w.blobs, Keyer: us.signer, PubKey: us.key, Node: "test", Now: time.Now,
		Services: w.services, Scratch: journaltest.Dir(w.T), Secrets: w.secrets, Relays: relays{w, []string{"wss://ours.example"}}, Payloads: payloads{w},
		Judgements: w.heard, Money: w.money, Recipient: w.keys.recipient, Unseal: w.keys.Open, Log: slog.New(slog.DiscardHandler),
	}, fold)
	if err := w.Recall(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.runner = &due.Runner{Limits: w.Classes(), Sources: []due.Source{w.Due}}
	w.RunWith(w.runner)
	w.Go(w.Talk)
}

// restart stops everything and starts it on the same journal.
func (w *world) restart() {
	w.Helper()
	w.start()
	w.pass(0)
}

// relays are the Relays of a world.
type relays struct {
	*world
	ours []string
}

func (r relays) Ours() []string { return r.ours }

func (r relays) InboxOf(context.Context, nostr.PubKey) []string { return r.inboxes }

func (r relays) Find(ctx context.Context, f nostr.Filter, relays []string) ([]guild.Verified, error) {
	if r.stored == nil {
		return nil, nil
	}
	return r.stored(ctx, f, relays)
}

func (r relays) Publish(_ context.Context, v guild.Verified, relays []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.published = append(r.published, publication{v.Event(), relays, time.Since(r.began)})
	if r.deaf {
		return errors.New("no relay")
	}
	return nil
}

// setDeaf sets whether relays refuse all events from now on.
func (w *world) setDeaf(deaf bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf = deaf
}

// payloads are the Payloads of a world.
type payloads struct{ *world }

func (w payloads) Upload(_ context.Context, bundle []byte, seal bool) (string, *[32]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remote["https://blob.example/delivery"] = bundle
	if !seal {
		return "https://blob.example/delivery", nil, nil
	}
	return "https://blob.example/delivery", &[32]byte{7}, nil
}

func (w payloads) Fetch(_ context.Context, p fact.Place, _ guild.Hash, _ int64) (io.ReadCloser, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, ok := w.remote[p.URL]
	if !ok {
		return nil, errors.New("404")
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// pass waits for d, and until all goroutines wait again.
func (w *world) pass(d time.Duration) { w.Pass(d) }

// task returns a request to us for the task "python", to be changed and sent.
func task(t *testing.T, bundle []byte) nip90.Request {
	t.Helper()
	r := nip90.Request{Kind: 5000, Provider: &us.key, Job: "job-1", Relays: []string{"wss://theirs.example"}}
	r.Set(nip90.ParamJobType, "python")
	if err := r.SetBundle(nip90.NewParcel(bundle)); err != nil {
		t.Fatal(err)
	}
	return r
}

// sends signs a request as p and has the step observe it.
func (w *world) sends(p person, r nip90.Request) (nostr.ID, error) {
	w.Helper()
	e, err := r.Event()
	if err != nil {
		w.Fatal(err)
	}
	return w.says(p, e)
}

// sendsSealed is sends for an encrypted request.
func (w *world) sendsSealed(p person, r nip90.Request) (nostr.ID, error) {
	w.Helper()
	e, err := r.Sealed(func(text string) (string, error) { return p.signer.Encrypt(w.Context(), text, us.key) })
	if err != nil {
		w.Fatal(err)
	}
	return w.says(p, e)
}

// says signs an event as p and has the step observe it. It is dated now if it has no date.
func (w *world) says(p person, e nostr.Event) (nostr.ID, error) {
	w.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
	}
	v, err := guild.Sign(w.Context(), p.signer, e)
	if err != nil {
		w.Fatal(err)
	}
	if e.Kind == 5 {
		err = w.ObserveDeletion(w.Context(), v)
	} else {
		err = w.Observe(w.Context(), "wss://from.example", v)
	}
	w.pass(0)
	return v.Event().ID, err
}

// asks sends a request that must be taken.
func (w *world) asks(p person, r nip90.Request) nostr.ID {
	w.Helper()
	id, err := w.sends(p, r)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// sent lists the published answers of a kind to a request.
func (w *world) sent(kind nostr.Kind, request nostr.ID) (all []publication) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.published {
		if p.Kind == kind && p.Tags.FindWithValue("e", request.Hex()) != nil {
			all = append(all, p)
		}
	}
	return all
}

// told lists the feedback on a request.
func (w *world) told(p person, request nostr.ID) (all []nip90.Feedback) {
	w.Helper()
	for _, e := range w.sent(nip90.KindFeedback, request) {
		f, err := nip90.ParseFeedback(e.Event, p.opener())
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// wantError wants the last feedback on a request to be an error with that text.
func (w *world) wantError(id nostr.ID, text string) {
	w.Helper()
	all := w.told(customer, id)
	if len(all) == 0 || all[len(all)-1].Status != nip90.Error || all[len(all)-1].Text != text {
		w.Errorf("told %v, want the error %q", all, text)
	}
}

// opened opens the delivery to a request.
func (w *world) opened(p person, id nostr.ID) *nutshell.Bundle {
	w.Helper()
	results := w.sent(6000, id)
	if len(results) == 0 {
		w.Fatalf("no result; told %v", w.told(p, id))
	}
	r, err := nip90.ParseResult(results[0].Event, p.opener())
	if err != nil {
		w.Fatal(err)
	}
	d, err := r.Delivery()
	if err != nil {
		w.Fatal(err)
	}
	if d.URL != "" {
		d.Inline = w.remote[d.URL]
	}
	b, err := nutshell.Open(bytes.NewReader(d.Inline), int64(len(d.Inline)), nutshell.DefaultLimits())
	if err != nil {
		w.Fatal(err)
	}
	return b
}

// facts lists the types of the facts about a request.
func (w *world) facts(id nostr.ID) []string { return w.FactTypes(fact.RequestSubject(id)) }

func (w *world) count(id nostr.ID, fact string) (n int) {
	for _, f := range w.facts(id) {
		if f == fact {
			n++
		}
	}
	return n
}

// bundle returns a packed request bundle.
func bundle(t *testing.T, input []byte) []byte {
	t.Helper()
	tree := fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Echo"}}`)},
		"files/in.txt":  {Data: input},
	}
	var b bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// python returns a service with a function as its worker.
func python(do func(ctx context.Context, a Assignment) error) Service {
	return Service{Task: "python", Do: do}
}

// echo is a worker that delivers its input.
func echo(_ context.Context, a Assignment) error {
	b, err := os.ReadFile(filepath.Join(a.Bundle, "files", "in.txt"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), b, 0o644)
}

// runs notes the runs of a worker.
type runs struct {
	takes time.Duration // each of them

	mu          sync.Mutex
	jobs        []string // what was begun
	now, most   int      // at a time
	interrupted int
}

// do is a worker that takes as long as takes says.
func (r *runs) do(ctx context.Context, a Assignment) error {
	r.mu.Lock()
	r.jobs = append(r.jobs, a.Job)
	r.now++
	r.most = max(r.most, r.now)
	r.mu.Unlock()
	defer func() { r.mu.Lock(); r.now--; r.mu.Unlock() }()
	select {
	case <-time.After(r.takes):
	case <-ctx.Done():
		r.mu.Lock()
		r.interrupted++
		r.mu.Unlock()
		return ctx.Err()
	}
	return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), []byte("done"), 0o644)
}

func (r *runs) list() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.jobs)
}
