package verify

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"guild"
	"guild/bitcoin"
)

// onchain checks that the transaction is the one that the receipt names and moves at least its amount. No signature
// says which output is the provider's, so the payment itself is never proven.
func (p payment) onchain() (string, error) {
	if err := p.checkQuote(); err != nil {
		return "", err
	}
	digits := bytes.TrimSpace(p.transaction)
	if len(digits) == 0 {
		return "", absence("the transaction is not in the export")
	}
	if len(digits) > 2*bitcoin.MaxTransaction {
		return "", fmt.Errorf("the transaction has more than %d bytes, and no block holds that", bitcoin.MaxTransaction)
	}
	raw := make([]byte, hex.DecodedLen(len(digits)))
	if _, err := hex.Decode(raw, digits); err != nil {
		return "", fmt.Errorf("the transaction is not in hex: %w", err)
	}
	tx, err := bitcoin.ParseTransaction(raw)
	switch {
	case err != nil:
		return "", fmt.Errorf("the transaction cannot be read: %w", err)
	case tx.ID != p.receipt.PaymentProof.Value:
		return "", fmt.Errorf("the transaction is %s, and the receipt names another one", tx.ID)
	case guild.Msat(tx.Satoshis())*1000 < p.receipt.AmountMsats:
		return "", fmt.Errorf("the transaction moves %d sat in all, and the receipt says that %s were paid", tx.Satoshis(), p.receipt.AmountMsats)
	}
	return "", absence(fmt.Sprintf("the transaction is the one of the receipt and moves enough for its %s; whom it pays, and whether a "+
		"block confirms it, is not known here", p.receipt.AmountMsats))
}
