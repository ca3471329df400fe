package dm

import (
	"encoding/hex"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

// Types of messages about locked money on which an arbiter rules.
const (
	TypeCase   = "guild.case"   // by the provider to the arbiter, with the coins; and by the arbiter to the customer, without them
	TypeRuling = "guild.ruling" // by the arbiter to each of them, with its signatures on their coins (Signatures)
)

// Case is a message by which a provider objects to what it gets of locked money. What it says is not checked, but for its form.
type Case struct {
	Request  nostr.ID
	Customer nostr.PubKey // zero in the message to the customer
	Mint     string
	Unit     string
	Coins    []fact.LockedCoin
	Salt     [32]byte // with the parties it makes the nonces of the coins
	Released uint64   // by the customer, in the unit
	Reason   string   // the provider's, for a person
}

type wireCase struct {
	head
	Customer nostr.PubKey      `json:"customer,omitzero"`
	Mint     string            `json:"mint,omitempty"`
	Unit     string            `json:"unit,omitempty"`
	Coins    []fact.LockedCoin `json:"coins,omitempty"`
	Salt     string            `json:"salt,omitempty"`
	Released uint64            `json:"released,omitempty"`
	Reason   string            `json:"reason"`
}

// Encode writes the content of a message.
func (c Case) Encode() (string, error) {
	w := wireCase{
		head: head{TypeCase, version, c.Request.Hex()}, Customer: c.Customer, Mint: c.Mint, Unit: c.Unit, Coins: c.Coins, Released: c.Released,
		Reason: guild.Cut(guild.Clean(c.Reason), MaxReason),
	}
	if c.Salt != [32]byte{} {
		w.Salt = hex.EncodeToString(c.Salt[:])
	}
	return encodeForm(w)
}

// DecodeCase reads a case. The error is a *guild.DropError.
func DecodeCase(content string) (Case, error) {
	var w wireCase
	id, err := decodeForm(content, &w, &w.head, TypeCase)
	if err != nil {
		return Case{}, err
	}
	c := Case{
		Request: id, Customer: w.Customer, Mint: w.Mint, Unit: w.Unit, Coins: w.Coins, Released: w.Released, Reason: clean(w.Reason, MaxReason),
	}
	salt, err := hex.DecodeString(w.Salt)
	switch {
	case err != nil || len(salt) != 0 && len(salt) != len(c.Salt):
		return Case{}, guild.Drop(guild.Malformed, "the salt of a case is not 32 bytes in hex")
	case len(w.Coins) > maxSignatures:
		return Case{}, guild.Drop(guild.Malformed, "%d coins in a case", len(w.Coins))
	case len(w.Mint) > maxText || len(w.Unit) > maxWord:
		return Case{}, guild.Drop(guild.TooLarge, "the mint or the unit of a case")
	}
	copy(c.Salt[:], salt)
	return c, nil
}
