package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"guild"
)

// ahead describes coins that were paid before the work. They are locked to the provider's key alone, so that they count as paid
// without its signature.
type ahead struct {
	coins int
	key   [32]byte // x-only
}

// add adds a coin that one key alone can spend.
func (a *ahead) add(key []byte) error {
	if a.coins > 0 && !bytes.Equal(key, a.key[:]) {
		return errors.New("it is locked to another key than those before it")
	}
	*a = ahead{coins: a.coins + 1, key: [32]byte(key)}
	return nil
}

// unsigned reports whether a coin comes without a witness.
func (c ecashProof) unsigned() bool {
	var text string
	return len(c.Witness) == 0 || json.Unmarshal(c.Witness, &text) == nil && text == ""
}

// follows checks that the lock is the one that the provider asked for, and the amount its price; nil if it asked for none.
func (a ahead) follows(terms *escrowTerms, owner []byte, amount guild.Msat) error {
	switch {
	case terms == nil && bytes.Equal(a.key[:], owner):
		return errors.New("the provider did not sign for it")
	case terms == nil:
		return errors.New("it is locked to another key than the provider's")
	case a.key != terms.key:
		return errors.New("it is locked to another key than the one in the provider's quote")
	case !terms.alone:
		return errors.New("it is the provider's whatever it delivers, and the provider's quote asks for an escrow")
	case amount != terms.price:
		return errors.New("the quote asks for another amount")
	}
	return nil
}

// proven says what the coins prove, by how many of them the mint's keys signed.
func (a ahead) proven(all, signed int, amount string) (string, error) {
	switch {
	case a.coins < all:
		return "", errors.New("a part of the ecash is locked in another way")
	case signed < all:
		return "", absence(amount + ", by the customer's word, are in ecash that is locked to the key in the provider's quote alone; that the mint " +
			"issued it cannot be checked offline")
	}
	return amount + " in ecash that is locked to the key in the provider's quote alone, as that asks for it: nobody but the provider can spend it; it is " +
		"signed by the mint's keys as they were handed over; whether the provider has spent it, only the mint says (checkstate)", nil
}

// onlyKey reports whether tags of a requested lock want nothing beside its key.
func onlyKey(tags [][]string) bool {
	return !slices.ContainsFunc(tags, func(tag []string) bool {
		return !slices.Equal(tag, []string{"n_sigs", "1"}) && !slices.Equal(tag, []string{"sigflag", "SIG_INPUTS"})
	})
}
