package pay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/cashu"
	"guild/cashu/token"
	"guild/internal/hand/bitcoind"
	"guild/internal/hand/bitcoind/bitcoindtest"
	"guild/internal/hand/dm"
	"guild/internal/hand/key"
	"guild/internal/hand/lightning"
	"guild/internal/hand/mint"
	"guild/internal/hand/mintd"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
	"guild/internal/wallet"
	"guild/nip90"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

var (
	theJob  = guild.JobID{1}
	attempt = nostr.ID{7}
)

// party is a node's wallet and step, with a real journal.
type party struct {
	*Pay
	wallet  *wallet.Wallet
	dir     string
	signer  *key.Signer
	pubkey  nostr.PubKey
	seed    wallet.Seed
	journal *journal.Journal
	deaf    bool         // it gets no messages
	inbox   []dm.Message // that wait
	bitcoin *bitcoind.Wallet
	purse   *bitcoindtest.Purse // that it is connected to
}

// world is a customer, a provider and a mint over loopback, at a time that the test sets.
type world struct {
	*testing.T
	asset              wallet.Asset
	now                time.Time
	customer, provider *party
	arbiter            *party // nil if the order names none
	waiting            bool   // the attempt waits for its provider
	quote              func(*world, *fact.AttemptQuoted)
	lightning          *network            // nil if nobody has a Lightning wallet
	chain              *bitcoindtest.Chain // nil if nobody has a Bitcoin wallet
	change             func(from *party, m *dm.Message)
	refusals           []error
	at                 string   // the point at which a process dies, "" for none
	points             []string // at which one could have died
	acting             *party   // that does work, and can die at a call
	dead               bool     // it died so
}

func newWorld(t *testing.T, order fact.Settlement, price uint64) *world {
	t.Helper()
	return changedWorld(t, order, price, nil)
}

// changedWorld is a world whose customer gets a changed quote.
func changedWorld(t *testing.T, order fact.Settlement, price uint64, quote func(*world, *fact.AttemptQuoted)) *world {
	t.Helper()
	return fundedWorld(t, order, price, quote, 10_000, 0)
}

// fundedWorld is a world whose customer has an amount, and whose mint takes a fee for each coin, in thousandths.
func fundedWorld(t *testing.T, order fact.Settlement, price uint64, quote func(*world, *fact.AttemptQuoted), funds, fee uint64) *world {
	t.Helper()
	w := &world{T: t, now: time.Now().Truncate(time.Second), waiting: true, quote: quote}
	if order.How == onchain {
		w.chain = bitcoindtest.New()
	}
	if inBitcoin(order.Unit) {
		w.lightning = &network{t: t, now: func() time.Time { return w.now }}
	}
	m, err := mintd.Open(journaltest.Dir(t), mintd.Options{Now: func() time.Time { return w.now }, Faucet: 1 << 30, Fee: fee, Log: slog.New(slog.DiscardHandler)})
	w.ok(err)
	server := httptest.NewServer(m.Handler())
	t.Cleanup(func() { server.Close(); m.Close() })
	w.asset = wallet.Asset{Mint: server.URL, Unit: mintd.Unit}
	parties := []**party{&w.customer, &w.provider}
	if order.Arbiter != nil {
		parties = append(parties, &w.arbiter)
	}
	for i, p := range parties {
		secret := key.NewSecret(nostr.SecretKey{31: byte(i + 1)})
		*p = &party{dir: journaltest.Dir(t), signer: key.NewSigner(secret), pubkey: secret.PubKey(), seed: wallet.Seed{byte(i), 31: 1}}
		w.ok(journal.Init((*p).dir))
		if w.chain != nil {
			purse := w.chain.Purse()
			c, err := bitcoind.Parse(purse.Serve(t))
			w.ok(err)
			(*p).bitcoin, (*p).purse = bitcoind.New(c), purse
			if i == 0 {
				w.chain.Fund(purse, 4)
			}
		}
	}
	for _, p := range parties {
		w.open(*p)
	}
	if w.arbiter != nil {
		*order.Arbiter = w.announced()
	}
	w.ok(w.customer.wallet.AddMint(t.Context(), w.asset))
	w.ok(w.provider.wallet.AddMint(t.Context(), w.asset))
	_, _, err = w.customer.wallet.Fund(t.Context(), w.asset, funds)
	w.ok(err)
	w.pump()
	deadline := w.now.Add(time.Hour)
	if order.How == onchain {
		deadline = w.now.Add(2 * time.Hour)
	}
	planned := fact.AttemptPlanned{Attempt: attempt, Job: theJob, Provider: guild.Service{PubKey: w.provider.pubkey, D: "d"}}
	var hold guild.Hash
	if order.How == escrow {
		if planned.Hold = w.customer.NewHold(order.Unit); planned.Hold != nil {
			hold = planned.Hold.Hash
		}
	}
	w.writes(w.customer, fact.JobSubject(theJob), fact.JobOpened{Job: theJob, Task: "python", Deadline: deadline.UnixMilli(), Settle: &order, Tries: 1}, planned)
	if order.How == onchain {
		w.quoteOnchain(deadline, price)
		return w
	}
	asking := fact.RequestReceived{Request: attempt, Customer: w.customer.pubkey, Deadline: deadline.UnixMilli(), Hold: hold, Arbiter: order.Arbiter}
	terms, invoice, err := w.provider.Quote(t.Context(), asking, w.now.Add(10*time.Minute), price, order.Unit, order.How == prepaid)
	w.ok(err)
	if inv, err := bolt11.Decode(invoice); err != nil || inv.PaymentHash != hold {
		hold = guild.Hash{}
	}
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestQuoted{
		Request: attempt, Customer: w.customer.pubkey, Deadline: deadline.UnixMilli(), Terms: terms, Invoice: invoice, Hold: hold, Arbiter: order.Arbiter,
	})
	quoted := fact.AttemptQuoted{Attempt: attempt, Terms: terms, Invoice: invoice, Event: nostr.ID{9}, Hold: planned.Hold != nil && terms == ""}
	if invoice != "" {
		quoted.Amount = msats(order.Unit, price)
	}
	if w.quote != nil {
		w.quote(w, &quoted)
	}
	w.writes(w.customer, fact.JobSubject(theJob), quoted)
	return w
}

