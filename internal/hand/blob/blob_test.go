package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/iotest"

	"guild"
	"guild/internal/hand/blob"
)

func store(t *testing.T) (*blob.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "blob")
	s, err := blob.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s, dir
}

// left counts the files in the store.
func left(t *testing.T, dir string) (n int) {
	t.Helper()
	for _, d := range []string{dir, filepath.Join(dir, "tmp")} {
		entries, err := os.ReadDir(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				n++
			}
		}
	}
	return n
}

func TestPutAndRead(t *testing.T) {
	s, dir := store(t)
	for _, content := range []string{"", "hello", strings.Repeat("x", 3<<20)} {
		h, size, err := s.Put(t.Context(), strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if h != guild.Sum([]byte(content)) || size != int64(len(content)) || !s.Has(h) {
			t.Errorf("%d bytes: hash %v, size %d", len(content), h, size)
		}
		if again, err := s.PutBytes(t.Context(), []byte(content)); err != nil || again != h {
			t.Errorf("put again: %v, %v", again, err)
		}
		got, err := s.ReadAll(h, int64(len(content)))
		if err != nil || string(got) != content {
			t.Errorf("%d bytes of %d, %v", len(got), len(content), err)
		}
		if info, err := os.Stat(filepath.Join(dir, h.Hex())); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
		}
	}
	if n := left(t, dir); n != 3 {
		t.Errorf("%d files, want 3", n)
	}
}

func TestPutCopy(t *testing.T) {
	s, dir := store(t)
	content := []byte("also in the journal")
	h, err := s.PutCopy(t.Context(), content)
	if got, readErr := s.ReadAll(h, 100); err != nil || readErr != nil || !bytes.Equal(got, content) {
		t.Fatalf("%q, %v, %v", got, err, readErr)
	}
	before, err := os.Stat(filepath.Join(dir, h.Hex()))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.PutCopy(t.Context(), content); err != nil || again != h {
		t.Errorf("put again: %v, %v", again, err)
	}
	if after, err := os.Stat(filepath.Join(dir, h.Hex())); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced by one that may not be on the disk: %v", err)
	}
	if n := left(t, dir); n != 1 {
		t.Errorf("%d files, want 1", n)
	}
}

func TestPutCopyReplacesShortFile(t *testing.T) {
	s, dir := store(t)
	content := []byte("also in the journal")
	h := guild.Sum(content)
	if err := os.WriteFile(filepath.Join(dir, h.Hex()), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutCopy(t.Context(), content); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ReadAll(h, 100); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestReadPieces(t *testing.T) {
	s, _ := store(t)
	h, err := s.PutBytes(t.Context(), []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	f, size, err := s.Open(h)
	if err != nil || size != 5 {
		t.Fatalf("size %d, %v", size, err)
	}
	if _, err := f.Seek(1, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(f); err != nil || string(b) != "ello" {
		t.Errorf("got %q, %v", b, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadAllErrors(t *testing.T) {
	s, dir := store(t)
	if _, err := s.ReadAll(guild.Sum(nil), 10); !errors.Is(err, blob.ErrMissing) || s.Has(guild.Sum(nil)) {
		t.Errorf("got %v, want ErrMissing", err)
	}
	h, err := s.PutBytes(t.Context(), []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadAll(h, 4); !errors.Is(err, blob.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
	if err := os.WriteFile(filepath.Join(dir, h.Hex()), []byte("hullo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadAll(h, 5); !errors.Is(err, blob.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
	if _, err := s.PutBytes(t.Context(), []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ReadAll(h, 5); err != nil {
		t.Errorf("put again, it is still damaged: %v", err)
	}
}

func TestFailedPutLeavesNothing(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	broken := errors.New("broken")
	tests := []struct {
		name  string
		ctx   context.Context
		r     io.Reader
		limit int64
		want  error
	}{
		{"more than the limit", t.Context(), strings.NewReader("hello"), 4, blob.ErrTooLarge},
		{"an endless one", t.Context(), endless{}, 1 << 20, blob.ErrTooLarge},
		{"a reader that fails", t.Context(), io.MultiReader(strings.NewReader("he"), iotest.ErrReader(broken)), 10, broken},
		{"a context that ended", ended, strings.NewReader("hello"), 10, context.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, dir := store(t)
			if _, _, err := s.PutMax(tt.ctx, tt.r, tt.limit); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if n := left(t, dir); n != 0 {
				t.Errorf("%d files left", n)
			}
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestPutExactLimit(t *testing.T) {
	s, _ := store(t)
	if _, size, err := s.PutMax(t.Context(), iotest.OneByteReader(strings.NewReader("hello")), 5); err != nil || size != 5 {
		t.Errorf("size %d, %v", size, err)
	}
}

func TestOpenRemovesUnfinishedFiles(t *testing.T) {
	s, dir := store(t)
	h, err := s.PutBytes(t.Context(), []byte("kept"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tmp", "half"), []byte("ha"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err = blob.Open(dir)
	if err != nil || !s.Has(h) {
		t.Fatalf("the blob is gone, %v", err)
	}
	if n := left(t, dir); n != 1 {
		t.Errorf("%d files, want 1", n)
	}
}

func TestConcurrentPuts(t *testing.T) {
	s, dir := store(t)
	content := bytes.Repeat([]byte("x"), 100_000)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := s.PutBytes(t.Context(), content); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := left(t, dir); n != 1 {
		t.Errorf("%d files, want 1", n)
	}
}
