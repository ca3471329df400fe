package nip90

import (
	"slices"

	"guild"
)

// Ways in which a customer pays, as ParamSettle names them.
const (
	Escrow   = "escrow"   // what is locked or held before the work, by the verdict
	Postpaid = "postpaid" // after the work, by the verdict
)

// Payout says what a provider gets by the verdict. A success that was strongly verified pays all.
type Payout struct {
	How     string     `json:"how"`             // Escrow or Postpaid
	Mixed   int        `json:"mixed_percent"`   // of the price, for a success that was verified in part
	Partial int        `json:"partial_percent"` // of the price, for a part of the work; 0 if the customer decides then
	Weak    guild.Msat `json:"weak_msat"`       // up to it a success that was weakly verified pays all, else the customer decides; in thousandths of the unit
}

// SetPayout makes r say what a provider gets by the verdict: the values of ParamSettle are the way, both shares and the weak cap.
func (r *Request) SetPayout(p Payout) {
	r.Set(ParamSettle, append([]string{p.How}, numbers("", int64(p.Mixed), int64(p.Partial), int64(p.Weak))[1:]...)...)
}

// Payout returns what a provider gets by the verdict, or nil if r does not say it. Customers of earlier versions do not.
func (r Request) Payout() *Payout {
	i := slices.IndexFunc(r.Params, func(p Param) bool { return p.Key == ParamSettle })
	if i < 0 || len(r.Params[i].Values) != 4 {
		return nil
	}
	values := r.Params[i].Values
	mixed, ok := metered(values[1])
	partial, good := metered(values[2])
	weak, fine := metered(values[3])
	if values[0] != Escrow && values[0] != Postpaid || !ok || !good || !fine || max(mixed, partial) > 100 {
		return nil
	}
	return &Payout{How: values[0], Mixed: int(mixed), Partial: int(partial), Weak: guild.Msat(weak)}
}