// announced returns the arbiter as it is found.
func (w *world) announced() nip90.Arbiter {
	w.Helper()
	key, err := w.arbiter.arbiterKey()
	w.ok(err)
	return nip90.Arbiter{PubKey: w.arbiter.pubkey, Key: key.PubKey()}
}

// open opens a party, as a new process does.
func (w *world) open(p *party) {
	w.Helper()
	if p.journal != nil {
		w.ok(p.journal.Close())
	}
	wf, pf := wallet.NewFold(), NewFold()
	var err error
	p.journal, err = journal.Open(w.Context(), journal.Options{Dir: p.dir, Node: "test", Now: func() time.Time { return w.now }, NoSync: true,
		Log: slog.New(slog.DiscardHandler), Folds: []fold.Fold{wf, pf}})
	w.ok(err)
	j := p.journal
	w.Cleanup(func() { j.Close() })
	p.wallet = wallet.New(wallet.Config{Journal: j, Seed: p.seed, Mint: func(url string) (*mint.Mint, error) { return mint.New(url, &http.Client{Transport: w}) }}, wf)
	p.Pay = New(Config{Journal: j, Wallet: p.wallet, Keyer: p.signer, PubKey: p.pubkey, Now: func() time.Time { return w.now },
		Send: func(ctx context.Context, wrap guild.Verified, to nostr.PubKey) error {
			return w.carry(ctx, p, wrap, to)
		},
		FindArbiter: func(_ context.Context, pubkey nostr.PubKey) (nip90.Arbiter, error) {
			if w.arbiter == nil || pubkey != w.arbiter.pubkey {
				return nip90.Arbiter{}, errors.New("nobody announces that")
			}
			return w.announced(), nil
		},
		Ours:    func(pubkey nostr.PubKey) bool { return pubkey == p.pubkey },
		Waiting: func(nostr.ID) bool { return w.waiting },
		Bitcoin: func() Bitcoin {
			if p.bitcoin == nil {
				return nil
			}
			return &bitcoinWallet{p.bitcoin, w}
		},
		Lightning: func() lightning.Wallet {
			if w.lightning == nil {
				return nil
			}
			return &lightningWallet{network: w.lightning, customer: p == w.customer, line: w}
		},
	}, pf)
	w.ok(wf.Check())
}

