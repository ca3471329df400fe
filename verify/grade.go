package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
)

// Grade says how much an export proves.
type Grade string

// The grades. Each needs all that is said of the one before.
const (
	Nothing  Grade = "nothing"   // a check failed, or nobody signed the receipt
	Claim    Grade = "claim"     // somebody signed a receipt
	TwoParty Grade = "two-party" // the same key signed the request, and the provider the result
	Judged   Grade = "judged"    // the verdict is there, and follows from its tests
	Sealed   Grade = "sealed"    // the customer's journal had the receipt when its checkpoint was signed

	// Witnessed means that the provider has countersigned this checkpoint: it was shown no other history.
	Witnessed Grade = "witnessed"
)

// Grades lists the grades from the least to the most.
func Grades() []Grade { return []Grade{Nothing, Claim, TwoParty, Judged, Sealed, Witnessed} }

// AtLeast reports whether the grade proves as much as another.
func (g Grade) AtLeast(other Grade) bool {
	return slices.Index(Grades(), g) >= slices.Index(Grades(), other)
}

// Facts has the statements of an export: who did what for whom, when, how well, and what was owed. How far they are proven is
// said by the grade.
type Facts struct {
	Signer   string `json:"signer,omitempty"`   // npub: who signed the receipt
	Customer string `json:"customer,omitempty"` // npub: who signed the request; empty without one
	Provider string `json:"provider,omitempty"` // npub
	Job      string `json:"job,omitempty"`
	Task     string `json:"task,omitempty"`

	Outcome  guild.Outcome  `json:"outcome,omitempty"`
	Score    *guild.Score   `json:"score_micro,omitempty"`
	Strength guild.Strength `json:"strength,omitempty"`
	Passed   int64          `json:"passed,omitempty"`   // functional tests of the verdict
	Expected int64          `json:"expected,omitempty"` // the same

	Amount guild.Msat `json:"amount_msat"` // 0 if nothing was owed
	Asset  string     `json:"asset_id,omitempty"`

	Refunded guild.Msat `json:"refunded_msat,omitempty"` // of Asset; what the customer says came back to it

	Requested int64 `json:"requested_at_ms,omitempty"` // Unix ms, as its signer dated it; the same holds for the others
	Delivered int64 `json:"delivered_at_ms,omitempty"`
	Recorded  int64 `json:"recorded_at_ms,omitempty"`  // date of the receipt
	Sealed    int64 `json:"sealed_at_ms,omitempty"`    // date of the checkpoint
	Witnessed int64 `json:"witnessed_at_ms,omitempty"` // date of the provider's countersignature
}

// grade returns the grade that the checks give.
func (x *export) grade(checks []Check) Grade {
	state := map[string]State{}
	for _, c := range checks {
		if c.State == Failed {
			return Nothing
		}
		state[c.Name] = c.State
	}
	lacks := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return state[name] != Passed })
	}
	switch {
	case lacks("receipt", "receipt signature"):
		return Nothing
	case lacks("request", "result"):
		return Claim
	case lacks("verdict"):
		return TwoParty
	case lacks("journal entry", "checkpoint"):
		return Judged
	case lacks("witness"):
		return Sealed
	}
	return Witnessed
}

// facts returns what the export says, as far as its events are valid.
func (x *export) facts() Facts {
	if !x.known {
		return Facts{}
	}
	r := x.receipt
	f := Facts{
		Provider: r.ProviderID, Job: r.Job.String(), Task: r.Task, Outcome: r.Outcome, Score: r.Score, Strength: r.Strength, Amount: r.AmountMsats,
	}
	if r.AssetID != nil {
		f.Asset = *r.AssetID
	}
	if r.Refund != nil {
		f.Asset, f.Refunded = r.Refund.AssetID, r.Refund.AmountMsats
	}
	ms := func(e nostr.Event) int64 { return int64(e.CreatedAt) * 1000 }
	if x.hasSigned {
		f.Signer = nip19.EncodeNpub(x.signed.PubKey)
	}
	if at, ok := x.receiptTime(); ok {
		f.Recorded = at * 1000
	}
	if x.request.broken == nil {
		f.Customer, f.Requested = nip19.EncodeNpub(x.request.event.PubKey), ms(x.request.event)
	}
	if x.result.broken == nil {
		f.Delivered = ms(x.result.event)
	}
	if x.hasVerdict {
		f.Passed, f.Expected = x.verdict.Passed, x.verdict.Expected
	}
	if x.unsealed == nil {
		f.Sealed = x.sealedAt * 1000
	}
	if x.unwitnessed == nil {
		f.Witnessed = x.witnessedAt * 1000
	}
	return f
}

