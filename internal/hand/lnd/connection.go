package lnd

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// Scheme begins every connection string.
const Scheme = "lndconnect://"

// Limits of a connection string, in bytes.
const (
	maxConnection = 20_000
	maxMacaroon   = 4_000
)

// Connection lets a client use an lnd node, as far as the macaroon allows. Whoever has the macaroon can do so.
type Connection struct {
	Address     string            // host:port of the REST API
	Certificate *x509.Certificate // the only one that is trusted; those of the system if nil

	macaroon func() string // in hex; behind a function, so that no printer finds it
}

// Parse parses a connection string, lndconnect://<host>:<port>?cert=<certificate>&macaroon=<macaroon>. The certificate is DER or
// the text of tls.cert, in base64, and can be left out. The macaroon is in base64 or hex. Base64 may be of either alphabet, with
// padding or without. Without a port it is 8080. Errors do not repeat the string.
func Parse(text string) (c Connection, err error) {
	if len(text) > maxConnection {
		return Connection{}, fmt.Errorf("lnd connection: %d bytes; at most %d are read", len(text), maxConnection)
	}
	text = strings.TrimSpace(text)
	u, err := url.Parse(text)
	if err != nil || !strings.HasPrefix(text, Scheme) {
		return Connection{}, fmt.Errorf("lnd connection: it does not begin with %s", Scheme)
	}
	if u.User != nil || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return Connection{}, errors.New("lnd connection: it is not a host, a port, a certificate and a macaroon")
	}
	if c.Address, err = address(u); err != nil {
		return Connection{}, fmt.Errorf("lnd connection: %w", err)
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(query["macaroon"]) != 1 || len(query["cert"]) > 1 {
		return Connection{}, errors.New("lnd connection: it has not one macaroon and at most one cert")
	}
	if given := query.Get("cert"); given != "" {
		if c.Certificate, err = certificate(given); err != nil {
			return Connection{}, fmt.Errorf("lnd connection: cert: %w", err)
		}
	}
	macaroon, err := macaroonHex(query.Get("macaroon"))
	if err != nil {
		return Connection{}, fmt.Errorf("lnd connection: macaroon: %w", err)
	}
	c.macaroon = func() string { return macaroon }
	return c, nil
}

func address(u *url.URL) (string, error) {
	const usualPort = "8080"
	host, port := u.Hostname(), u.Port()
	n, err := strconv.ParseUint(port, 10, 16)
	switch {
	case host == "":
		return "", errors.New("no host")
	case strings.HasSuffix(strings.ToLower(host), ".onion"):
		return "", errors.New("the host is one of Tor, which is not supported")
	case port == "":
		port = usualPort
	case err != nil || n == 0:
		return "", errors.New("the port is no port")
	}
	return net.JoinHostPort(host, port), nil
}

// decode decodes base64 of either alphabet, with padding or without. A query has a plus sign as a space.
func decode(text string) ([]byte, error) {
	text = strings.NewReplacer(" ", "+", "-", "+", "_", "/").Replace(text)
	b, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil, errors.New("not base64")
	}
	return b, nil
}

func certificate(text string) (*x509.Certificate, error) {
	der, err := decode(text)
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(der); block != nil {
		der = block.Bytes
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, errors.New("not a certificate: neither DER nor PEM")
	}
	return cert, nil
}

// macaroonHex returns a macaroon in hex, as lnd's header has it. Its first byte is the version, 2; no base64 of that is hex.
func macaroonHex(text string) (string, error) {
	const version = 2
	b, err := hex.DecodeString(text)
	if err != nil || len(b) == 0 || b[0] != version {
		b, err = decode(text)
	}
	if err != nil || len(b) == 0 || b[0] != version || len(b) > maxMacaroon {
		return "", errors.New("not one of version 2, in base64 or hex")
	}
	return hex.EncodeToString(b), nil
}
