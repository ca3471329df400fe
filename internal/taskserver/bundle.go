package taskserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"time"

	"guild"
)

// mediaType is that of a bundle; one compressed with zstd or not at all has the same on this way.
const mediaType = "application/x-nutshell+gzip"

// Upload sends the bundle of a task, or the delivery: size bytes of r, whose hash is known. Nothing of it is held in
// memory.
func (c *Client) Upload(ctx context.Context, id string, r io.Reader, size int64, hash guild.Hash) error {
	if err := CheckID(id); err != nil {
		return err
	}
	form, err := newForm(hash)
	if err != nil {
		return err
	}
	ctx, w, stop := c.watched(ctx)
	defer stop()
	body := io.MultiReader(bytes.NewReader(form.head), w.reader(&exactly{r, size}), bytes.NewReader(form.tail))
	req, err := c.request(ctx, http.MethodPost, c.at("", "tasks", id, "bundle"), body)
	if err != nil {
		return err
	}
	req.ContentLength = int64(len(form.head)) + size + int64(len(form.tail))
	req.Header.Set("Content-Type", form.contentType)
	req.Header.Set("Expect", "100-continue") // a server that wants none of it says so before it is sent
	req.Header.Set("Idempotency-Key", idempotencyKey(req.URL, hash[:]))
	resp, err := c.do(req)
	if err != nil {
		return c.failed("upload to "+id, err)
	}
	return resp.Body.Close()
}

// form is a form of one file, without the file.
type form struct {
	head, tail  []byte
	contentType string
}

// newForm makes the form. Its boundary comes from the hash of the file, which therefore cannot contain it.
func newForm(hash guild.Hash) (form, error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary("nutshell-" + hash.Hex()[:56]); err != nil {
		return form{}, err
	}
	header := textproto.MIMEHeader{}
	header.Set("Content-Disposition", `form-data; name="bundle"; filename="bundle.nut"`)
	header.Set("Content-Type", mediaType)
	if _, err := w.CreatePart(header); err != nil {
		return form{}, err
	}
	head := bytes.Clone(b.Bytes())
	b.Reset()
	if err := w.Close(); err != nil {
		return form{}, err
	}
	return form{head, b.Bytes(), w.FormDataContentType()}, nil
}

// exactly reads so many bytes, and fails if there are fewer: half a bundle must not look like one.
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

// Download writes the bundle of a task to w and returns its hash: at most limit bytes, beyond which it is
// ErrTooLarge. If want is not zero, another bundle is a *HashError. What was written before an error must be thrown
// away.
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
	ctx, watch, stop := c.watched(ctx)
	defer stop()
	req, err := c.request(ctx, http.MethodGet, c.at("", "tasks", id, "bundle"), nil)
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
	sum, err := copyHashed(w, watch.reader(resp.Body), limit)
	if err != nil {
		return guild.Hash{}, c.cause(ctx, err)
	}
	return sum, nil
}

// copyHashed copies at most limit bytes.
func copyHashed(w io.Writer, r io.Reader, limit int64) (guild.Hash, error) {
	out := &hashed{w, sha256.New()}
	n, err := io.Copy(out, io.LimitReader(r, limit+1))
	if err != nil {
		return guild.Hash{}, err
	}
	if n > limit {
		return guild.Hash{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return guild.Hash(out.sum.Sum(nil)), nil
}

type hashed struct {
	w   io.Writer
	sum hash.Hash
}

func (h *hashed) Write(p []byte) (int, error) {
	h.sum.Write(p)
	return h.w.Write(p)
}

// watch ends a transfer that stands still.
type watch struct {
	patience time.Duration
	still    *time.Timer
}

// watched is the context of a transfer: it ends when nothing has moved for the client's patience, or after the
// longest time that a transfer may take.
func (c *Client) watched(ctx context.Context) (context.Context, *watch, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	still := time.AfterFunc(c.c.Patience, func() { cancel(ErrStalled) })
	longest := time.AfterFunc(c.c.Longest, func() { cancel(ErrStalled) })
	return ctx, &watch{c.c.Patience, still}, func() { still.Stop(); longest.Stop(); cancel(nil) }
}

// reader counts what is read through it as movement.
func (w *watch) reader(r io.Reader) io.Reader { return &moving{w, r} }

type moving struct {
	w *watch
	r io.Reader
}

func (m *moving) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if n > 0 || errors.Is(err, io.EOF) {
		m.w.still.Reset(m.w.patience)
	}
	return n, err
}
