package dial

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestPublicAddresses(t *testing.T) {
	for _, s := range strings.Fields(`0.0.0.0 0.1.2.3 10.0.0.1 100.64.0.1 127.0.0.1 127.255.255.254 169.254.169.254 172.16.0.1 192.0.0.8
		192.168.1.1 198.18.0.1 224.0.0.1 240.0.0.1 255.255.255.255 :: ::1 ::7f00:1 ::ffff:10.0.0.1 64:ff9b::7f00:1 2001::1 2002:7f00:1::
		fc00::1 fd00:ec2::254 fe80::1 ff02::1 fec0::1`) {
		if isPublic(netip.MustParseAddr(s).Unmap()) {
			t.Errorf("%s counts as public", s)
		}
	}
	for _, s := range strings.Fields("1.1.1.1 8.8.8.8 93.184.216.34 172.32.0.1 2606:4700::1111 2a00:1450:4001::1") {
		if !isPublic(netip.MustParseAddr(s)) {
			t.Errorf("%s does not count as public", s)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true,
		"": false, "localhost.example": false, "127.0.0.1.example": false, "0.0.0.0": false, "192.168.0.1": false,
	} {
		if IsLoopback(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}

func TestExceptAllowed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here := l.Addr().String()
	for name, tt := range map[string]struct {
		dial Func
		stop bool
	}{
		"public only":           {Public, true},
		"this machine too":      {PublicOrLoopback, false},
		"configured":            {Except([]string{here}), false},
		"another is configured": {Except([]string{"127.0.0.1:1"}), true},
	} {
		conn, err := tt.dial(t.Context(), "tcp", here)
		if errors.Is(err, ErrPrivateAddress) != tt.stop {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

func TestMayBePublic(t *testing.T) {
	for host, want := range map[string]bool{
		"relay.example": true, "Relay.Example.": true, "8.8.8.8": true, "2606:4700::1111": true,
		"": false, "router": false, "router.": false, "localhost": false, "a.localhost": false, "nas.local": false, "x.internal": false,
		"127.0.0.1": false, "10.0.0.1": false, "::1": false, "fe80::1%eth0": false, "::ffff:192.168.0.1": false, "1.0.168.192.in-addr.arpa": false,
	} {
		if MayBePublic(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}
