package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/policy"
	"guild/internal/step/steptest"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// person is a key pair.
type person struct {
	*key.Signer
	key nostr.PubKey
}

func newPerson(n byte) person {
	s := key.NewSecret(nostr.SecretKey{31: n})
	return person{key.NewSigner(s), s.PubKey()}
}

var (
	us      = newPerson(1)
	mallory = newPerson(2)
)

func service(n byte) guild.Service {
	return guild.Service{PubKey: nostr.SecretKey{31: n + 10}.Public(), D: "solver"}
}

// trusted returns a change of trust in a service by an attempt of this node.
func trusted(n byte, from, to guild.Trust) fact.Fact {
	return fact.TrustChanged{Task: "python", Service: service(n), From: from, To: to, First: from == 0}
}

// moved returns a move of a service to another state.
func moved(n byte, from, to guild.ProviderState) fact.Fact {
	return fact.ProviderMoved{Service: service(n), From: from, To: to, Signal: "owner"}
}

// matrix is a fold with two parts: the trust in each service, and the state of each.
type matrix struct {
	mu    sync.RWMutex
	trust map[string]trustRow
	state map[string]stateRow
}

// saved is the snapshot of a matrix.
type saved struct {
	Trust map[string]trustRow `json:"trust"`
	State map[string]stateRow `json:"state"`
}

type trustRow struct {
	Service guild.Service `json:"service"`
	Trust   guild.Trust   `json:"trust_micro"`
}

type stateRow struct {
	Service guild.Service       `json:"service"`
	State   guild.ProviderState `json:"state"`
}

func newMatrix() *matrix { return &matrix{trust: map[string]trustRow{}, state: map[string]stateRow{}} }

func (*matrix) Name() string { return "matrix" }

func (*matrix) Version() int { return 1 }

func (m *matrix) Apply(e fact.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, one := range e.Facts {
		switch one := one.(type) {
		case fact.TrustChanged:
			m.trust[one.Service.PubKey.Hex()] = trustRow{one.Service, one.To}
		case fact.ProviderMoved:
			m.state[one.Service.PubKey.Hex()] = stateRow{one.Service, one.To}
		}
	}
}

func (m *matrix) Freeze() func() ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	state := saved{maps.Clone(m.trust), maps.Clone(m.state)}
	return func() ([]byte, error) { return json.Marshal(state) }
}

func (m *matrix) Restore(b []byte) error {
	state := saved{}
	if err := json.Unmarshal(b, &state); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trust, m.state = state.Trust, state.State
	return nil
}

func encoded[V any](m *matrix, of map[string]V) map[string]json.RawMessage {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := map[string]json.RawMessage{}
	for k, v := range of {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		all[k] = b
	}
	return all
}

func (m *matrix) trustIn(n byte) guild.Trust {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.trust[service(n).PubKey.Hex()].Trust
}

// cloud outlives a machine: it is a blob server, and relays.
type cloud struct {
	mu    sync.Mutex
	blobs map[guild.Hash][]byte
	puts  int
	wraps []guild.Verified
	note  guild.Verified // the latest one
	down  error          // if not nil, blobs are neither accepted nor returned
	deaf  error          // if not nil, relays accept nothing
}

func newCloud() *cloud { return &cloud{blobs: map[guild.Hash][]byte{}} }

// fails sets the errors of the blob server and of the relays from now on; nil ends them.
func (c *cloud) fails(blobs, relays error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down, c.deaf = blobs, relays
}

func (c *cloud) upload(_ context.Context, sealed []byte) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down != nil {
		return nil, c.down
	}
	h := guild.Sum(sealed)
	c.blobs[h] = slices.Clone(sealed)
	c.puts++
	return []string{"https://blobs.example.com/" + h.Hex()}, nil
}

func (c *cloud) fetch(_ context.Context, urls []string, h guild.Hash) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.blobs[h]
	if c.down != nil || !ok || !slices.Contains(urls, "https://blobs.example.com/"+h.Hex()) {
		return nil, errors.New("404 Not Found")
	}
	return slices.Clone(b), nil
}

func (c *cloud) publish(_ context.Context, v guild.Verified, _ []string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deaf != nil {
		return c.deaf
	}
	if v.Event().Kind == kindNote {
		c.note = v
		return nil
	}
	c.wraps = append(c.wraps, v)
	return nil
}

func (c *cloud) messages() []guild.Verified {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.wraps)
}

