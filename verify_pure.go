//go:build !libsecp256k1

package guild

import "fiatjaf.com/nostr"

func verifies(e nostr.Event) bool { return verifiesPure(e) }
