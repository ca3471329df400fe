package verify_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/cashu"
	"guild/cashu/token"
	"guild/nip90"
	"guild/receipt"
	"guild/verify"
)

// invoice returns an invoice over an amount, for the preimage with that hash.
func invoice(t testing.TB, amount guild.Msat, hash guild.Hash) string {
	t.Helper()
	node, _ := btcec.PrivKeyFromBytes([]byte{31: 1})
	return must[string](t)(bolt11.Invoice{
		Network: bolt11.Mainnet, Amount: amount, Created: time.Unix(at, 0), PaymentHash: hash, Secret: [32]byte{2}, Description: "the work",
	}.Sign(node))
}

// transaction returns a transaction that pays so many satoshis. It has no witness, because the id does not cover
// witnesses.
func transaction(satoshis uint64) (file []byte, id string) {
	b := []byte{2, 0, 0, 0, 1}
	b = append(b, make([]byte, 32+4)...) // spent output
	b = append(b, 0, 0xff, 0xff, 0xff, 0xff, 1)
	b = binary.LittleEndian.AppendUint64(b, satoshis)
	b = append(b, 1, 0x51, 0, 0, 0, 0)
	once := sha256.Sum256(b)
	twice := sha256.Sum256(once[:])
	slices.Reverse(twice[:])
	return []byte(hex.EncodeToString(b)), hex.EncodeToString(twice[:])
}

// ecash returns one coin of 2 sat, locked to the provider, who signed for it.
func ecash(t testing.TB) string {
	t.Helper()
	secret := `["P2PK",{"data":"02` + provider().public.Hex() + `","nonce":"5d11913ee0f92fefdc82a6764fd2457a","tags":[["sigflag","SIG_INPUTS"]]}]`
	owner := provider()
	private, _ := btcec.PrivKeyFromBytes(owner.secret[:])
	digest := sha256.Sum256([]byte(secret))
	signature := must[*schnorr.Signature](t)(schnorr.Sign(private, digest[:], schnorr.FastSign()))
	witness := must[[]byte](t)(json.Marshal(map[string]any{"signatures": []string{hex.EncodeToString(signature.Serialize())}}))
	coin := map[string]any{"amount": 2, "id": "00ad268c4d1f5826", "secret": secret, "C": "02" + customer().public.Hex(), "witness": string(witness)}
	return string(must[[]byte](t)(json.Marshal(map[string]any{"mint": "https://mint.example", "unit": "sat", "proofs": []any{coin}})))
}

// scalar returns a private key that depends only on its name.
func scalar(name string) cashu.Scalar { return cashu.Scalar(guild.Sum([]byte(name))) }

// lockedCoin is a coin of an escrow.
type lockedCoin struct {
	amount uint64
	lock   cashu.Condition
	signed *cashu.Scalar // that has released it; nil for none
}

// deal is an escrow: what the provider asked for, what was locked, and what became of it.
type deal struct {
	unit, mint, asset string
	quoted            string // the unit in the quote
	asked             uint64 // in the unit
	id                string // of the payment request
	by                person // who quotes
	coins             []lockedCoin
	amount            guild.Msat // in the receipt
	keyless           bool       // the proof has no keysets
	swapped           bool       // the mint signed for the amounts before
	back              bool       // a refund
	alone             bool       // the quote asks for a lock to its key alone
	tags              [][]string // of the lock in the quote, else
}

// newDeal returns a deal of 13 test, all of which is released.
func newDeal(request nostr.Event) deal {
	const ends = at + 100_000
	d := deal{unit: "test", quoted: "test", mint: "https://mint.example", asset: "TEST_CASHU(https://mint.example)", asked: 13,
		id: request.ID.Hex(), by: provider(), amount: 13_000, tags: [][]string{{"n_sigs", "2"}, {"locktime", strconv.Itoa(ends)}}}
	keys := []cashu.Point{scalar("lock of the provider").PubKey(), scalar("lock of the customer").PubKey()}
	for i, amount := range []uint64{1, 4, 8} {
		d.coins = append(d.coins, lockedCoin{amount: amount, signed: new(scalar("lock of the customer")), lock: cashu.Condition{
			Kind: cashu.P2PK, Nonce: fmt.Sprint(i), Keys: slices.Clone(keys), Sigs: 2, Locktime: ends, Refund: slices.Clone(keys[1:]),
		}})
	}
	return d
}

// shared releases a part of a deal.
func shared(d *deal) { d.coins, d.amount, d.keyless = d.coins[:2], 5000, true }

// refunded takes a deal back.
func refunded(d *deal) { d.back = true }

