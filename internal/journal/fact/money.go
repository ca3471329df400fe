package fact

import (
	"encoding/json"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bitcoin"
	"guild/cashu"
	"guild/nip90"
)

// Ledger is the guard of all decisions about money, so that two of them cannot spend the same.
const Ledger Subject = "ledger.all"

// MintAdded says that the owner wants ecash of a mint to be used. Written by wallet.
type MintAdded struct {
	Mint string `json:"mint"` // its URL
	Unit string `json:"unit"`
}

// Coin names ecash of the wallet: output N of an operation.
type Coin struct {
	Op string `json:"op"`
	N  int    `json:"n"`
}

// EcashOutput is ecash that an operation makes. Secret and blinding factor are derived from the wallet's seed: from the
// keyset and Counter (NUT-13), or from the operation and the place in it if it is Locked.
type EcashOutput struct {
	Amount  uint64 `json:"amount"` // in the unit
	Counter uint32 `json:"counter,omitempty"`
	Locked  bool   `json:"locked,omitempty"` // by the operation's lock
}

// EcashLock is the condition of locked ecash: both keys must sign until Locktime, and after it the customer's alone is enough
// (NUT-11). Without a customer it is the provider's for ever: what is paid before the work.
type EcashLock struct {
	Provider cashu.Point `json:"provider"`
	Customer cashu.Point `json:"customer,omitzero"` // also the refund's
	Locktime int64       `json:"locktime,omitzero"` // Unix s

	Arbiter cashu.Point `json:"arbiter,omitzero"` // any two of the three open the lock
	Parties guild.Hash  `json:"parties,omitzero"` // that the nonces of the lock commit to, for the arbiter
}

// EcashPlanned is one transaction with a mint, with all that is needed to repeat it. It is recorded before the mint hears of
// it, so that a crash loses nothing. Written by wallet.
type EcashPlanned struct {
	Op     string `json:"op"`
	Kind   string `json:"kind"` // issue, receive, send, lock, claim, refund or restore
	Mint   string `json:"mint"`
	Unit   string `json:"unit"`
	Keyset string `json:"keyset"`           // of the outputs
	Amount uint64 `json:"amount"`           // that it is about, without change and fee
	Fee    uint64 `json:"fee,omitempty"`    // of the mint
	About  string `json:"about,omitempty"`  // the attempt or request that it is for
	Quote  string `json:"quote,omitempty"`  // of the mint, for issue
	Next   uint32 `json:"next,omitempty"`   // of a restore: the counter after the last one that the mint knows
	Sealed []byte `json:"sealed,omitempty"` // inputs that others gave us, encrypted with a key from the seed

	Inputs   []Coin        `json:"inputs,omitempty"`   // of ours
	Cosigned []string      `json:"cosigned,omitempty"` // the provider's signature for each of Inputs; none after the locktime
	Outputs  []EcashOutput `json:"outputs"`            // sorted by amount
	Lock     *EcashLock    `json:"lock,omitempty"`     // of the locked outputs
}

// EcashSettled says that the mint has done an operation. Written by wallet.
type EcashSettled struct {
	Op         string            `json:"op"`
	Signatures []cashu.Signature `json:"signatures"` // for each output, blinded
	Keys       []cashu.Point     `json:"keys"`       // of the mint, by which they are
}

// EcashFailed says that the mint will never do an operation. Its inputs can be used again, but for those that are lost. Written
// by wallet.
type EcashFailed struct {
	Op     string `json:"op"`
	Reason string `json:"reason"`
	Lost   []Coin `json:"lost,omitempty"` // that the mint says are spent, not by us
}

// EcashLost says that the mint calls ecash spent that the ledger still had, as after a loss of entries, and that the owner has it
// written off. Written by wallet.
type EcashLost struct {
	Coins []Coin `json:"coins"`
}