// carry puts a message into the inbox of its recipient.
func (w *world) carry(ctx context.Context, from *party, wrap guild.Verified, to nostr.PubKey) error {
	p := w.provider
	switch {
	case to == w.customer.pubkey:
		p = w.customer
	case w.arbiter != nil && to == w.arbiter.pubkey:
		p = w.arbiter
	}
	m, err := dm.Open(ctx, p.signer, p.pubkey, wrap)
	if err != nil {
		return err
	}
	if w.change != nil {
		w.change(from, &m)
	}
	return w.call("a message", func() error {
		if !p.deaf {
			p.inbox = append(p.inbox, m)
		}
		return nil
	})
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) writes(p *party, about fact.Subject, facts ...fact.Fact) {
	w.Helper()
	w.ok(p.journal.Do(w.Context(), about, "", func(tx *journal.Tx) error { tx.Append(facts...); return nil }))
}

// takes reads a message as a node does.
func (p *party) takes(ctx context.Context, m dm.Message) error {
	switch dm.TypeOf(m.Content) {
	case dm.TypeRelease:
		return p.TakeRelease(ctx, m)
	case dm.TypeReturn:
		return p.TakeReturn(ctx, m)
	case dm.TypeCase:
		return p.TakeCase(ctx, m)
	case dm.TypeRuling:
		return p.TakeRuling(ctx, m)
	}
	return p.TakeLock(ctx, m)
}

// step does the first work that is ready and changes something, or reads a message. It returns false if there is neither.
func (w *world) step(p *party) bool {
	w.Helper()
	if len(p.inbox) > 0 {
		m := p.inbox[0]
		p.inbox = p.inbox[1:]
		err := p.takes(w.Context(), m)
		if _, dropped := errors.AsType[*guild.DropError](err); err != nil && !dropped {
			w.Fatal(err)
		}
		w.refusals = append(w.refusals, err)
		return true
	}
	for _, work := range append(p.wallet.Due(w.now), p.Due(w.now)...) {
		if work.Ready.After(w.now) {
			continue
		}
		before := p.journal.Last()
		w.acting = p
		decide, err := work.Act(w.Context())
		w.acting = nil
		if w.dead {
			w.open(p)
			w.dead = false
			return true
		}
		if errors.Is(err, lightning.ErrOpen) {
			continue
		}
		w.ok(err)
		if w.dies(p, "before", work.Key) {
			w.open(p)
			return true
		}
		w.ok(p.journal.Do(w.Context(), work.Guard, work.Key, decide))
		w.ok(p.wallet.Fold().Check())
		if p.journal.Last() != before {
			if w.dies(p, "after", work.Key) {
				w.open(p)
			}
			return true
		}
	}
	return false
}

var errDead = errors.New("the process is dead")

// call makes a call over the network, before or after which the process that makes it may die.
func (w *world) call(what string, f func() error) error {
	p := w.acting
	if p == nil {
		return f()
	}
	if w.dead = w.dead || w.dies(p, "before", what); w.dead {
		return errDead
	}
	err := f()
	if w.dead = w.dies(p, "after", what); w.dead {
		return errDead
	}
	return err
}

// RoundTrip is a call to a mint.
func (w *world) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/"), "/0")
	err = w.call("the mint's "+path, func() error {
		resp, err = http.DefaultTransport.RoundTrip(r)
		return err
	})
	if err != nil && resp != nil {
		resp.Body.Close()
		resp = nil
	}
	return resp, err
}

// dies reports whether this is the point at which a party dies. What it has done before it is done.
func (w *world) dies(p *party, when, what string) bool {
	w.Helper()
	who := "the customer"
	switch p {
	case w.provider:
		who = "the provider"
	case w.arbiter:
		who = "the arbiter"
	}
	if strings.HasPrefix(what, "ecash ") {
		what = "the mint's answer"
	} else {
		what, _, _ = strings.Cut(what, " 0") // the attempt, which begins so
	}
	point := fmt.Sprintf("%s dies %s: %s", who, when, what)
	for n := 2; slices.Contains(w.points, point); n++ {
		point = fmt.Sprintf("%s dies %s: %s (%d)", who, when, what, n)
	}
	w.points = append(w.points, point)
	if point != w.at {
		return false
	}
	w.at = ""
	return true
}

// pump does what is due at both until nothing is.
func (w *world) pump() {
	w.Helper()
	for range 200 {
		if !w.step(w.customer) && !w.step(w.provider) && (w.arbiter == nil || !w.step(w.arbiter)) {
			return
		}
	}
	w.Fatal("it never ends")
}

