package main

import (
	"fiatjaf.com/nostr"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"guild"
)

// checks is what go-nostr does to every event before it hands it on, as it is built unless somebody asks for C: it
// computes the id and verifies the signature with btcec. It is written out here because its own function is replaced
// when guild is built with the tag libsecp256k1, and cannot run under the race detector.
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
