package mintd

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.etcd.io/bbolt"

	"guild"
	"guild/bolt11"
	"guild/cashu"
)

// States of quotes (NUT-23).
const (
	unpaid = "UNPAID"
	paid   = "PAID"
	issued = "ISSUED"
)

// validity limits the time to pay an invoice.
const validity = time.Hour

// maxDescription limits the description of a quote, in bytes.
const maxDescription = 500

// mintQuote is a mint quote as it is stored, and as wallets get it (NUT-04, NUT-20, NUT-23), but for the preimage.
type mintQuote struct {
	Quote   string       `json:"quote"`
	Request string       `json:"request"`
	Amount  uint64       `json:"amount"`
	Unit    string       `json:"unit"`
	State   string       `json:"state"`
	Paid    uint64       `json:"amount_paid"`
	Issued  uint64       `json:"amount_issued"`
	Updated int64        `json:"updated_at"` // Unix seconds
	Expiry  int64        `json:"expiry"`     // of the request
	PubKey  *cashu.Point `json:"pubkey"`

	Preimage []byte `json:"preimage,omitempty"`
}

func (q mintQuote) wire() mintQuote {
	q.Preimage = nil
	return q
}

// meltQuote is a melt quote as it is stored, and as wallets get it (NUT-05, NUT-08, NUT-23), but for what is ours.
type meltQuote struct {
	Quote      string            `json:"quote"`
	Request    string            `json:"request"`
	Amount     uint64            `json:"amount"`
	Unit       string            `json:"unit"`
	FeeReserve uint64            `json:"fee_reserve"` // none: the invoice is the mint's own
	State      string            `json:"state"`
	Expiry     int64             `json:"expiry"`
	Preimage   *string           `json:"payment_preimage"`
	Change     []cashu.Signature `json:"change,omitempty"`

	Target  string        `json:"target,omitempty"`  // the mint quote whose invoice it is
	Outputs []cashu.Point `json:"outputs,omitempty"` // of which the change was signed
}

type mintQuoteRequest struct {
	Amount      uint64 `json:"amount"`
	Unit        string `json:"unit"`
	Description string `json:"description"`
	PubKey      string `json:"pubkey"`
}

func checkUnit(unit string) error {
	if unit != Unit {
		return refuse(codeUnit, "the unit %.20q is not supported: this mint has only play money, of the unit %q", unit, Unit)
	}
	return nil
}

// requestMint makes a mint quote (NUT-04). It is paid at once if the faucet gives so much.
func (m *Mint) requestMint(r mintQuoteRequest) (any, error) {
	if err := checkUnit(r.Unit); err != nil {
		return nil, err
	}
	if r.Amount < 1 || r.Amount > maxQuote {
		return nil, refuse(codeAmount, "an amount of %d; it can be from 1 to %d", r.Amount, uint64(maxQuote))
	}
	if len(r.Description) > maxDescription {
		return nil, refuse(codeRequest, "a description of %d bytes; at most %d", len(r.Description), maxDescription)
	}
	now := m.options.Now()
	q := mintQuote{
		Quote:    rand.Text(),
		Amount:   r.Amount,
		Unit:     Unit,
		State:    unpaid,
		Updated:  now.Unix(),
		Expiry:   now.Add(validity).Unix(),
		Preimage: make([]byte, 32),
	}
	if r.PubKey != "" {
		key, err := cashu.ParsePoint(r.PubKey)
		if err != nil {
			return nil, refuse(codeQuoteKey, "pubkey: %v", err)
		}
		q.PubKey = &key
	}
	if r.Amount <= m.options.Faucet {
		q.State, q.Paid = paid, q.Amount
	}
	hash, err := m.invoice(&q, r.Description, now)
	if err != nil {
		return nil, err
	}
	err = m.store.update(func(tx *bbolt.Tx) error {
		if err := save(tx, bucketMintQuotes, q.Quote, q); err != nil {
			return err
		}
		return tx.Bucket(bucketInvoices).Put(hash[:], []byte(q.Quote))
	})
	return q.wire(), err
}

