package typed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/namespaces"
	"guild/nutshell"
	"guild/oa"
	"guild/replay"
)

// Host stands in place of an image's digest for the machine's own programs and libraries.
const Host = "host"

// maxCommands limits the commands of one request.
const maxCommands = 256

// Sandbox runs oa.sandbox_run.v1.
type Sandbox struct {
	Images  map[string]sandbox.Runner // digest → runner for commands in that image
	Network bool                      // requests may use the host's network
	Most    sandbox.Limits            // the maximum limits of a request, and the default ones
	Scratch string                    // directory for the files of runs

	// Fetch writes the content of a location, as fetch.Client.Fetch does. If it is nil, requests with a repository are
	// refused.
	Fetch func(ctx context.Context, location string, w io.Writer) (int64, error)
}

// OpenImages opens the sandboxes for Sandbox.Images: host for this machine's own programs, and one for each image,
// given as digest → directory.
func OpenImages(ctx context.Context, host sandbox.Runner, dirs map[string]string) (map[string]sandbox.Runner, error) {
	images := map[string]sandbox.Runner{Host: host}
	for _, digest := range slices.Sorted(maps.Keys(dirs)) {
		dir, err := filepath.Abs(dirs[digest])
		if err != nil {
			return nil, fmt.Errorf("the image %s: %w", digest, err)
		}
		runner := &namespaces.Runner{Rootfs: dir}
		if err := sandbox.Try(ctx, runner); err != nil { // Try and not Probe, because Probe would read the whole image
			return nil, fmt.Errorf("the image %s in %s: %w", digest, dir, err)
		}
		images[digest] = runner
	}
	return images, nil
}

// Check returns the reason why a request would not be run here, or nil.
func (s Sandbox) Check(q oa.SandboxRequest) error {
	if err := q.Validate(); err != nil {
		return err
	}
	asked, most := s.limits(q.Sandbox.Resources), s.Most.WithDefaults()
	var f oa.Faults
	refuse := func(path, format string, args ...any) {
		f = append(f, oa.Fault{Path: path, Says: fmt.Sprintf(format, args...)})
	}
	if s.Images[q.Sandbox.ImageDigest] == nil {
		refuse("inputs.sandbox.image_digest", "is %.100q, which is not here: want one of %s", q.Sandbox.ImageDigest, strings.Join(slices.Sorted(maps.Keys(s.Images)), ", "))
	}
	if q.Sandbox.NetworkPolicy == oa.NetworkFull && !s.Network {
		refuse("inputs.sandbox.network_policy", "is full, and this provider allows none and localhost")
	}
	for _, one := range []struct {
		name string
		n    int
	}{{"memory_mb", q.Sandbox.Resources.MemoryMB}, {"timeout_secs", q.Sandbox.Resources.TimeoutSecs}, {"disk_mb", q.Sandbox.Resources.DiskMB}} {
		if one.n < 0 {
			return oa.Faults{{Path: "inputs.sandbox.resources." + one.name, Says: fmt.Sprintf("is %d", one.n)}}
		}
	}
	switch {
	case asked.Memory > most.Memory || asked.Memory <= 0:
		refuse("inputs.sandbox.resources.memory_mb", "is %d, want 1 to %d", q.Sandbox.Resources.MemoryMB, most.Memory>>20)
	case asked.CPUs > most.CPUs:
		refuse("inputs.sandbox.resources.cpus", "is %s, and at most %d are given", q.Sandbox.Resources.CPUs, most.CPUs)
	case asked.Wall > most.Wall || asked.Wall <= 0:
		refuse("inputs.sandbox.resources.timeout_secs", "is %d, want 1 to %d", q.Sandbox.Resources.TimeoutSecs, int(most.Wall.Seconds()))
	case asked.Disk > most.Disk || asked.Disk <= 0:
		refuse("inputs.sandbox.resources.disk_mb", "is %d, want 1 to %d", q.Sandbox.Resources.DiskMB, most.Disk>>20)
	}
	if m := mountPath(q); slices.ContainsFunc([]string{"/", "/usr", "/etc", "/proc", "/dev", "/sys", "/bin", "/sbin", "/lib", "/lib64", "/box"}, func(own string) bool {
		return m == own || own != "/" && strings.HasPrefix(m, own+"/")
	}) {
		refuse("inputs.repo.mount_path", "is %.80q, which belongs to the image", m)
	}
	if q.Repo.GitRef != "" {
		refuse("inputs.repo.git_ref", "is not supported: name an archive of that commit in source")
	}
	if q.Repo.Source != "" && s.Fetch == nil {
		refuse("inputs.repo.source", "is not supported: nothing is fetched here")
	}
	if len(q.Commands) > maxCommands {
		refuse("inputs.commands", "has %d elements, at most %d are taken", len(q.Commands), maxCommands)
	}
	if len(f) > 0 {
		return f
	}
	return nil
}

