package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/judging/sandbox/tiers"
	"guild/nutshell"
)

// longest is the time that a test waits for an event.
const longest = 2 * time.Minute

// hasty makes a program under the race detector end at once, and not a second later.
const hasty = "atexit_sleep_ms=0"

// town holds the processes of one test: a relay, and a home for each node.
type town struct {
	t     *testing.T
	dir   string
	relay string // URL
}

// newTown starts a relay.
func newTown(t *testing.T) *town {
	t.Helper()
	dir, err := os.MkdirTemp("", "guild") // a short path, for the sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := &town{t: t, dir: dir}
	p := w.start("guild", nil, "relay", "--addr", "127.0.0.1:0", "--dir", filepath.Join(dir, "relay"))
	line := p.says(t, "relay")
	w.relay = strings.TrimSpace(strings.TrimPrefix(line, "relay"))
	return w
}

// needSandbox fails a test whose workers or judges cannot run here.
func needSandbox(t *testing.T) {
	t.Helper()
	if _, _, err := tiers.Best(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// settle makes a home for a node.
func (w *town) settle(name string) string {
	w.t.Helper()
	home := filepath.Join(w.dir, name)
	if _, err := key.Create(home, nil); err != nil {
		w.t.Fatal(err)
	}
	if err := journal.Init(filepath.Join(home, "journal")); err != nil {
		w.t.Fatal(err)
	}
	return home
}

// bySpecification has a home decide by the specification's policy.
func (w *town) bySpecification(home string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte("[trust]\npolicy = \"partnership\"\n"), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// bundle writes a bundle that asks for a greeting, and returns its path.
func (w *town) bundle() string {
	w.t.Helper()
	path := filepath.Join(w.dir, "greeting.nut")
	if err := os.WriteFile(path, pack(w.t, greeting()), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// client returns a client of the node of a home.
func (w *town) client(home string) *control.Client {
	return control.Dial(filepath.Join(home, "run", "guild.sock"))
}

// up runs a customer, and returns once it is ready.
func (w *town) up(home string) *process {
	p := w.start("guild", nil, "up", "--home", home, "--relay", w.relay)
	p.says(w.t, "ready")
	return p
}

// work runs a provider of a task, and returns once it has announced it.
func (w *town) work(home, task, command string, more ...string) *process {
	args := append([]string{"work", "--home", home, "--relay", w.relay, "--task", task, "--exec", command}, more...)
	p := w.start("guild", nil, args...)
	p.says(w.t, "ready")
	return p
}

// process is a program that runs. It is killed when its test ends.
type process struct {
	cmd   *exec.Cmd
	lines chan string // what it says on its standard output
	errs  safeBuffer
	ended chan struct{}
}

// start starts one of the programs that TestMain knows, with env added to its environment.
func (w *town) start(program string, env []string, args ...string) *process {
	w.t.Helper()
	cmd := exec.Command(program, args...)
	// One that is killed leaves its temporary files.
	cmd.Env = append(append(os.Environ(), "GORACE="+hasty, "GUILD_WORK_UNTRIED=true", "TMPDIR="+filepath.Join(w.dir, "tmp")), env...)
	p := &process{cmd: cmd, lines: make(chan string, 100), ended: make(chan struct{})}
	cmd.Stderr = &p.errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			select {
			case p.lines <- scan.Text():
			default:
			}
		}
		cmd.Wait()
	}()
	w.t.Cleanup(func() {
		p.kill()
		if strings.Contains(p.errs.String(), "DATA RACE") {
			w.t.Errorf("%s %s has a data race", program, strings.Join(args, " "))
		}
		if w.t.Failed() && p.errs.String() != "" {
			w.t.Logf("%s %s: %s", program, strings.Join(args, " "), p.errs.String())
		}
	})
	return p
}

// says waits for a line that begins with a text, and returns it.
func (p *process) says(t *testing.T, begin string) string {
	t.Helper()
	for timeout := time.After(longest); ; {
		select {
		case line := <-p.lines:
			if strings.HasPrefix(line, begin) {
				return line
			}
		case <-p.ended:
			t.Fatalf("it ended (%v) before it said %q: %s", p.cmd.ProcessState, begin, p.errs.String())
		case <-timeout:
			t.Fatalf("it never said %q: %s", begin, p.errs.String())
		}
	}
}

// kill kills the process, as a power cut would.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.ended
}

// interrupt ends it as Ctrl-C does, and returns its exit code.
func (p *process) interrupt(t *testing.T) int {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGINT)
	p.wait(t)
	return p.cmd.ProcessState.ExitCode()
}

// wait waits for it to end by itself.
func (p *process) wait(t *testing.T) {
	t.Helper()
	select {
	case <-p.ended:
	case <-time.After(longest):
		t.Fatalf("it does not end: %s", p.errs.String())
	}
}

// safeBuffer may be read while a process writes to it.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// greeting is a bundle that wants a file with "hello" in it; hello is a worker that delivers it.
func greeting() fstest.MapFS {
	return fstest.MapFS{
		"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-greeting",
			"task":{"title":"Say hello"},"acceptance":{"criteria_file":"tests/criteria.json"},
			"extensions":{"guild":{"task":"greeting"}}}`)},
		"tests/criteria.json": {Data: []byte(`{"criteria_version":"0.2.0","test_framework":"io","criteria":[
			{"id":"AC-001","description":"It says hello","type":"io","command":["cat","greeting.txt"],
			 "expected":{"exit_code":0,"stdout":"hello\n"}}]}`)},
	}
}

const hello = `echo hello >"$GUILD_DELIVERY/greeting.txt"`

// pack packs a tree of files as a request bundle.
func pack(t *testing.T, files fstest.MapFS) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), files, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// meet waits until the customer knows a provider of a task.
func meet(t *testing.T, customer *control.Client, task string) {
	t.Helper()
	eventually(t, "a provider of "+task, func(ctx context.Context) error {
		known, err := control.Providers.Call(ctx, customer, task)
		if err == nil && len(known) == 0 {
			err = fmt.Errorf("nobody offers %s yet", task)
		}
		return err
	})
}

// eventually waits until something succeeds.
func eventually(t *testing.T, what string, try func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	var last error // that was not merely that there was no more time
	for tick := time.Tick(20 * time.Millisecond); ; {
		err := try(ctx)
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-tick:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, last)
		}
	}
}

// ending follows a job to its end.
func ending(t *testing.T, customer *control.Client, id string) control.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	for u, err := range customer.Watch(ctx, id) {
		if err != nil {
			t.Fatalf("job %s: %v", short(id), err)
		}
		if u.Ended != nil {
			return *u.Ended
		}
	}
	t.Fatalf("job %s: the stream ended before the job", short(id))
	return control.Job{}
}

// A person stops following a job; it goes on in the node, and can be followed again.
func TestInterruptedHireLeavesJob(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	w := newTown(t)
	gate := filepath.Join(w.dir, "gate")
	if err := os.Mkdir(gate, 0o755); err != nil {
		t.Fatal(err)
	}
	w.work(w.settle("provider"), "greeting", waitFor(gate)+hello, "--mount", gate)
	home := w.settle("customer")
	w.up(home)
	customer := w.client(home)
	meet(t, customer, "greeting")

	bundle := w.bundle()
	hire := w.start("guild", nil, "hire", bundle, "--home", home)
	id := strings.Fields(hire.says(t, "job"))[1]
	eventually(t, "the provider is at work", func(ctx context.Context) error {
		return asked(ctx, customer, id)
	})
	if code := hire.interrupt(t); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if said := hire.errs.String(); !strings.Contains(said, "hint: guild job watch "+id) || !strings.Contains(said, "goes on") {
		t.Errorf("it said %q", said)
	}

	watch := w.start("guild", nil, "job", "watch", id, "--home", home)
	watch.says(t, "job "+id)
	open(t, gate)
	watch.wait(t)
	if code := watch.cmd.ProcessState.ExitCode(); code != exitAccepted {
		t.Errorf("job watch exits with %d: %s", code, watch.errs.String())
	}
}

// A person leaves a hire that is its own node: it stays, and says how the job has ended.
func TestInterruptedHireThatIsTheNodeShowsTheEnd(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	w := newTown(t)
	gate := filepath.Join(w.dir, "gate")
	if err := os.Mkdir(gate, 0o755); err != nil {
		t.Fatal(err)
	}
	w.work(w.settle("provider"), "greeting", waitFor(gate)+hello, "--mount", gate)
	bundle := w.bundle()
	home := w.settle("customer")
	hire := w.start("guild", []string{"GUILD_RELAYS=" + w.relay}, "hire", bundle, "--home", home)
	id := strings.Fields(hire.says(t, "job"))[1]
	customer := w.client(home)
	eventually(t, "the provider is at work", func(ctx context.Context) error { return asked(ctx, customer, id) })
	if err := hire.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says that it stays", func(context.Context) error {
		if !strings.Contains(hire.errs.String(), "stays until the job ends") {
			return fmt.Errorf("it says %q", hire.errs.String())
		}
		return nil
	})
	open(t, gate)
	hire.says(t, "accepted after")
	hire.says(t, "the work:  guild job diff "+id)
	hire.wait(t)
	if code := hire.cmd.ProcessState.ExitCode(); code != exitAccepted || strings.Contains(hire.errs.String(), "goes on\n") {
		t.Errorf("exit code %d: %s", code, hire.errs.String())
	}
}

// Two hires of one home begin at the same moment, and one of them becomes the node of both.
func TestHiresAtTheSameMomentShareANode(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	w := newTown(t)
	w.work(w.settle("provider"), "greeting", hello)
	bundle := w.bundle()
	home := w.settle("customer")
	var hires []*process
	for _, id := range []string{"0123456789abcdef0123456789abcdef", "123456789abcdef0123456789abcdef0"} {
		hires = append(hires, w.start("guild", []string{"GUILD_RELAYS=" + w.relay}, "hire", bundle, "--home", home, "--id", id))
	}
	for _, hire := range hires {
		hire.wait(t)
		if code := hire.cmd.ProcessState.ExitCode(); code != exitAccepted {
			t.Errorf("exit code %d: %s", code, hire.errs.String())
		}
	}
}

// A hire that began while another process was ending its node becomes the node itself.
func TestHireAfterAnotherNode(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	w := newTown(t)
	w.work(w.settle("provider"), "greeting", hello)
	bundle := w.bundle()
	home := w.settle("customer")
	ending, err := journal.Open(t.Context(), journal.Options{Dir: filepath.Join(home, "journal")})
	if err != nil {
		t.Fatal(err)
	}
	hire := w.start("guild", []string{"GUILD_RELAYS=" + w.relay}, "hire", bundle, "--home", home)
	eventually(t, "it waits", func(context.Context) error {
		if !strings.Contains(hire.errs.String(), "another process has the journal") {
			return fmt.Errorf("it says %q", hire.errs.String())
		}
		return nil
	})
	if err := ending.Close(); err != nil {
		t.Fatal(err)
	}
	hire.says(t, "accepted after")
	hire.wait(t)
	if code := hire.cmd.ProcessState.ExitCode(); code != exitAccepted {
		t.Errorf("exit code %d: %s", code, hire.errs.String())
	}
}

// asked returns an error while a job's provider has not been asked.
func asked(ctx context.Context, customer *control.Client, id string) error {
	job, err := control.OneJob.Call(ctx, customer, id)
	if err == nil && (len(job.Attempts) == 0 || job.Attempts[0].State == "planned") {
		err = fmt.Errorf("nobody was asked yet")
	}
	return err
}

// waitFor returns the beginning of a worker that waits until a file is in the gate, a directory that it can read.
func waitFor(gate string) string {
	return fmt.Sprintf("until test -e %s/open; do sleep 0.02; done; ", gate)
}

func open(t *testing.T, gate string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(gate, "open"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}
