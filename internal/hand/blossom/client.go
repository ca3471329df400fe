package blossom

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/dial"
)

// Client uploads to and downloads from Blossom servers. It connects to public addresses only, uses no proxy, which would hide
// the address, and follows no redirect to another host. The context limits the time.
type Client struct {
	Signer nostr.Signer     // signs authorizations to upload
	Now    func() time.Time // stamps them

	HTTP          *http.Client // gives its timeout and, from an *http.Transport, its TLS settings; never its dialer
	AllowLoopback bool         // also connect to servers on this machine
	Allow         []string     // hosts, as in a URL ("10.1.2.3:3000"), that may be private
}

// Upload sends size bytes of r, with this hash, to a server and returns the URL of the blob.
func (c *Client) Upload(ctx context.Context, server string, r io.Reader, size int64, hash guild.Hash) (string, error) {
	base, err := parseURL(server)
	if err != nil {
		return "", fmt.Errorf("upload: %w", err)
	}
	base.RawQuery = ""
	target := strings.TrimSuffix(base.String(), "/")
	d, err := c.put(ctx, base, target+"/upload", r, size, hash)
	if err != nil {
		return "", fmt.Errorf("upload to %s: %w", base.Host, err)
	}
	if d.SHA256 != hash.Hex() {
		return "", fmt.Errorf("upload to %s: the server stored %.64q instead of %s", base.Host, d.SHA256, hash.Hex())
	}
	if u, err := parseURL(d.URL); err == nil && strings.Contains(u.Path, hash.Hex()) {
		return d.URL, nil
	}
	return target + "/" + hash.Hex(), nil
}

func (c *Client) put(ctx context.Context, base *url.URL, target string, r io.Reader, size int64, hash guild.Hash) (descriptor, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, target, io.LimitReader(r, size))
	if err != nil {
		return descriptor{}, err
	}
	authorization, err := authorizationHeader(ctx, c.Signer, verbUpload, base.Host, hash, c.Now())
	if err != nil {
		return descriptor{}, err
	}
	req.ContentLength = size
	req.Header.Set("Authorization", authorization)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("X-SHA-256", hash.Hex())
	resp, err := c.do(req)
	if err != nil {
		return descriptor{}, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return descriptor{}, statusError(resp)
	}
	var d descriptor
	err = json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&d)
	return d, err
}

// Download writes the blob at a URL to w and returns its size. It fails if the blob does not have the hash want, or has more
// than limit bytes. After an error the caller must discard the data in w.
func (c *Client) Download(ctx context.Context, blobURL string, want guild.Hash, limit int64, w io.Writer) (int64, error) {
	u, err := parseURL(blobURL)
	if err != nil {
		return 0, fmt.Errorf("download: %w", err)
	}
	n, err := c.get(ctx, u, want, limit, w)
	if err != nil {
		return n, fmt.Errorf("download from %s: %w", u.Host, err)
	}
	return n, nil
}

func (c *Client) get(ctx context.Context, u *url.URL, want guild.Hash, limit int64, w io.Writer) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, statusError(resp)
	}
	if resp.ContentLength > limit {
		return 0, ErrTooLarge
	}
	return copyChecked(w, resp.Body, want, limit)
}

// copyChecked copies up to limit bytes and checks their hash.
func copyChecked(w io.Writer, r io.Reader, want guild.Hash, limit int64) (int64, error) {
	out := &hashedWriter{w: w, digest: sha256.New()}
	n, err := io.Copy(out, io.LimitReader(r, limit))
	if err != nil {
		return n, err
	}
	if more, _ := io.ReadFull(r, make([]byte, 1)); more > 0 {
		return n, ErrTooLarge
	}
	if guild.Hash(out.digest.Sum(nil)) != want {
		return n, ErrWrongContent
	}
	return n, nil
}

// statusError returns the status of a refusal, with the server's X-Reason (BUD-01), cut and quoted.
func statusError(resp *http.Response) error {
	if reason := resp.Header.Get("X-Reason"); reason != "" {
		return fmt.Errorf("%s: %.200q", resp.Status, reason)
	}
	return errors.New(resp.Status)
}

func parseURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%.200q is not a URL", s)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("%.200q is not the URL of a blob or a server", s)
	}
	u.Fragment = ""
	return u, nil
}

// do sends one request over a connection of its own.
func (c *Client) do(req *http.Request) (*http.Response, error) {
	transport, err := c.transport(slices.Contains(c.Allow, req.URL.Host))
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: transport, CheckRedirect: sameHost(req.URL)}
	if c.HTTP != nil {
		client.Timeout = c.HTTP.Timeout
	}
	return client.Do(req)
}

func (c *Client) transport(anyAddress bool) (*http.Transport, error) {
	t := &http.Transport{}
	if c.HTTP != nil && c.HTTP.Transport != nil {
		given, ok := c.HTTP.Transport.(*http.Transport)
		if !ok {
			return nil, fmt.Errorf("a %T cannot be kept from private addresses", c.HTTP.Transport)
		}
		t.TLSClientConfig = given.TLSClientConfig.Clone()
	}
	t.DialContext = dial.Public
	if anyAddress {
		t.DialContext = dial.Any
	} else if c.AllowLoopback {
		t.DialContext = dial.PublicOrLoopback
	}
	t.DisableKeepAlives = true
	t.DisableCompression = true // a small answer could expand to a huge one
	t.ForceAttemptHTTP2 = true
	t.TLSHandshakeTimeout = 10 * time.Second
	t.ResponseHeaderTimeout = time.Minute
	t.MaxResponseHeaderBytes = 64 << 10
	return t, nil
}

// sameHost allows a few redirects within one scheme and host, because the authorization and the permission to connect are
// for that host. It allows none for an upload.
func sameHost(first *url.URL) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		if len(via) > 3 || via[0].Method != http.MethodGet || next.URL.Host != first.Host || next.URL.Scheme != first.Scheme {
			return http.ErrUseLastResponse
		}
		return nil
	}
}