// world is a journal with the step, a matrix and a cloud.
type world struct {
	*steptest.World
	*Step
	*cloud
	fold   *Fold
	matrix *matrix
	config Config
	dies   func(part string) error // called before a part is restored
}

// newWorld opens an empty journal. Nothing runs yet.
func newWorld(t *testing.T, c *cloud) *world {
	t.Helper()
	w := &world{World: steptest.New(t), cloud: c}
	w.open()
	return w
}

func (w *world) open() {
	w.Helper()
	p := policy.Specification().Backup
	w.fold, w.matrix = NewFold(p), newMatrix()
	w.OpenJournal(w.fold, w.matrix)
	c := w.config
	c.Journal, c.Keyer, c.PubKey, c.Now, c.Policy = w.Journal, us, us.key, time.Now, p
	c.Upload, c.Fetch, c.Publish = w.upload, w.fetch, w.publish
	c.Relays = func() []string { return []string{"wss://relay.example.com"} }
	c.InForce = func() guild.Hash { return guild.Sum([]byte("policy")) }
	c.Parts = []Part{
		{"trust", func() map[string]json.RawMessage { return encoded(w.matrix, w.matrix.trust) }, w.restoreTrust},
		{"state", func() map[string]json.RawMessage { return encoded(w.matrix, w.matrix.state) }, w.restoreState},
	}
	w.Step = New(c, w.fold)
}

// restart closes everything and opens it again, as a restarted process does.
func (w *world) restart() {
	w.Helper()
	w.open()
	w.Run(w.Due)
}

func (w *world) restoreTrust(ctx context.Context, wanted map[string]json.RawMessage, _ string) error {
	for _, k := range slices.Sorted(maps.Keys(wanted)) {
		var row trustRow
		if err := w.dying("trust"); err != nil {
			return err
		}
		if err := json.Unmarshal(wanted[k], &row); err != nil {
			return err
		}
		err := w.Journal.Do(ctx, fact.TrustSubject("python"), "", func(tx *journal.Tx) error {
			w.matrix.mu.RLock()
			defer w.matrix.mu.RUnlock()
			if now := w.matrix.trust[k]; now != row {
				tx.Append(fact.TrustChanged{Task: "python", Service: row.Service, From: now.Trust, To: row.Trust, Rule: fact.RuleRestored})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) restoreState(ctx context.Context, wanted map[string]json.RawMessage, _ string) error {
	for _, k := range slices.Sorted(maps.Keys(wanted)) {
		var row stateRow
		if err := w.dying("state"); err != nil {
			return err
		}
		if err := json.Unmarshal(wanted[k], &row); err != nil {
			return err
		}
		err := w.Journal.Do(ctx, fact.ProviderSubject(row.Service.PubKey), "", func(tx *journal.Tx) error {
			w.matrix.mu.RLock()
			defer w.matrix.mu.RUnlock()
			if now := w.matrix.state[k]; now != row {
				tx.Append(fact.ProviderMoved{Service: row.Service, From: now.State, To: row.State, Signal: Restoring})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) dying(part string) error {
	if w.dies == nil {
		return nil
	}
	return w.dies(part)
}

// happens appends facts, each as an entry of its own.
func (w *world) happens(facts ...fact.Fact) {
	w.Helper()
	for _, f := range facts {
		subject := fact.TrustSubject("python")
		if m, ok := f.(fact.ProviderMoved); ok {
			subject = fact.ProviderSubject(m.Service.PubKey)
		}
		w.Write(subject, f)
	}
}

func (w *world) hash() guild.Hash {
	w.Helper()
	h, err := Hash(w.Step.c.Parts)
	if err != nil {
		w.Fatal(err)
	}
	return h
}

// count counts the facts of a type.
func (w *world) count(kind string) (n int) {
	w.Helper()
	for _, t := range w.FactTypes("") {
		if t == kind {
			n++
		}
	}
	return n
}

// restored returns a new machine with the same key, and the report of restoring the cloud's backup to it.
func restored(t *testing.T, c *cloud, o Options) (*world, Report, error) {
	t.Helper()
	w := newWorld(t, c)
	r, err := w.Restore(t.Context(), c.messages(), o)
	return w, r, err
}

// opened returns the messages in the cloud, the newest first.
func (w *world) opened() []message {
	w.Helper()
	all, err := w.Step.messages(w.Context(), w.cloud.messages())
	if err != nil {
		w.Fatal(err)
	}
	return all
}

func (w *world) String() string { return fmt.Sprint(w.List()) }
