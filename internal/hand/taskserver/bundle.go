package taskserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"time"

	"guild"
)

// mediaType is that of a bundle, whatever its compression.
const mediaType = "application/x-nutshell+gzip"

// Upload sends the bundle of a task, or the delivery: size bytes of r, whose hash is known. It is streamed.
func (c *Client) Upload(ctx context.Context, id string, r io.Reader, size int64, hash guild.Hash) error {
	if err := CheckID(id); err != nil {
		return err
	}
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	header := textproto.MIMEHeader{}
	header.Set("Content-Disposition", `form-data; name="bundle"; filename="bundle.nut"`)
	header.Set("Content-Type", mediaType)
	// The boundary comes from the hash of the file, which therefore cannot contain it.
	err := parts.SetBoundary("nutshell-" + hash.Hex()[:56])
	if err == nil {
		_, err = parts.CreatePart(header)
	}
	head := form.Len()
	if err := errors.Join(err, parts.Close()); err != nil {
		return err
	}
	before, after := form.Bytes()[:head], form.Bytes()[head:]
	ctx, progress, stop := c.watch(ctx)
	defer stop()
	body := io.MultiReader(bytes.NewReader(before), progress(&exactly{r, size}), bytes.NewReader(after))
	req, err := c.request(ctx, RouteUpload, id, body)
	if err != nil {
		return err
	}
	req.ContentLength = int64(form.Len()) + size
	req.Header.Set("Content-Type", parts.FormDataContentType())
	req.Header.Set("Expect", "100-continue") // a server may refuse it before it is sent
	req.Header.Set("Idempotency-Key", idempotencyKey(req.URL, hash[:]))
	resp, err := c.do(req)
	if err != nil {
		return c.failed("upload to "+id, err)
	}
	return resp.Body.Close()
}

// exactly reads left bytes, and fails if there are fewer: half a bundle must not look like a whole one.
type exactly struct {
	r    io.Reader
	left int64
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n, err := e.r.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if errors.Is(err, io.EOF) && e.left > 0 {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Download writes the bundle of a task to w and returns its hash. The error is ErrTooLarge if it has more than limit
// bytes, and a *HashError if want is not zero and not its hash. After an error, discard what was written.
func (c *Client) Download(ctx context.Context, id string, w io.Writer, want guild.Hash, limit int64) (guild.Hash, error) {
	if err := CheckID(id); err != nil {
		return guild.Hash{}, err
	}
	got, err := c.download(ctx, id, w, limit)
	if err == nil && !want.IsZero() && got != want {
		err = &HashError{want, got}
	}
	if err != nil {
		return guild.Hash{}, c.failed("download of "+id, err)
	}
	return got, nil
}

func (c *Client) download(ctx context.Context, id string, w io.Writer, limit int64) (guild.Hash, error) {
	ctx, progress, stop := c.watch(ctx)
	defer stop()
	req, err := c.request(ctx, RouteDownload, id, nil)
	if err != nil {
		return guild.Hash{}, err
	}
	req.Header.Set("Accept", mediaType+", application/octet-stream, */*;q=0.1")
	resp, err := c.do(req)
	if err != nil {
		return guild.Hash{}, err
	}
	defer resp.Body.Close()
	if resp.ContentLength > limit {
		return guild.Hash{}, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, resp.ContentLength, limit)
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(sum, w), io.LimitReader(progress(resp.Body), limit+1))
	if err != nil {
		return guild.Hash{}, c.cause(ctx, err)
	}
	if n > limit {
		return guild.Hash{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return guild.Hash(sum.Sum(nil)), nil
}

// watch returns the context of a transfer, which ends when nothing has been read through progress for the client's
// patience, or after the longest time that a transfer may take.
func (c *Client) watch(ctx context.Context) (watched context.Context, progress func(io.Reader) io.Reader, stop func()) {
	watched, cancel := context.WithCancelCause(ctx)
	stalled := time.AfterFunc(c.c.Patience, func() { cancel(ErrStalled) })
	longest := time.AfterFunc(c.c.Longest, func() { cancel(ErrStalled) })
	progress = func(r io.Reader) io.Reader { return &moving{r: r, stalled: stalled, patience: c.c.Patience} }
	return watched, progress, func() { stalled.Stop(); longest.Stop(); cancel(nil) }
}

// moving restarts a timer whenever something is read.
type moving struct {
	r        io.Reader
	stalled  *time.Timer
	patience time.Duration
}

func (m *moving) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if n > 0 || errors.Is(err, io.EOF) {
		m.stalled.Reset(m.patience)
	}
	return n, err
}
