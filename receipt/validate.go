package receipt

import (
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
)

// Validate returns the first fault in the form of r, or nil. Its errors match ErrInvalid.
func (r Receipt) Validate() error {
	for _, check := range []func(Receipt) error{Receipt.checkIdentity, Receipt.checkOutcome, Receipt.checkStrength, Receipt.checkPayment} {
		if err := check(r); err != nil {
			return fmt.Errorf("receipt %.40s: %w", r.ID, err)
		}
	}
	return nil
}

// invalid returns an error about one field.
func invalid(field, reason string, args ...any) error {
	return fmt.Errorf("%w: %s %s", ErrInvalid, field, fmt.Sprintf(reason, args...))
}

func (r Receipt) checkIdentity() error {
	switch {
	case r.ID == "":
		return invalid("receipt_id", "is missing")
	case r.SessionID == "":
		return invalid("session_id", "is missing")
	case r.PolicyBundleID == "":
		return invalid("policy_bundle_id", "is missing")
	case r.TrajectoryHash.IsZero():
		return invalid("trajectory_hash", "is missing")
	case r.JobHash.IsZero():
		return invalid("job_hash", "is missing")
	case r.IdempotencyKey != "" && !isHex32(r.IdempotencyKey):
		return invalid("idempotency_key", "%.80q is not 64 hex digits", r.IdempotencyKey)
	}
	if _, err := time.Parse(time.RFC3339Nano, r.Timestamp); err != nil {
		return invalid("timestamp", "%.40q is not ISO 8601", r.Timestamp)
	}
	if r.ProviderPubKey == (nostr.PubKey{}) {
		return invalid("provider_pubkey", "is missing")
	}
	if want := nip19.EncodeNpub(r.ProviderPubKey); r.ProviderID != want {
		return invalid("provider_id", "%.80q is not the npub of provider_pubkey, %s", r.ProviderID, want)
	}
	return nil
}

// checkOutcome checks that an outcome and its verdict are both set or both absent. Together they also require the
// judged result.
func (r Receipt) checkOutcome() error {
	outcomes := []guild.Outcome{guild.Success, guild.Partial, guild.Failure, guild.Error, guild.Violation}
	switch {
	case r.Outcome == "" && r.VerdictHash.IsZero():
		return nil
	case !slices.Contains(outcomes, r.Outcome):
		return invalid("outcome", "%.40q is not an outcome", r.Outcome)
	case r.VerdictHash.IsZero():
		return invalid("verdict_hash", "is missing beside an outcome")
	case r.ResultEvent == (nostr.ID{}):
		return invalid("result_event", "is missing beside an outcome")
	}
	return nil
}

// checkStrength checks that score, strength and counts are all there or none, and only beside an outcome.
func (r Receipt) checkStrength() error {
	set := r.Strength != ""
	switch {
	case set != (r.Score != nil) || set != (r.Strengths != nil):
		return invalid("score_micro, strength and strengths", "are all there or none is")
	case !set:
		return nil
	case r.Outcome == "":
		return invalid("strength", "is there without an outcome")
	case !slices.Contains([]guild.Strength{guild.Strong, guild.Mixed, guild.Weak, guild.Unverified}, r.Strength):
		return invalid("strength", "%.40q is not a strength", r.Strength)
	case *r.Score < 0 || *r.Score > guild.Micro:
		return invalid("score_micro", "is %d", *r.Score)
	}
	n := *r.Strengths
	if min(n.Strong, n.Mixed, n.Weak, n.Visible, n.Hidden, n.Drawn) < 0 {
		return invalid("strengths", "has a negative count")
	}
	return nil
}

// checkPayment requires that all payment fields are set, or none. A receipt that claims an amount without a proof, or
// a proof without an amount, is refused.
func (r Receipt) checkPayment() error {
	paid := r.PaymentProof != nil
	switch {
	case r.AmountMsats < 0:
		return invalid("amount_msats", "is negative")
	case paid != (r.AmountMsats > 0):
		return invalid("payment_proof", "and amount_msats %d do not fit", r.AmountMsats)
	case paid != (r.Rail != nil) || paid != (r.AssetID != nil):
		return invalid("rail, asset_id and payment_proof", "are all null or none is")
	case !paid && r.Bolt11 != "":
		return invalid("bolt11", "names an invoice, and nothing was paid")
	case r.Refund != nil && (paid || r.Refund.AmountMsats <= 0):
		return invalid("refund", "and a payment, or of nothing")
	case !paid:
		return nil
	}
	rail, ok := rails[*r.Rail]
	if !ok {
		return invalid("rail", "%.40q is not a rail", *r.Rail)
	}
	if match, _ := regexp.MatchString(rail.asset, *r.AssetID); !match || !qualified.MatchString(*r.AssetID) {
		return invalid("asset_id", "%.80q is not an asset on the rail %s", *r.AssetID, *r.Rail)
	}
	if r.PaymentProof.Type != rail.proof {
		return invalid("payment_proof", "of type %.40q is not of the rail %s", r.PaymentProof.Type, *r.Rail)
	}
	if r.Bolt11 != "" && *r.Rail != "lightning" {
		return invalid("bolt11", "names an invoice, and the rail is %s", *r.Rail)
	}
	// 32 bytes in hex, or, for ecash and asset proofs, any text.
	plausible := r.PaymentProof.Value != ""
	if r.PaymentProof.Type == "lightning_preimage" || r.PaymentProof.Type == "onchain_txid" {
		plausible = isHex32(r.PaymentProof.Value)
	}
	if !plausible {
		return invalid("payment_proof", "has no value of its type")
	}
	return nil
}

// qualified matches an asset id: a ticker and its rail.
var qualified = regexp.MustCompile(`^[A-Z0-9]+_[A-Z0-9_]+(\([^()\s]+\))?$`)

// rails has the type of proof and the form of asset id for each rail.
var rails = map[string]struct{ proof, asset string }{
	"lightning":      {"lightning_preimage", `_LN$`},
	"cashu":          {"cashu_proof", `_CASHU\([^()\s]+\)$`},
	"onchain":        {"onchain_txid", ``},
	"taproot_assets": {"taproot_assets_proof", ``},
}

func isHex32(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32
}
