package typed_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/tiers"
	"guild/internal/judging/typed"
	"guild/oa"
)

// host returns a sandbox whose only image is this machine.
func host(t *testing.T) typed.Sandbox {
	t.Helper()
	runner, _, err := tiers.Best(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return typed.Sandbox{Images: map[string]sandbox.Runner{typed.Host: runner}, Scratch: t.TempDir()}
}

// commands returns a request for commands on this machine.
func commands(cmds ...string) oa.SandboxRequest {
	q := oa.SandboxRequest{Sandbox: oa.Sandbox{ImageDigest: typed.Host}}
	for _, cmd := range cmds {
		q.Commands = append(q.Commands, oa.Command{Cmd: cmd})
	}
	return q
}

func envelope[P oa.Payload](t *testing.T, request P) oa.Envelope {
	t.Helper()
	e, err := oa.NewEnvelope(request)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var author = typed.Author{PubKey: strings.Repeat("ab", 32), Now: func() time.Time { return time.Unix(1_700_000_000, 0) }, Types: oa.Known()}

// ran returns the result of a request, produced by the same steps as at a provider.
func ran(t *testing.T, s typed.Sandbox, q oa.SandboxRequest) oa.SandboxResult {
	t.Helper()
	raw, err := author.Answer(t.Context(), envelope(t, q), s.Do)
	if err != nil {
		t.Fatal(err)
	}
	r, err := oa.Decode[oa.SandboxResult](raw)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestCommandsShareFiles(t *testing.T) {
	q := commands(`echo "$GREETING" | tee greeting.txt; echo careful >&2`, "mkdir -p out && wc -c <greeting.txt >out/count.json", "pwd")
	q.Env = map[string]string{"GREETING": "hello"}
	q.Commands[2].Workdir = "out"
	r := ran(t, host(t), q)
	if r.Status != oa.StatusSuccess || len(r.Runs) != 3 || len(r.Artifacts) != 2 {
		t.Fatalf("%+v", r)
	}
	if one := r.Runs[0]; one.ExitCode != 0 || one.StdoutSHA256 != guild.Sum([]byte("hello\n")) || one.StderrPreview != "careful\n" {
		t.Errorf("%+v", one)
	}
	if got := r.Runs[2].StdoutPreview; got != "/workspace/out\n" {
		t.Errorf("pwd says %q", got)
	}
	if a := r.Artifacts[0]; a.Path != "greeting.txt" || a.SHA256 != guild.Sum([]byte("hello\n")) || a.SizeBytes != 6 || !strings.HasPrefix(a.MIMEType, "text/plain") {
		t.Errorf("%+v", a)
	}
	if a := r.Artifacts[1]; a.Path != "out/count.json" || a.MIMEType != "application/json" {
		t.Errorf("%+v", a)
	}
}

func TestRunProvenance(t *testing.T) {
	e := envelope(t, commands("true"))
	raw, err := author.Answer(t.Context(), e, host(t).Do)
	if err != nil {
		t.Fatal(err)
	}
	r, err := oa.Decode[oa.SandboxResult](raw)
	if err != nil {
		t.Fatal(err)
	}
	p := r.Provenance
	if p == nil || p.ModelID != typed.Host || p.InputSHA256 != e.JobHash || p.OutputSHA256.IsZero() || p.ProviderPubKey != author.PubKey ||
		p.ExecutedAt != 1_700_000_000 || p.DurationMs == nil || p.Tokens == nil {
		t.Errorf("%+v", p)
	}
	s, _ := oa.Known().Schema(e.JobType)
	if lacks := s.Lacks(raw); len(lacks) > 0 {
		t.Errorf("%v", lacks)
	}
}

func TestFailingCommand(t *testing.T) {
	q := commands("exit 3", "echo on", "exit 4", "echo never")
	q.Commands[0].ContinueOnFail = true
	r := ran(t, host(t), q)
	if r.Status != oa.StatusFailed || len(r.Runs) != 3 || r.Runs[0].ExitCode != 3 || r.Runs[2].ExitCode != 4 {
		t.Errorf("%+v", r)
	}
}

func TestTimeout(t *testing.T) {
	q := commands("sleep 60", "true")
	q.Sandbox.Resources.TimeoutSecs = 1
	if r := ran(t, host(t), q); r.Status != oa.StatusTimeout || len(r.Runs) != 1 || !strings.Contains(r.Error, "command 0 ran over") {
		t.Errorf("%+v", r)
	}
}

func TestLongOutput(t *testing.T) {
	r := ran(t, host(t), commands("head -c 3000000 /dev/zero | tr '\\0' x"))
	if one := r.Runs[0]; len(one.StdoutPreview) != 2000 || one.StdoutSHA256 != guild.Sum(bytes.Repeat([]byte("x"), 3_000_000)) {
		t.Errorf("%d %s", len(one.StdoutPreview), one.StdoutSHA256)
	}
}

func TestDiskLimit(t *testing.T) {
	q := commands("for i in 1 2 3; do head -c 800000 /dev/zero >big$i; done; sleep 30", "true")
	q.Sandbox.Resources.DiskMB = 1
	if r := ran(t, host(t), q); r.Status != oa.StatusError || !strings.Contains(r.Error, "disk") {
		t.Errorf("%+v", r)
	}
}

func TestNoNetwork(t *testing.T) {
	const program = `import socket, sys
a = socket.create_server(("127.0.0.1", 0))
socket.create_connection(a.getsockname(), 5)
print("loopback")
try: socket.create_connection(("192.0.2.1", 80), 5)
except OSError: sys.exit(7)`
	q := commands("python3 -c '" + program + "'")
	q.Sandbox.NetworkPolicy = oa.NetworkLocalhost
	if r := ran(t, host(t), q); r.Runs[0].StdoutPreview != "loopback\n" || r.Runs[0].ExitCode == 0 {
		t.Errorf("%+v", r)
	}
}

func TestRefusedRequests(t *testing.T) {
	s := host(t)
	for path, change := range map[string]func(*oa.SandboxRequest){
		"inputs.sandbox.image_digest":           func(q *oa.SandboxRequest) { q.Sandbox.ImageDigest = "sha256:00" },
		"inputs.sandbox.network_policy":         func(q *oa.SandboxRequest) { q.Sandbox.NetworkPolicy = oa.NetworkFull },
		"inputs.sandbox.resources.memory_mb":    func(q *oa.SandboxRequest) { q.Sandbox.Resources.MemoryMB = 1 << 20 },
		"inputs.sandbox.resources.cpus":         func(q *oa.SandboxRequest) { q.Sandbox.Resources.CPUs = "64.5" },
		"inputs.sandbox.resources.timeout_secs": func(q *oa.SandboxRequest) { q.Sandbox.Resources.TimeoutSecs = 1 << 31 },
		"inputs.sandbox.resources.disk_mb":      func(q *oa.SandboxRequest) { q.Sandbox.Resources.DiskMB = 1 << 31 },
		"inputs.repo.mount_path":                func(q *oa.SandboxRequest) { q.Repo.MountPath = "/usr/bin" },
		"inputs.repo.git_ref":                   func(q *oa.SandboxRequest) { q.Repo.GitRef = "main" },
		"inputs.repo.source":                    func(q *oa.SandboxRequest) { q.Repo.Source = "https://example.com/x.tar" },
		"inputs.commands":                       func(q *oa.SandboxRequest) { q.Commands = nil },
	} {
		q := commands("true")
		change(&q)
		_, err := author.Answer(t.Context(), envelope(t, q), s.Do)
		if faults, ok := errors.AsType[oa.Faults](err); !ok || faults[0].Path != path {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNegativeResources(t *testing.T) {
	const wraps = -1<<44 + 512 // in megabytes; shifted, they wrap round to 512
	for path, change := range map[string]func(*oa.Resources){
		"inputs.sandbox.resources.memory_mb":    func(r *oa.Resources) { r.MemoryMB = wraps },
		"inputs.sandbox.resources.timeout_secs": func(r *oa.Resources) { r.TimeoutSecs = -1 },
		"inputs.sandbox.resources.disk_mb":      func(r *oa.Resources) { r.DiskMB = wraps },
	} {
		q := commands("true")
		q.Sandbox.ImageDigest = typed.Host
		change(&q.Sandbox.Resources)
		err := host(t).Check(q)
		if faults, ok := errors.AsType[oa.Faults](err); !ok || faults[0].Path != path {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// tarball packs files, by name. A name that ends in @ is a link to its content.
func tarball(t *testing.T, gz bool, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		h := &tar.Header{Name: name, Mode: 0o755, Size: int64(len(content))}
		if link, ok := strings.CutSuffix(name, "@"); ok {
			h, content = &tar.Header{Name: link, Typeflag: tar.TypeSymlink, Linkname: content}, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, content)
	}
	w.Close()
	if !gz {
		return b.Bytes()
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write(b.Bytes())
	z.Close()
	return packed.Bytes()
}

func TestRepository(t *testing.T) {
	for _, gz := range []bool{false, true} {
		s := host(t)
		s.Fetch = func(_ context.Context, location string, w io.Writer) (int64, error) {
			if location != "https://example.com/repo.tar" {
				t.Errorf("%s is fetched", location)
			}
			n, err := w.Write(tarball(t, gz, map[string]string{"repo/run.sh": "echo ran", "repo/kept": "as it is", "evil@": "/etc/passwd"}))
			return int64(n), err
		}
		q := commands("sh repo/run.sh; echo new >>repo/run.sh; ls -d evil || true")
		q.Repo.Source, q.Repo.MountPath = "https://example.com/repo.tar", "/src"
		r := ran(t, s, q)
		if len(r.Artifacts) != 1 || r.Artifacts[0].Path != "repo/run.sh" || r.Runs[0].StdoutPreview != "ran\n" {
			t.Errorf("%+v", r)
		}
	}
}

func TestHostileArchives(t *testing.T) {
	s := host(t)
	for name, archive := range map[string][]byte{
		"out":     tarball(t, false, map[string]string{"../evil": "x"}),
		"rooted":  tarball(t, false, map[string]string{"/evil": "x"}),
		"nothing": []byte("this is neither"),
	} {
		s.Fetch = func(_ context.Context, _ string, w io.Writer) (int64, error) {
			n, err := w.Write(archive)
			return int64(n), err
		}
		q := commands("true")
		q.Repo.Source = "blob:" + strings.Repeat("ab", 32)
		if _, err := author.Answer(t.Context(), envelope(t, q), s.Do); err == nil || !strings.Contains(err.Error(), "inputs.repo.source") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(s.Scratch); err != nil || len(left) > 0 {
		t.Errorf("%v %v is left", left, err)
	}
}

func TestArtifactsLeft(t *testing.T) {
	s, leave := host(t), filepath.Join(t.TempDir(), "artifacts")
	if _, err := s.DoInto(t.Context(), envelope(t, commands("mkdir d; echo x >d/f; ln -s /etc/passwd link")), leave); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(leave, "d/f"))
	if err != nil || string(b) != "x\n" {
		t.Errorf("%q %v", b, err)
	}
	if _, err := os.Lstat(filepath.Join(leave, "link")); err == nil {
		t.Error("a link travels")
	}
}
