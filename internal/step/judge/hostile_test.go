package judge_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"guild"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/tiers"
	"guild/internal/step/judge"
)

// submission is a line of the tables in testdata/attacks, which are explained in the README there.
type submission struct {
	family   string
	name     string
	request  string
	outcomes []guild.Outcome // the allowed outcomes
	unseen   bool            // a tier that does not see nested processes may take it for harmless
	causes   []string        // a cause of an outcome other than SUCCESS contains one of them
	reason   string          // why it may be a SUCCESS
	files    map[string]string
}

// The prefixes of a table's reason for a SUCCESS.
const (
	harmless = "harmless: " // its attempts failed, and it solves the task
	decided  = "decided: "  // the tests ask the submission about itself, and the verdict counts that
	forged   = "forged: "   // it proves that tests in one process with the code are weak; allowed nowhere else
)

var (
	tableHead = regexp.MustCompile(`(?m)^submission +request +outcome +cause contains\n`)
	columns   = regexp.MustCompile(` {2,}`)
)

// corpus reads all families. A faulty table fails the test.
func corpus(t *testing.T) []submission {
	t.Helper()
	archives, err := filepath.Glob("testdata/attacks/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no archives", err)
	}
	var all []submission
	for _, file := range archives {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, family(t, strings.TrimSuffix(filepath.Base(file), ".txtar"), archive)...)
	}
	return all
}

// family reads one archive: the table in its comment, and the files of each submission.
func family(t *testing.T, name string, archive *txtar.Archive) []submission {
	t.Helper()
	files := map[string]map[string]string{}
	for _, f := range archive.Files {
		dir, inside, _ := strings.Cut(f.Name, "/")
		if files[dir] == nil {
			files[dir] = map[string]string{}
		}
		files[dir][inside] = string(f.Data)
	}
	comment := string(archive.Comment)
	head := tableHead.FindStringIndex(comment)
	if head == nil {
		t.Fatalf("%s has no table", name)
	}
	var all []submission
	listed := map[string]bool{}
	for line := range strings.Lines(comment[head[1]:]) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		s := parseSubmission(t, line)
		s.family, s.files = name, files[s.name]
		listed[s.name] = true
		if len(s.files) == 0 {
			t.Errorf("%s: %s has no files", name, s.name)
		}
		all = append(all, s)
	}
	for dir := range files {
		if !listed[dir] {
			t.Errorf("%s: %s is not in the table", name, dir)
		}
	}
	return all
}

func parseSubmission(t *testing.T, line string) submission {
	t.Helper()
	f := append(columns.Split(line, 4), "")
	if len(f) < 4 {
		t.Fatalf("table: %q", line)
	}
	s := submission{name: f[0], request: f[1]}
	allowed, unseen := strings.CutSuffix(f[2], "*")
	for o := range strings.SplitSeq(allowed, "/") {
		s.outcomes = append(s.outcomes, guild.Outcome(o))
	}
	s.unseen = unseen
	for c := range strings.SplitSeq(f[3], " | ") {
		switch {
		case strings.HasPrefix(c, harmless), strings.HasPrefix(c, decided), strings.HasPrefix(c, forged) && s.isInproc():
			s.reason = c
		case c != "":
			s.causes = append(s.causes, c)
		}
	}
	if slices.Contains(s.outcomes, guild.Success) && s.reason == "" {
		t.Errorf("table: %q may pass for no reason", line)
	}
	return s
}

// isInproc reports whether the request makes the tests run in one process with the submission.
func (s submission) isInproc() bool { return path.Base(s.request) == "inproc" }

// waits reports whether the submission is to be ended by the clock.
func (s submission) waits() bool { return slices.Contains(s.causes, "stopped after") }

// spends reports whether the submission may be ended by the limit of processor time.
func (s submission) spends() bool {
	return slices.ContainsFunc(s.causes, func(c string) bool { return c == "processor time" || c == "used more than" })
}