// LedgerCorrected closes a difference between an account of the ledger and the ecash there is, as after a loss of entries, at the
// owner's command. Written by wallet.
type LedgerCorrected struct {
	Mint    string `json:"mint"`
	Unit    string `json:"unit"`
	Account string `json:"account"`
	Amount  int64  `json:"amount"` // that the account has more now; it is taken from the account for corrections
}

// WalletFrozen says that the owner has stopped all paying, or allows it again. Written by pay.
type WalletFrozen struct {
	Frozen bool `json:"frozen"`
}

// BudgetSet limits what is locked and paid in a unit: in all, for a task, or to a provider. Written by pay.
type BudgetSet struct {
	Unit     string       `json:"unit"`
	Task     string       `json:"task,omitempty"`
	Provider nostr.PubKey `json:"provider,omitzero"`
	Job      uint64       `json:"job"`                // for one job; 0 is no limit
	Daily    uint64       `json:"daily"`              // in a UTC day
	Monthly  uint64       `json:"monthly"`            // in a UTC month
	AskOver  uint64       `json:"ask_over,omitempty"` // a larger payment waits for the owner; 0 for no limit
}

// PaymentReserved sets money aside for an attempt whose provider asked for it. Written by pay.
type PaymentReserved struct {
	Attempt  nostr.ID        `json:"attempt"`
	Job      guild.JobID     `json:"job"`
	Provider nostr.PubKey    `json:"provider"`
	Task     string          `json:"task"`
	Mint     string          `json:"mint,omitempty"`
	Unit     string          `json:"unit"`
	Amount   uint64          `json:"amount"` // in the unit
	Fee      uint64          `json:"fee,omitempty"`
	Op       string          `json:"op,omitempty"`            // that locks ecash
	Invoice  string          `json:"invoice,omitempty"`       // that is paid over Lightning instead (BOLT 11)
	Order    json.RawMessage `json:"order,omitempty"`         // to the owner's wallet, to pay Invoice; given again after a crash
	Ends     int64           `json:"order_ends_ms,omitempty"` // Unix ms: the wallet begins to pay before, or never; 0 if Order has it (NIP-40)
	Msat     guild.Msat      `json:"msat,omitempty"`          // of Invoice
	Bitcoin  string          `json:"bitcoin,omitempty"`       // the URI that is paid on the chain instead (BIP 21); Order is the transaction, and Amount has its Fee
}

// PaymentMined says that the transaction which pays a provider has the confirmations that its quote wants. It proves the payment
// offline. Written by pay.
type PaymentMined struct {
	Attempt   nostr.ID          `json:"attempt"`
	TxID      string            `json:"txid"`
	Raw       string            `json:"raw"`   // the transaction in hex
	N         int               `json:"vout"`  // the output that pays
	Block     string            `json:"block"` // its hash
	Inclusion bitcoin.Inclusion `json:"inclusion"`
	Amount    uint64            `json:"amount"` // sat
	Fee       uint64            `json:"fee"`    // sat
}

// CoinsDoubted says why the transaction which pays a provider may never be in a block, so that a person must see to it. Without a
// reason it is no more in doubt. Written by pay.
type CoinsDoubted struct {
	Attempt nostr.ID `json:"attempt"`
	Reason  string   `json:"reason"`
}

// CoinsUnpaid says that a transaction was not sent, or that a person knows it never pays: its money is free again. Written by pay.
type CoinsUnpaid struct {
	Attempt nostr.ID `json:"attempt"`
	Reason  string   `json:"reason"`
	Amount  uint64   `json:"amount"` // sat, with the fee
}

// CoinsReceived says that an output pays the address of our quote for a request, and has the confirmations that we want. Written by
// pay.
type CoinsReceived struct {
	Request nostr.ID `json:"request"`
	TxID    string   `json:"txid"`
	N       int      `json:"vout"`
	Amount  uint64   `json:"amount"` // sat
	Exact   bool     `json:"exact"`  // it pays the price; without that it is money without a claim
}

// CoinsLost says that the block of received money is not in the best chain any more. Written by pay.
type CoinsLost struct {
	Request nostr.ID `json:"request"`
	TxID    string   `json:"txid"`
	N       int      `json:"vout"`
	Amount  uint64   `json:"amount"` // sat
}