// invoice gives a quote its preimage and its request: an invoice of the network for tests, so that no wallet with bitcoin pays it.
func (m *Mint) invoice(q *mintQuote, description string, now time.Time) (guild.Hash, error) {
	rand.Read(q.Preimage) // never fails
	invoice := bolt11.Invoice{
		Network:     bolt11.Regtest,
		Amount:      guild.Msat(q.Amount) * 1000,
		Created:     now.Truncate(time.Second).UTC(),
		PaymentHash: guild.Sum(q.Preimage),
		Description: "worthless play money of a guild node",
		Expiry:      validity,
	}
	if description != "" {
		invoice.Description += ": " + description
	}
	rand.Read(invoice.Secret[:])
	var err error
	q.Request, err = invoice.Sign(m.node)
	return invoice.PaymentHash, err
}

func (m *Mint) mintQuote(id string) (any, error) {
	var q mintQuote
	err := m.store.view(func(tx *bbolt.Tx) error { return load(tx, bucketMintQuotes, id, &q) })
	return q.wire(), err
}

type mintRequest struct {
	Quote     string             `json:"quote"`
	Outputs   list[cashu.Output] `json:"outputs"`
	Signature string             `json:"signature"`
}

// mint signs outputs for a quote that is paid, once (NUT-04).
func (m *Mint) mint(r mintRequest) (any, error) {
	sum, err := m.checkOutputs(r.Outputs)
	if err != nil {
		return nil, err
	}
	var q mintQuote
	if err := m.store.view(func(tx *bbolt.Tx) error { return mintable(tx, r.Quote, &q) }); err != nil {
		return nil, err
	}
	if sum != q.Amount {
		return nil, refuse(codeBalance, "the outputs are %d, but the quote %d", sum, q.Amount)
	}
	if q.PubKey != nil && !cashu.QuoteSigned(*q.PubKey, r.Quote, r.Outputs, r.Signature) {
		return nil, refuse(codeQuoteUnsigned, "the request is not signed by the key of the quote")
	}
	outputs, err := m.sign(r.Outputs)
	if err != nil {
		return nil, err
	}
	now := m.options.Now()
	err = m.store.update(func(tx *bbolt.Tx) error {
		var q mintQuote
		if err := mintable(tx, r.Quote, &q); err != nil {
			return err
		}
		if err := move(tx, nil, outputs); err != nil {
			return err
		}
		q.State, q.Issued, q.Updated = issued, q.Amount, now.Unix()
		return save(tx, bucketMintQuotes, q.Quote, q)
	})
	return signatures{m.wire(outputs)}, err
}

// mintable loads a quote that is paid and not issued.
func mintable(tx *bbolt.Tx, id string, q *mintQuote) error {
	if err := load(tx, bucketMintQuotes, id, q); err != nil {
		return err
	}
	switch q.State {
	case unpaid:
		return refuse(codeUnpaid, "the quote is not paid: pay its invoice with ecash of this mint, or ask the faucet for less")
	case issued:
		return refuse(codeIssued, "the quote was issued already")
	}
	return nil
}

type meltQuoteRequest struct {
	Request string                    `json:"request"`
	Unit    string                    `json:"unit"`
	Options map[string]jsontext.Value `json:"options"` // of amountless invoices, and of parts of a payment (NUT-15): refused
}

// requestMelt makes a melt quote (NUT-05), for the invoice of a mint quote that is not paid.
func (m *Mint) requestMelt(r meltQuoteRequest) (any, error) {
	if err := checkUnit(r.Unit); err != nil {
		return nil, err
	}
	if len(r.Options) > 0 {
		return nil, refuse(codeAmountless, "options are not supported")
	}
	invoice, err := bolt11.Decode(r.Request)
	if err != nil {
		return nil, refuse(codeRequest, "request: %v", err)
	}
	q := meltQuote{Quote: rand.Text(), Request: strings.ToLower(r.Request), Unit: Unit, State: unpaid}
	now := m.options.Now()
	err = m.store.update(func(tx *bbolt.Tx) error {
		q.Target = string(tx.Bucket(bucketInvoices).Get(invoice.PaymentHash[:]))
		target, err := payable(tx, q, now)
		if err != nil {
			return err
		}
		q.Amount, q.Expiry = target.Amount, target.Expiry
		return save(tx, bucketMeltQuotes, q.Quote, q)
	})
	return m.meltWire(q, nil), err
}

