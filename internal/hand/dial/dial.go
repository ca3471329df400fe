// Package dial connects to addresses that strangers name: a relay in an announcement, a blob in a request. It connects to
// public addresses only, unless told otherwise, so that strangers cannot use a node to reach its own machine or network.
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

// ErrPrivateAddress is the error for an address that is not public.
var ErrPrivateAddress = errors.New("the address is not public")

// timeout bounds the time to connect.
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

// Any connects to any address. It is for hosts that the owner configured.
func Any(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: timeout}).DialContext(ctx, network, address)
}

// Except connects to the given "host:port" addresses, public or not, and to all others only if they are public.
func Except(allowed []string) Func {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if slices.Contains(allowed, address) {
			return Any(ctx, network, address)
		}
		return Public(ctx, network, address)
	}
}

// IsLoopback reports whether the host of a URL is this machine: "localhost", or a loopback address.
func IsLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// MayBePublic reports whether the host of a URL may be outside of this network: a public address, or a name with a dot that
// is not reserved for local use. The address of a name is checked when it is connected to.
func MayBePublic(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return isPublic(ip.WithZone("").Unmap())
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	dot := strings.LastIndexByte(name, '.')
	return dot > 0 && !slices.Contains([]string{"localhost", "local", "internal", "lan", "arpa"}, name[dot+1:])
}

// control checks the resolved address of a connection just before it is made. A check of the name beforehand would not do:
// the name may resolve to another address the second time.
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

// special lists ranges that look like global unicast but are local, have no single host, or embed any IPv4 address (IANA's
// special-purpose address registries).
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
