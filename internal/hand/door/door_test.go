package door

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

func TestForeignHostOrOriginIsRefused(t *testing.T) {
	loopback := New(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, []string{"Node.example"}, []string{"https://App.example"})
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{"127.0.0.1:8080", "", 0}, {"LOCALHOST:8080", "", 0}, {"[::1]:8080", "http://localhost:8080", 0},
		{"node.example", "https://app.example", 0},
		{"127.0.0.1", "", http.StatusMisdirectedRequest}, {"127.0.0.1:80", "", http.StatusMisdirectedRequest},
		{"127.0.0.1.page.example:8080", "", http.StatusMisdirectedRequest}, {"", "", http.StatusMisdirectedRequest},
		{"localhost:8080", "null", http.StatusForbidden}, {"localhost:8080", "http://page.example", http.StatusForbidden},
		{"localhost:8080", "http://localhost:8080.page.example", http.StatusForbidden},
	} {
		r := httptest.NewRequest("POST", "/", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		if got := loopback.Refuses(r); got != c.want {
			t.Errorf("host %q, origin %q: %d, want %d", c.host, c.origin, got, c.want)
		}
	}
	r := httptest.NewRequest("POST", "/", nil)
	r.Host = "localhost:8080"
	r.Header["Origin"] = []string{"http://localhost:8080", "http://page.example"}
	if got := loopback.Refuses(r); got != http.StatusForbidden {
		t.Errorf("a second origin: %d", got)
	}
	r.Host = "10.0.0.7:8080"
	if everywhere := New(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 8080}, nil, nil); everywhere.Refuses(r) == 0 {
		t.Error("an address that is not loopback is allowed without being named")
	}
	if !loopback.Leads(&url.URL{Host: "Localhost:8080"}) || loopback.Leads(&url.URL{Host: "page.example"}) {
		t.Error("a URL leads elsewhere")
	}
}