// check compares a verdict with the table.
func (s submission) check(t *testing.T, caps sandbox.Caps, v guild.Verdict, evidence judge.Evidence) {
	t.Helper()
	t.Logf("%s %s (%s) %d of %d, decided %d, %d ms", v.Strength, v.Outcome, v.Cause, v.Passed, v.Expected, v.Decided, v.Usage.WallMs)
	if s.unseen && v.Outcome == guild.Success && seesLess(caps) {
		return
	}
	expected := v.Outcome == guild.Success || len(s.causes) == 0 ||
		slices.ContainsFunc(s.causes, func(c string) bool { return strings.Contains(v.Cause, c) })
	switch {
	case !slices.Contains(s.outcomes, v.Outcome):
		t.Errorf("%s (%s), want %v; %d of %d\n%.6000s", v.Outcome, v.Cause, s.outcomes, v.Passed, v.Expected, evidence)
	case !expected:
		t.Errorf("%s because of %q, want %q\n%.3000s", v.Outcome, v.Cause, s.causes, evidence)
	case v.Outcome == guild.Success && strings.HasPrefix(s.reason, decided) && v.Strengths.Weak+v.Strengths.Mixed == 0:
		t.Error("the verdict does not say that the submission decided a test")
	case v.Outcome != guild.Success && v.Cause == "":
		t.Errorf("%s without a cause", v.Outcome)
	case v.Outcome == guild.Violation && len(v.Breaches) == 0:
		t.Error("a violation of nothing")
	}
	weak := v.Strength == guild.Weak
	switch {
	case v.Passed < v.Expected && v.Strength == guild.Strong:
		t.Errorf("%s is strong", v.Outcome)
	case v.Outcome == guild.Success && s.isInproc() && !weak, v.Outcome == guild.Success && !s.isInproc() && weak && v.Decided == 0:
		t.Errorf("the verdict is %s", v.Strength)
	}
}

// seesLess reports whether a tier declares that it notices a breach only in the command itself.
func seesLess(caps sandbox.Caps) bool {
	return slices.ContainsFunc(caps.Gaps, func(gap string) bool { return strings.Contains(gap, "reported only if it ends the command itself") })
}

// tight is a runner with smaller limits than the judge's, so that reaching them takes less time. The clock is limited
// only for submissions that wait, and the processor time only for those that use it. Otherwise a busy or slow machine
// would end other submissions, too.
type tight struct {
	sandbox.Runner
	impatient, thrifty bool
}

func (r tight) Run(ctx context.Context, s sandbox.Spec, streams sandbox.IO) (sandbox.Result, error) {
	l := s.Limits.WithDefaults()
	if r.impatient {
		l.Wall /= 2
	} else {
		l.Wall *= 4
	}
	if r.thrifty {
		l.CPU /= 2
	} else {
		l.CPU *= 4
	}
	l.Memory = min(l.Memory, 256<<20)
	l.Disk = min(l.Disk, 16<<20)
	l.Pids = min(l.Pids, 40)
	l.Inodes = min(l.Inodes, 4000)
	s.Limits = l
	return r.Runner.Run(ctx, s, streams)
}

func TestHostileDeliveries(t *testing.T) {
	submissions := corpus(t)
	t.Setenv("TMPDIR", t.TempDir()) // a directory without files of others
	before := traces(t)
	runner, caps := bestRunner(t)
	inproc := inprocRequests(t)
	t.Run("submission", func(t *testing.T) {
		seen := map[string]int{}
		for _, s := range submissions {
			if seen[s.family]++; testing.Short() && seen[s.family]%8 != 1 || s.isForeign() || s.isOthers(seen[s.family]) || s.isLeft(seen[s.family]) {
				continue
			}
			bundle := filepath.Join("testdata", s.request)
			if s.isInproc() {
				bundle = inproc[path.Dir(s.request)]
			}
			t.Run(path.Join(s.family, s.name, s.request), func(t *testing.T) {
				t.Parallel()
				e := &judge.Judge{Exam: &exam.Engine{Runner: tight{runner, s.waits(), s.spends()}}, Caps: caps}
				v, evidence := judged(t, e, bundle, deliver(t, s.files))
				s.check(t, caps, v, evidence)
			})
		}
	})
	closeOne(t, runner)
	before.compare(t, traces(t))
}

