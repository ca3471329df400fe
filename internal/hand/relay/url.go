package relay

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"guild/internal/hand/dial"
)

const maxURL = 512 // bytes

// Normalize returns a relay's URL in its normal form: scheme and host in lower case, no default port, no trailing slash, no
// fragment. It refuses ws:// for hosts other than this machine.
func Normalize(raw string) (string, error) {
	if len(raw) > maxURL {
		return "", fmt.Errorf("relay %.80q...: longer than %d bytes", raw, maxURL)
	}
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil {
		return "", fmt.Errorf("relay %q: %w", raw, err)
	}
	if err := acceptable(u); err != nil {
		return "", fmt.Errorf("relay %q: %w", raw, err)
	}
	host := strings.ToLower(u.Hostname())
	if port := u.Port(); port != "" && port != map[string]string{"ws": "80", "wss": "443"}[u.Scheme] {
		host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	clean := url.URL{Scheme: u.Scheme, Host: host, Path: strings.TrimRight(u.Path, "/"), RawQuery: u.RawQuery}
	return clean.String(), nil
}

func acceptable(u *url.URL) error {
	switch {
	case u.Scheme != "ws" && u.Scheme != "wss":
		return errors.New("want ws:// or wss://")
	case u.Hostname() == "":
		return errors.New("no host")
	case u.User != nil:
		return errors.New("user name or password in the URL")
	case u.Scheme == "ws" && !dial.IsLoopback(u.Hostname()):
		return errors.New("ws:// is not encrypted and only for this machine: use wss://")
	}
	return nil
}
