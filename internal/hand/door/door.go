// Package door keeps web pages out of what listens on loopback. Any page in the user's browser can reach loopback. It can
// rebind its own name to 127.0.0.1 in DNS, which the Host header shows; or send requests to another origin, which Origin
// shows. The package refuses requests with a foreign Host or Origin.
package door

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"guild/internal/hand/dial"
)

// Door knows the hosts and origins that are allowed.
type Door struct {
	hosts   []string
	origins []string
}

// New returns a door for a listener. It allows the listener's address if it is loopback, the usual names of loopback, and
// further hosts, with their ports, and origins, as "https://example.com".
func New(listens net.Addr, hosts, origins []string) Door {
	d := Door{hosts: lower(hosts), origins: lower(origins)}
	host, port, _ := net.SplitHostPort(listens.String()) // the listener wrote it
	names := []string{"127.0.0.1", "localhost", "::1"}
	if dial.IsLoopback(host) && !slices.Contains(names, host) {
		names = append(names, host)
	}
	for _, name := range names {
		at := net.JoinHostPort(name, port)
		d.hosts = append(d.hosts, at)
		d.origins = append(d.origins, "http://"+at, "https://"+at)
	}
	return d
}

func lower(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = strings.ToLower(name)
	}
	return out
}

// Refuses returns the HTTP status for a request that is refused, or 0.
func (d Door) Refuses(r *http.Request) int {
	if !slices.Contains(d.hosts, strings.ToLower(r.Host)) {
		return http.StatusMisdirectedRequest
	}
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(d.origins, strings.ToLower(origin)) {
			return http.StatusForbidden
		}
	}
	return 0
}

// Leads reports whether a URL has an allowed host.
func (d Door) Leads(u *url.URL) bool { return slices.Contains(d.hosts, strings.ToLower(u.Host)) }
