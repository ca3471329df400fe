package mcp

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// bounded is an http.RoundTripper whose requests end with ctx and whose responses have at most maxMessage bytes.
type bounded struct {
	ctx context.Context
	to  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(b.ctx, cancel)
	end := func() { stop(); cancel() }
	resp, err := b.to.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		return nil, err
	}
	resp.Body = &body{ReadCloser: resp.Body, left: maxMessage, end: end}
	return resp, nil
}

// body is a response's body of which at most left bytes can be read.
type body struct {
	io.ReadCloser
	left int
	end  func()
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the response has more than %d bytes", maxMessage)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