// sentence says what the export proves.
func (r Report) sentence() string {
	f := r.Facts
	if r.Grade == Nothing {
		for _, c := range r.Checks {
			if c.State == Failed {
				return fmt.Sprintf("It proves nothing: the check of its %s failed.", c.Name)
			}
		}
		return "It proves nothing: nobody signed a receipt that can be read."
	}
	work := "work"
	if f.Task != "" {
		work = "“" + cut(f.Task) + "”"
	}
	how := "nothing here says how well"
	switch {
	case f.Outcome != "" && f.Expected > 0:
		how = fmt.Sprintf("%s, with %d of %d tests passed", f.Outcome, f.Passed, f.Expected)
	case f.Outcome != "":
		how = string(f.Outcome)
	}
	if f.Strength != "" && f.Outcome != "" {
		how += ", " + string(f.Strength)
	}
	owed := "nothing was owed"
	if f.Amount > 0 {
		owed = InAsset(f.Amount, f.Asset) + " were paid"
	} else if f.Refunded > 0 {
		owed = "nothing was paid, and " + InAsset(f.Refunded, f.Asset) + " that were locked for it came back, says the customer"
	}
	switch {
	case r.Grade != Claim:
		if f.Outcome != "" && r.lacks("verdict") {
			how += ", says the customer"
		}
		if f.Amount > 0 && r.lacks("payment") {
			owed += ", says the customer"
		}
		said := fmt.Sprintf("%s had %s do %s on %s: %s; %s.", short(f.Customer), short(f.Provider), work, day(f.Requested), how, owed)
		if r.Grade.AtLeast(Sealed) {
			said += fmt.Sprintf(" The customer's journal had it on %s.", day(f.Sealed))
		}
		if r.Grade == Witnessed {
			said += fmt.Sprintf(" The provider countersigned that on %s.", day(f.Witnessed))
		}
		return said
	case f.Customer == "":
		return fmt.Sprintf("A claim by %s, and by nobody else: %s did %s for it on %s; %s; %s.", short(f.Signer), short(f.Provider), work, day(f.Recorded), how, owed)
	case f.Delivered == 0:
		return fmt.Sprintf("%s asked %s for %s on %s, and says: %s; %s. The provider signed no result that is here.",
			short(f.Customer), short(f.Provider), work, day(f.Requested), how, owed)
	}
	return fmt.Sprintf("A claim by %s: %s did %s for it; %s; %s.", short(f.Signer), short(f.Provider), work, how, owed)
}

// lacks reports whether a check has not passed.
func (r Report) lacks(name string) bool {
	return !slices.ContainsFunc(r.Checks, func(c Check) bool { return c.Name == name && c.State == Passed })
}

// InAsset names an amount of a receipt in its asset, for a person. Of what is not bitcoin it is in thousandths of the smallest unit.
func InAsset(amount guild.Msat, asset string) string {
	ticker, _, _ := strings.Cut(asset, "_")
	if ticker == "BTC" {
		return fmt.Sprintf("%d msats of %s", amount, cut(asset))
	}
	return fmt.Sprintf("%s in %s", sum(amount, strings.ToLower(ticker)), cut(asset))
}

// short shortens a npub.
func short(npub string) string {
	const head, tail = 10, 4
	if len(npub) <= head+tail {
		return npub
	}
	return npub[:head] + "…" + npub[len(npub)-tail:]
}

func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), 60)], "")
}

func day(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.DateOnly) }
