package bitcoin

import (
	"strings"
	"testing"
)

const anAddress = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080"

func TestURI(t *testing.T) {
	for _, u := range []URI{{anAddress, 1, 1}, {anAddress, 5000, 3}, {anAddress, 123_456_789, 100}, {anAddress, MaxSatoshis, 6}} {
		if again, err := ParseURI(u.String()); err != nil || again != u {
			t.Errorf("%s is read as %+v: %v", u, again, err)
		}
	}
	for text, want := range map[string]URI{
		"bitcoin:" + anAddress + "?amount=0.00005":                          {anAddress, 5000, 1},
		"BITCOIN:" + strings.ToUpper(anAddress) + "?amount=2&label=a%20job": {anAddress, 200_000_000, 1},
	} {
		if u, err := ParseURI(text); err != nil || u != want {
			t.Errorf("%s is read as %+v: %v", text, u, err)
		}
	}
}

func TestBadURI(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":             "",
		"another scheme":      "lightning:" + anAddress + "?amount=1",
		"no address":          "bitcoin:?amount=1",
		"an old address":      "bitcoin:1BoatSLRHtKNngkdXEeobR76b53LETtpyT?amount=1",
		"mixed cases":         "bitcoin:B" + anAddress[1:] + "?amount=1",
		"no amount":           "bitcoin:" + anAddress,
		"an amount of 0":      "bitcoin:" + anAddress + "?amount=0.00000000",
		"below 0":             "bitcoin:" + anAddress + "?amount=-1",
		"a part of a satoshi": "bitcoin:" + anAddress + "?amount=0.000000001",
		"more than there is":  "bitcoin:" + anAddress + "?amount=21000000.00000001",
		"too many digits":     "bitcoin:" + anAddress + "?amount=" + strings.Repeat("9", 40),
		"two amounts":         "bitcoin:" + anAddress + "?amount=1&amount=2",
		"no confirmation":     "bitcoin:" + anAddress + "?amount=1&confirmations=0",
		"far too many":        "bitcoin:" + anAddress + "?amount=1&confirmations=101",
		"an unknown demand":   "bitcoin:" + anAddress + "?amount=1&req-more=1",
		"a long text":         "bitcoin:" + anAddress + "?amount=1&label=" + strings.Repeat("a", 500),
	} {
		if u, err := ParseURI(text); err == nil {
			t.Errorf("%s is read as %+v", name, u)
		}
	}
}