// AddressClosed says that nothing more is expected at the address of our quote for a request, which was paid. Written by pay.
type AddressClosed struct {
	Request nostr.ID `json:"request"`
}

// InvoicePaid says that the owner's wallet has paid the invoice for an attempt. Written by pay.
type InvoicePaid struct {
	Attempt  nostr.ID   `json:"attempt"`
	Preimage string     `json:"preimage"` // in hex: the proof
	Msat     guild.Msat `json:"msat"`
	Fees     guild.Msat `json:"fees,omitempty"` // by the wallet
}

// InvoiceUnpaid says that the invoice for an attempt was not paid, and its money is free again. Written by pay.
type InvoiceUnpaid struct {
	Attempt nostr.ID   `json:"attempt"`
	Reason  string     `json:"reason"`
	Msat    guild.Msat `json:"msat"`
}

// InvoiceHeld says that the payment of our invoice for a request has arrived, and that the owner's wallet holds it. Written by pay.
type InvoiceHeld struct {
	Request nostr.ID   `json:"request"`
	Msat    guild.Msat `json:"msat"`
}

// InvoiceCancelled says that nobody can pay our invoice for a request any more, and that what was held for it went back. Written by
// pay.
type InvoiceCancelled struct {
	Request nostr.ID `json:"request"`
}

// InvoiceSettled says that a customer has paid our invoice for a request: the owner's wallet has the money. Written by pay.
type InvoiceSettled struct {
	Request nostr.ID   `json:"request"`
	Msat    guild.Msat `json:"msat"`
}

// PaymentRefused says that a quote is not paid; what was reserved for it is free again. Written by pay.
type PaymentRefused struct {
	Attempt nostr.ID `json:"attempt"`
	Reason  string   `json:"reason"`
}

// PaymentAllowed is the owner's permission to lock or pay what a provider asks for before the work. The verdict decides what the
// provider gets of it all the same. Written by pay.
type PaymentAllowed struct {
	Attempt nostr.ID `json:"attempt"`
	Amount  uint64   `json:"amount"` // the price, in the unit
}

// PaymentSent says that the provider was sent the locked money, of which it has all by then if it is paid before the work. Written
// by pay.
type PaymentSent struct {
	Attempt nostr.ID `json:"attempt"`
}

// PaymentApproved is a person's decision about money that waits for one. Written by pay.
type PaymentApproved struct {
	Attempt nostr.ID `json:"attempt"`
	Amount  uint64   `json:"amount"` // that is paid, in the unit; may be 0
}

// PaymentDecided says what the provider gets of the locked money. Written by pay.
type PaymentDecided struct {
	Attempt nostr.ID `json:"attempt"`
	Amount  uint64   `json:"amount"` // in the unit; 0 for nothing
	Rule    string   `json:"rule"`   // by which, as in a receipt's approval_rule_id
}

// PaymentReleased says that the provider was sent what it needs to take its part of the locked money, which may be nothing.
// Written by pay.
type PaymentReleased struct {
	Attempt nostr.ID `json:"attempt"`
	Mint    string   `json:"mint"` // empty if it is held over Lightning
	Unit    string   `json:"unit"`
	Amount  uint64   `json:"amount"`
	Coins   []Coin   `json:"coins,omitempty"`
	Proof   string   `json:"proof,omitempty"` // as in AttemptReleased
}

// PaymentReturned has the provider's signatures, by which money that it does not get is ours before the locktime. Written by
// pay.
type PaymentReturned struct {
	Attempt    nostr.ID          `json:"attempt"`
	Signatures map[string]string `json:"signatures"` // by Y of the ecash, both in hex
}

