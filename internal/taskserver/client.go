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
	"net/http"
	"net/url"
	"strings"
	"time"

	"guild/internal/dial"
	"guild/nutshell/vault"
)

// Default is where a ClawNet daemon listens on the person's own machine.
const Default = "http://localhost:3998"

// Config says which server, and as whom.
type Config struct {
	URL   string       // http or https, with or without a path; http only to this machine
	Token vault.Secret // sent as a bearer token; none if zero

	InsecureHTTP bool              // allows http to other machines: the token and the bundle can be read on the way
	Transport    http.RoundTripper // for tests; a transport that reaches what the rules above allow if nil
	UserAgent    string            // "nutshell" if empty

	Patience time.Duration // how long a question may take, and a transfer stand still; 30 seconds if zero
	Longest  time.Duration // how long a transfer may take; an hour if zero
	Pause    time.Duration // before a question is asked again, doubled each time; 250 ms if zero
}

// Client asks one task server. It can be used by many goroutines.
type Client struct {
	c    Config
	base *url.URL
	http *http.Client
}

// Bounds of what a server may answer.
const (
	maxAnswer  = 4 << 20  // bytes of JSON
	maxError   = 16 << 10 // bytes of an error
	maxHeader  = 64 << 10 // bytes
	maxAsked   = 3        // times that a question is asked
	maxFollows = 3        // redirects within the host
)

// New checks where the server is. ErrPlainHTTP is an address that only https may reach.
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

// parseURL reads the address of a server.
func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%.200q is not a URL", s)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Hostname() == "":
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

// transport connects as the address allows: without TLS to this machine only, whatever the name resolves to, and
// through a proxy only with it.
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

// withinHost follows a few redirects of a question within its server. What is posted is not redirected at all.
func withinHost(next *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet || len(via) > maxFollows || next.URL.Host != first.URL.Host || next.URL.Scheme != first.URL.Scheme {
		return ErrRedirect
	}
	return nil
}

// URL returns the address of the server, for people and for the notes in a manifest.
func (c *Client) URL() string { return c.base.String() }

// at is the address of a route. Its segments are checked ids and words of ours.
func (c *Client) at(query string, segments ...string) string {
	u := *c.base
	u.Path += "/api/" + strings.Join(segments, "/")
	u.RawQuery = query
	return u.String()
}

// get asks a question, again if the server is only busy, and returns the answer.
func (c *Client) get(ctx context.Context, at string) ([]byte, error) {
	for asked := 1; ; asked++ {
		b, err := c.ask(ctx, http.MethodGet, at, nil)
		if err == nil || asked == maxAsked || !isPassing(err) {
			return b, err
		}
		if err := pause(ctx, c.c.Pause<<(asked-1)); err != nil {
			return nil, err
		}
	}
}

// isPassing reports whether asking again may help: not where nobody listens, which does not change in a second.
func isPassing(err error) bool {
	return IsStatus(err, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout) ||
		errors.Is(err, io.ErrUnexpectedEOF) || isReset(err)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// post sends JSON and returns the answer. The same content is sent with the same key, by which a server can tell
// that it has had it.
func (c *Client) post(ctx context.Context, at string, content any) ([]byte, error) {
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return c.ask(ctx, http.MethodPost, at, body)
}

// ask sends one request of JSON, or of nothing, and reads the answer.
func (c *Client) ask(ctx context.Context, method, at string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.c.Patience, ErrStalled)
	defer cancel()
	req, err := c.request(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", idempotencyKey(req.URL, body))
	}
	resp, err := c.do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := readBounded(resp.Body, maxAnswer)
	if err != nil {
		return nil, c.cause(ctx, err)
	}
	return b, nil
}

// request makes a request with what all have.
func (c *Client) request(ctx context.Context, method, at string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, at, body)
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

// idempotencyKey is the header of that name (draft-ietf-httpapi-idempotency-key-header), the same for the same
// content at the same address.
func idempotencyKey(at *url.URL, content []byte) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", at.Path)
	sum.Write(content)
	return `"` + hex.EncodeToString(sum.Sum(nil)) + `"`
}

// do sends a request. What is not a success is an error, and then there is no body to close.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.cause(req.Context(), err)
	}
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // what there is of it will do
	return nil, &StatusError{resp.StatusCode, message(b)}
}

// cause is why a request failed, without the request's own words.
func (c *Client) cause(ctx context.Context, err error) error {
	if why := context.Cause(ctx); why != nil && ctx.Err() != nil {
		return why
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if errors.Is(err, ErrRedirect) {
		return ErrRedirect
	}
	if isRefused(err) {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return err
}

// readBounded reads all of r, which must not be more than limit bytes.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return b, nil
}
