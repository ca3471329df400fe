// Package dial connects to addresses that strangers name: a relay in an announcement, a blob in a request. By
// default it connects to public addresses only, whatever a name resolves to, so that nobody can have a node talk
// to its own machine or its own network.
package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"
)

// ErrPrivateAddress is why an address from somebody else was not connected to.
var ErrPrivateAddress = errors.New("the address is not public")

// timeout is how long a connection may take to be made.
const timeout = 10 * time.Second

// Func is net.Dialer's DialContext.
type Func = func(ctx context.Context, network, address string) (net.Conn, error)

// Public connects to public addresses only.
func Public(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: timeout, Control: control(false)}).DialContext(ctx, network, address)
}

// PublicOrLoopback connects to public addresses and to this machine.
func PublicOrLoopback(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: timeout, Control: control(true)}).DialContext(ctx, network, address)
}

// Any connects to any address: for hosts that the owner configured.
func Any(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, address)
}

// Except connects to the given "host:port" addresses wherever they are, and to all others only if public.
func Except(allowed []string) Func {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if slices.Contains(allowed, address) {
			return Any(ctx, network, address)
		}
		return Public(ctx, network, address)
	}
}

// IsLoopback reports whether a host, as it stands in a URL, is this machine: "localhost", or a loopback address.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// MayBePublic reports whether a host, as it stands in a URL, may lead out of this network: an address that is public,
// or a name with a dot that is not kept for local use. Where a name really leads is seen when it is connected to.
func MayBePublic(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return isPublic(ip.WithZone("").Unmap())
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	dot := strings.LastIndexByte(name, '.')
	return dot > 0 && !slices.Contains([]string{"localhost", "local", "internal", "lan", "arpa"}, name[dot+1:])
}

// control runs on the resolved address of every connection, just before it is made: a name that resolves to
// something else the second time gains nothing.
func control(loopback bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %s", ErrPrivateAddress, address)
		}
		ip := ap.Addr().WithZone("").Unmap()
		if isPublic(ip) || loopback && ip.IsLoopback() {
			return nil
		}
		return fmt.Errorf("%w: %s", ErrPrivateAddress, ip)
	}
}

// special are ranges that are global unicast by their form but lead to this network, to no single host, or,
// wrapped, to any IPv4 address (IANA's special-purpose address registries).
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("192.0.2.0/24"),
	netip.MustParsePrefix("192.88.99.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("198.51.100.0/24"),
	netip.MustParsePrefix("203.0.113.0/24"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/96"),
	netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("100::/64"),
	netip.MustParsePrefix("2001::/23"),
	netip.MustParsePrefix("2001:db8::/32"),
	netip.MustParsePrefix("2002::/16"),
	netip.MustParsePrefix("fec0::/10"),
}

func isPublic(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() &&
		!slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(ip) })
}
