package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"github.com/btcsuite/btcd/btcec/v2"

	"guild"
	"guild/bolt11"
	"guild/cashu"
	"guild/internal/hand/key"
	"guild/nip90"
	"guild/receipt"
)

// party is a key that signs.
type party nostr.SecretKey

var (
	payer = party{31: 1}
	payee = party{31: 2}
	other = party{31: 3}
)

func (p party) pub() nostr.PubKey { return nostr.SecretKey(p).Public() }

func (p party) sign(t *testing.T, e nostr.Event) *nostr.Event {
	t.Helper()
	v, err := guild.Sign(t.Context(), key.NewSigner(key.NewSecret(nostr.SecretKey(p))), e)
	if err != nil {
		t.Fatal(err)
	}
	signed := v.Event()
	return &signed
}

// paid is one payment with everything by which it is checked. Change a part before check signs it.
type paid struct {
	rail, asset, kind, value string // for the receipt
	amount                   guild.Msat
	key                      string

	request     nip90.Request
	quote       nip90.Feedback
	seller      party // signs the quote
	invoice     bolt11.Invoice
	transaction string

	receipt func(*receipt.Receipt) // changes the receipt
	quoted  func(*nostr.Event)     // changes the signed quote
}

const preimage = "0102030405060708091011121314151617181920212223242526272829303132"

// overLightning returns a payment that passes.
func overLightning() *paid {
	secret, _ := hex.DecodeString(preimage)
	return &paid{
		rail: "lightning", asset: "BTC_LN", kind: "lightning_preimage", value: preimage, amount: 21_000, key: strings.Repeat("ab", 32),
		request: nip90.Request{Kind: 5050, Bid: 30_000}, seller: payee,
		quote: nip90.Feedback{Status: nip90.PaymentRequired, Amount: 21_000},
		invoice: bolt11.Invoice{
			Network: bolt11.Mainnet, Amount: 21_000, Created: time.Unix(1_760_000_000, 0), PaymentHash: sha256.Sum256(secret),
			Secret: [32]byte{1}, Description: "a delivery",
		},
	}
}

func (p *paid) check(t *testing.T) Check {
	t.Helper()
	e, err := p.request.Event()
	if err != nil {
		t.Fatal(err)
	}
	request := payer.sign(t, e)
	if p.invoice.Network != "" {
		node, _ := btcec.PrivKeyFromBytes([]byte{31: 9})
		if p.quote.Invoice, err = p.invoice.Sign(node); err != nil {
			t.Fatal(err)
		}
	}
	if p.quote.Request == (nostr.ID{}) {
		p.quote.Request = request.ID
	}
	var quote *nostr.Event
	if p.quote.Status != "" {
		quote = p.seller.sign(t, p.quote.Event())
	}
	r := receipt.Receipt{RequestEvent: request.ID, AmountMsats: p.amount, IdempotencyKey: p.key}
	r.SetProvider(payee.pub())
	if p.kind != "" {
		r.Rail, r.AssetID, r.PaymentProof = &p.rail, &p.asset, &receipt.PaymentProof{Type: p.kind, Value: p.value}
	}
	if p.receipt != nil {
		p.receipt(&r)
	}
	if p.quoted != nil {
		p.quoted(quote)
	}
	return payment{receipt: r, request: request, quote: quote, transaction: []byte(p.transaction)}.line()
}

// line returns the payment as a line of a report.
func (p payment) line() Check {
	return (&export{}).run(line{"payment", func(*export) (string, error) { return p.prove() }})
}

// wants checks the state of a payment and that the detail contains words.
func (p *paid) wants(t *testing.T, state State, words string) {
	t.Helper()
	c := p.check(t)
	if c.Name != "payment" || c.State != state || !strings.Contains(c.Detail, words) {
		t.Errorf("%+v, want %s: …%s…", c, state, words)
	}
}

