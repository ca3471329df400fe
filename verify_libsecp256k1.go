//go:build libsecp256k1

package guild

import "fiatjaf.com/nostr"

// verifies asks libsecp256k1 first, which is several times faster. The library around it computes ids without
// the escapes of \b and \f, so what it does not accept is asked again.
func verifies(e nostr.Event) bool { return e.VerifySignature() || verifiesPure(e) }