// LockOffered is money that a customer has locked for a request. It is not checked yet. Written by pay.
type LockOffered struct {
	Request  nostr.ID      `json:"request"`
	Customer nostr.PubKey  `json:"customer"`
	Mint     string        `json:"mint"`
	Unit     string        `json:"unit"`
	Proofs   []cashu.Proof `json:"proofs"`         // nobody can spend them without our signature, but the customer and the arbiter together
	Salt     []byte        `json:"salt,omitempty"` // of the nonces, for the arbiter
}

// LockAccepted says that the money is there, and ours if the customer releases it. Written by pay.
type LockAccepted struct {
	Request  nostr.ID `json:"request"`
	Amount   uint64   `json:"amount"`            // in the unit
	Locktime int64    `json:"locktime,omitzero"` // Unix s; 0 for what is locked to us alone
}

// LockRefused says why the work does not begin for what was offered. Written by pay.
type LockRefused struct {
	Request nostr.ID `json:"request"`
	Reason  string   `json:"reason"`
}

// LockReleased has the customer's signatures for the part of the money that is ours, or the preimage of our invoice's payment hash.
// What is locked to us alone is released with its acceptance. Written by pay.
type LockReleased struct {
	Request    nostr.ID          `json:"request"`
	Signatures map[string]string `json:"signatures"` // by Y, in hex; none if nothing is ours, or all is without them
	Amount     uint64            `json:"amount"`
	Reason     string            `json:"reason,omitempty"`   // the customer's, if it is not all
	Preimage   string            `json:"preimage,omitempty"` // in hex
	Ruled      bool              `json:"ruled,omitempty"`    // the arbiter has decided: some of the signatures are its own
}

// LockDisputed says that the arbiter was asked to rule on what a customer released or did not. Written by pay.
type LockDisputed struct {
	Request nostr.ID `json:"request"`
	Reason  string   `json:"reason"` // our person's
}

// PaymentDisputed says that the arbiter was asked to rule on what we released or did not. Written by pay.
type PaymentDisputed struct {
	Attempt nostr.ID `json:"attempt"`
	Reason  string   `json:"reason"` // the provider's
}

// PaymentRuled has the arbiter's decision on locked money of ours, and its signatures for what the provider does not get. Written by pay.
type PaymentRuled struct {
	Attempt    nostr.ID          `json:"attempt"`
	Amount     uint64            `json:"amount"`     // that the provider gets, in the unit
	Signatures map[string]string `json:"signatures"` // by Y of the rest, both in hex
	Reason     string            `json:"reason,omitempty"`
}

// CaseOpened is a provider's objection to what it gets of locked money, on which we rule. Written by pay.
type CaseOpened struct {
	Request  nostr.ID     `json:"request"`
	Provider nostr.PubKey `json:"provider"`
	Customer nostr.PubKey `json:"customer"`
	Mint     string       `json:"mint"`
	Unit     string       `json:"unit"`
	Coins    []LockedCoin `json:"coins"`
	Released uint64       `json:"released,omitempty"` // by the customer, the provider says
	Locktime int64        `json:"locktime"`           // Unix s, of the coin that the customer can take back first
	Reason   string       `json:"reason"`             // the provider's
}

// LockedCoin is a coin as an arbiter signs for it. It cannot be spent without more.
type LockedCoin struct {
	Amount uint64 `json:"amount"` // in the unit
	Secret string `json:"secret"`
}

// CaseTold says that the customer was told of a case. Written by pay.
type CaseTold struct {
	Request nostr.ID `json:"request"`
}

// CaseRuled is the owner's decision on a case. Written by pay.
type CaseRuled struct {
	Request nostr.ID `json:"request"`
	Amount  uint64   `json:"amount"` // that the provider gets, in the unit
	Reason  string   `json:"reason,omitempty"`
}

// CaseSent says that both parties were sent the ruling. Written by pay.
type CaseSent struct {
	Request nostr.ID `json:"request"`
}

// CaseClosed says that the locktime of a case is over, so that nothing is left to rule on. Written by pay.
type CaseClosed struct {
	Request nostr.ID `json:"request"`
}

// LockReturned says that we signed the rest of the money back to the customer. Written by pay.
type LockReturned struct {
	Request nostr.ID `json:"request"`
}

