package bitcoin

import (
	"encoding/hex"
	"testing"
)

// The example of BIP 143 with a witness for one of its inputs, and the first transaction of the chain.
const (
	witnessed = "01000000000102fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f00000000494830450221008b9d1dc26ba6a9cb62127b02742fa9d754cd3bebf337f7a55d114c8e5cdd30be022040529b194ba3f9281a99f2b1c0a19c0489bc22ede944ccf4ecbab4cc618ef3ed01eeffffffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206000000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa815988ac000247304402203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c4518331561406f90300e8f3358f51928d43c212a8caed02de67eebee0121025476c2e83188368da1ff3e292e7acafcdb3566bb0ad253f62fc70f07aeee635711000000"
	genesis   = "01000000010000000000000000000000000000000000000000000000000000000000000000ffffffff4d04ffff001d0104455468652054696d65732030332f4a616e2f32303039204368616e63656c6c6f72206f6e206272696e6b206f66207365636f6e64206261696c6f757420666f722062616e6b73ffffffff0100f2052a01000000434104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac00000000"
)

func TestCutTransactions(t *testing.T) {
	for _, tx := range []string{witnessed, genesis} {
		raw, err := hex.DecodeString(tx)
		if err != nil {
			t.Fatal(err)
		}
		for n := range raw {
			if got, err := ParseTransaction(raw[:n]); err == nil {
				t.Errorf("%d bytes: %+v", n, got)
			}
		}
	}
}

func FuzzTransaction(f *testing.F) {
	for _, tx := range []string{witnessed, genesis} {
		raw, _ := hex.DecodeString(tx)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		tx, err := ParseTransaction(raw)
		if err == nil && (len(tx.ID) != 64 || tx.Satoshis() < 0 || tx.Satoshis() > MaxSatoshis) {
			t.Errorf("%x: %+v", raw, tx)
		}
	})
}