// later lets time pass.
func (w *world) later(d time.Duration) {
	w.Helper()
	w.now = w.now.Add(d)
	w.pump()
}

// judged ends the attempt with a verdict, which the provider has delivered for.
func (w *world) judged(o guild.Outcome, s guild.Strength) {
	w.Helper()
	w.waiting = false
	w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: "delivered"})
	w.writes(w.customer, fact.JobSubject(theJob), fact.AttemptJudged{Attempt: attempt, Verdict: guild.Verdict{Outcome: o, Strength: s}})
}

// ends ends the attempt without a verdict.
func (w *world) ends(f fact.Fact) {
	w.Helper()
	w.waiting = false
	w.writes(w.customer, fact.JobSubject(theJob), f)
}

// facts returns the facts of one type.
func facts[F fact.Fact](w *world, p *party) (found []F) {
	w.Helper()
	for e, err := range p.journal.Entries(w.Context(), 1) {
		w.ok(err)
		for _, f := range e.Facts {
			if f, ok := f.(F); ok {
				found = append(found, f)
			}
		}
	}
	return found
}

// want checks what each has, that the mint agrees, and that a snapshot is the same state.
func (w *world) want(customer, held, provider int64) {
	w.Helper()
	if c, h, p := w.has(w.customer, wallet.Free), w.has(w.customer, wallet.Held), w.has(w.provider, wallet.Free); c != customer || h != held || p != provider {
		w.Errorf("the customer has %d and %d held, the provider %d; want %d, %d and %d", c, h, p, customer, held, provider)
	}
	for _, p := range []*party{w.customer, w.provider} {
		found, err := p.wallet.Reconcile(w.Context())
		for _, d := range found.Differences { // what was released is the provider's, and what waits for the locktime is not spent
			w.Errorf("the mint disagrees: %+v", d)
		}
		w.ok(err)
		w.ok(p.wallet.Fold().Check())
		f := NewFold()
		before := foldtest.Snapshot(w, p.fold)
		w.ok(f.Restore([]byte(before)))
		if foldtest.Snapshot(w, f) != before {
			w.Error("a snapshot is another state")
		}
	}
}

// has returns what is in an account of the mint's ecash.
func (w *world) has(p *party, account string) int64 {
	for _, b := range p.wallet.Fold().Balances() {
		if b.Asset == w.asset {
			return b.Accounts[account]
		}
	}
	return 0
}

// over checks that both have forgotten the escrow.
func (w *world) over() {
	w.Helper()
	if o, l := w.customer.fold.open(), w.provider.fold.locks(); len(o)+len(l) > 0 {
		w.Errorf("not over: %+v %+v", o, l)
	}
}

// steals spends up to n of the locked coins with the customer's refund key, although it has released them, and returns their
// worth.
func (w *world) steals(n int) (worth uint64) {
	w.Helper()
	offered := facts[fact.LockOffered](w, w.provider)[0]
	key, err := w.customer.seed.Key(wallet.PayerKey, attempt.Hex())
	w.ok(err)
	proofs := offered.Proofs[:min(n, len(offered.Proofs))]
	for i, p := range proofs {
		var witness cashu.Witness
		w.ok(witness.Sign(key, p.Secret))
		proofs[i].Witness = witness.Text()
	}
	worth, err = cashu.Worth(proofs)
	w.ok(err)
	w.swap(proofs)
	return worth
}

// swap has the mint swap ecash for other ecash, which nobody keeps.
func (w *world) swap(proofs []cashu.Proof) {
	w.Helper()
	worth, err := cashu.Worth(proofs)
	w.ok(err)
	m, err := w.customer.wallet.Mint(w.asset.Mint)
	w.ok(err)
	active, err := m.Active(w.Context(), w.asset.Unit)
	w.ok(err)
	var outputs []cashu.Output
	for i, amount := range cashu.Split(worth) {
		b, err := cashu.Blind(fmt.Sprint("stolen ", i), cashu.RandomScalar())
		w.ok(err)
		outputs = append(outputs, cashu.Output{Amount: amount, Keyset: active.ID, B: b})
	}
	_, err = m.Swap(w.Context(), proofs, outputs)
	w.ok(err)
}

// rewrittenLock changes the payments that a customer sends.
func rewrittenLock(w *world, by func(*token.Payment)) {
	w.change = func(_ *party, m *dm.Message) {
		if p, err := token.ParsePayment(m.Content); err == nil {
			by(&p)
			m.Content = p.String()
		}
	}
}
