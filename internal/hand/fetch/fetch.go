// Package fetch downloads files that a stranger's request points to, by URL or as a blob by its hash. URLs must be https, on
// hosts that the owner allows by name; redirects to other hosts are refused, and so are private addresses. Size and time are
// bounded. It stores nothing.
package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/hand/blossom"
	"guild/internal/hand/dial"
)

// Reasons why a file is not fetched.
var (
	errTooLarge = errors.New("larger than this provider takes")
	errNoServer = errors.New("this provider has no Blossom server to look for blobs on")
)

// Client downloads files. The zero Client refuses all.
type Client struct {
	Hosts []string      // exact names, in lower case, with a port unless it is 443; none if empty
	Size  int64         // bytes of one file; 16 MiB if zero
	Time  time.Duration // for one file, connecting included; 30 s if zero

	Blobs   *blossom.Client // fetches blobs by their hash, from any public https server; none if nil
	Servers []string        // the owner's Blossom servers, for blobs that are named by their hash alone

	Dial dial.Func   // dial.Public if nil
	TLS  *tls.Config // the system's if nil
}

// hostError says that the owner does not allow a host.
type hostError struct {
	Host    string
	Allowed []string
}

func (e *hostError) Error() string {
	if len(e.Allowed) == 0 {
		return fmt.Sprintf("this provider does not fetch from %.100q: it fetches from no host, so send the file with the request", e.Host)
	}
	return fmt.Sprintf("this provider does not fetch from %.100q: it fetches from %s", e.Host, strings.Join(e.Allowed, ", "))
}

// target is a parsed location: a URL, or a blob.
type target struct {
	url  *url.URL    // nil for a blob
	want *guild.Hash // the blob's
	at   []string    // URLs of the blob, to be tried in turn
}

// Check returns why a location would not be fetched, without fetching it. A location is an https URL, or "blob:" and the
// SHA-256 of a blob in hex. A URL whose last segment is a SHA-256, as on Blossom servers, names a blob. It may be on any
// public server, because the hash proves the content.
func (c Client) Check(location string) error {
	_, err := c.parse(location)
	return err
}

func (c Client) parse(location string) (t target, err error) {
	const longest = 2048
	if len(location) > longest {
		return t, fmt.Errorf("a URL of %d bytes is too long", len(location))
	}
	if text, ok := strings.CutPrefix(location, "blob:"); ok {
		h, err := guild.ParseHash(text)
		if err != nil {
			return t, fmt.Errorf("%.100q is not a blob: %w", location, err)
		}
		if c.Blobs == nil || len(c.Servers) == 0 {
			return t, errNoServer
		}
		for _, server := range c.Servers {
			t.at = append(t.at, strings.TrimSuffix(server, "/")+"/"+h.Hex())
		}
		t.want = &h
		return t, nil
	}
	u, err := url.Parse(location)
	if err != nil || u.Host == "" || u.User != nil {
		return t, fmt.Errorf("%.200q is not a URL that can be fetched", location)
	}
	u.Fragment = ""
	base := path.Base(u.Path)
	h, err := guild.ParseHash(strings.TrimSuffix(base, path.Ext(base)))
	if isBlob := err == nil && c.Blobs != nil; isBlob && (u.Scheme == "https" || c.isOurs(u)) {
		return target{want: &h, at: []string{u.String()}}, nil
	}
	if u.Scheme != "https" {
		return t, fmt.Errorf("%.200q: this provider fetches over https only", location)
	}
	if !slices.Contains(c.Hosts, hostOf(u)) {
		return t, &hostError{hostOf(u), c.Hosts}
	}
	return target{url: u}, nil
}

// isOurs reports whether a URL is on one of the owner's servers, which may be on this machine and without TLS.
func (c Client) isOurs(u *url.URL) bool {
	return slices.ContainsFunc(c.Servers, func(server string) bool {
		s, err := url.Parse(server)
		return err == nil && s.Scheme == u.Scheme && s.Host == u.Host
	})
}

// hostOf returns the host of a URL as Client.Hosts has it.
func hostOf(u *url.URL) string { return strings.TrimSuffix(strings.ToLower(u.Host), ":443") }