func TestLightningPayment(t *testing.T) {
	overLightning().wants(t, Passed, "21000 msat over Lightning: the preimage fits the invoice that the provider quoted")

	noBid := overLightning()
	noBid.request.Bid = 0
	noBid.wants(t, Passed, "21000 msat")

	named := overLightning()
	named.quote.Customer = payer.pub()
	named.quote.Extra = nostr.Tags{{"param", "idempotency_key", named.key}, {"param", "other", "x"}}
	named.wants(t, Passed, "21000 msat")

	practice := overLightning()
	practice.invoice.Network = bolt11.Regtest
	practice.wants(t, Passed, "test coins of the network bcrt")
}

// TestHeldPayment checks that no more is said of a preimage than it proves: the customer chose it.
func TestHeldPayment(t *testing.T) {
	quoted := overLightning()
	quoted.quote.Extra = nostr.Tags{nip90.Hold(quoted.invoice.PaymentHash)}
	quoted.wants(t, Absent, "the customer chose it")

	asked := overLightning()
	asked.request.SetHold(asked.invoice.PaymentHash)
	asked.wants(t, Absent, "the customer chose it")

	spoiled := overLightning() // by a provider that names another hash
	spoiled.quote.Extra = nostr.Tags{nip90.Hold(guild.Hash{1})}
	spoiled.wants(t, Passed, "21000 msat")

	wrong := overLightning()
	wrong.request.SetHold(wrong.invoice.PaymentHash)
	wrong.value = strings.Repeat("ab", 32)
	wrong.wants(t, Failed, "does not fit the invoice")

	back := overLightning()
	back.kind, back.amount = "", 0
	back.receipt = func(r *receipt.Receipt) {
		r.Refund = &receipt.Refund{Rail: "lightning", AssetID: "BTC_LN", AmountMsats: 21_000, Proof: "lnbc1"}
	}
	back.wants(t, Absent, "by the customer's word")
}

func TestLightningContradictions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*paid)
		words  string
	}{
		"another preimage":       {func(p *paid) { p.value = strings.Repeat("ab", 32) }, "does not fit the invoice"},
		"no preimage":            {func(p *paid) { p.value = "ab" }, "64 hex digits"},
		"another asset":          {func(p *paid) { p.asset = "USD_LN" }, "is in BTC_LN"},
		"no asset":               {func(p *paid) { p.receipt = func(r *receipt.Receipt) { r.AssetID = nil } }, "is in BTC_LN"},
		"a smaller receipt":      {func(p *paid) { p.amount = 20_000 }, "the quote asks for 21000 msat"},
		"a smaller invoice":      {func(p *paid) { p.invoice.Amount = 20_000 }, "the invoice is over 20000 msat"},
		"an open invoice":        {func(p *paid) { p.invoice.Amount = 0 }, "the invoice is over 0 msat"},
		"more than the bid":      {func(p *paid) { p.request.Bid = 20_999 }, "offered 20999 msat at most"},
		"a quote by another":     {func(p *paid) { p.seller = other }, "not by the provider"},
		"invalid quote":          {func(p *paid) { p.quote.Status = nip90.Processing }, "asks for no payment"},
		"a quote elsewhere":      {func(p *paid) { p.quote.Request = nostr.ID{1} }, "another request"},
		"a quote for another":    {func(p *paid) { p.quote.Customer = other.pub() }, "another customer"},
		"a quote of another key": {func(p *paid) { p.quote.Extra = nostr.Tags{{"param", "idempotency_key", "x"}} }, "another idempotency key"},
		"no invoice":             {func(p *paid) { p.invoice.Network = "" }, "no invoice"},
		"a changed invoice": {func(p *paid) {
			p.invoice.Network, p.quote.Invoice = "", "lnbc210n1pvjluezsp5zyg3zyg3zyg3zyg3zyg"
		}, "the invoice of the quote: invalid invoice"},
		"a quote of another kind": {func(p *paid) {
			p.quoted = func(quote *nostr.Event) { quote.Kind = 1; *quote = *payee.sign(t, *quote) }
		}, "cannot be read"},
		"an unknown proof": {func(p *paid) { p.kind = "promise" }, `"promise" is not a type of proof`},
		"no proof":         {func(p *paid) { p.kind = "" }, "has no proof"},
		"no amount":        {func(p *paid) { p.amount = 0 }, "says that nothing was paid"},
	} {
		t.Run(name, func(t *testing.T) {
			p := overLightning()
			c.change(p)
			p.wants(t, Failed, c.words)
		})
	}
}

