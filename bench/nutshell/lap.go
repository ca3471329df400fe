package main

import (
	"archive/tar"
	"bufio"
	stdgzip "compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sys/unix"

	"guild/internal/hand/workdir"
	"guild/nutshell"
)

// limits allow the sources and the large tree.
var limits = nutshell.Limits{Entries: 50_000, Total: 64 << 30}

// programs has the flags of the verb pack for each contestant that is the program itself: with its check, its estimate of
// tokens, and its sync to the disk.
var programs = map[string][]string{
	"pack": nil, "pack fast": {"--level", "fast"}, "pack zstd": {"--compression", "zstd"},
}

// laps has the work of each contestant in its own process, by name.
var laps = map[string]func(ctx context.Context, o options) error{
	"straight pack":     straightPack,
	"unpack":            extract,
	"straight unpack":   straightUnpack(func(r io.Reader) (io.Reader, error) { return stdgzip.NewReader(r) }),
	"unverified unpack": straightUnpack(func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }),
	"large gzip":        largeLap(nutshell.Options{Limits: limits}),
	"large gzip best":   largeLap(nutshell.Options{Limits: limits, Level: nutshell.Best}),
	"large zstd":        largeLap(nutshell.Options{Limits: limits, Compression: nutshell.Zstd}),
	"large zstd best":   largeLap(nutshell.Options{Limits: limits, Compression: nutshell.Zstd, Level: nutshell.Best}),
	"large open":        openLap,
	"large unpack":      extract,
}

// runLap runs one lap and prints its time in nanoseconds and its peak memory in bytes.
func runLap(ctx context.Context, o options, out io.Writer) error {
	lap := laps[o.lap]
	if lap == nil {
		return fmt.Errorf("no contestant %q", o.lap)
	}
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	begin := time.Now()
	if err := lap(ctx, o); err != nil {
		return err
	}
	took := time.Since(begin)
	peak, err := peakMemory("self")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, took.Nanoseconds(), peak)
	return err
}

// peakMemory returns the peak resident memory of a process, in bytes. It does not use the system's value for a
// finished process, because that includes the parent's memory before the start.
func peakMemory(pid string) (int64, error) {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		var kilobytes int64
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); n == 1 {
			return kilobytes << 10, nil
		}
	}
	return 0, errors.New("/proc does not say how much memory was used")
}

// into creates a file that fill writes.
func into(path string, fill func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}

// straightPack packs a tree in the simplest way in Go, with compress/gzip and its defaults.
func straightPack(_ context.Context, o options) error {
	return into(o.to, func(w io.Writer) error {
		z := stdgzip.NewWriter(w)
		t := tar.NewWriter(z)
		err := filepath.WalkDir(o.from, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(o.from, p)
			if err != nil {
				return err
			}
			return straightFile(t, p, name)
		})
		return errors.Join(err, t.Close(), z.Close())
	})
}

func straightFile(t *tar.Writer, path, name string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: info.Size(), Mode: int64(info.Mode().Perm())}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}

func extract(ctx context.Context, o options) error {
	f, err := os.Open(o.from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = workdir.Extract(ctx, f, info.Size(), limits, o.to)
	return err
}

// straightUnpack unpacks a bundle without checking it. It syncs to disk as guild does, so that only the other costs
// differ.
func straightUnpack(gunzip func(io.Reader) (io.Reader, error)) func(context.Context, options) error {
	return func(_ context.Context, o options) error {
		f, err := os.Open(o.from)
		if err != nil {
			return err
		}
		defer f.Close()
		in := bufio.NewReaderSize(f, 64<<10)
		if _, err := in.Discard(len("NUT\x01")); err != nil {
			return err
		}
		z, err := gunzip(in)
		if err != nil {
			return err
		}
		for t := tar.NewReader(z); ; {
			h, err := t.Next()
			if errors.Is(err, io.EOF) {
				return syncTo(o.to)
			}
			if err != nil {
				return err
			}
			if err := straightWrite(filepath.Join(o.to, h.Name), t, h.FileInfo().Mode()); err != nil {
				return err
			}
		}
	}
}

func straightWrite(path string, r io.Reader, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

func syncTo(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

func largeLap(how nutshell.Options) func(context.Context, options) error {
	return func(ctx context.Context, o options) error {
		return into(o.to, func(w io.Writer) error {
			_, err := nutshell.Pack(ctx, newLarge(o.large), w, how)
			return err
		})
	}
}

func openLap(_ context.Context, o options) error {
	f, err := os.Open(o.from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = nutshell.Open(f, info.Size(), limits)
	return err
}
