package workdir

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"

	"golang.org/x/sync/errgroup"

	"guild/nutshell"
)

const (
	alone    = 16        // files that are written before helpers are started
	most     = 4         // goroutines that write; more would only wait for locks of folders
	buffered = 256 << 10 // bytes of a file that a helper writes from memory; larger ones are streamed
)

// filler writes files into an empty directory.
type filler struct {
	ctx   context.Context
	root  *os.Root
	umask fs.FileMode // bits that new files lose
	own   fileWriter

	files   int
	helpers *errgroup.Group
	queue   chan queuedFile
	free    chan *bytes.Buffer
}

// queuedFile is a file for a helper to write.
type queuedFile struct {
	entry   nutshell.Entry
	content *bytes.Buffer
}

// fillAll lets fill write into dir, and waits for the helpers.
func fillAll(ctx context.Context, dir string, fill func(*filler) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if err := root.Chmod(".", 0o755); err != nil {
		return err
	}
	w := &filler{ctx: ctx, root: root, umask: 0o755 &^ info.Mode().Perm()}
	w.own = fileWriter{filler: w, buf: make([]byte, 32<<10)}
	defer w.own.close()
	return w.wait(fill(w))
}

// wait ends the helpers. If one of them failed, its error is the cause of fill's.
func (w *filler) wait(err error) error {
	if w.helpers == nil {
		return err
	}
	close(w.queue)
	if failed := w.helpers.Wait(); failed != nil {
		return failed
	}
	return err
}

// entry writes a file, or passes it to a helper. It is called by one goroutine.
func (w *filler) entry(e nutshell.Entry, r io.Reader) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	w.files++
	if w.files <= alone || e.Size > buffered || runtime.GOMAXPROCS(0) == 1 {
		return w.own.write(e, r)
	}
	if w.helpers == nil {
		w.startHelpers(min(runtime.GOMAXPROCS(0), most))
	}
	content := w.buffer()
	if _, err := content.ReadFrom(r); err != nil {
		return err
	}
	select {
	case w.queue <- queuedFile{e, content}:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// startHelpers starts n goroutines that write the queued files. The context ends if one of them fails.
func (w *filler) startHelpers(n int) {
	w.helpers, w.ctx = errgroup.WithContext(w.ctx)
	w.queue, w.free = make(chan queuedFile, 4*n), make(chan *bytes.Buffer, 6*n)
	for range n {
		w.helpers.Go(func() error {
			h := fileWriter{filler: w, buf: make([]byte, 32<<10)}
			defer h.close()
			for p := range w.queue {
				if err := h.write(p.entry, p.content); err != nil {
					return err
				}
				p.content.Reset()
				select {
				case w.free <- p.content:
				default:
				}
			}
			return nil
		})
	}
}

// buffer returns an empty buffer, reused if possible.
func (w *filler) buffer() *bytes.Buffer {
	select {
	case b := <-w.free:
		return b
	default:
		return new(bytes.Buffer)
	}
}

// fileWriter writes files. It keeps the folder of the last file open, because the next one is often in the same folder, and
// each element of a path is a system call.
type fileWriter struct {
	*filler
	buf    []byte
	folder string
	inside *os.Root
}

// write makes one file, which must not exist.
func (h *fileWriter) write(e nutshell.Entry, r io.Reader) error {
	folder, err := h.enter(path.Dir(e.Path))
	if err != nil {
		return err
	}
	f, err := folder.OpenFile(path.Base(e.Path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, e.Mode)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, struct{ io.Reader }{r}, h.buf)
	if err == nil && e.Mode&h.umask != 0 {
		err = f.Chmod(e.Mode)
	}
	return errors.Join(err, f.Close())
}

// enter opens a folder, and makes it if it is missing.
func (h *fileWriter) enter(folder string) (*os.Root, error) {
	if folder == "." {
		return h.root, nil
	}
	if folder == h.folder {
		return h.inside, nil
	}
	if err := h.root.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	inside, err := h.root.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	h.close()
	h.folder, h.inside = folder, inside
	return inside, nil
}

func (h *fileWriter) close() {
	if h.inside != nil {
		h.inside.Close()
		h.folder, h.inside = "", nil
	}
}
