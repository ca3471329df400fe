package fact

// EffectClaimed says that a node is about to act on the world. The number of claims is the number of tries.
// Written by due, or by a step in the decision that made the effect due.
type EffectClaimed struct {
	Effect string `json:"effect"` // "publish <event id>", "judge <attempt>", …
	Node   string `json:"node"`
	Until  int64  `json:"until"`            // Unix ms: due again after that
	Failed string `json:"failed,omitempty"` // why the try before failed, if its process lived to say so
}

// EffectRenewed says that a node is still at an effect that it claimed. It is no new try. Written by due.
type EffectRenewed struct {
	Effect string `json:"effect"`
	Node   string `json:"node"`
	Until  int64  `json:"until"` // Unix ms: as in EffectClaimed
}

// EffectSettled says that an effect is done; its facts stand beside this one. Written by due.
type EffectSettled struct {
	Effect string `json:"effect"`
}

// EffectParked says that an effect failed for the last time. Written by due.
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