// payable returns the mint quote that a melt quote pays.
func payable(tx *bbolt.Tx, q meltQuote, now time.Time) (target mintQuote, err error) {
	if q.Target == "" {
		return target, refuse(codePayment, "this mint has only play money: it pays no invoices but those of its own mint quotes")
	}
	if err := load(tx, bucketMintQuotes, q.Target, &target); err != nil {
		return target, err
	}
	switch {
	case target.Request != q.Request:
		return target, refuse(codePayment, "another invoice with the payment hash of one of this mint")
	case target.State != unpaid:
		return target, refuse(codePaid, "the invoice is paid already")
	case now.Unix() > target.Expiry:
		return target, refuse(codeExpired, "the invoice has expired")
	}
	return target, nil
}

func (m *Mint) meltWire(q meltQuote, change []signed) meltQuote {
	q.Change = m.wire(change)
	q.Target, q.Outputs = "", nil
	return q
}

func (m *Mint) meltQuote(id string) (any, error) {
	var q meltQuote
	var change []signed
	err := m.store.view(func(tx *bbolt.Tx) error {
		if err := load(tx, bucketMeltQuotes, id, &q); err != nil {
			return err
		}
		for _, b := range q.Outputs {
			s, _, err := signatureOn(tx, b)
			if err != nil {
				return err
			}
			change = append(change, s)
		}
		return nil
	})
	return m.meltWire(q, change), err
}

type meltRequest struct {
	Quote   string             `json:"quote"`
	Inputs  list[cashu.Proof]  `json:"inputs"`
	Outputs list[cashu.Output] `json:"outputs"` // blank, for the change (NUT-08)
}

// melt pays a mint quote with ecash, and returns what was too much (NUT-05, NUT-08).
func (m *Mint) melt(r meltRequest) (any, error) {
	now := m.options.Now()
	var q meltQuote
	if err := m.store.view(func(tx *bbolt.Tx) error { return meltable(tx, r.Quote, &q) }); err != nil {
		return nil, err
	}
	worth, err := m.worth(r.Inputs)
	if err != nil {
		return nil, err
	}
	if worth < q.Amount {
		return nil, refuse(codeBalance, "the inputs without the fee are %d, but the quote %d", worth, q.Amount)
	}
	if err := m.checkBlank(r.Outputs); err != nil {
		return nil, err
	}
	blank, err := fill(r.Outputs, worth-q.Amount)
	if err != nil {
		return nil, err
	}
	inputs, err := m.checkInputs(r.Inputs, r.Outputs, r.Quote, now)
	if err != nil {
		return nil, err
	}
	change, err := m.sign(blank)
	if err != nil {
		return nil, err
	}
	err = m.store.update(func(tx *bbolt.Tx) error {
		if err := meltable(tx, r.Quote, &q); err != nil {
			return err
		}
		target, err := payable(tx, q, now)
		if err != nil {
			return err
		}
		if err := move(tx, inputs, change); err != nil {
			return err
		}
		preimage := guild.Hash(target.Preimage).Hex()
		q.State, q.Preimage = paid, &preimage
		for _, s := range change {
			q.Outputs = append(q.Outputs, s.b)
		}
		target.State, target.Paid, target.Updated = paid, target.Amount, now.Unix()
		if err := save(tx, bucketMintQuotes, target.Quote, target); err != nil {
			return err
		}
		return save(tx, bucketMeltQuotes, q.Quote, q)
	})
	return m.meltWire(q, change), err
}

// meltable loads a melt quote that is not paid. Its expiry is that of the invoice: see payable.
func meltable(tx *bbolt.Tx, id string, q *meltQuote) error {
	*q = meltQuote{}
	if err := load(tx, bucketMeltQuotes, id, q); err != nil {
		return err
	}
	if q.State != unpaid {
		return refuse(codePaid, "the quote is paid already")
	}
	return nil
}

// fill gives blank outputs the amounts of the change. Too few outputs are refused rather than the rest kept, as the sum is known.
func fill(outputs []cashu.Output, change uint64) ([]cashu.Output, error) {
	powers := cashu.Split(change)
	if len(powers) > len(outputs) {
		return nil, refuse(codeBalance, "the inputs are %d too much, and there are %d outputs for the change", change, len(outputs))
	}
	blank := make([]cashu.Output, len(powers))
	for i, amount := range powers {
		blank[i] = outputs[i]
		blank[i].Amount = amount
	}
	return blank, nil
}