func TestPaymentWithoutEvidenceAbsent(t *testing.T) {
	unpaid := &paid{request: nip90.Request{Kind: 5050}}
	unpaid.wants(t, Absent, "nothing was owed")

	unquoted := overLightning()
	unquoted.quote.Status = ""
	unquoted.wants(t, Absent, "the provider's quote")
	node, _ := btcec.PrivKeyFromBytes([]byte{31: 9})
	own, err := unquoted.invoice.Sign(node)
	if err != nil {
		t.Fatal(err)
	}
	unquoted.receipt = func(r *receipt.Receipt) { r.Bolt11 = own }
	unquoted.wants(t, Absent, "the preimage fits the receipt's own invoice")
	unquoted.value = strings.Repeat("00", 32)
	unquoted.wants(t, Failed, "the preimage does not fit the invoice")

	sealed := overLightning()
	sealed.quoted = func(quote *nostr.Event) {
		quote.Tags = nostr.Tags{{"encrypted"}}
		*quote = *payee.sign(t, *quote)
	}
	sealed.wants(t, Absent, "sealed")

	assets := overLightning()
	assets.kind = "taproot_assets_proof"
	assets.wants(t, Absent, "is not checked by this program")
}

// nuts has examples of the Cashu specification; the file names their sources.
type nuts struct {
	HashToCurve []struct {
		Message string `json:"message_hex"`
		Point   string `json:"point"`
	} `json:"hash_to_curve"`
	P2PK []struct {
		Valid bool       `json:"valid"`
		Proof ecashProof `json:"proof"`
	} `json:"p2pk"`
	DLEQ struct {
		A     string     `json:"A"`
		Proof ecashProof `json:"proof"`
	} `json:"dleq_proof"`
	Keysets []ecashKeyset `json:"keysets"`
}

func readNuts(t *testing.T) (n nuts) {
	t.Helper()
	b, err := os.ReadFile("testdata/cashu-nuts.json")
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil || len(n.HashToCurve) == 0 || len(n.P2PK) == 0 || len(n.Keysets) == 0 {
		t.Fatalf("%d points, %d proofs, %d keysets: %v", len(n.HashToCurve), len(n.P2PK), len(n.Keysets), err)
	}
	return n
}

func TestCashuExamples(t *testing.T) {
	n := readNuts(t)
	for _, v := range n.HashToCurve {
		message, _ := hex.DecodeString(v.Message)
		if p := cashu.HashToCurve(string(message)); p.String() != v.Point {
			t.Errorf("%s stands for %s", v.Message, p)
		}
	}
	for i, v := range n.P2PK {
		owner, err := lockedTo(v.Proof.Secret)
		if err == nil {
			err = v.Proof.checkWitness(owner, "provider")
		}
		if (err == nil) != v.Valid {
			t.Errorf("proof %d: %v", i, err)
		}
	}
	for _, k := range n.Keysets {
		keys, err := k.parse()
		if err != nil || keys.Check() != nil {
			t.Errorf("keyset %s: %v", k.ID, err)
		}
	}
	checks := func(d dleq) error {
		key, err := cashu.ParsePoint(n.DLEQ.A)
		if err != nil {
			return err
		}
		c, err := cashu.ParsePoint(n.DLEQ.Proof.C)
		if err != nil {
			return err
		}
		proof, err := d.parse()
		if err != nil {
			return err
		}
		return proof.Check(key, n.DLEQ.Proof.Secret, c)
	}
	if err := checks(*n.DLEQ.Proof.DLEQ); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*dleq){
		func(d *dleq) { d.E = strings.Repeat("1", 64) },
		func(d *dleq) { d.S = strings.Repeat("1", 64) },
		func(d *dleq) { d.R = strings.Repeat("1", 64) },
		func(d *dleq) { d.R = strings.Repeat("f", 64) },
		func(d *dleq) { d.R = "1" },
	} {
		d := *n.DLEQ.Proof.DLEQ
		change(&d)
		if checks(d) == nil {
			t.Errorf("%+v passes", d)
		}
	}
}