// LockExpired says that a customer released nothing until the locktime, or paid nothing until its invoice expired, or until it was
// too late for ecash as well. Written by pay.
type LockExpired struct {
	Request nostr.ID `json:"request"`
}

// LockLost says that what a customer released to us is spent by somebody else, or not held any more: it was claimed too late. Written
// by pay.
type LockLost struct {
	Request nostr.ID `json:"request"`
}

// AttemptDeferred says that an attempt waits for the owner to allow its provider's price, which is over a limit. Written by pay.
type AttemptDeferred struct {
	Attempt nostr.ID `json:"attempt"`
	Amount  uint64   `json:"amount"` // the price, in the unit
	Unit    string   `json:"unit"`
	Until   int64    `json:"until_ms"` // Unix ms; without a permission until then the price is not paid
}

// AttemptHeld says that money is locked or about to be paid for an attempt, so that its record waits for what becomes of it. With
// an amount of 0 nothing is any more. Written by pay.
type AttemptHeld struct {
	Attempt nostr.ID   `json:"attempt"`
	Rail    string     `json:"rail"`
	Asset   string     `json:"asset_id"`
	Amount  guild.Msat `json:"amount_msats"` // of an asset that is not bitcoin, thousandths of its smallest unit
	Quote   nostr.ID   `json:"quote"`        // the provider's event that asked for it
	Invoice string     `json:"invoice,omitempty"`
	Ahead   bool       `json:"ahead,omitempty"`    // it is the provider's before the work
	Until   int64      `json:"until_ms,omitempty"` // Unix ms, the earliest time at which our patience with the provider ends
}

// RulePrepaid is the rule of what was paid before the work, whatever the verdict.
const RulePrepaid = "order.prepaid"

// RuleAllowed follows another rule if a person allowed the price before the work.
const RuleAllowed = ":person"

// AttemptReleased says that the provider got what it is owed. Written by pay.
type AttemptReleased struct {
	Attempt nostr.ID   `json:"attempt"`
	Amount  guild.Msat `json:"amount_msats"`
	Rule    string     `json:"approval_rule_id"`
	Proof   string     `json:"proof"` // the value of the receipt's payment proof
}

// Prepaid reports whether it was paid before the work, whatever the verdict.
func (a AttemptReleased) Prepaid() bool {
	return strings.TrimSuffix(a.Rule, RuleAllowed) == RulePrepaid
}

// AttemptRefunded says that the locked money is the customer's again. Written by pay.
type AttemptRefunded struct {
	Attempt nostr.ID `json:"attempt"`
	Rule    string   `json:"approval_rule_id"`
	Proof   string   `json:"proof"`
}

// RequestQuoted asks the customer to lock or pay money before the work begins. Written by work.
type RequestQuoted struct {
	Request  nostr.ID     `json:"request"`
	Customer nostr.PubKey `json:"customer"`
	Deadline int64        `json:"deadline"`          // of the work, Unix ms
	Terms    string       `json:"terms,omitempty"`   // a payment request (NUT-18)
	Invoice  string       `json:"invoice,omitempty"` // of the owner's Lightning wallet
	Hold     guild.Hash   `json:"hold,omitzero"`     // the payment hash of Invoice, if the customer chose it: its payment is held
	Bitcoin  string       `json:"bitcoin,omitempty"` // the URI of a payment on the chain (BIP 21)
	Answer   nostr.Event  `json:"answer"`
	Until    int64        `json:"until"`             // Unix ms, until which we wait
	Metered  bool         `json:"metered,omitempty"` // the price depends on what the result claims

	Arbiter *nip90.Arbiter `json:"arbiter,omitempty"` // of the lock that Terms asks for
}

// Type returns the stored name.
func (MintAdded) Type() string { return "mint.added" }

// Type returns the stored name.
func (BudgetSet) Type() string { return "budget.set" }

// Type returns the stored name.
func (WalletFrozen) Type() string { return "wallet.frozen" }

