package wallet

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"guild/cashu"
	"guild/internal/hand/mint"
	"guild/internal/hand/mintd"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

var errCut = errors.New("the line was cut")

// line carries requests to mints. It can be cut before a request goes out or after its answer.
type line struct {
	mu      sync.Mutex
	calls   []string
	cut     func(n int, path string) (before, after bool) // nil for never
	sends   func(path string, body []byte)                // what the mint is asked
	changes func(path string, r *http.Response)           // what the mint answers
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	l.calls = append(l.calls, path)
	before, after := false, false
	if l.cut != nil {
		before, after = l.cut(len(l.calls), path)
	}
	if before {
		return nil, errCut
	}
	if l.sends != nil && r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			b, _ := io.ReadAll(body)
			l.sends(path, b)
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && after {
		resp.Body.Close()
		return nil, errCut
	}
	if err == nil && l.changes != nil {
		l.changes(path, resp)
	}
	return resp, err
}

// bank is a real mint over loopback.
type bank struct {
	asset Asset
	mu    sync.Mutex
	mint  *mintd.Mint
	now   time.Time
	dir   string
	fee   uint64
}

func newBank(t *testing.T, fee uint64) *bank {
	t.Helper()
	b := &bank{now: time.Now(), dir: journaltest.Dir(t), fee: fee}
	b.open(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.mint.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.Close(); b.mint.Close() })
	b.asset = Asset{server.URL, mintd.Unit}
	return b
}

func (b *bank) open(t *testing.T) {
	t.Helper()
	m, err := mintd.Open(b.dir, mintd.Options{Now: func() time.Time { return b.now }, Faucet: 1 << 20, Fee: b.fee, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b.mint = m
}

// rotate has the mint sign with a new keyset.
func (b *bank) rotate(t *testing.T, fee uint64) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.mint.Close(); err != nil {
		t.Fatal(err)
	}
	b.fee = fee
	b.open(t)
}

// world is a wallet with its journal and a line to mints.
type world struct {
	*testing.T
	*Wallet
	line    *line
	seed    Seed
	dir     string
	journal *journal.Journal
	now     time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, line: &line{}, dir: journaltest.Dir(t), seed: Seed(NewOp() + NewOp()), now: time.Now()}
	if err := journal.Init(w.dir); err != nil {
		t.Fatal(err)
	}
	w.open()
	return w
}

// open opens the wallet, as a new process does.
func (w *world) open() {
	w.Helper()
	w.close()
	f := NewFold()
	w.journal = journaltest.Reopen(w.T, w.dir, f)
	w.Wallet = New(Config{Journal: w.journal, Seed: w.seed,
		Mint: func(url string) (*mint.Mint, error) { return mint.New(url, &http.Client{Transport: w.line}) }}, f)
	w.checked()
}

func (w *world) close() {
	w.Helper()
	if w.journal == nil {
		return
	}
	w.ok(w.journal.Close())
	w.journal = nil
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// checked checks the ledger.
func (w *world) checked() {
	w.Helper()
	w.ok(w.Fold().Check())
}

// settle does what is due until nothing is, and returns the errors of those that are tried again.
func (w *world) settle() (errs error) {
	w.Helper()
	for range 50 {
		before := w.journal.Last()
		for _, work := range w.Due(w.now) {
			decide, err := work.Act(w.Context())
			errs = errors.Join(errs, err)
			if err == nil {
				w.ok(w.journal.Do(w.Context(), work.Guard, work.Key, decide))
				w.checked()
			}
		}
		if w.journal.Last() == before {
			return errs
		}
	}
	w.Fatal("it never ends")
	return nil
}

// funded has the wallet hold an amount of a mint.
func (w *world) funded(b *bank, amount uint64) {
	w.Helper()
	w.ok(w.AddMint(w.Context(), b.asset))
	op, _, err := w.Fund(w.Context(), b.asset, amount)
	w.ok(err)
	w.ok(w.settle())
	w.ok(w.Wait(w.Context(), op))
}

// account returns the balance of an account of a mint.
func (w *world) account(b *bank, name string) int64 {
	for _, one := range w.Fold().Balances() {
		if one.Asset == b.asset {
			return one.Accounts[name]
		}
	}
	return 0
}

// want checks balances: free, held and so on.
func (w *world) want(b *bank, accounts map[string]int64) {
	w.Helper()
	for name, amount := range accounts {
		if got := w.account(b, name); got != amount {
			w.Errorf("%s is %d, want %d", name, got, amount)
		}
	}
	w.agrees()
}

// agrees checks that the mint and the wallet agree.
func (w *world) agrees() {
	w.Helper()
	r, err := w.Reconcile(w.Context())
	if err != nil || len(r.Differences)+len(r.Imbalances) > 0 {
		w.Errorf("the mint disagrees: %+v, %v", r, err)
	}
}

// plan records what a decision plans.
func (w *world) plan(planned fact.EcashPlanned, err error) {
	w.Helper()
	w.ok(err)
	w.ok(w.journal.Do(w.Context(), fact.Ledger, "", func(tx *journal.Tx) error { tx.Append(planned); return nil }))
}

// lockOf returns a lock between two wallets, until a time.
func lockBetween(t *testing.T, customer, provider *Wallet, until time.Time) *fact.EcashLock {
	t.Helper()
	ours, err := customer.Seed().Key(PayerKey, "attempt")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := provider.Seed().Key(PayeeKey, "attempt")
	if err != nil {
		t.Fatal(err)
	}
	return &fact.EcashLock{Provider: theirs.PubKey(), Customer: ours.PubKey(), Locktime: until.Unix()}
}

// terms returns what a mint asks for.
func (w *world) terms(b *bank) Terms {
	w.Helper()
	t, err := w.Terms(w.Context(), b.asset)
	w.ok(err)
	return t
}

// locked returns the ecash that an operation locked, with the signatures of keys.
func (w *world) locked(op string, keys ...cashu.Scalar) (proofs []cashu.Proof) {
	w.Helper()
	coins, _ := w.Fold().Outputs(op)
	for _, c := range coins {
		p, err := w.Proof(c)
		w.ok(err)
		var witness cashu.Witness
		for _, key := range keys {
			w.ok(witness.Sign(key, p.Secret))
		}
		p.Witness = witness.Text()
		proofs = append(proofs, p)
	}
	return proofs
}

func (w *world) key(purpose string) cashu.Scalar {
	w.Helper()
	key, err := w.Seed().Key(purpose, "attempt")
	w.ok(err)
	return key
}
