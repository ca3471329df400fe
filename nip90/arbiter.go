package nip90

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/cashu"
)

// KindArbiter is the kind of the event by which a node offers to rule on money that others lock: application data (NIP-78) under the
// name of ArbiterD, with the key of the lock in a pubkey tag. An event without that tag takes the offer back.
const (
	KindArbiter nostr.Kind = 30078
	ArbiterD               = "guild.arbiter"
)

// tagJudge names an arbiter in a request. It is guild's own. It is no parameter, which would be a part of the job hash.
const tagJudge = "judge"

// Arbiter is a node of neither party that rules on locked money if a provider objects to a verdict: two of its key, the customer's and
// the provider's open the lock (NUT-11).
type Arbiter struct {
	PubKey nostr.PubKey `json:"pubkey"`
	Key    cashu.Point  `json:"key,omitzero"` // for locks
}

// SetArbiter makes r name the arbiter of its order.
func (r *Request) SetArbiter(a Arbiter) {
	r.Extra = append(slices.Clip(r.Extra), nostr.Tag{tagJudge, a.PubKey.Hex(), a.Key.String()})
}

// ArbiterOf returns the arbiter that the unknown tags of a request name, or nil.
func ArbiterOf(extra nostr.Tags) *Arbiter {
	tag := extra.Find(tagJudge)
	if len(tag) < 3 {
		return nil
	}
	digits, isHex := parsePubKey(tag[1]) // PubKeyFromHex alone reads any 64 bytes as hex on processors with AVX2
	p, err := nostr.PubKeyFromHex(digits.Hex())
	key, unlike := cashu.ParsePoint(tag[2])
	if !isHex || err != nil || unlike != nil {
		return nil
	}
	return &Arbiter{PubKey: p, Key: key}
}

// ArbiterEvent returns the event, to be signed, by which a node offers to rule with a key for locks, or takes that back if it is zero.
func ArbiterEvent(key cashu.Point, at nostr.Timestamp) nostr.Event {
	e := nostr.Event{Kind: KindArbiter, CreatedAt: at, Tags: nostr.Tags{{"d", ArbiterD}}}
	if key != (cashu.Point{}) {
		e.Tags = append(e.Tags, nostr.Tag{"pubkey", key.String()})
	}
	return e
}

// ParseArbiter reads who offers to rule, and with which key. The error is a *guild.DropError.
func ParseArbiter(e nostr.Event) (Arbiter, error) {
	if e.Kind != KindArbiter || e.Tags.FindWithValue("d", ArbiterD) == nil {
		return Arbiter{}, guild.Drop(guild.Malformed, "event %.8s is not of an arbiter", e.ID.Hex())
	}
	tag := e.Tags.Find("pubkey")
	if len(tag) < 2 {
		return Arbiter{}, guild.Drop(guild.Malformed, "%.8s does not rule on money any more", e.PubKey.Hex())
	}
	key, err := cashu.ParsePoint(tag[1])
	if err != nil {
		return Arbiter{}, guild.Drop(guild.Malformed, "the key of arbiter %.8s: %v", e.PubKey.Hex(), err)
	}
	return Arbiter{PubKey: e.PubKey, Key: key}, nil
}
