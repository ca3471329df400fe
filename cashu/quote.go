package cashu

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// QuoteMessage returns the text that the owner of a mint quote signs (NUT-20). Witness.Sign makes the signature, and
// QuoteSigned checks it.
func QuoteMessage(quote string, outputs []Output) string {
	b := []byte("Cashu_MintQuoteSig_v1")
	part := func(p []byte) { b = append(binary.BigEndian.AppendUint32(b, uint32(len(p))), p...) }
	part([]byte(quote))
	for _, o := range outputs {
		amount := binary.BigEndian.AppendUint64(nil, o.Amount)
		part(amount[bits.LeadingZeros64(o.Amount)/8:])
		part(o.B[:])
	}
	return string(b)
}

// QuoteSigned reports whether the key's owner signed the outputs of a quote (NUT-20).
func QuoteSigned(key Point, quote string, outputs []Output, signature string) bool {
	return signedBy(signature, [32]byte(key[1:]), sha256.Sum256([]byte(QuoteMessage(quote, outputs))))
}
