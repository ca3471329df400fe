// Package taskserver is the client of a task server: the routes of section 10.1 of the Nutshell specification, as a
// ClawNet daemon has them. A customer publishes a task there with the hash of its bundle, providers bid, one is
// assigned, gets the bundle and submits a delivery, and the customer approves it.
//
// The server is not trusted. Answers are limited in bytes and time, ids from it are checked before they become part of
// a path, a bundle is streamed and compared with the hash that it should have, and redirects to other hosts are
// refused. Nothing is logged, and no error contains the token. The package keeps no state and writes no file.
package taskserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"guild"
	"guild/internal/hand/dial"
	"guild/nutshell/vault"
)

// The routes of a task server, as patterns of http.ServeMux. {id} is the id of a task.
const (
	RouteStatus   = "GET /api/status"             // whom the server takes the caller for
	RouteCreate   = "POST /api/tasks"             // make a task
	RouteTasks    = "GET /api/tasks"              // list tasks: ?status=open&limit=100&offset=0
	RouteTask     = "GET /api/tasks/{id}"         // one task
	RouteUpload   = "POST /api/tasks/{id}/bundle" // the field "bundle" of a multipart form
	RouteDownload = "GET /api/tasks/{id}/bundle"
	RouteBid      = "POST /api/tasks/{id}/bid"
	RouteBids     = "GET /api/tasks/{id}/bids"
	RouteAssign   = "POST /api/tasks/{id}/assign"  // choose who does it
	RouteClaim    = "POST /api/tasks/{id}/claim"   // take it without bidding
	RouteSubmit   = "POST /api/tasks/{id}/submit"  // hand in the work
	RouteApprove  = "POST /api/tasks/{id}/approve" // accept the work, which pays the reward
)

// Default is the address of a ClawNet daemon on the person's own machine.
const Default = "http://localhost:3998"

// Config says which server, and as whom.
type Config struct {
	URL   string       // http or https, with or without a path; http only to this machine
	Token vault.Secret // sent as a bearer token; none if zero

	InsecureHTTP bool              // allows http to other machines: the token and the bundle can be read on the way
	Transport    http.RoundTripper // for tests; if nil, one that connects only to what the rules above allow

	Patience time.Duration // how long a question may take, and a transfer stall; 30 seconds if zero
	Longest  time.Duration // how long a transfer may take; an hour if zero
	Pause    time.Duration // before a question is asked again, doubled each time; 250 ms if zero
}

// Client asks one task server. It is safe for concurrent use.
type Client struct {
	c    Config
	base *url.URL
	http *http.Client
}

const (
	maxAnswer  = 4 << 20  // bytes of JSON
	maxError   = 16 << 10 // bytes of an error
	maxHeader  = 64 << 10 // bytes
	maxAsked   = 3        // times that a question is asked
	maxFollows = 3        // redirects within the host
)

// New returns a client of the server at c.URL. The error is ErrPlainHTTP if that must be https.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%.200q is not a URL", c.URL)
	case base.Scheme != "http" && base.Scheme != "https" || base.Hostname() == "":
		return nil, fmt.Errorf("%.200q is not the URL of a server: http:// or https://, and a host", c.URL)
	case base.User != nil:
		return nil, errors.New("the URL of a server has no user and no password")
	case base.RawQuery != "" || base.Fragment != "":
		return nil, fmt.Errorf("%.200q is not the URL of a server: it has a query or a fragment", c.URL)
	case base.Scheme == "http" && !c.InsecureHTTP && !dial.IsLoopback(base.Hostname()):
		return nil, fmt.Errorf("%s: %w", base, ErrPlainHTTP)
	}
	base.Path, base.RawPath = strings.TrimRight(base.Path, "/"), ""
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	c.Longest = cmp.Or(c.Longest, time.Hour)
	c.Pause = cmp.Or(c.Pause, 250*time.Millisecond)
	if c.Transport == nil {
		t := &http.Transport{
			DialContext:            dial.Any,
			DisableCompression:     true, // a small answer must not grow
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    10 * time.Second,
			ResponseHeaderTimeout:  c.Patience,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: maxHeader,
			DisableKeepAlives:      true, // one verb asks a few questions and ends
		}
		if base.Scheme == "https" {
			t.Proxy = http.ProxyFromEnvironment
		} else if !c.InsecureHTTP {
			t.DialContext = loopback
		}
		c.Transport = t
	}
	return &Client{c, base, &http.Client{Transport: c.Transport, CheckRedirect: withinHost}}, nil
}

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

