package nutshell

import (
	"fmt"
	"io"
	"runtime"

	"github.com/klauspost/compress/zstd"
)

// Forms of compression. Readers detect which one a bundle has.
const (
	Gzip = "gzip"
	Zstd = "zstd"
	None = "none"
)

// Level chooses between speed and size. Every reader opens the result of each level.
type Level string

// Levels of compression. Beside Default, Fast takes half the time and gives a tenth more bytes; Best takes some
// times as long and gives a few hundredths less.
const (
	Default Level = ""
	Fast    Level = "fast"
	Best    Level = "best"
)

// check returns an error if the level is unknown.
func (l Level) check() error {
	switch l {
	case Default, Fast, Best:
		return nil
	}
	return fmt.Errorf("level %.40q is not one of fast, best", string(l))
}

// maxWorkers limits the number of processors that compress or hash at once. Each needs a few megabytes; the limit bounds
// the memory of packing on every machine.
const maxWorkers = 8

// workers returns how many goroutines share the work. The bytes that are written do not depend on it.
func workers() int { return min(runtime.GOMAXPROCS(0), maxWorkers) }

// compressor returns the writer for one of the forms of compression. Its bytes depend on the text alone, not on
// the number of processors, nor on how the text is cut into calls of Write. It must be closed, after an error as well;
// Close waits for its goroutines.
func compressor(w io.Writer, form string, l Level) (io.WriteCloser, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	switch form {
	case "", Gzip:
		return newGzipWriter(w, l), nil
	case Zstd:
		return newZstdWriter(w, l)
	case None:
		return nopCloser{w}, nil
	}
	return nil, fmt.Errorf("compression %.40q is not one of gzip, zstd, none", form)
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// newZstdWriter writes one frame. The library compresses sections of four windows at the same time, each with an eighth
// of a window of the one before it. There are always two goroutines, because one would make no sections, and so other
// bytes, and more would need more memory than packing may take. The window is smaller than the library's default for
// the same reason.
func newZstdWriter(w io.Writer, l Level) (io.WriteCloser, error) {
	const window = 256 << 10
	level := zstd.SpeedDefault
	switch l {
	case Fast:
		level = zstd.SpeedFastest
	case Best:
		level = zstd.SpeedBetterCompression
	}
	return zstd.NewWriter(w, zstd.WithEncoderLevel(level), zstd.WithWindowSize(window),
		zstd.WithConcurrentBlocks(true), zstd.WithEncoderConcurrency(2), zstd.WithLowerEncoderMem(true))
}
