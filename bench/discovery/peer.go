package main

import (
	"fiatjaf.com/nostr"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"guild"
)

// checks does what go-nostr does to every event before it delivers it, in its default build without C: it computes the
// id and verifies the signature with btcec. It is repeated here because go-nostr's function is replaced if guild is
// built with the tag libsecp256k1, and cannot run under the race detector.
func checks(e nostr.Event) bool {
	key, err := schnorr.ParsePubKey(e.PubKey[:])
	if err != nil {
		return false
	}
	signature, err := schnorr.ParseSignature(e.Sig[:])
	if err != nil {
		return false
	}
	id := guild.EventID(e)
	return signature.Verify(id[:], key)
}
