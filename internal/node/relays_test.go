package node

import (
	"slices"
	"testing"
)

func TestLocalAddresses(t *testing.T) {
	urls := []string{"wss://Relay.lan", "ws://127.0.0.1:7447", "wss://[fd00::1]/path", "ws://localhost", "not a url\x7f"}
	want := []string{"relay.lan:443", "127.0.0.1:7447", "[fd00::1]:443", "localhost:80"}
	if got := localAddresses(urls); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