// walls are the families whose outcome depends on the sandbox. What a submission does to the channel and the examiner does not
// depend on the judge's user, but the sandbox does.
var walls = []string{"plain", "escape", "exhaustion", "network", "program"}

// asUser is set where the judge is another user than the test that started it.
const asUser = "GUILD_AS_USER"

// isOthers reports whether a submission, by its place in its family, is left to the judge of another user: root and a user
// divide the walls between them. make soak has both judge all.
func (s submission) isOthers(place int) bool {
	if !slices.Contains(walls, s.family) || testing.Short() || os.Getenv("GUILD_SOAK") != "" {
		return false
	}
	if os.Getenv(asUser) != "" {
		return place%2 == 0
	}
	return os.Geteuid() == 0 && place%2 != 0
}

// isLeft reports whether a submission, by its place in its family, is left to make soak: all but every third that does not try the
// sandbox, and every sixth of the family that takes longest. Those solve most of their requests, so the strength of many tests is
// found each time, which takes longer than everything else.
func (s submission) isLeft(place int) bool {
	one := 3
	if s.family == "given" {
		one = 6
	}
	return !slices.Contains(walls, s.family) && place%one != 1 && os.Getenv("GUILD_SOAK") == ""
}

// isForeign reports whether the submission is for another processor architecture, or calls that this kernel does not have.
func (s submission) isForeign() bool {
	return strings.HasSuffix(s.name, "_amd64") && runtime.GOARCH != "amd64" || strings.HasSuffix(s.name, "_i386") && !has32BitCalls()
}

// has32BitCalls asks the kernel for its process id (call 20) by the old interrupt. Without CONFIG_IA32_EMULATION it ends whoever does.
var has32BitCalls = sync.OnceValue(func() bool {
	const program = "import ctypes, mmap; m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('b814000000cd80c3')); " +
		"ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(m)))()"
	return runtime.GOARCH == "amd64" && exec.Command("/usr/bin/python3", "-I", "-c", program).Run() == nil
})

// inprocRequests returns copies of the pytest requests that make the tests run in one process with the submission.
func inprocRequests(t *testing.T) map[string]string {
	t.Helper()
	requests := map[string]string{}
	for _, name := range []string{"add", "account", "tools"} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", name))); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "tests", "criteria.json")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		asked := strings.Replace(string(text), `"criteria":`, `"python_mode": "inproc", "criteria":`, 1)
		if err := os.WriteFile(file, []byte(asked), 0o644); err != nil {
			t.Fatal(err)
		}
		requests[name] = dir
	}
	return requests
}

// bestRunner returns the strongest runner of this machine. It is closed at the end of the test.
func bestRunner(t testing.TB) (sandbox.Runner, sandbox.Caps) {
	t.Helper()
	runner, caps, err := tiers.Best(t.Context())
	if err != nil {
		t.Fatalf("%v; %s", err, caps.Remedy)
	}
	t.Cleanup(func() { closeOne(t, runner) })
	return runner, caps
}

// closeOne closes a runner, if it can be closed.
func closeOne(t testing.TB, runner sandbox.Runner) {
	t.Helper()
	if c, ok := runner.(io.Closer); ok {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func newEngine(t testing.TB) *judge.Judge {
	t.Helper()
	runner, caps := bestRunner(t)
	return &judge.Judge{Exam: &exam.Engine{Runner: runner}, Caps: caps}
}

// deliver creates the directory of an unpacked delivery with these artifacts.
func deliver(t *testing.T, artifacts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	lay(t, filepath.Join(dir, "delivery", "artifacts"), artifacts)
	return dir
}

// lay writes files below dir.
func lay(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