// Type returns the stored name.
func (EcashPlanned) Type() string { return "ecash.planned" }

// Type returns the stored name.
func (EcashSettled) Type() string { return "ecash.settled" }

// Type returns the stored name.
func (EcashFailed) Type() string { return "ecash.failed" }

// Type returns the stored name.
func (EcashLost) Type() string { return "ecash.lost" }

// Type returns the stored name.
func (LedgerCorrected) Type() string { return "ledger.corrected" }

// Type returns the stored name.
func (PaymentReserved) Type() string { return "payment.reserved" }

// Type returns the stored name.
func (PaymentRefused) Type() string { return "payment.refused" }

// Type returns the stored name.
func (PaymentAllowed) Type() string { return "payment.allowed" }

// Type returns the stored name.
func (PaymentSent) Type() string { return "payment.sent" }

// Type returns the stored name.
func (InvoicePaid) Type() string { return "invoice.paid" }

// Type returns the stored name.
func (InvoiceUnpaid) Type() string { return "invoice.unpaid" }

// Type returns the stored name.
func (InvoiceHeld) Type() string { return "invoice.held" }

// Type returns the stored name.
func (InvoiceCancelled) Type() string { return "invoice.cancelled" }

// Type returns the stored name.
func (InvoiceSettled) Type() string { return "invoice.settled" }

// Type returns the stored name.
func (PaymentMined) Type() string { return "payment.mined" }

// Type returns the stored name.
func (CoinsDoubted) Type() string { return "coins.doubted" }

// Type returns the stored name.
func (CoinsUnpaid) Type() string { return "coins.unpaid" }

// Type returns the stored name.
func (CoinsReceived) Type() string { return "coins.received" }

// Type returns the stored name.
func (CoinsLost) Type() string { return "coins.lost" }

// Type returns the stored name.
func (AddressClosed) Type() string { return "address.closed" }

// Type returns the stored name.
func (PaymentApproved) Type() string { return "payment.approved" }

// Type returns the stored name.
func (PaymentDecided) Type() string { return "payment.decided" }

// Type returns the stored name.
func (PaymentReleased) Type() string { return "payment.released" }

// Type returns the stored name.
func (PaymentReturned) Type() string { return "payment.returned" }

// Type returns the stored name.
func (LockOffered) Type() string { return "lock.offered" }

// Type returns the stored name.
func (LockAccepted) Type() string { return "lock.accepted" }

// Type returns the stored name.
func (LockRefused) Type() string { return "lock.refused" }

// Type returns the stored name.
func (LockReleased) Type() string { return "lock.released" }

// Type returns the stored name.
func (LockReturned) Type() string { return "lock.returned" }

// Type returns the stored name.
func (LockLost) Type() string { return "lock.lost" }

// Type returns the stored name.
func (LockExpired) Type() string { return "lock.expired" }

// Type returns the stored name.
func (AttemptDeferred) Type() string { return "attempt.deferred" }

// Type returns the stored name.
func (AttemptHeld) Type() string { return "attempt.held" }

// Type returns the stored name.
func (AttemptReleased) Type() string { return "attempt.released" }

// Type returns the stored name.
func (AttemptRefunded) Type() string { return "attempt.refunded" }

// Type returns the stored name.
func (RequestQuoted) Type() string { return "request.quoted" }

// Type returns the stored name.
func (LockDisputed) Type() string { return "lock.disputed" }

// Type returns the stored name.
func (PaymentDisputed) Type() string { return "payment.disputed" }

// Type returns the stored name.
func (PaymentRuled) Type() string { return "payment.ruled" }

// Type returns the stored name.
func (CaseOpened) Type() string { return "case.opened" }

// Type returns the stored name.
func (CaseTold) Type() string { return "case.told" }

// Type returns the stored name.
func (CaseRuled) Type() string { return "case.ruled" }

// Type returns the stored name.
func (CaseSent) Type() string { return "case.sent" }

// Type returns the stored name.
func (CaseClosed) Type() string { return "case.closed" }
