package bitcoin

import "testing"

func TestURIs(t *testing.T) {
	const to = "bitcoin:bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4?amount="
	for text, want := range map[string]int64{
		to + "0.00005": 5000, to + "0.00000001": 1, to + "1": 100_000_000, to + "20999999.5": 2_099_999_950_000_000, to + "21000000": MaxSatoshis,
		to + "0": 0, to + "0.00": 0, to + "21000000.00000001": 0, to + "99999999": 0, to + "01": 0, to + "1.": 0, to + ".5": 0, to + "1e3": 0,
		to + "-1": 0, to + "0.000000001": 0, to + "1&label=work": 0, to + "1\n": 0, to: 0, "bitcoin:?amount=1": 0, "BITCOIN:bc1q?amount=1": 0,
		"bitcoin:bc1q?message=work&amount=1": 0, "bitcoin:bc1q": 0, "": 0,
	} {
		address, satoshis, err := ParseURI(text)
		if (err == nil) != (want > 0) || satoshis != want {
			t.Errorf("%q: %d sat, %v, want %d", text, satoshis, err, want)
		}
		if err == nil {
			again, same, err := ParseURI(URI(address, satoshis))
			if again != address || same != satoshis || err != nil {
				t.Errorf("%q is written %q: %v", text, URI(address, satoshis), err)
			}
		}
	}
}
