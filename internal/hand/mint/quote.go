package mint

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"guild"
	"guild/bolt11"
	"guild/cashu"
)

// Quote is the mint's offer to sign outputs when an invoice is paid (NUT-04, NUT-23).
type Quote struct {
	ID      string // secret, unless there is a Key: whoever knows it can have the outputs signed
	Amount  uint64
	Unit    string
	Request string      // the invoice to pay; anything up to bolt11.MaxSize bytes if the unit is neither sat nor msat
	Key     cashu.Point // that must sign the outputs (NUT-20); zero for none
	State   State
	Expiry  int64 // Unix seconds; 0 if the mint does not say it
}

// quoteAnswer is a quote as mints write it. Older ones leave out what the wallet knows, newer ones the state.
type quoteAnswer struct {
	Quote   string       `json:"quote"`
	Request string       `json:"request"`
	Amount  *uint64      `json:"amount"`
	Unit    string       `json:"unit"`
	Key     *cashu.Point `json:"pubkey"`
	State   State        `json:"state"`
	Paid    *uint64      `json:"amount_paid"`
	Issued  *uint64      `json:"amount_issued"`
	Expiry  int64        `json:"expiry"`
}

// Quote asks for a quote for an amount. With a key, which should be a new one, outputs are signed only for its owner; a mint that
// does not support that (NUT-20) is an error.
func (m *Mint) Quote(ctx context.Context, amount uint64, unit string, key cashu.Point) (q Quote, err error) {
	ctx, end := m.begin(ctx, "quote to mint", &err)
	defer end()
	request := struct {
		Amount uint64       `json:"amount"`
		Unit   string       `json:"unit"`
		Key    *cashu.Point `json:"pubkey,omitempty"`
	}{Amount: amount, Unit: unit}
	if key != (cashu.Point{}) {
		request.Key = &key
	}
	var answer quoteAnswer
	if err := m.call(ctx, request, &answer, "mint", "quote", "bolt11"); err != nil {
		return Quote{}, err
	}
	if request.Key != nil && answer.Key == nil {
		return Quote{}, errors.New("it does not support locked quotes (NUT-20)")
	}
	q = Quote{ID: answer.Quote, Amount: amount, Unit: unit, Request: answer.Request, Key: key}
	if !isQuoteID(q.ID) {
		return Quote{}, fmt.Errorf("the id of the quote is %.100q, which no URL can have", q.ID)
	}
	if err := checkInvoice(q.Request, amount, unit); err != nil {
		return Quote{}, err
	}
	return update(q, answer)
}

// QuoteState asks for the state of a quote. All else must be as before; an empty Request is that of the answer.
func (m *Mint) QuoteState(ctx context.Context, q Quote) (now Quote, err error) {
	ctx, end := m.begin(ctx, "state of a quote to mint", &err)
	defer end()
	if !isQuoteID(q.ID) {
		return Quote{}, errNotQuote
	}
	var answer quoteAnswer
	if err := m.call(ctx, nil, &answer, "mint", "quote", "bolt11", q.ID); err != nil {
		return Quote{}, err
	}
	q.Request = cmp.Or(q.Request, answer.Request)
	return update(q, answer)
}

// update returns the quote with the state and the expiry in an answer, if it agrees with all else.
func update(q Quote, a quoteAnswer) (Quote, error) {
	switch {
	case a.Quote != q.ID || a.Request != q.Request:
		return Quote{}, lie("the quote has another id or another invoice than before")
	case a.Amount != nil && *a.Amount != q.Amount:
		return Quote{}, lie("the quote is for %d instead of %d", *a.Amount, q.Amount)
	case a.Unit != "" && a.Unit != q.Unit:
		return Quote{}, lie("the quote is in %.32q instead of %s", a.Unit, q.Unit)
	case a.Key != nil && *a.Key != q.Key:
		return Quote{}, lie("the quote is locked to another key")
	}
	state := a.State
	if state == "" && a.Paid != nil && a.Issued != nil {
		switch {
		case *a.Issued >= q.Amount:
			state = Issued
		case *a.Paid >= q.Amount:
			state = Paid
		default:
			state = Unpaid
		}
	}
	rank := map[State]int{Unpaid: 1, Pending: 2, Paid: 2, Issued: 3}
	if rank[state] == 0 {
		return Quote{}, fmt.Errorf("the state of the quote is %.20q, which is not known", state)
	}
	if rank[state] < rank[q.State] {
		return Quote{}, lie("the quote was %s, and now it is %s", q.State, state)
	}
	q.State, q.Expiry = state, max(0, a.Expiry)
	return q, nil
}