// withinHost follows a few redirects of a GET within its server, and none of a POST.
func withinHost(next *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet || len(via) > maxFollows || next.URL.Host != first.URL.Host || next.URL.Scheme != first.URL.Scheme {
		return ErrRedirect
	}
	return nil
}

// URL returns the address of the server, for people and for the notes in a manifest.
func (c *Client) URL() string { return c.base.String() }

// question is a request to one route that is answered with JSON.
type question struct {
	what  string // was asked, for errors
	route string
	id    string // of the task, if the route is about one
	query url.Values
	body  any // sent as JSON, if the route is a POST
}

// ask returns the answer to a question as parse reads it. A GET is sent again if the server is only busy; a POST is not,
// because it may have been done.
func ask[T any](ctx context.Context, c *Client, q question, parse func([]byte) (T, error)) (v T, err error) {
	var body []byte
	if q.body != nil {
		if body, err = json.Marshal(q.body); err != nil {
			return v, err
		}
	}
	prepare := func(req *http.Request) {
		req.URL.RawQuery = q.query.Encode()
		if q.body != nil {
			req.Header.Set("Content-Type", "application/json")
			setIdempotencyKey(req, body)
		}
	}
	read := func(resp *http.Response) error {
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		if err == nil && len(b) > maxAnswer {
			err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxAnswer)
		}
		if err == nil {
			v, err = parse(b)
		}
		return err
	}
	for asked := 1; ; asked++ {
		once, cancel := context.WithTimeoutCause(ctx, c.c.Patience, ErrStalled)
		err = c.send(once, q.what, q.route, q.id, bytes.NewReader(body), prepare, read)
		cancel()
		busy := IsStatus(err, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout) ||
			errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
		if !busy || q.body != nil || asked == maxAsked {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, ctx.Err()
		case <-time.After(c.c.Pause << (asked - 1)):
		}
	}
}

// send sends a request to a route, after prepare has completed it, and gives a successful answer to read. Any other
// answer is a *StatusError. An error names what was asked and the server, and not the URL that net/http adds.
func (c *Client) send(ctx context.Context, what, route, id string, body io.Reader, prepare func(*http.Request), read func(*http.Response) error) error {
	method, path, _ := strings.Cut(route, " ")
	if strings.Contains(path, "{id}") {
		if err := CheckID(id); err != nil {
			return err
		}
	}
	at := *c.base
	at.Path += strings.Replace(path, "{id}", id, 1)
	req, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "nutshell")
	if !c.c.Token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+string(c.c.Token.Reveal()))
	}
	prepare(req)
	resp, err := c.http.Do(req)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			err = read(resp)
		} else {
			b, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // a part of it is enough
			err = &StatusError{resp.StatusCode, message(b)}
		}
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	_, unresolved := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case unresolved, errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return fmt.Errorf("%s at %s: %w", what, c.base.Host, err)
}

// setIdempotencyKey sets the header of that name (draft-ietf-httpapi-idempotency-key-header): the same for the same
// content at the same address, so that a server can tell that it has had it.
func setIdempotencyKey(req *http.Request, content []byte) {
	req.Header.Set("Idempotency-Key", `"`+guild.Sum([]byte(req.URL.Path+"\n"+string(content))).Hex()+`"`)
}
