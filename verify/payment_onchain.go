package verify

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"guild"
	"guild/bitcoin"
	"guild/canon"
	"guild/nip90"
)

// onchain checks that the transaction is the one that the receipt names. With an address in the provider's quote exactly one output must
// pay that, exactly the amount; without one nothing says which output is the provider's. A block is shown by its header and a branch.
// Anyone can make a header of little work, so only the network shows that a payment is final, and the check does not pass.
func (p payment) onchain() (string, error) {
	script, network, err := p.address()
	if err != nil {
		return "", err
	}
	tx, err := p.moved()
	if err != nil {
		return "", err
	}
	block, err := p.block(tx)
	if err != nil {
		return "", err
	}
	amount, shown := p.receipt.AmountMsats, "no block shown"
	if block != "" {
		shown = fmt.Sprintf("confirmed by block %s as its header claims; whether that block is in the best chain needs the network", block)
	}
	n, one := tx.Pays(script, int64(amount/1000))
	switch {
	case script != nil && !one:
		return "", fmt.Errorf("the transaction does not have exactly one output to the address in the quote, of exactly %s", amount)
	case script != nil:
		said := fmt.Sprintf("%s on the chain: the output %s:%d pays the address in the provider's quote; %s", amount, tx.ID, n, shown)
		if network != "main" {
			said += fmt.Sprintf(" (in the test coins of the network %s)", network)
		}
		return "", absence(said)
	case guild.Msat(tx.Satoshis())*1000 < amount:
		return "", fmt.Errorf("the transaction moves %d sat in all, and the receipt says that %s were paid", tx.Satoshis(), amount)
	case block != "":
		return "", absence(fmt.Sprintf("the transaction is the one of the receipt and moves enough for its %s; whom it pays is not known here; %s",
			amount, shown))
	}
	return "", absence(fmt.Sprintf("the transaction is the one of the receipt and moves enough for its %s; whom it pays, and whether a "+
		"block confirms it, is not known here", amount))
}

// address returns the script of the address that the quote asks to pay, and its network; nothing without a quote, or if that has no
// address.
func (p payment) address() (script []byte, network string, err error) {
	if p.quote == nil {
		return nil, "", nil
	}
	f, err := p.quoted()
	text := nip90.BitcoinOf(f.Extra)
	if err != nil || text == "" {
		return nil, "", err
	}
	u, err := bitcoin.ParseURI(text)
	if err == nil {
		script, network, err = bitcoin.Script(u.Address)
	}
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("the quote's address: %w", err)
	case guild.Msat(u.Satoshis)*1000 != p.receipt.AmountMsats:
		return nil, "", fmt.Errorf("the quote asks for %d sat to its address, and the receipt says that %s were paid", u.Satoshis, p.receipt.AmountMsats)
	}
	return script, network, nil
}

// moved reads the transaction, which must be the one that the receipt names.
func (p payment) moved() (tx bitcoin.Transaction, err error) {
	digits := bytes.TrimSpace(p.transaction)
	switch {
	case len(digits) == 0 && p.inclusion != nil:
		return tx, fmt.Errorf("%s is there, and %s is not", FileInclusion, FileTransaction)
	case len(digits) == 0:
		return tx, absence("the transaction is not in the export")
	case len(digits) > 2*bitcoin.MaxTransaction:
		return tx, fmt.Errorf("the transaction has more than %d bytes, and no block holds that", bitcoin.MaxTransaction)
	}
	raw := make([]byte, hex.DecodedLen(len(digits)))
	if _, err := hex.Decode(raw, digits); err != nil {
		return tx, fmt.Errorf("the transaction is not in hex: %w", err)
	}
	tx, err = bitcoin.ParseTransaction(raw)
	switch {
	case err != nil:
		return tx, fmt.Errorf("the transaction cannot be read: %w", err)
	case tx.ID != p.receipt.PaymentProof.Value:
		return tx, fmt.Errorf("the transaction is %s, and the receipt names another one", tx.ID)
	}
	return tx, nil
}

// block returns the hash of the block that is shown to have a transaction, or "" if none is shown.
func (p payment) block(tx bitcoin.Transaction) (string, error) {
	if p.inclusion == nil {
		return "", nil
	}
	in, err := readInclusion(p.inclusion)
	if err != nil {
		return "", fmt.Errorf("%s: %w", FileInclusion, err)
	}
	block, err := in.Check(tx)
	if err != nil {
		return "", fmt.Errorf("the block does not have the transaction: %w", err)
	}
	return block, nil
}

// readInclusion reads exactly the fields of an inclusion.
func readInclusion(b []byte) (in bitcoin.Inclusion, err error) {
	if err := decodeJSON(string(b), &in); err != nil {
		return in, err
	}
	stated, err := canon.Canonical(b)
	if err != nil {
		return in, err
	}
	again, err := canon.Marshal(in)
	switch {
	case err != nil:
		return in, err
	case in.Branch == nil || !bytes.Equal(again, stated):
		return in, errors.New("not exactly the fields of an inclusion")
	case !isHex(in.Header, 80) || slices.ContainsFunc(in.Branch, func(hash string) bool { return !isHex(hash, 32) }):
		return in, errors.New("a header or hash that is not lower-case hex of its length")
	}
	return in, nil
}
