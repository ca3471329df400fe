package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/build"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"guild/nutshell"
)

const manifest = `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-bench","task":{"title":"The standard library"}}`

// stand has the inputs of all measurements.
type stand struct {
	o       options
	self    string // path of this program
	program string // path of the program nutshell, which is measured
	dir     string
	tree    string // directory to pack
	large   string // the directory that memory is measured with
	bundle  string // tree as a bundle
	bytes   int64  // of the tree
	files   int
	turn    int
	told    io.Writer // receives progress messages
}

// tell prints a progress message.
func (s *stand) tell(format string, args ...any) { fmt.Fprintf(s.told, format+"\n", args...) }

// newStand copies sources of the standard library. All contestants must pack the same files. So it removes files that
// a bundle never contains (private keys in test data), and uses the bundle's own manifest with its list of files.
func newStand(ctx context.Context, o options, told io.Writer) (*stand, error) {
	dir, err := os.MkdirTemp(o.dir, "bench-nutshell-")
	if err != nil {
		return nil, err
	}
	s := &stand{o: o, dir: dir, tree: filepath.Join(dir, "tree"), bundle: filepath.Join(dir, "tree.nut"), told: told}
	s.self, err = os.Executable()
	if err == nil {
		err = s.prepare(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stand) close() { os.RemoveAll(s.dir) }

// prepare packs the tree once with guild, removes the files that the bundle does not contain, and writes the bundle's
// manifest into the tree.
func (s *stand) prepare(ctx context.Context) error {
	s.tell("build nutshell")
	s.program, s.large = filepath.Join(s.dir, "nutshell"), filepath.Join(s.dir, "large")
	if out, err := exec.CommandContext(ctx, "go", "build", "-C", "..", "-o", s.program, "./cmd/nutshell").CombinedOutput(); err != nil {
		return fmt.Errorf("build nutshell, in the directory bench: %w: %s", err, out)
	}
	if err := os.CopyFS(s.large, newLarge(s.o.large)); err != nil {
		return fmt.Errorf("write the large tree: %w", err)
	}
	s.tell("copy %d MiB of the sources of Go", s.o.tree)
	sources := os.DirFS(filepath.Join(build.Default.GOROOT, "src"))
	name := filepath.Join(s.tree, nutshell.ManifestFile)
	if err := copySome(filepath.Join(s.tree, "files"), sources, int64(s.o.tree)<<20); err != nil {
		return fmt.Errorf("copy the sources of Go: %w", err)
	}
	if err := os.WriteFile(name, []byte(manifest), 0o644); err != nil {
		return err
	}
	var packed bytes.Buffer
	info, err := nutshell.Pack(ctx, os.DirFS(s.tree), &packed, nutshell.Options{Limits: limits})
	if err != nil {
		return err
	}
	b, err := nutshell.Open(bytes.NewReader(packed.Bytes()), info.Size, limits)
	if err != nil {
		return err
	}
	for _, skipped := range info.Skipped {
		if err := os.RemoveAll(filepath.Join(s.tree, skipped.Path)); err != nil {
			return err
		}
	}
	s.files, s.bytes = len(info.Files), b.Manifest().Files().TotalSizeBytes
	return errors.Join(os.WriteFile(name, b.Manifest().Bytes(), 0o644), os.WriteFile(s.bundle, packed.Bytes(), 0o644))
}

// copySome copies the first files of a tree, at most most bytes in total.
func copySome(to string, from fs.FS, most int64) error {
	return fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		if most -= int64(len(b)); most < 0 {
			return fs.SkipAll
		}
		path := filepath.Join(to, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, b, 0o644)
	})
}

// lap has the costs of one turn of a contestant.
type lap struct {
	took time.Duration
	cpu  time.Duration // over all processors, including the start of the process
	size int64         // of the created file
	peak int64         // peak resident memory in bytes; 0 if unknown
}

// run runs one turn of a contestant, guild's or tar, on this number of processors.
func (s *stand) run(ctx context.Context, name string, processors int, from, to string) (lap, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, s.self, "-lap", name, "-from", from, "-to", to, "-large", strconv.Itoa(s.o.large))
	switch name {
	case "tar cz":
		cmd = exec.CommandContext(ctx, "tar", "-C", from, "-czf", to, ".")
	case "pack", "pack fast", "pack zstd":
		args := []string{"pack", "--dir", from, "-o", to, "--limit", "entries=50000", "--limit", "total=64G"}
		cmd = exec.CommandContext(ctx, s.program, append(args, programs[name]...)...)
	case "tar xz":
		cmd = exec.CommandContext(ctx, "sh", "-c", `tail -c +5 "$0" | tar -C "$1" -xz && sync -f "$1"`, from, to)
	}
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(processors))
	cmd.Stdout, cmd.Stderr = &out, &complaint
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return lap{}, err
	}
	watched := watch(cmd.Process.Pid)
	if err := cmd.Wait(); err != nil {
		return lap{}, fmt.Errorf("%s: %w: %s", name, err, complaint.String())
	}
	l := lap{took: time.Since(begin), cpu: cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}
	l.peak = watched()
	if _, ours := laps[name]; ours {
		if _, err := fmt.Sscan(out.String(), &l.took, &l.peak); err != nil {
			return lap{}, fmt.Errorf("%s: %w", name, err) // the measured time excludes the start of the process
		}
	}
	if info, err := os.Stat(to); err == nil && info.Mode().IsRegular() {
		l.size = info.Size()
	}
	s.tell("%-18s on %d  %7.0f ms", name, processors, float64(l.took)/float64(time.Millisecond))
	return l, nil
}

// watch looks at the peak memory of a process every few milliseconds, until the returned function is called.
func watch(pid int) (stop func() int64) {
	done, peak := make(chan struct{}), make(chan int64)
	go func() {
		var most int64
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			if now, err := peakMemory(strconv.Itoa(pid)); err == nil {
				most = max(most, now)
			}
			select {
			case <-tick.C:
			case <-done:
				tick.Stop()
				peak <- most
				return
			}
		}
	}()
	return func() int64 { close(done); return <-peak }
}

// pack runs a lap and removes its file.
func (s *stand) pack(ctx context.Context, name string, processors int) (lap, error) {
	to := s.fresh()
	defer os.Remove(to)
	return s.run(ctx, name, processors, s.tree, to)
}

// unpack runs a lap and removes its directory. The directory must exist before, because tar requires it.
func (s *stand) unpack(ctx context.Context, name string, processors int) (lap, error) {
	to := s.fresh()
	if err := os.Mkdir(to, 0o755); err != nil {
		return lap{}, err
	}
	defer os.RemoveAll(to)
	if err := syncTo(s.dir); err != nil { // otherwise the lap pays for earlier removals
		return lap{}, err
	}
	l, err := s.run(ctx, name, processors, s.bundle, to)
	if err != nil {
		return l, err
	}
	return l, sameFiles(to, s.files+1)
}

func (s *stand) fresh() string {
	s.turn++
	return filepath.Join(s.dir, "lap-"+strconv.Itoa(s.turn))
}

// sameFiles returns an error if the number of unpacked files is wrong.
func sameFiles(dir string, want int) error {
	n := 0
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return err
	})
	if err == nil && n != want {
		err = fmt.Errorf("%d files were unpacked, not %d", n, want)
	}
	return err
}
