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
	"crypto/sha256"
	"encoding/hex"
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

// Default is where a ClawNet daemon listens on the person's own machine.
const Default = "http://localhost:3998"

// Config says which server, and as whom.
type Config struct {
	URL   string       // http or https, with or without a path; http only to this machine
	Token vault.Secret // sent as a bearer token; none if zero

	InsecureHTTP bool              // allows http to other machines: the token and the bundle can be read on the way
	Transport    http.RoundTripper // for tests; if nil, one that connects only to what the rules above allow
	UserAgent    string            // "nutshell" if empty

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
	base, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if base.Scheme == "http" && !c.InsecureHTTP && !dial.IsLoopback(base.Hostname()) {
		return nil, fmt.Errorf("%s: %w", base.Redacted(), ErrPlainHTTP)
	}
	c.UserAgent = cmp.Or(c.UserAgent, "nutshell")
	c.Patience = cmp.Or(c.Patience, 30*time.Second)
	c.Longest = cmp.Or(c.Longest, time.Hour)
	c.Pause = cmp.Or(c.Pause, 250*time.Millisecond)
	if c.Transport == nil {
		c.Transport = transport(base, c)
	}
	return &Client{c, base, &http.Client{Transport: c.Transport, CheckRedirect: withinHost}}, nil
}

func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%.200q is not a URL", s)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%.200q is not the URL of a server: http:// or https://, and a host", s)
	case u.User != nil:
		return nil, errors.New("the URL of a server has no user and no password")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%.200q is not the URL of a server: it goes on after the path", s)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

// transport connects without TLS to this machine only, whatever a name resolves to, and uses a proxy only with TLS.
func transport(base *url.URL, c Config) *http.Transport {
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
	switch {
	case base.Scheme == "https":
		t.Proxy = http.ProxyFromEnvironment
	case !c.InsecureHTTP:
		t.DialContext = loopback
	}
	return t
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

// ask returns what parse makes of the answer to a question. The error names the question and the server.
func ask[T any](ctx context.Context, c *Client, q question, parse func([]byte) (T, error)) (T, error) {
	var none T
	if strings.Contains(q.route, "{id}") {
		if err := CheckID(q.id); err != nil {
			return none, err
		}
	}
	answer, err := c.answer(ctx, q)
	if err != nil {
		return none, c.failed(q.what, err)
	}
	v, err := parse(answer)
	if err != nil {
		return none, c.failed(q.what, err)
	}
	return v, nil
}

// answer sends a question and returns the answer. A GET is sent again if the server is only busy.
func (c *Client) answer(ctx context.Context, q question) ([]byte, error) {
	var body []byte
	if q.body != nil {
		var err error
		if body, err = json.Marshal(q.body); err != nil {
			return nil, err
		}
	}
	for asked := 1; ; asked++ {
		b, err := c.answerOnce(ctx, q, body)
		if err == nil || q.body != nil || asked == maxAsked || !isPassing(err) {
			return b, err
		}
		again := time.NewTimer(c.c.Pause << (asked - 1))
		select {
		case <-ctx.Done():
			again.Stop()
			return nil, ctx.Err()
		case <-again.C:
		}
	}
}

func (c *Client) answerOnce(ctx context.Context, q question, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.c.Patience, ErrStalled)
	defer cancel()
	req, err := c.request(ctx, q.route, q.id, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = q.query.Encode()
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", idempotencyKey(req.URL, body))
	}
	resp, err := c.do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.cause(ctx, err)
	}
	if len(b) > maxAnswer {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxAnswer)
	}
	return b, nil
}

// isPassing reports whether asking again may help. Where nobody listens it does not.
func isPassing(err error) bool {
	return IsStatus(err, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// request makes a request to a route, with the headers that all requests have. The id has been checked.
func (c *Client) request(ctx context.Context, route, id string, body io.Reader) (*http.Request, error) {
	method, path, _ := strings.Cut(route, " ")
	at := *c.base
	at.Path += strings.Replace(path, "{id}", id, 1)
	req, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.c.UserAgent)
	if !c.c.Token.IsZero() {
		req.Header.Set("Authorization", "Bearer "+string(c.c.Token.Reveal()))
	}
	return req, nil
}

// idempotencyKey returns the header of that name (draft-ietf-httpapi-idempotency-key-header): the same for the same
// content at the same address, so that a server can tell that it has had it.
func idempotencyKey(at *url.URL, content []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", at.Path)
	sum.Write(content)
	return `"` + hex.EncodeToString(sum.Sum(nil)) + `"`
}

// do sends a request. A status other than success is a *StatusError, and then there is no body to close.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.cause(req.Context(), err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // a part of it is enough
	return nil, &StatusError{resp.StatusCode, message(b)}
}

// cause returns why a request failed, without the URL that net/http adds.
func (c *Client) cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil && ctx.Err() != nil {
		return why
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	_, unresolved := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, ErrRedirect):
		return ErrRedirect
	case unresolved, errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// failed adds to an error what was asked and of whom.
func (c *Client) failed(what string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%s at %s: %w", what, c.base.Host, err)
}
