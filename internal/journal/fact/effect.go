package fact

// EffectClaimed says that a node is about to try an effect. There is one claim for each try. Written by due, or by a step in the
// decision that makes the effect due.
type EffectClaimed struct {
	Effect string `json:"effect"` // "publish <event id>", "judge <attempt>", …
	Node   string `json:"node"`
	Until  int64  `json:"until"`            // Unix ms; other nodes may try after that
	Failed string `json:"failed,omitempty"` // why the last try failed; "" if its process died
}

// EffectRenewed extends the claim of a node that is still trying. It is not a new try. Written by due.
type EffectRenewed struct {
	Effect string `json:"effect"`
	Node   string `json:"node"`
	Until  int64  `json:"until"` // as in EffectClaimed
}

// EffectSettled says that an effect is done. The facts that record it are in the same entry. Written by due.
type EffectSettled struct {
	Effect string `json:"effect"`
}

// EffectParked says that an effect failed too often and is not tried again. Written by due.
type EffectParked struct {
	Effect string `json:"effect"`
	Reason string `json:"reason"`
}

// Type returns the stored name.
func (EffectClaimed) Type() string { return "effect.claimed" }

// Type returns the stored name.
func (EffectRenewed) Type() string { return "effect.renewed" }

// Type returns the stored name.
func (EffectSettled) Type() string { return "effect.settled" }

// Type returns the stored name.
func (EffectParked) Type() string { return "effect.parked" }
