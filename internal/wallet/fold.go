package wallet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"guild/cashu"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// Asset is a unit of ecash at one mint.
type Asset struct{ Mint, Unit string }

// Lightning is the ledger of what the owner's Lightning wallet paid and was paid, which has the money.
var Lightning = Asset{Mint: "lightning", Unit: "msat"}

// Chain is the ledger of what the owner's Bitcoin wallet paid and was paid on the chain, which has the money.
var Chain = Asset{Mint: "bitcoin", Unit: "sat"}

// bookOf names the ledger of an asset. It is a type of its own, since coins embed their asset: they would be encoded as its text.
type bookOf Asset

// MarshalText writes the unit, a space and the mint.
func (b bookOf) MarshalText() ([]byte, error) { return []byte(b.Unit + " " + b.Mint), nil }

// UnmarshalText reads what MarshalText wrote.
func (b *bookOf) UnmarshalText(text []byte) error {
	var ok bool
	if b.Unit, b.Mint, ok = strings.Cut(string(text), " "); !ok {
		return fmt.Errorf("asset %.80q: want a unit and a mint", text)
	}
	return nil
}

// Accounts of an asset. Together they are always zero: what comes in is taken from Outside, Earned or Returned.
const (
	Free    = "wallet"  // can be spent
	Held    = "held"    // locked for attempts
	Paid    = "paid"    // released to providers
	Sent    = "sent"    // given away as tokens
	Earned  = "earned"  // released to us by customers
	Outside = "outside" // what was issued or received
	Fees    = "fees"    // taken by the mint
	Lost    = "lost"    // spent by somebody else, the mint says

	Corrected = "corrected" // what the owner had closed of a difference
)

// Fold is the wallet's ecash, its operations and its ledger, from the facts about money.
type Fold struct{ *fold.State[state] }

type state struct {
	Mints    []Asset                              `json:"mints"`    // that the owner added
	Coins    fold.Table[string, coin]             `json:"coins"`    // that are ours, or locked by us, by name
	Ops      fold.Table[string, operation]        `json:"ops"`      // that the mint has not done yet
	Counters fold.Table[string, uint32]           `json:"counters"` // the next one, by keyset
	Failed   []failure                            `json:"failed"`   // the latest operations that the mint will not do
	Books    fold.Table[bookOf, map[string]int64] `json:"books"`    // balance of each account; never changed in place
}

// failure is an operation that the mint will not do.
type failure struct {
	Op     string `json:"op"`
	Reason string `json:"reason"`
}

// reason returns why a mint will not do an operation, "" if it is not among the latest that failed.
func (f *Fold) reason(op string) (reason string) {
	f.View(func(s *state) {
		for _, one := range s.Failed {
			if one.Op == op {
				reason = one.Reason
			}
		}
	})
	return reason
}

// coin is ecash of the wallet.
type coin struct {
	Asset
	Keyset  string          `json:"keyset"`
	Amount  uint64          `json:"amount"`
	Counter uint32          `json:"counter,omitempty"`
	Lock    *fact.EcashLock `json:"lock,omitempty"`
	C       cashu.Signature `json:"signature"`      // blinded
	Key     cashu.Point     `json:"key"`            // of the mint, that signed it
	In      string          `json:"in,omitempty"`   // the operation that spends it
	Sent    bool            `json:"sent,omitempty"` // given away in a token
}

// operation is a planned transaction.
type operation struct {
	fact.EcashPlanned
	At int64 `json:"at"` // Unix ms
}

// asset of the operation.
func (o operation) asset() Asset { return Asset{o.Mint, o.Unit} }

// NewFold returns an empty fold.
func NewFold() *Fold { return &Fold{fold.NewState[state]("wallet", 3)} }

// Apply implements fold.Fold.
func (f *Fold) Apply(e fact.Entry) {
	if e.Subject != fact.Ledger {
		return
	}
	f.Change(func(s *state) {
		for _, one := range e.Facts {
			s.apply(one, e.At)
		}
	})
}

