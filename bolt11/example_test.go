package bolt11_test

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"guild/bolt11"
)

func ExampleDecode() {
	inv, err := bolt11.Decode("lnbc2500u1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsy" +
		"qcyq5rqwzqfqypqdq5xysxxatsyp3k7enxv4jsxqzpu9qrsgquk0rl77nj30yxdy8j9vdx85fkpmdla2087ne0xh8nhedh8w27kyke0lp53ut353s06fv3qfegext0eh0ymjpf39tuven09sam30g4vgpfna3rh")
	fmt.Println(inv.Amount, inv.Description, inv.Expiry, err)
	fmt.Println(inv.Expired(inv.Created.Add(2 * time.Minute)))
	// Output:
	// 250000000 msat 1 cup coffee 1m0s <nil>
	// true
}

func ExampleInvoice_Sign() {
	key, _ := btcec.PrivKeyFromBytes([]byte{31: 1})
	preimage := [32]byte{1}
	s, err := bolt11.Invoice{
		Network: bolt11.Regtest, Amount: 5_000, Created: time.Unix(1_760_000_000, 0),
		PaymentHash: sha256.Sum256(preimage[:]), Secret: [32]byte{2}, Description: "a delivery",
	}.Sign(key)
	fmt.Println(s[:20], err)

	inv, err := bolt11.Decode(s)
	fmt.Println(inv.PaymentHash == sha256.Sum256(preimage[:]), inv.Description, err)
	// Output:
	// lnbcrt50n1p5ww7qqsp5 <nil>
	// true a delivery <nil>
}
