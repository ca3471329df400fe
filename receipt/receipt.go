// Package receipt reads and writes receipts. A receipt binds a job, its delivery, its verdict and its payment
// together, so that a third party can follow the links (the OpenAgents surface, "Receipt Schema").
//
// A receipt is canonical JSON without floats; its hash identifies it. The package checks only the form. Other
// packages, such as verify, check that the events exist, that a preimage fits its invoice and that signatures are
// correct.
package receipt

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/canon"
)

// MaxSize limits the size of a receipt that is read, in bytes.
const MaxSize = 64 << 10

// Reasons why a receipt is refused.
var (
	ErrTooBig  = errors.New("over the size limit")
	ErrInvalid = errors.New("invalid receipt")
)

// Receipt has the minimum fields of the OpenAgents surface, then guild's own. Nullable fields are null if nothing was
// paid; placeholders are never used.
type Receipt struct {
	ID             string        `json:"receipt_id"` // see NewID
	SessionID      string        `json:"session_id"`
	TrajectoryHash guild.Hash    `json:"trajectory_hash"` // of REPLAY.jsonl
	PolicyBundleID string        `json:"policy_bundle_id"`
	JobHash        guild.Hash    `json:"job_hash"`
	PaymentProof   *PaymentProof `json:"payment_proof"`
	Rail           *string       `json:"rail"`     // lightning, cashu, onchain or taproot_assets
	AssetID        *string       `json:"asset_id"` // with its rail, such as BTC_LN or BTC_CASHU(<mint>)
	AmountMsats    guild.Msat    `json:"amount_msats"`
	ProviderID     string        `json:"provider_id"` // npub of ProviderPubKey
	ApprovalRuleID *string       `json:"approval_rule_id"`
	Timestamp      string        `json:"timestamp"` // ISO 8601

	ProviderPubKey nostr.PubKey  `json:"provider_pubkey,omitzero"`
	Task           string        `json:"task,omitempty"`
	Job            guild.JobID   `json:"job"`
	Attempt        nostr.ID      `json:"attempt"`
	RequestEvent   nostr.ID      `json:"request_event,omitzero"`
	ResultEvent    nostr.ID      `json:"result_event,omitzero"` // absent without a result
	BundleHash     guild.Hash    `json:"bundle_hash,omitzero"`
	DeliveryHash   guild.Hash    `json:"delivery_hash,omitzero"`
	Behaviour      guild.Hash    `json:"behaviour,omitzero"` // of the agent that did the work, as the result claims
	Outcome        guild.Outcome `json:"outcome,omitempty"`  // absent without a verdict
	VerdictHash    guild.Hash    `json:"verdict_hash,omitzero"`
	IdempotencyKey string        `json:"idempotency_key,omitempty"` // 64 hex digits; same as in the request and its quote
	QuoteEvent     nostr.ID      `json:"quote_event,omitzero"`      // the provider's feedback with the price
	Bolt11         string        `json:"bolt11,omitempty"`          // the paid invoice; lightning only
	Supersedes     string        `json:"supersedes,omitempty"`      // id of the receipt that this one replaces after a dispute

	// The verdict's own, all three or none. Receipts from before tests had strengths have none.
	Score     *guild.Score     `json:"score_micro,omitempty"`
	Strength  guild.Strength   `json:"strength,omitempty"`
	Strengths *guild.Strengths `json:"strengths,omitempty"` // functional tests that passed, by strength and by exposure

	Refund *Refund `json:"refund,omitempty"` // of money that was locked, of which the provider got nothing

	Extra map[string]stdjson.RawMessage `json:"-"` // unknown fields, kept
}

// names are the known fields of a receipt.
var names = []string{
	"receipt_id", "session_id", "trajectory_hash", "policy_bundle_id", "job_hash", "payment_proof", "rail", "asset_id",
	"amount_msats", "provider_id", "approval_rule_id", "timestamp", "provider_pubkey", "task", "job", "attempt",
	"request_event", "result_event", "bundle_hash", "delivery_hash", "outcome", "verdict_hash", "idempotency_key",
	"quote_event", "bolt11", "supersedes", "score_micro", "strength", "strengths", "behaviour", "refund",
}

// PaymentProof proves a payment.
type PaymentProof struct {
	Type  string `json:"type"` // lightning_preimage, cashu_proof, onchain_txid or taproot_assets_proof
	Value string `json:"value"`
}

// Refund says that money which was locked for the job is the customer's again. It is the customer's claim; the mint can be
// asked.
type Refund struct {
	Rail        string     `json:"rail"`
	AssetID     string     `json:"asset_id"`
	AmountMsats guild.Msat `json:"amount_msats"`
	Proof       string     `json:"proof"` // of ecash, JSON: the points of what was spent, for the mint's checkstate (NUT-07)
}

// NewID derives the id of the receipt for an attempt, so that recording an attempt twice gives one receipt. result is
// zero without a result. earlier is the id of the receipt that this one supersedes, or "".
func NewID(job guild.JobID, attempt, result nostr.ID, earlier string) string {
	of := fmt.Appendf(nil, "[%q,%q,%q]", job, attempt.Hex(), result.Hex())
	if earlier != "" {
		of = fmt.Appendf(of, "%q", earlier)
	}
	return "r-" + guild.Sum(of).Hex()[:16]
}

// SetProvider sets both forms of the provider's key.
func (r *Receipt) SetProvider(p nostr.PubKey) {
	r.ProviderPubKey, r.ProviderID = p, nip19.EncodeNpub(p)
}

// Encode returns the receipt as canonical JSON. It does not validate.
func (r Receipt) Encode() ([]byte, error) {
	b, err := canon.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("receipt %s: %w", r.ID, err)
	}
	if len(r.Extra) == 0 {
		return b, nil
	}
	b = b[:len(b)-1]
	for _, name := range slices.Sorted(maps.Keys(r.Extra)) {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, fmt.Errorf("receipt %s: %w", r.ID, err)
		}
		b = append(append(b, ','), key...)
		b = append(append(b, ':'), r.Extra[name]...)
	}
	if b, err = canon.Canonical(append(b, '}')); err != nil { // refuses a duplicate member
		return nil, fmt.Errorf("receipt %s: %w", r.ID, err)
	}
	return b, nil
}

// Decode parses a receipt in any JSON form. It does not validate.
func Decode(b []byte) (Receipt, error) {
	if len(b) > MaxSize {
		return Receipt{}, fmt.Errorf("receipt of %d bytes: %w", len(b), ErrTooBig)
	}
	canonical, err := canon.Canonical(b) // refuses JSON that two parsers could read differently
	if err != nil {
		return Receipt{}, fmt.Errorf("receipt: %w", err)
	}
	var r Receipt
	if err := json.Unmarshal(canonical, &r); err != nil {
		return Receipt{}, fmt.Errorf("receipt: %w", err)
	}
	if err := json.Unmarshal(canonical, &r.Extra); err != nil {
		return Receipt{}, fmt.Errorf("receipt: %w", err)
	}
	maps.DeleteFunc(r.Extra, func(name string, _ stdjson.RawMessage) bool { return slices.Contains(names, name) })
	if len(r.Extra) == 0 {
		r.Extra = nil
	}
	return r, nil
}

// Hash returns the hash of the canonical form.
func (r Receipt) Hash() (guild.Hash, error) {
	b, err := r.Encode()
	if err != nil {
		return guild.Hash{}, err
	}
	return guild.Sum(b), nil
}