func (s *state) apply(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.MintAdded:
		if a := (Asset{one.Mint, one.Unit}); !slices.Contains(s.Mints, a) {
			s.Mints = append(slices.Clip(s.Mints), a)
		}
	case fact.EcashPlanned:
		s.planned(one, at)
	case fact.EcashSettled:
		s.settled(one)
	case fact.EcashFailed:
		s.failed(one)
	case fact.EcashLost:
		for _, c := range one.Coins {
			s.lose(c)
		}
	case fact.LedgerCorrected:
		if one.Amount < 0 {
			s.move(Asset{one.Mint, one.Unit}, one.Account, Corrected, uint64(-one.Amount))
		} else {
			s.move(Asset{one.Mint, one.Unit}, Corrected, one.Account, uint64(one.Amount))
		}
	case fact.PaymentReleased:
		for _, c := range one.Coins {
			s.Coins.Delete(name(c))
		}
		if one.Mint != "" { // what is held over Lightning is paid when the provider takes it
			s.move(Asset{one.Mint, one.Unit}, Held, Paid, one.Amount)
		}
	case fact.PaymentReserved:
		s.move(Lightning, Outside, Held, uint64(one.Msat))
		if one.Bitcoin != "" {
			s.move(Chain, Outside, Held, one.Amount)
		}
	case fact.PaymentMined:
		s.move(Chain, Held, Paid, one.Amount)
		s.move(Chain, Held, Fees, one.Fee)
	case fact.CoinsUnpaid:
		s.move(Chain, Held, Outside, one.Amount)
	case fact.CoinsReceived:
		s.move(Chain, Earned, Outside, one.Amount)
	case fact.CoinsLost:
		s.move(Chain, Outside, Earned, one.Amount)
	case fact.InvoicePaid:
		s.move(Lightning, Held, Paid, uint64(one.Msat))
		s.move(Lightning, Outside, Fees, uint64(one.Fees))
	case fact.InvoiceUnpaid:
		s.move(Lightning, Held, Outside, uint64(one.Msat))
	case fact.InvoiceSettled:
		s.move(Lightning, Earned, Outside, uint64(one.Msat))
	}
}

// name of a coin in tables.
func name(c fact.Coin) string { return fmt.Sprintf("%s.%d", c.Op, c.N) }

func (s *state) planned(p fact.EcashPlanned, at int64) {
	s.Ops.Set(p.Op, operation{EcashPlanned: p, At: at})
	for _, in := range p.Inputs {
		if c, ok := s.Coins.Get(name(in)); ok { // not after a repair that lost the entry with it
			c.In = p.Op
			s.Coins.Set(name(in), c)
		}
	}
	s.Counters.Set(p.Keyset, max(s.Counters.Of(p.Keyset), p.Next))
	for _, out := range p.Outputs {
		if !out.Locked {
			s.Counters.Set(p.Keyset, max(s.Counters.Of(p.Keyset), out.Counter+1))
		}
	}
}

// settled turns the outputs of an operation into coins, and books it.
func (s *state) settled(done fact.EcashSettled) {
	op, ok := s.Ops.Get(done.Op)
	if !ok || len(done.Signatures) != len(op.Outputs) || len(done.Keys) != len(op.Outputs) {
		return
	}
	s.Ops.Delete(done.Op)
	for _, in := range op.Inputs {
		s.Coins.Delete(name(in))
	}
	sent := op.Amount // of a token, the first outputs
	for i, out := range op.Outputs {
		c := coin{Asset: op.asset(), Keyset: op.Keyset, Amount: out.Amount, Counter: out.Counter, C: done.Signatures[i], Key: done.Keys[i]}
		if out.Locked {
			c.Lock = op.Lock
		}
		if op.Kind == Send && sent >= out.Amount {
			c.Sent, sent = true, sent-out.Amount
		}
		s.Coins.Set(name(fact.Coin{Op: op.Op, N: i}), c)
	}
	s.book(op)
}

// books has the accounts that an operation of each kind moves its amount between.
var books = map[string][2]string{
	Issue: {Outside, Free}, Receive: {Outside, Free}, Restore: {Outside, Free}, Send: {Free, Sent}, Lock: {Free, Held}, Claim: {Earned, Free}, Refund: {Held, Free},
}

// book enters an operation: its amount goes from one account to another, and its fee to the mint.
func (s *state) book(op operation) {
	accounts := books[op.Kind]
	s.move(op.asset(), accounts[0], accounts[1], op.Amount)
	s.move(op.asset(), Free, Fees, op.Fee)
}