// Issue has outputs signed for a paid quote, in their order. If the quote has a Key, the signature is its owner's on
// cashu.QuoteMessage, else it is empty.
func (m *Mint) Issue(ctx context.Context, q Quote, outputs []cashu.Output, signature string) (signatures []cashu.Signature, err error) {
	ctx, end := m.begin(ctx, "mint", &err)
	defer end()
	keysets, err := m.keysetsOf(ctx, outputs, false)
	if err != nil {
		return nil, err
	}
	request := struct {
		Quote     string         `json:"quote"`
		Outputs   []cashu.Output `json:"outputs"`
		Signature string         `json:"signature,omitempty"`
	}{q.ID, outputs, signature}
	var answer signaturesAnswer
	if err := m.call(ctx, request, &answer, "mint", "bolt11"); err != nil {
		return nil, err
	}
	return checkAll(keysets, outputs, answer.Signatures)
}

// MeltQuote is the mint's offer to pay an invoice for ecash (NUT-05, NUT-23).
type MeltQuote struct {
	ID       string
	Invoice  string
	Unit     string
	Amount   uint64 // without fees
	Reserve  uint64 // for fees of the payment: the inputs must be worth Amount, Reserve and their own fee
	State    State  // Paid is the mint's claim unless there is a Preimage
	Expiry   int64  // Unix seconds; 0 if the mint does not say it
	Preimage string // of the invoice's payment hash, in hex, if the mint gave it: the proof of the payment
}

// meltAnswer is a MeltQuote as mints write it.
type meltAnswer struct {
	Quote    string                `json:"quote"`
	Request  string                `json:"request"`
	Unit     string                `json:"unit"`
	Amount   uint64                `json:"amount"`
	Reserve  uint64                `json:"fee_reserve"`
	State    State                 `json:"state"`
	Expiry   int64                 `json:"expiry"`
	Preimage string                `json:"payment_preimage"`
	Change   list[cashu.Signature] `json:"change"`
}

// MeltQuote asks what it costs to pay an invoice, which must have an amount.
func (m *Mint) MeltQuote(ctx context.Context, invoice, unit string) (q MeltQuote, err error) {
	ctx, end := m.begin(ctx, "quote to melt", &err)
	defer end()
	inv, err := bolt11.Decode(invoice)
	if err != nil {
		return MeltQuote{}, err
	}
	if inv.Amount == 0 {
		return MeltQuote{}, errors.New("the invoice leaves the amount to the payer")
	}
	request := struct {
		Request string `json:"request"`
		Unit    string `json:"unit"`
	}{invoice, unit}
	var answer meltAnswer
	if err := m.call(ctx, request, &answer, "melt", "quote", "bolt11"); err != nil {
		return MeltQuote{}, err
	}
	q = MeltQuote{ID: answer.Quote, Invoice: invoice, Unit: unit, Amount: answer.Amount, Reserve: answer.Reserve}
	if !isQuoteID(q.ID) {
		return MeltQuote{}, fmt.Errorf("the id of the quote is %.100q, which no URL can have", q.ID)
	}
	if least, most, ok := inUnit(inv.Amount, unit); ok && (q.Amount < least || q.Amount > most) {
		return MeltQuote{}, lie("the quote is for %d %s, and the invoice for %d msat", q.Amount, unit, inv.Amount)
	}
	if _, err := cashu.Sum(q.Amount, q.Reserve); err != nil {
		return MeltQuote{}, err
	}
	return updateMelt(q, answer)
}

// MeltState asks for the state of a quote. All else must be as before. What the mint returned of the reserve is known by Restore.
func (m *Mint) MeltState(ctx context.Context, q MeltQuote) (now MeltQuote, err error) {
	ctx, end := m.begin(ctx, "state of a quote to melt", &err)
	defer end()
	if !isQuoteID(q.ID) {
		return MeltQuote{}, errNotQuote
	}
	var answer meltAnswer
	if err := m.call(ctx, nil, &answer, "melt", "quote", "bolt11", q.ID); err != nil {
		return MeltQuote{}, err
	}
	return updateMelt(q, answer)
}