// Accept does the same as Check for a request in its envelope.
func (s Sandbox) Accept(e oa.Envelope) error {
	q, err := oa.Decode[oa.SandboxRequest](e.Payload)
	if err != nil {
		return err
	}
	return s.Check(q)
}

// mountPath returns the directory in which the commands find the files.
func mountPath(q oa.SandboxRequest) string { return cmp.Or(q.Repo.MountPath, "/workspace") }

// limits returns the limits that a request asks for. A number beyond the size of any machine becomes one that Check
// refuses.
func (s Sandbox) limits(r oa.Resources) sandbox.Limits {
	l := s.Most.WithDefaults()
	const most = 1 << 40
	// A larger number would overflow in the shift and become a small limit, which Check would accept.
	megabytes := func(n int) int64 { return int64(min(n, most>>20)) << 20 }
	if r.MemoryMB != 0 {
		l.Memory = megabytes(r.MemoryMB)
	}
	if r.DiskMB != 0 {
		l.Disk = megabytes(r.DiskMB)
	}
	if r.TimeoutSecs != 0 {
		l.Wall = time.Duration(min(r.TimeoutSecs, 1<<30)) * time.Second
	}
	if r.CPUs != "" {
		l.CPUs = int(math.Ceil(min(r.CPUs.Float(), most)))
	}
	l.CPU = l.Wall * time.Duration(min(l.CPUs, 1<<10))
	return l
}

// Do runs the commands of a request. It implements Do.
func (s Sandbox) Do(ctx context.Context, e oa.Envelope) ([]byte, error) { return s.DoInto(ctx, e, "") }

// DoInto does the same as Do and copies the artifacts into the directory leave, which it creates, unless leave is
// empty.
func (s Sandbox) DoInto(ctx context.Context, e oa.Envelope, leave string) ([]byte, error) {
	q, err := oa.Decode[oa.SandboxRequest](e.Payload)
	if err != nil {
		return nil, err
	}
	result, _, err := s.run(ctx, q, leave)
	if err != nil {
		return nil, err
	}
	return oa.Encode(result)
}

// run runs commands; limited reports whether a limit ended one. An error means that the sandbox failed; a failing
// command is a result.
func (s Sandbox) run(ctx context.Context, q oa.SandboxRequest, leave string) (r oa.SandboxResult, limited bool, err error) {
	r = oa.SandboxResult{
		EnvInfo: oa.EnvInfo{ImageDigest: q.Sandbox.ImageDigest}, Runs: []oa.Run{}, Artifacts: []oa.Artifact{},
		Provenance: &oa.Provenance{ModelID: q.Sandbox.ImageDigest, Tokens: &oa.Tokens{}}, // the image counts as the model, without tokens
	}
	if err := s.Check(q); err != nil {
		return r, false, err
	}
	dir, err := os.MkdirTemp(s.Scratch, "run-")
	if err != nil {
		return r, false, err
	}
	defer sandbox.RemoveTree(dir)
	files := filepath.Join(dir, "files")
	if err := s.fill(ctx, q.Repo.Source, files); err != nil {
		return r, false, fmt.Errorf("inputs.repo.source: %w", err)
	}
	limits := s.limits(q.Sandbox.Resources)
	before := map[string]guild.Hash{} // path → hash
	err = eachFile(files, limits, func(tree fs.FS, name string) error {
		a, err := artifact(tree, name)
		before[name] = a.SHA256
		return err
	})
	if err != nil {
		return r, false, fmt.Errorf("inputs.repo.source: %w", err)
	}
	limited, err = s.commands(ctx, q, files, limits, &r)
	if err != nil {
		return r, false, err
	}
	r.Artifacts, err = artifacts(files, limits, before, leave)
	if full, ok := errors.AsType[*nutshell.LimitError](err); ok {
		r.Status, r.Error, r.Artifacts = oa.StatusError, cmp.Or(r.Error, "the files that were left: "+full.Error()), []oa.Artifact{}
		return r, true, nil
	}
	return r, limited, err
}