func (s *state) move(a Asset, from, to string, amount uint64) {
	if amount == 0 {
		return
	}
	book := maps.Clone(s.Books.Of(bookOf(a)))
	if book == nil {
		book = map[string]int64{}
	}
	book[from] -= int64(amount)
	book[to] += int64(amount)
	s.Books.Set(bookOf(a), book)
}

// failed frees the inputs of an operation, and books what is lost.
func (s *state) failed(f fact.EcashFailed) {
	op, ok := s.Ops.Get(f.Op)
	if !ok {
		return
	}
	s.Ops.Delete(f.Op)
	const most = 20
	s.Failed = append(slices.Clip(s.Failed[max(0, len(s.Failed)+1-most):]), failure{f.Op, f.Reason})
	for _, in := range op.Inputs {
		c, ok := s.Coins.Get(name(in))
		switch {
		case !ok:
		case slices.Contains(f.Lost, in):
			s.lose(in)
		default:
			c.In = ""
			s.Coins.Set(name(in), c)
		}
	}
}

// lose books a coin that somebody else has spent.
func (s *state) lose(lost fact.Coin) {
	c, ok := s.Coins.Get(name(lost))
	if !ok || c.Sent {
		return
	}
	s.Coins.Delete(name(lost))
	account := Free
	if c.Lock != nil {
		account = Held
	}
	s.move(c.Asset, account, Lost, c.Amount)
}

// Balance is the ledger of one asset, in its unit.
type Balance struct {
	Asset
	Accounts map[string]int64 // by the names above
}

// Balances returns the ledger of each asset, ordered by unit and mint.
func (f *Fold) Balances() []Balance {
	var all []Balance
	f.View(func(s *state) {
		for _, a := range s.Mints {
			all = append(all, Balance{Asset: a, Accounts: maps.Clone(s.Books.Of(bookOf(a)))})
		}
		for of, book := range s.Books.All() {
			a := Asset(of)
			if !slices.Contains(s.Mints, a) {
				all = append(all, Balance{Asset: a, Accounts: maps.Clone(book)})
			}
		}
	})
	slices.SortFunc(all, func(x, y Balance) int { return cmp.Or(cmp.Compare(x.Unit, y.Unit), cmp.Compare(x.Mint, y.Mint)) })
	return all
}

// Mints lists the assets that the owner added.
func (f *Fold) Mints() []Asset {
	return fold.Read(f.State, func(s *state) []Asset { return slices.Clone(s.Mints) })
}

// ErrShort means that there is too little money.
var ErrShort = errors.New("not enough money")

// spend chooses coins worth at least an amount and the fee for them, the largest first. It is deterministic.
func (s *state) spend(a Asset, amount uint64, fee func(keysets []string) (uint64, error)) (in []fact.Coin, sum, cost uint64, err error) {
	type candidate struct {
		name string
		coin
	}
	var all []candidate
	for name, c := range s.Coins.All() {
		if c.Asset == a && c.In == "" && c.Lock == nil && !c.Sent {
			all = append(all, candidate{name, c})
		}
	}
	slices.SortFunc(all, func(x, y candidate) int { return cmp.Or(cmp.Compare(y.Amount, x.Amount), cmp.Compare(x.name, y.name)) })
	var keysets []string
	for _, c := range all {
		if len(in) == cashu.MaxProofs {
			break
		}
		ref, err := parseName(c.name)
		if err != nil {
			return nil, 0, 0, err
		}
		if _, err := fee([]string{c.Keyset}); err != nil {
			continue // the mint does not list its keyset any more, so it does not take it
		}
		in, keysets, sum = append(in, ref), append(keysets, c.Keyset), sum+c.Amount
		if cost, err = fee(keysets); err != nil {
			return nil, 0, 0, err
		}
		if sum >= cost && sum-cost >= amount {
			return in, sum, cost, nil
		}
	}
	return nil, 0, 0, fmt.Errorf("%d %s are wanted and %d are free at %s: %w", amount, a.Unit, sum, a.Mint, ErrShort)
}

// parseName reads what name wrote.
func parseName(s string) (c fact.Coin, err error) {
	op, n, _ := strings.Cut(s, ".")
	c.Op = op
	c.N, err = strconv.Atoi(n)
	return c, err
}