// Fetch downloads a location to w, and returns its size in bytes. After an error the caller must discard the data in w.
func (c Client) Fetch(ctx context.Context, location string, w io.Writer) (int64, error) {
	t, err := c.parse(location)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.Time, 30*time.Second))
	defer cancel()
	if t.url == nil {
		return c.blob(ctx, t, w)
	}
	n, err := c.get(ctx, t.url, w)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it took longer than %s: %w", cmp.Or(c.Time, 30*time.Second), context.DeadlineExceeded)
	}
	if err != nil {
		return n, fmt.Errorf("fetch from %s: %w", t.url.Host, err)
	}
	return n, nil
}

func (c Client) size() int64 {
	const usual = 16 << 20
	return cmp.Or(c.Size, usual)
}

// blob asks the servers in turn. Data in w cannot be taken back, so once a server sent some and failed, no other is asked.
func (c Client) blob(ctx context.Context, t target, w io.Writer) (int64, error) {
	var errs []error
	for _, at := range t.at {
		out := &started{w: w}
		n, err := c.Blobs.Download(ctx, at, *t.want, c.size(), out)
		if err == nil {
			return n, nil
		}
		errs = append(errs, Discreet(err))
		if out.written {
			break
		}
	}
	return 0, fmt.Errorf("blob %.16s: %w", t.want.Hex(), errors.Join(errs...))
}

// started notes whether any data was written.
type started struct {
	w       io.Writer
	written bool
}

// Write implements io.Writer.
func (s *started) Write(p []byte) (int, error) {
	s.written = s.written || len(p) > 0
	return s.w.Write(p)
}

func (c Client) get(ctx context.Context, from *url.URL, w io.Writer) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.String(), nil)
	if err != nil {
		return 0, err
	}
	client := http.Client{Transport: c.transport(), CheckRedirect: sameHost}
	resp, err := client.Do(req)
	if err != nil {
		return 0, Discreet(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode != http.StatusOK:
		return 0, errors.New(resp.Status)
	case resp.ContentLength > c.size():
		return 0, fmt.Errorf("%d bytes: %w", resp.ContentLength, errTooLarge)
	}
	n, err := c.copy(w, resp.Body)
	if err != nil && !errors.Is(err, errTooLarge) {
		err = Discreet(err)
	}
	if ctx.Err() != nil {
		err = ctx.Err() // when we disconnect, an unfinished body may look finished
	}
	return n, err
}

// unreachableError is a connection that failed. Its text has no address and no message of the resolver: the customer must not
// learn about our network.
type unreachableError struct{ cause error }

func (e *unreachableError) Error() string {
	if errors.Is(e.cause, dial.ErrPrivateAddress) {
		return "the address of the host is not public"
	}
	return "the host could not be reached"
}

func (e *unreachableError) Unwrap() error { return e.cause }

// Discreet returns an error for the customer: without the URL, which it knows, and without details of our network.
func Discreet(err error) error {
	_, byNet := errors.AsType[net.Error](err)
	wrapped, byURL := errors.AsType[*url.Error](err)
	if byURL {
		_, byNet = errors.AsType[net.Error](wrapped.Err) // a url.Error is a net.Error itself
	}
	switch {
	case errors.Is(err, dial.ErrPrivateAddress), byNet && !errors.Is(err, context.DeadlineExceeded):
		return &unreachableError{err}
	case byURL:
		return wrapped.Err
	}
	return err
}

// copy copies the body. More than the limit is errTooLarge.
func (c Client) copy(w io.Writer, body io.Reader) (int64, error) {
	n, err := io.Copy(w, io.LimitReader(body, c.size()))
	if err != nil {
		return n, err
	}
	if more, _ := io.ReadFull(body, make([]byte, 1)); more > 0 {
		return n, fmt.Errorf("more than %d bytes: %w", c.size(), errTooLarge)
	}
	return n, nil
}

func (c Client) transport() *http.Transport {
	t := &http.Transport{
		DialContext: c.Dial, TLSClientConfig: c.TLS.Clone(), // no proxy, since dial could not check the address behind it
		DisableKeepAlives: true, DisableCompression: true, // a small answer could expand to a huge one
		ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
	if t.DialContext == nil {
		t.DialContext = dial.Public
	}
	return t
}

// sameHost allows a few redirects to the same host. The owner has not allowed others.
func sameHost(next *http.Request, via []*http.Request) error {
	const most = 3
	first := via[0].URL
	switch {
	case next.URL.Scheme != first.Scheme || next.URL.Host != first.Host:
		return fmt.Errorf("it redirects to %.100q, which is not followed", next.URL.Scheme+"://"+next.URL.Host)
	case len(via) > most:
		return errors.New("it redirects too often")
	}
	return nil
}
