//go:build libsecp256k1

package guild

import "fiatjaf.com/nostr"

// verifies tries libsecp256k1 first, which is several times faster. The Nostr library around it computes ids without
// the escapes \b and \f, so an event that it refuses is checked again.
func verifies(e nostr.Event) bool { return e.VerifySignature() || verifiesPure(e) }
