package bitcoind

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseConnection(t *testing.T) {
	c, err := Parse(" bitcoind://me:secret@127.0.0.1:18443?confirmations=6&wallet=guild\n")
	if err != nil || c.Address != "127.0.0.1:18443" || c.Wallet != "guild" || c.Confirmations != 6 || c.Certificate != nil {
		t.Fatalf("%+v, %v", c, err)
	}
	if user, password, err := c.login(); user != "me" || password != "secret" || err != nil {
		t.Error(user, password, err)
	}
	cookie := filepath.Join(t.TempDir(), ".cookie")
	if err := os.WriteFile(cookie, []byte("__cookie__:abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err = Parse("bitcoind://localhost?cookie=" + cookie)
	if err != nil || c.Address != "localhost:8332" || c.Confirmations != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	if user, password, err := c.login(); user != "__cookie__" || password != "abc" || err != nil {
		t.Error(user, password, err)
	}
}

func TestParseRefusesConnection(t *testing.T) {
	for text, want := range map[string]string{
		"http://me:secret@127.0.0.1":                                        "does not begin with",
		"bitcoind://me:secret@":                                             "it is not a user",
		"bitcoind://me:secret@127.0.0.1/wallet/guild":                       "it is not a user",
		"bitcoind://127.0.0.1":                                              "neither user and password nor",
		"bitcoind://me@127.0.0.1":                                           "neither user and password nor",
		"bitcoind://me:secret@127.0.0.1?cookie=/secret":                     "neither user and password nor",
		"bitcoind://me:secret@127.0.0.1?confirmations=0":                    "want 1 to 100",
		"bitcoind://me:secret@127.0.0.1?confirmations=secret":               "want 1 to 100",
		"bitcoind://me:secret@127.0.0.1?confirmation=6":                     "a setting other than confirmations, wallet, cookie and cert",
		"bitcoind://me:secret@127.0.0.1?secret":                             "a setting other than confirmations, wallet, cookie and cert",
		"bitcoind://me:secret@127.0.0.1?cert=secret":                        "not the text of a PEM file",
		"bitcoind://me:secret@127.0.0.1?wallet=" + strings.Repeat("x", 2e4): "at most",
	} {
		_, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.70s: %v", text, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("bitcoind://me:secret@127.0.0.1:18443?confirmations=6&wallet=guild")
	f.Add("bitcoind://127.0.0.1?cookie=x&cert=LS0t")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if err == nil && (c.Confirmations < 1 || c.Confirmations > maxConfirmations || c.login == nil) {
			t.Errorf("%q is taken: %+v", text, c)
		}
	})
}

// TestOtherServers checks that the error says what to do if the server is not a bitcoind, or wants TLS.
func TestOtherServers(t *testing.T) {
	answers := map[int]string{http.StatusUnauthorized: "the user or the password is wrong", http.StatusBadRequest: "a btcwallet needs its certificate"}
	for status, want := range answers {
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(status) }))
		t.Cleanup(server.Close)
		c, err := Parse(Scheme + "me:secret@" + strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		if err := New(c).Check(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", status, err)
		}
	}
}