// Melt pays the invoice of a quote with inputs (NUT-05), which can take as long as the payment. The change outputs have the
// amount 0, and the mint signs the first of them for what is left of the inputs (NUT-08). There is change only with the state
// Paid; where it comes later, it is known by Restore.
func (m *Mint) Melt(ctx context.Context, q MeltQuote, inputs []cashu.Proof, outputs []cashu.Output) (now MeltQuote, change []cashu.Signature, err error) {
	ctx, end := m.begin(ctx, "melt", &err)
	defer end()
	var keysets map[string]Keyset
	if len(outputs) > 0 {
		if keysets, err = m.keysetsOf(ctx, outputs, true); err != nil {
			return MeltQuote{}, nil, err
		}
	}
	bare, err := withoutDLEQ(inputs)
	if err != nil {
		return MeltQuote{}, nil, err
	}
	request := struct {
		Quote   string         `json:"quote"`
		Inputs  []cashu.Proof  `json:"inputs"`
		Outputs []cashu.Output `json:"outputs,omitempty"`
	}{q.ID, bare, outputs}
	var answer meltAnswer
	if err := m.call(ctx, request, &answer, "melt", "bolt11"); err != nil {
		return MeltQuote{}, nil, err
	}
	if now, err = updateMelt(q, answer); err != nil {
		return MeltQuote{}, nil, err
	}
	if len(answer.Change) > len(outputs) {
		return MeltQuote{}, nil, lie("%d signatures for %d outputs", len(answer.Change), len(outputs))
	}
	change, err = checkAll(keysets, outputs[:len(answer.Change)], answer.Change)
	if err != nil {
		return MeltQuote{}, nil, err
	}
	return now, change, nil
}

// updateMelt returns the quote with the state, the expiry and the preimage in an answer, if it agrees with all else.
func updateMelt(q MeltQuote, a meltAnswer) (MeltQuote, error) {
	switch {
	case a.Quote != q.ID || a.Amount != q.Amount || a.Reserve != q.Reserve:
		return MeltQuote{}, lie("the quote has another id, amount or reserve than before")
	case a.Request != "" && a.Request != q.Invoice:
		return MeltQuote{}, lie("the quote is for another invoice")
	case a.Unit != "" && a.Unit != q.Unit:
		return MeltQuote{}, lie("the quote is in %.32q instead of %s", a.Unit, q.Unit)
	case a.State != Unpaid && a.State != Pending && a.State != Paid:
		return MeltQuote{}, fmt.Errorf("the state of the quote is %.20q, which is not known", a.State)
	case q.State == Paid && a.State != Paid:
		return MeltQuote{}, lie("the quote was %s, and now it is %s", q.State, a.State)
	}
	q.State, q.Expiry = a.State, max(0, a.Expiry)
	if q.Preimage == "" && q.State == Paid && opens(a.Preimage, q.Invoice) {
		q.Preimage = a.Preimage
	}
	return q, nil
}

// opens reports whether a text is the preimage of the payment hash of an invoice.
func opens(preimage, invoice string) bool {
	b, err := hex.DecodeString(preimage)
	if err != nil || len(b) != sha256.Size {
		return false
	}
	inv, err := bolt11.Decode(invoice)
	return err == nil && inv.PaymentHash == guild.Hash(sha256.Sum256(b))
}

var errNotQuote = errors.New("not a quote of a mint")

// isQuoteID reports whether an id can be in the path of a URL as it is.
func isQuoteID(id string) bool {
	const longest, unreserved = 200, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_~"
	return id != "" && len(id) <= longest && strings.Trim(id, unreserved) == ""
}

// inUnit returns an amount of an invoice in whole units, rounded down and up. ok is false if the unit is not of bitcoin.
func inUnit(amount guild.Msat, unit string) (least, most uint64, ok bool) {
	n := uint64(amount)
	switch unit {
	case "sat":
		return n / 1000, (n + 999) / 1000, true
	case "msat":
		return n, n, true
	}
	return 0, 0, false
}

// checkInvoice checks the invoice of a quote, if its unit is of bitcoin.
func checkInvoice(request string, amount uint64, unit string) error {
	if _, _, ok := inUnit(0, unit); !ok {
		if len(request) > bolt11.MaxSize {
			return fmt.Errorf("the request of the quote has %d bytes", len(request))
		}
		return nil
	}
	inv, err := bolt11.Decode(request)
	if err != nil {
		return err
	}
	if least, most, _ := inUnit(inv.Amount, unit); least != amount || most != amount {
		return lie("the quote is for %d %s, and its invoice for %d msat", amount, unit, inv.Amount)
	}
	return nil
}