// mint signs ecash according to NUT-00 and NUT-12, with keys for 1, 4 and 16.
type mint struct{ keys map[uint64]cashu.Scalar }

func newMint() mint {
	return mint{map[uint64]cashu.Scalar{1: {30: 1, 31: 1}, 4: {30: 1, 31: 2}, 16: {30: 1, 31: 3}}}
}

func (m mint) keyset(t *testing.T, version string) ecashKeyset {
	t.Helper()
	k := ecashKeyset{ID: version, Unit: "sat", Keys: map[string]string{}}
	for amount, secret := range m.keys {
		k.Keys[fmt.Sprint(amount)] = secret.PubKey().String()
	}
	keys, err := k.parse()
	if err == nil {
		k.ID, err = keys.Derive()
	}
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// coin returns a coin with this secret, signed for by owner.
func (m mint) coin(t *testing.T, keyset string, amount uint64, secret string, owner party) ecashProof {
	t.Helper()
	key, r := m.keys[amount], cashu.Scalar{31: 77}
	message, err := cashu.Blind(secret, r)
	if err != nil {
		t.Fatal(err)
	}
	blinded, err := key.Sign(message)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := key.Prove(message, blinded)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cashu.Unblind(blinded, r, key.PubKey())
	if err != nil {
		t.Fatal(err)
	}
	var w cashu.Witness
	if err := w.Sign(cashu.Scalar(owner), secret); err != nil {
		t.Fatal(err)
	}
	witness, err := json.Marshal(w.Text())
	if err != nil {
		t.Fatal(err)
	}
	return ecashProof{
		Amount: amount, Keyset: keyset, Secret: secret, C: c.String(), Witness: witness,
		DLEQ: &dleq{E: hex.EncodeToString(proof.E[:]), S: hex.EncodeToString(proof.S[:]), R: hex.EncodeToString(r[:])},
	}
}

// lockFor returns a secret that only owner can spend, with more tags.
func lockFor(owner party, nonce, tags string) string {
	return fmt.Sprintf(`["P2PK",{"nonce":"%s","data":"02%s","tags":[%s]}]`, nonce, owner.pub().Hex(), tags)
}

const mintURL = "https://mint.example"

// inEcash returns a payment of 21 sat that passes. change can modify the ecash before it is encoded.
func inEcash(t *testing.T, version string, change func(*ecash)) *paid {
	t.Helper()
	m := newMint()
	k := m.keyset(t, version)
	e := ecash{Mint: mintURL, Unit: "sat", Keysets: []ecashKeyset{k}}
	for i, amount := range []uint64{16, 4, 1} {
		e.Proofs = append(e.Proofs, m.coin(t, k.ID, amount, lockFor(payee, fmt.Sprint(i), `["sigflag","SIG_INPUTS"]`), payee))
	}
	if change != nil {
		change(&e)
	}
	value, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return &paid{
		rail: "cashu", asset: "BTC_CASHU(" + mintURL + ")", kind: "cashu_proof", value: string(value), amount: 21_000,
		request: nip90.Request{Kind: 5050, Bid: 30_000}, seller: payee, quote: nip90.Feedback{Status: nip90.PaymentRequired, Amount: 21_000},
	}
}

func TestEcashPayment(t *testing.T) {
	for _, version := range []string{"00", "01"} {
		inEcash(t, version, nil).wants(t, Passed, "locked to the provider, who signed for it; it is signed by the mint's keys")
		inEcash(t, version, func(e *ecash) { e.Keysets = nil }).wants(t, Passed, "that the mint issued it is not checked offline")
		inEcash(t, version, func(e *ecash) { e.Proofs[1].DLEQ = nil }).wants(t, Passed, "that the mint issued it is not checked offline")
	}
	object := inEcash(t, "00", func(e *ecash) {
		var text string
		if err := json.Unmarshal(e.Proofs[0].Witness, &text); err != nil {
			t.Fatal(err)
		}
		e.Proofs[0].Witness = json.RawMessage(text)
	})
	object.wants(t, Passed, "locked to the provider")

}

// The provider's signature does not cover the value of a coin.
func TestUnquotedEcashAbsent(t *testing.T) {
	unquoted := inEcash(t, "00", nil)
	unquoted.quote.Status = ""
	unquoted.wants(t, Absent, "by the customer's word")
}

func TestEcashContradictions(t *testing.T) {
	m := newMint()
	coin := func(secret string, owner party) func(*ecash) {
		return func(e *ecash) { e.Proofs[0] = m.coin(t, e.Keysets[0].ID, 16, secret, owner) }
	}
	for name, c := range map[string]struct {
		change func(*ecash)
		words  string
	}{
		"another amount":          {func(e *ecash) { e.Proofs = e.Proofs[1:] }, "worth 5000 msat"},
		"too much":                {func(e *ecash) { e.Keysets, e.Proofs[0].Amount = nil, 1<<63 }, "more than there is"},
		"no coins":                {func(e *ecash) { e.Proofs = nil }, "worth 0 msat"},
		"another mint":            {func(e *ecash) { e.Mint += "s" }, "the ecash is"},
		"another unit":            {func(e *ecash) { e.Unit = "usd" }, "the ecash is"},
		"a coin twice":            {func(e *ecash) { e.Proofs[1] = e.Proofs[0] }, "twice"},
		"no lock":                 {coin("abc", payee), "not locked to a key"},
		"another lock":            {coin(lockFor(other, "", ""), other), "another key than the provider's"},
		"a hash lock":             {coin(strings.Replace(lockFor(payee, "", ""), "P2PK", "HTLC", 1), payee), "not locked to a key"},
		"a lock of no key":        {coin(strings.Replace(lockFor(payee, "", ""), `"data":"02`, `"data":"05`, 1), payee), "what it is locked to"},
		"a lock that ends":        {coin(lockFor(payee, "", `["locktime","21"]`), payee), "by its locktime others"},
		"a lock with others":      {coin(lockFor(payee, "", `["pubkeys","02"]`), payee), "by its pubkeys others"},
		"a lock for a swap":       {coin(lockFor(payee, "", `["sigflag","SIG_ALL"]`), payee), "signed together with"},
		"a lock read in two ways": {coin(strings.Replace(lockFor(payee, "", ""), `"data"`, `"data":"x","data"`, 1), payee), "not locked to a key"},
		"signed by another":       {coin(lockFor(payee, "", ""), other), "the signature for it is not the provider's"},
		"not signed":              {func(e *ecash) { e.Proofs[2].Witness = nil }, "did not sign for it"},
		"signed by nobody":        {func(e *ecash) { e.Proofs[2].Witness = json.RawMessage(`{"signatures":["zz","00"]}`) }, "not the provider's"},
		"a changed witness":       {func(e *ecash) { e.Proofs[2].Witness = json.RawMessage(`"{"`) }, "witness"},
		"a changed secret":        {func(e *ecash) { e.Proofs[0].Secret = strings.Replace(e.Proofs[0].Secret, "nonce", "once", 1) }, "not the provider's"},
		"another signature":       {func(e *ecash) { e.Proofs[0].C = e.Proofs[1].C }, "the mint did not sign it"},
		"a signature of none":     {func(e *ecash) { e.Proofs[0].C = "02" }, "not a compressed point"},
		"another key":             {func(e *ecash) { e.Proofs[0].Amount, e.Proofs[1].Amount = 4, 16 }, "the mint did not sign it"},
		"an amount of no key":     {func(e *ecash) { e.Proofs[0].Amount = 17 }, "has no key for an amount of 17"},
		"other keys":              {func(e *ecash) { e.Keysets[0].Keys["1"] = e.Keysets[0].Keys["4"] }, "not those that its id was made of"},
		"a key for no amount":     {func(e *ecash) { e.Keysets[0].Keys["01"] = e.Keysets[0].Keys["4"] }, "is not an amount"},
		"invalid key":             {func(e *ecash) { e.Keysets[0].Keys["1"] = "00" }, "not a compressed point"},
		"keys of another unit":    {func(e *ecash) { e.Keysets[0].Unit = "usd" }, "for another unit"},
	} {
		t.Run(name, func(t *testing.T) { inEcash(t, "00", c.change).wants(t, Failed, c.words) })
	}
	for name, value := range map[string]string{"nothing": "null x", "a word": `"cashuB"`, "a key twice": `{"mint":"a","mint":"b"}`} {
		p := inEcash(t, "00", nil)
		p.value = value
		t.Run(name, func(t *testing.T) { p.wants(t, Failed, "cannot be read") })
	}
	quoted := inEcash(t, "00", nil)
	quoted.quote = nip90.Feedback{Status: nip90.PaymentRequired, Amount: 20_000}
	quoted.wants(t, Failed, "the quote asks for 20000 msat")
}

func TestUnknownEcashAbsent(t *testing.T) {
	later := inEcash(t, "00", func(e *ecash) { e.Proofs[0].Keyset = "02aa" })
	later.wants(t, Absent, "this kind of keyset")

	dollars := inEcash(t, "00", func(e *ecash) { e.Unit, e.Keysets = "usd", nil })
	dollars.asset = "USD_CASHU(" + mintURL + ")"
	dollars.wants(t, Absent, "has no price in the unit of the ecash")
}

// Two transactions: the example of BIP 143 with a witness for one of its inputs, and the first transaction of the
// chain.
const (
	witnessed   = "01000000000102fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f00000000494830450221008b9d1dc26ba6a9cb62127b02742fa9d754cd3bebf337f7a55d114c8e5cdd30be022040529b194ba3f9281a99f2b1c0a19c0489bc22ede944ccf4ecbab4cc618ef3ed01eeffffffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206000000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa815988ac000247304402203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c4518331561406f90300e8f3358f51928d43c212a8caed02de67eebee0121025476c2e83188368da1ff3e292e7acafcdb3566bb0ad253f62fc70f07aeee635711000000"
	witnessedID = "e8151a2af31c368a35053ddd4bdb285a8595c769a3ad83e0fa02314a602d4609"
	genesis     = "01000000010000000000000000000000000000000000000000000000000000000000000000ffffffff4d04ffff001d0104455468652054696d65732030332f4a616e2f32303039204368616e63656c6c6f72206f6e206272696e6b206f66207365636f6e64206261696c6f757420666f722062616e6b73ffffffff0100f2052a01000000434104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac00000000"
	genesisID   = "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"
)

// onTheChain returns a payment that agrees with the receipt.
func onTheChain() *paid {
	return &paid{
		rail: "onchain", asset: "BTC_CHAIN", kind: "onchain_txid", value: witnessedID, amount: 335_790_000_000,
		request: nip90.Request{Kind: 5050}, seller: payee, transaction: witnessed + "\n",
	}
}

func TestOnchainPayment(t *testing.T) {
	onTheChain().wants(t, Absent, "the transaction is the one of the receipt and moves enough")

	first := onTheChain()
	first.value, first.transaction, first.amount = genesisID, genesis, 5_000_000_000_000
	first.wants(t, Absent, "whom it pays, and whether a block confirms it, is not known here")

	first.transaction = ""
	first.wants(t, Absent, "the transaction is not in the export")

	for name, c := range map[string]struct {
		change func(*paid)
		words  string
	}{
		"another transaction": {func(p *paid) { p.transaction = genesis }, "names another one"},
		"no hex":              {func(p *paid) { p.transaction = "xx" }, "not in hex"},
		"too big":             {func(p *paid) { p.transaction = strings.Repeat("0", 8_000_002) }, "no block holds"},
		"not enough":          {func(p *paid) { p.amount++ }, "moves 335790000 sat in all"},
		"another quote":       {func(p *paid) { p.quote = nip90.Feedback{Status: nip90.PaymentRequired, Amount: 1} }, "the quote asks for 1 msat"},
		"cut off":             {func(p *paid) { p.transaction = witnessed[:len(witnessed)-2] }, "does not end where its parts do"},
		"more after it":       {func(p *paid) { p.transaction = witnessed + "00" }, "does not end where its parts do"},
		"no inputs":           {func(p *paid) { p.transaction = "01000000" + "00" + "00" + "00000000" }, "no inputs or no outputs"},
		"a long count":        {func(p *paid) { p.transaction = strings.Replace(genesis, "0100000001", "01000000fd0100", 1) }, "does not end"},
		"a vast count":        {func(p *paid) { p.transaction = "01000000ffffffffffffffffff" }, "does not end"},
		"worth too much":      {func(p *paid) { p.transaction = strings.Replace(genesis, "00f2052a01000000", "00f2052a01000010", 1) }, "more than there is"},
	} {
		t.Run(name, func(t *testing.T) {
			p := onTheChain()
			c.change(p)
			p.wants(t, Failed, c.words)
		})
	}
}

func FuzzEcash(f *testing.F) {
	f.Add(`{"mint":"m","unit":"sat","proofs":[{"amount":1,"id":"00","secret":"[\"P2PK\",{}]","C":"02","witness":"{}","dleq":{}}],"keysets":[{"keys":{}}]}`)
	keys, lock := newMint().keys, cashu.Condition{Kind: cashu.P2PK, Sigs: 2}
	for _, amount := range []uint64{1, 4, 16} {
		lock.Keys = append(lock.Keys, keys[amount].PubKey())
	}
	secret, err := lock.Secret()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(fmt.Sprintf(`{"mint":"m","unit":"sat","proofs":[{"amount":1,"id":"00","secret":%q,"C":%q,"witness":"{}"}]}`, secret, lock.Keys[0]))
	r := receipt.Receipt{AmountMsats: 1000, PaymentProof: &receipt.PaymentProof{Type: "cashu_proof"}}
	asset := "BTC_CASHU(m)"
	r.AssetID = &asset
	r.SetProvider(payee.pub())
	f.Fuzz(func(t *testing.T, value string) {
		p := *r.PaymentProof
		p.Value = value
		paid := r
		paid.PaymentProof = &p
		if c := (payment{receipt: paid}).line(); c.State == Passed || c.Detail == "" {
			t.Errorf("%s: %+v", value, c)
		}
	})
}

func TestPaymentDetailLength(t *testing.T) {
	long := strings.Repeat("x", 50_000)
	for _, p := range []*paid{
		inEcash(t, "00", func(e *ecash) { e.Mint = long }),
		inEcash(t, "00", func(e *ecash) { e.Proofs[0].C = long }),
		inEcash(t, "00", func(e *ecash) { e.Proofs[0].DLEQ.E = long }),
		inEcash(t, "00", func(e *ecash) { e.Keysets[0].Keys[long] = "" }),
		{rail: "lightning", asset: long, kind: "lightning_preimage", value: preimage, amount: 1, request: nip90.Request{Kind: 5050}},
		{rail: "lightning", asset: "BTC_LN", kind: long, value: preimage, amount: 1, request: nip90.Request{Kind: 5050}},
	} {
		if c := p.check(t); len(c.Detail) > 400 || slices.Contains([]byte(c.Detail), '\n') {
			t.Errorf("%d bytes: %.200s", len(c.Detail), c.Detail)
		}
	}
}