// commands runs the commands in order, until one fails or the time is over; limited reports whether a limit ended one.
func (s Sandbox) commands(ctx context.Context, q oa.SandboxRequest, files string, limits sandbox.Limits, r *oa.SandboxResult) (limited bool, err error) {
	r.Status = oa.StatusSuccess
	left := limits.Wall
	for i, c := range q.Commands {
		spec := specOf(q, c, files, limits)
		spec.Limits.Wall = left
		one, result, err := runOne(ctx, s.Images[q.Sandbox.ImageDigest], spec, c.Cmd)
		switch {
		case errors.Is(err, errDisk):
			r.Status, r.Error = oa.StatusError, fmt.Sprintf("command %d went over its limit: %s", i, sandbox.KilledDisk)
			return true, nil
		case err != nil:
			return false, fmt.Errorf("command %d: the sandbox: %w", i, err)
		case len(result.Breaches) > 0: // all were refused; the exit code shows how the command ended
			r.Error = fmt.Sprintf("command %d tried what it must not: %s", i, result.Breaches[0].Syscall)
		}
		r.Runs = append(r.Runs, one)
		limited = limited || result.Killed != ""
		left -= time.Duration(max(result.Usage.WallMs, 1)) * time.Millisecond
		if result.Killed == sandbox.KilledWall || left <= 0 {
			r.Status, r.Error = oa.StatusTimeout, fmt.Sprintf("command %d ran over the %s", i, limits.Wall)
			return true, nil
		}
		if one.ExitCode != 0 {
			r.Status = oa.StatusFailed
			if result.Killed != "" {
				r.Error = fmt.Sprintf("command %d went over its limit: %s", i, result.Killed)
			}
			if !c.ContinueOnFail {
				return limited, nil
			}
		}
	}
	return limited, nil
}

// specOf returns the run of one command.
func specOf(q oa.SandboxRequest, c oa.Command, files string, limits sandbox.Limits) sandbox.Spec {
	at := mountPath(q)
	spec := sandbox.Spec{
		Argv: []string{"/bin/sh", "-c", c.Cmd}, Dir: at, Network: q.Sandbox.NetworkPolicy == oa.NetworkFull, Limits: limits,
		Env:    []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "HOME=" + sandbox.Home},
		Mounts: []sandbox.Mount{{Host: files, Inside: at, Writable: true}},
	}
	if path.IsAbs(c.Workdir) {
		spec.Dir = path.Clean(c.Workdir)
	} else if c.Workdir != "" {
		spec.Dir = path.Join(at, c.Workdir)
	}
	for _, name := range slices.Sorted(maps.Keys(q.Env)) {
		own := func(v string) bool { return strings.HasPrefix(v, name+"=") }
		spec.Env = append(slices.DeleteFunc(spec.Env, own), name+"="+q.Env[name])
	}
	return spec
}

// errDisk means that the files exceed the limit.
var errDisk = errors.New("the files are larger than the limit")

// runOne runs one command and polls the size of its files. No runner limits that, because the files are in a mounted
// directory of the host.
func runOne(ctx context.Context, runner sandbox.Runner, spec sandbox.Spec, cmd string) (oa.Run, sandbox.Result, error) {
	running, stop := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-running.Done():
				return
			case <-tick.C:
				if isFull(spec.Mounts[0].Host, spec.Limits) {
					stop(errDisk)
				}
			}
		}
	}()
	stdout, stderr := newStream(), newStream()
	result, err := runner.Run(running, spec, sandbox.IO{Stdout: sandbox.Whole{Writer: stdout}, Stderr: sandbox.Whole{Writer: stderr}})
	full := errors.Is(context.Cause(running), errDisk)
	stop(nil)
	<-watched
	if full || err == nil && isFull(spec.Mounts[0].Host, spec.Limits) {
		return oa.Run{}, result, errDisk
	}
	one := oa.Run{
		Cmd: cmd, ExitCode: result.Exit, DurationMs: result.Usage.WallMs, StdoutSHA256: stdout.sum(), StderrSHA256: stderr.sum(),
		StdoutPreview: replay.Preview(stdout.head.String()), StderrPreview: replay.Preview(stderr.head.String()),
	}
	if result.Killed != "" && one.ExitCode == 0 {
		one.ExitCode = 137 // as after SIGKILL, because it exceeded a limit and has not succeeded
	}
	return one, result, err
}

// stream hashes a whole stream and keeps its beginning.
type stream struct {
	hash hash.Hash
	head sandbox.Head
}

func newStream() *stream { return &stream{sha256.New(), sandbox.Head{Most: 4*replay.MaxPreview + 4}} }

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	s.hash.Write(p)
	return s.head.Write(p)
}

func (s *stream) sum() guild.Hash { return guild.Hash(s.hash.Sum(nil)) }
