package taskserver

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"guild"
)

// mediaType is that of a bundle, whatever its compression.
const mediaType = "application/x-nutshell+gzip"

// Upload sends the bundle of a task, or the delivery: size bytes of r, whose hash is known. It is streamed.
func (c *Client) Upload(ctx context.Context, id string, r io.Reader, size int64, hash guild.Hash) error {
	// The boundary comes from the hash of the file, which therefore cannot contain it.
	boundary := "nutshell-" + hash.Hex()[:56]
	before := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"bundle\"; filename=\"bundle.nut\"\r\nContent-Type: " + mediaType + "\r\n\r\n"
	after := "\r\n--" + boundary + "--\r\n"
	ctx, moved, stop := c.watch(ctx)
	defer stop()
	body := io.MultiReader(strings.NewReader(before), &transfer{r: r, left: size, whole: true, moved: moved}, strings.NewReader(after))
	return c.send(ctx, "upload to "+id, RouteUpload, id, body, func(req *http.Request) {
		req.ContentLength = int64(len(before)+len(after)) + size
		req.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
		req.Header.Set("Expect", "100-continue") // a server may refuse it before it is sent
		setIdempotencyKey(req, hash[:])
	}, func(*http.Response) error { return nil })
}

// Download writes the bundle of a task to w and returns its hash. The error is ErrTooLarge if it has more than limit
// bytes, and a *HashError if want is not zero and not its hash. After an error, discard what was written.
func (c *Client) Download(ctx context.Context, id string, w io.Writer, want guild.Hash, limit int64) (got guild.Hash, err error) {
	ctx, moved, stop := c.watch(ctx)
	defer stop()
	err = c.send(ctx, "download of "+id, RouteDownload, id, nil, func(req *http.Request) {
		req.Header.Set("Accept", mediaType+", application/octet-stream, */*;q=0.1")
	}, func(resp *http.Response) error {
		if resp.ContentLength > limit {
			return fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, resp.ContentLength, limit)
		}
		sum := sha256.New()
		n, err := io.Copy(io.MultiWriter(sum, w), &transfer{r: resp.Body, left: limit + 1, moved: moved})
		if err != nil {
			return err
		}
		if n > limit {
			return fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
		}
		got = guild.Hash(sum.Sum(nil))
		if !want.IsZero() && got != want {
			return &HashError{want, got}
		}
		return nil
	})
	return got, err
}

// watch returns the context of a transfer, which ends when moved has not been called for the client's patience, or after
// the longest time that a transfer may take.
func (c *Client) watch(ctx context.Context) (watched context.Context, moved, stop func()) {
	ctx, end := context.WithTimeoutCause(ctx, c.c.Longest, ErrStalled)
	ctx, cancel := context.WithCancelCause(ctx)
	stalled := time.AfterFunc(c.c.Patience, func() { cancel(ErrStalled) })
	return ctx, func() { stalled.Reset(c.c.Patience) }, func() { stalled.Stop(); cancel(nil); end() }
}

// transfer reads at most left bytes, and calls moved whenever something is read.
type transfer struct {
	r     io.Reader
	left  int64
	whole bool // fewer bytes are an error: half a bundle must not look like a whole one
	moved func()
}

func (t *transfer) Read(p []byte) (int, error) {
	if t.left == 0 {
		return 0, io.EOF
	}
	n, err := t.r.Read(p[:min(int64(len(p)), t.left)])
	t.left -= int64(n)
	ended := errors.Is(err, io.EOF)
	if n > 0 || ended {
		t.moved()
	}
	if ended && t.whole && t.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