// inAdvance pays for a deal before the work.
func inAdvance(d *deal) {
	d.alone = true
	for i := range d.coins {
		lock := &d.coins[i].lock
		lock.Keys, lock.Sigs, lock.Locktime, lock.Refund, d.coins[i].signed = lock.Keys[:1], 1, 0, nil, nil
	}
}

// bid lowers a deal to less than the request's bid in bitcoin.
func (d *deal) bid() { d.coins, d.amount = d.coins[:1], 1000 }

// held adds an escrow to the receipt.
func (s story) held(t testing.TB, out files, r *receipt.Receipt, request nostr.Event) {
	t.Helper()
	d := newDeal(request)
	if s.deal != nil {
		s.deal(&d)
	}
	terms := token.Request{ID: d.id, Amount: d.asked, Unit: d.quoted, Once: true, Mints: []string{"https://mint.example"}, Lock: &token.RequestedLock{
		Kind: cashu.P2PK, Data: scalar("lock of the provider").PubKey().String(), Tags: d.tags,
	}}
	rail, rule := "cashu", "verdict.strong"
	if d.alone {
		terms.Lock.Tags, rule = nil, "order.prepaid"
	}
	q := nip90.Feedback{Request: request.ID, Customer: customer().public, Status: nip90.PaymentRequired, Text: "13 test", Terms: terms.String()}
	if s.quote != nil {
		s.quote(&q)
	}
	unsigned := q.Event()
	if s.sealed {
		unsigned = must[nostr.Event](t)(q.Sealed(provider().seal(t, customer())))
	}
	e := d.by.sign(t, unsigned)
	put(t, out, verify.FileQuote, e)
	s.unlock(t, out, verify.FileQuoteKey, e)
	r.QuoteEvent = e.ID
	r.ApprovalRuleID = &rule
	if d.back {
		r.Refund = &receipt.Refund{Rail: rail, AssetID: d.asset, AmountMsats: d.amount, Proof: d.spent(t)}
		return
	}
	r.Rail, r.AssetID, r.AmountMsats = &rail, &d.asset, d.amount
	r.PaymentProof = &receipt.PaymentProof{Type: "cashu_proof", Value: d.released(t)}
}

// spent returns the proof of a refund.
func (d deal) spent(t testing.TB) string {
	t.Helper()
	points := []string{}
	for _, c := range d.coins {
		points = append(points, cashu.HashToCurve(must[string](t)(c.lock.Secret())).String())
	}
	return string(must[[]byte](t)(json.Marshal(map[string]any{"mint": d.mint, "unit": d.unit, "amount": 13, "spent": points})))
}

// released returns the proof of a payment, with coins that the mint of the keyset has signed.
func (d deal) released(t testing.TB) string {
	t.Helper()
	keys, byAmount := cashu.Keys{}, map[uint64]cashu.Scalar{}
	for _, amount := range []uint64{1, 4, 8} {
		byAmount[amount] = scalar(fmt.Sprintf("mint %d", amount))
		keys[amount] = byAmount[amount].PubKey()
	}
	keyset := cashu.Keyset{ID: "00", Unit: d.unit, Keys: keys}
	keyset.ID = must[string](t)(keyset.Derive())
	if d.swapped {
		first, second := d.coins[0].amount, d.coins[1].amount
		byAmount[first], byAmount[second] = byAmount[second], byAmount[first]
	}
	var coins []cashu.Proof
	for _, c := range d.coins {
		secret, blinding, key := must[string](t)(c.lock.Secret()), scalar("blinding "+c.lock.Nonce), byAmount[c.amount]
		message := must[cashu.Point](t)(cashu.Blind(secret, blinding))
		blind := must[cashu.Point](t)(key.Sign(message))
		proof := must[cashu.DLEQ](t)(key.Prove(message, blind))
		proof.R = &blinding
		coin := cashu.Proof{Amount: c.amount, Keyset: keyset.ID, Secret: secret, C: must[cashu.Point](t)(cashu.Unblind(blind, blinding, key.PubKey())), DLEQ: &proof}
		if c.signed != nil {
			var w cashu.Witness
			ok(t, w.Sign(*c.signed, secret))
			coin.Witness = w.Text()
		}
		coins = append(coins, coin)
	}
	value := map[string]any{"mint": d.mint, "unit": d.unit, "proofs": coins}
	if !d.keyless {
		texts := map[string]string{}
		for amount, key := range keys {
			texts[fmt.Sprint(amount)] = key.String()
		}
		value["keysets"] = []any{map[string]any{"id": keyset.ID, "unit": d.unit, "keys": texts}}
	}
	return string(must[[]byte](t)(json.Marshal(value)))
}
