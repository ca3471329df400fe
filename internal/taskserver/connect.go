package taskserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// loopback connects to this machine only, whatever a name resolves to.
func loopback(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil || !ap.Addr().Unmap().IsLoopback() {
			return fmt.Errorf("%s: %w", address, ErrPlainHTTP)
		}
		return nil
	}}
	return d.DialContext(ctx, network, address)
}

// isRefused reports whether nobody could be reached at all.
func isRefused(err error) bool {
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH) {
		return true
	}
	_, unresolved := errors.AsType[*net.DNSError](err)
	return unresolved
}

// isReset reports whether the connection broke.
func isReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) }
