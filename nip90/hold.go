package nip90

import (
	"slices"

	"fiatjaf.com/nostr"

	"guild"
)

// tagHold names a payment hash that the customer chose. In a request it says that the customer pays an invoice for that hash, whose
// payment the provider's wallet holds until the verdict; in a quote, that the invoice there is one. It is guild's own. It is no
// parameter, which would be a part of the job hash.
const tagHold = "hold"

// Hold returns the tag that names a payment hash.
func Hold(hash guild.Hash) nostr.Tag { return nostr.Tag{tagHold, hash.Hex()} }

// SetHold makes r name a payment hash.
func (r *Request) SetHold(hash guild.Hash) { r.Extra = append(slices.Clip(r.Extra), Hold(hash)) }

// IsHeld reports whether the tags of a request or of a quote say that a payment is held whose hash the customer chose.
func IsHeld(tags nostr.Tags) bool {
	return slices.ContainsFunc(tags, func(tag nostr.Tag) bool { return len(tag) >= 2 && tag[0] == tagHold })
}

// HoldOf returns the payment hash that the unknown tags of a request or of a quote name, or the zero hash.
func HoldOf(extra nostr.Tags) guild.Hash {
	for _, tag := range extra {
		if len(tag) >= 2 && tag[0] == tagHold {
			if hash, err := guild.ParseHash(tag[1]); err == nil {
				return hash
			}
		}
	}
	return guild.Hash{}
}
