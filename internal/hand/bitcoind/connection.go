package bitcoind

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Scheme begins every connection string.
const Scheme = "bitcoind://"

// Limits of a connection.
const (
	maxConnection    = 20_000 // bytes
	maxCookie        = 1_000  // bytes
	maxConfirmations = 100
)

// Connection lets a client use the wallet of a bitcoind, or of a btcwallet. Whoever has its password can spend all that is in it.
type Connection struct {
	Address       string            // host:port
	Wallet        string            // of those that a bitcoind has loaded; "" for its only one
	Confirmations int               // that a payment to us needs before the work, from 1
	Certificate   *x509.Certificate // for TLS, as btcwallet has it; nil for none

	login func() (user, password string, err error) // behind a function, so that no printer finds it
}

// Parse parses a connection string, bitcoind://USER:PASSWORD@HOST:PORT?confirmations=3&wallet=NAME&cookie=FILE&cert=CERTIFICATE. All
// that follows the port can be left out, and it is 8332 then. A cookie is a file that bitcoind writes, in place of user and password.
// The certificate is the text of rpc.cert in base64. Errors do not repeat the string.
func Parse(text string) (c Connection, err error) {
	text = strings.TrimSpace(text)
	u, err := url.Parse(text)
	if err != nil || !strings.HasPrefix(text, Scheme) || len(text) > maxConnection {
		return Connection{}, fmt.Errorf("bitcoind connection: it does not begin with %s, or is not a URL of at most %d bytes", Scheme, maxConnection)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.Fragment != "" {
		return Connection{}, errors.New("bitcoind connection: it is not a user, a password, a host, a port and settings")
	}
	for name := range query {
		if !slices.Contains([]string{"confirmations", "wallet", "cookie", "cert"}, name) {
			return Connection{}, errors.New("bitcoind connection: it has a setting other than confirmations, wallet, cookie and cert")
		}
	}
	c = Connection{Wallet: query.Get("wallet"), Confirmations: 3}
	port := u.Port()
	if port == "" {
		port = "8332"
	}
	c.Address = net.JoinHostPort(u.Hostname(), port)
	if given := query.Get("confirmations"); given != "" {
		c.Confirmations, err = strconv.Atoi(given)
		if err != nil || c.Confirmations < 1 || c.Confirmations > maxConfirmations {
			return Connection{}, fmt.Errorf("bitcoind connection: confirmations: want 1 to %d", maxConfirmations)
		}
	}
	if given := query.Get("cert"); given != "" {
		if c.Certificate, err = certificate(given); err != nil {
			return Connection{}, fmt.Errorf("bitcoind connection: cert: %w", err)
		}
	}
	password, _ := u.User.Password()
	user, cookie := u.User.Username(), query.Get("cookie")
	switch {
	case cookie != "" && user == "":
		c.login = func() (string, string, error) { return readCookie(cookie) }
	case cookie == "" && user != "" && password != "":
		c.login = func() (string, string, error) { return user, password, nil }
	default:
		return Connection{}, errors.New("bitcoind connection: it has neither user and password nor the file of a cookie, or both")
	}
	return c, nil
}

func certificate(text string) (*x509.Certificate, error) {
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(text, " ", "+"))
	block, _ := pem.Decode(b)
	if err != nil || block == nil {
		return nil, errors.New("not the text of a PEM file in base64")
	}
	return x509.ParseCertificate(block.Bytes)
}

// readCookie reads the user and the password of a bitcoind, which changes them with each start.
func readCookie(path string) (user, password string, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", fmt.Errorf("the cookie of bitcoind: %w", err)
	}
	user, password, ok := strings.Cut(strings.TrimSpace(string(b)), ":")
	if !ok || len(b) > maxCookie {
		return "", "", fmt.Errorf("%s is no cookie of bitcoind", path)
	}
	return user, password, nil
}
