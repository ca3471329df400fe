package suite

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"guild"
	"guild/internal/judging/exam"
	"guild/internal/judging/sandbox/tiers"
	"guild/internal/step/judge"
	"guild/nutshell"
)

// seed returns one of many seeds.
func seed(n byte) [32]byte { return [32]byte{n} }

func spec(task string, n byte) Spec { return Spec{Task: task, Seed: seed(n), Run: 1} }

// drawn returns the benchmark of a specification, before it is packed.
func drawn(t *testing.T, s Spec) *benchmark {
	t.Helper()
	variant, modules, err := Check(s.Task, s.Variant, s.Modules)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(forms, func(f form) bool { return f.task == s.Task })
	return draw(s, forms[i], variant, modules)
}

func TestSuitesExist(t *testing.T) {
	if got := Tasks(); !slices.Equal(got, []string{"python", "benchmark-task", "shell"}) {
		t.Errorf("%v", got)
	}
	for _, bad := range []Spec{{Task: "cobol"}, {Task: "python", Variant: "easy"}, {Task: "python", Modules: []string{"network"}}} {
		if _, err := Make(bad); !errors.Is(err, ErrUnknown) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestSuiteDeterministic(t *testing.T) {
	for _, task := range Tasks() {
		first, err := Make(spec(task, 1))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Make(spec(task, 1))
		if err != nil || !bytes.Equal(first.Bundle, again.Bundle) || !bytes.Equal(first.Hidden, again.Hidden) {
			t.Errorf("%s: the same specification gives two benchmarks: %v", task, err)
		}
		second := spec(task, 1)
		second.Run = 2
		for _, other := range []Spec{spec(task, 2), second} {
			made, err := Make(other)
			if err != nil || bytes.Equal(made.Bundle, first.Bundle) || bytes.Equal(made.Hidden, first.Hidden) {
				t.Errorf("%s: seed %d, run %d gives the same: %v", task, other.Seed[0], other.Run, err)
			}
		}
		if made := first; made.Name != task+"-v2" || len(made.Bundle) > 30<<10 {
			t.Errorf("%q is %d bytes, which hardly fit into a request", made.Name, len(made.Bundle))
		}
	}
}

// TestSuiteVersionStable keeps scores comparable: a change of the exercises needs a new version, and meetings that
// began with the old one end.
func TestSuiteVersionStable(t *testing.T) {
	for _, c := range []struct{ task, version, sum string }{
		{"python", "python-v2", "0a235e84dd46928f"}, {"benchmark-task", "benchmark-task-v2", "2b56eeb291f80b6d"}, {"shell", "shell-v2", "0e2d3d87643960d7"},
	} {
		b := drawn(t, spec(c.task, 1))
		h := sha256.New()
		for _, tree := range []files{b.public(), b.hidden()} {
			for _, name := range slices.Sorted(maps.Keys(tree)) {
				fmt.Fprintf(h, "%s %d\n%s", name, len(tree[name]), tree[name])
			}
		}
		if sum := fmt.Sprintf("%.8x", h.Sum(nil)); Name(c.task) != c.version || sum != c.sum {
			t.Errorf("%s is %s, and what it asks has the sum %s: a change needs another version", c.task, Name(c.task), sum)
		}
	}
}

// TestLayerSizes checks the table of section 4.2.2 of the partnership protocol.
func TestLayerSizes(t *testing.T) {
	t.Parallel()
	least := map[string]int{guild.LayerSmoke: 5, guild.LayerCorrectness: 25, guild.LayerEdge: 15, guild.LayerPerformance: 5, guild.LayerSecurity: 5}
	for _, task := range Tasks() {
		for _, variant := range Variants {
			for _, modules := range [][]string{nil, {"computation"}, {"memory"}, {"io"}, {"io", "memory"}} {
				if modules != nil && task == "shell" {
					continue // its tests are those of benchmark-task, for another program
				}
				b := drawn(t, Spec{Task: task, Variant: variant, Modules: modules, Seed: seed(9), Run: 1})
				for layer, n := range least {
					if got := len(only(b.cases, layer)); got < n {
						t.Errorf("%s %s %v: %d %s tests, want %d at least", task, variant, modules, got, layer, n)
					}
				}
				for name, content := range b.hidden() {
					if strings.HasSuffix(name, ".json") && len(content) > 1<<20 {
						t.Errorf("%s %s %v: %s is %d bytes, more than the judge reads", task, variant, modules, name, len(content))
					}
				}
			}
		}
	}
}

func TestModules(t *testing.T) {
	_, modules, err := Check("python", "", []string{"io", "computation"})
	if err != nil || !slices.Equal(modules, []string{"computation", "io"}) {
		t.Errorf("%v, %v", modules, err)
	}
	kinds := map[string][]string{
		"computation": {"Counts pairs", "Finds a stretch", "Joins ranges"}, "memory": {"Keeps a cache", "Ranks words", "Measures returns"},
		"io": {"Reads settings", "Adds up accounts", "Disguises lines", "Resolves paths"},
	}
	for _, m := range Modules {
		for _, e := range drawn(t, Spec{Task: "python", Modules: []string{m}, Seed: seed(3)}).exercises {
			if kind, _, _ := strings.Cut(e.text, "."); !slices.Contains(kinds[m], kind) {
				t.Errorf("%s asks for %q", m, kind)
			}
		}
	}
}

func TestHiddenTestsCommitted(t *testing.T) {
	for _, task := range Tasks() {
		made, err := Make(spec(task, 4))
		if err != nil {
			t.Fatal(err)
		}
		bundle, side := open(t, made.Bundle), open(t, made.Hidden)
		salts, err := nutshell.ParseSalts(side["files/.salts.json"])
		if err != nil || len(salts) == 0 {
			t.Fatalf("%s: %v", task, err)
		}
		for _, c := range salts {
			if !nutshell.Opens(c, side["files"+strings.TrimPrefix(c.Path, nutshell.HiddenDir)]) {
				t.Errorf("%s: %s does not match its commitment", task, c.Path)
			}
			if !bytes.Contains(bundle[nutshell.ManifestFile], []byte(c.Hash.Hex())) {
				t.Errorf("%s: the bundle does not commit to %s", task, c.Path)
			}
		}
		for name := range bundle {
			if strings.HasPrefix(name, nutshell.HiddenDir) {
				t.Errorf("%s: %s is in the bundle", task, name)
			}
		}
	}
}

// open returns the files of a packed bundle.
func open(t *testing.T, packed []byte) map[string][]byte {
	t.Helper()
	b, err := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), nutshell.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{nutshell.ManifestFile: b.Manifest().Bytes()}
	err = b.Walk(func(e nutshell.Entry, r io.Reader) error {
		all[e.Path], err = io.ReadAll(r)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRulesDifferByProvider(t *testing.T) {
	for _, f := range families() {
		same, of := 0, 0
		for n := range byte(20) {
			mine, yours := f.make(newDice(seed(n), "mine")), f.make(newDice(seed(n), "yours"))
			if mine.text == yours.text {
				continue // sometimes two are equal; their other five exercises differ
			}
			d := newDice(seed(n), "input")
			for _, in := range d.samples(mine, 5, 20, 40) {
				right, _ := mine.solve(in)
				got, _ := yours.solve(in)
				of++
				if slices.Equal(right, got) {
					same++
				}
			}
		}
		if of == 0 || same*5 > of {
			t.Errorf("%s: %d of %d answers are right for somebody else", f.make(newDice(seed(0), "")).text[:20], same, of)
		}
	}
}

func TestOracleEdges(t *testing.T) {
	for _, f := range families() {
		e := f.make(newDice(seed(1), "edges"))
		if len(e.edges) < 12 {
			t.Errorf("%.20q has %d edges", e.text, len(e.edges))
		}
		if _, ok := e.solve(nil); !ok {
			t.Errorf("%.20q refuses no input at all", e.text)
		}
		refused := 0
		for _, in := range e.edges {
			if _, ok := e.solve(in); !ok {
				refused++
			}
		}
		if never := strings.Contains("Ranks words Measures returns Disguises lines Resolves paths", e.text[:10]); (refused == 0) != never {
			t.Errorf("%.20q refuses %d of its edges", e.text, refused)
		}
	}
}

// TestRuleExamples compares the reference solutions with examples that were solved manually.
func TestRuleExamples(t *testing.T) {
	all := []string{}
	for _, c := range []struct{ in, out string }{
		{"a/../..", "denied"}, {"a/b/..", "a"}, {"..", "denied"}, {"./", "top"}, {"/x//y/./z", "x>y>z"},
	} {
		if got := resolve(c.in, "denied", ">", "top"); got != c.out {
			all = append(all, fmt.Sprintf("%s: %s, want %s", c.in, got, c.out))
		}
	}
	if got := join([][2]int{{10, 12}, {0, 3}, {5, 6}}, 2); !slices.Equal(got, [][2]int{{0, 6}, {10, 12}}) {
		all = append(all, fmt.Sprint(got))
	}
	for text, ok := range map[string]bool{"0": true, "-12": true, "": false, "-": false, "+1": false, "1_0": false, "1234567890": false, " 1": false} {
		if _, got := number(text); got != ok {
			all = append(all, fmt.Sprintf("number %q: %v", text, got))
		}
	}
	if len(all) > 0 {
		t.Error(strings.Join(all, "\n"))
	}
}

func TestSeeds(t *testing.T) {
	secret := []byte("of this node")
	alice, bob := guild.Service{D: "a"}, guild.Service{D: "b"}
	seen := map[[32]byte]bool{}
	for _, s := range [][32]byte{
		SeedFor(secret, alice, "1"), SeedFor(secret, bob, "1"), SeedFor(secret, alice, "2"), SeedFor([]byte("another"), alice, "1"),
	} {
		if seen[s] || s == ([32]byte{}) {
			t.Errorf("%x again", s)
		}
		seen[s] = true
	}
	if !seen[SeedFor(slices.Clone(secret), alice, "1")] {
		t.Error("a seed changes")
	}
}

// delivery runs the reference provider on a bundle. It sees the same files as any provider.
func delivery(t *testing.T, bundle string, how ...string) string {
	t.Helper()
	dir := t.TempDir()
	artifacts := filepath.Join(dir, "delivery", "artifacts")
	if err := os.MkdirAll(artifacts, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", append([]string{"testdata/solver.py", bundle, artifacts}, how...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// laid writes a benchmark to directories as a node does before it is judged.
func laid(t *testing.T, s Spec) (bundle, hidden string) {
	t.Helper()
	made, err := Make(s)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, packed := range map[string][]byte{"bundle": made.Bundle, "hidden": made.Hidden} {
		for file, content := range open(t, packed) {
			file = filepath.Join(dir, name, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return filepath.Join(dir, "bundle"), filepath.Join(dir, "hidden", "files")
}

// judged judges a delivery with the real judge.
func judged(t *testing.T, bundle, hidden, delivery string) guild.Verdict {
	t.Helper()
	runner, caps, err := tiers.Best(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j := judge.Judge{Exam: &exam.Engine{Runner: runner}, Caps: caps}
	v, _, err := j.Hear(t.Context(), judge.Case{Bundle: bundle, Hidden: hidden, Delivery: delivery})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// failures returns the tests that did not pass.
func failures(v guild.Verdict) string {
	var all []string
	for _, one := range v.Tests {
		if one.State != guild.TestPassed && len(all) < 4 {
			all = append(all, fmt.Sprintf("%s %s: %.300s", one.ID, one.State, one.Message))
		}
	}
	return strings.Join(all, "\n")
}

func TestSolverPassesHidden(t *testing.T) {
	for i, s := range []Spec{spec("python", 11), spec("benchmark-task", 12), spec("shell", 13), {Task: "python", Variant: "stress", Seed: seed(14)}} {
		t.Run(fmt.Sprint(s.Task, " ", s.Variant, " ", i), func(t *testing.T) {
			t.Parallel()
			bundle, hidden := laid(t, s)
			v := judged(t, bundle, hidden, delivery(t, bundle))
			if v.Outcome != guild.Success || v.Passed != v.Expected || v.Strength != guild.Strong || v.Score < 800_000 {
				t.Errorf("%s (%s), %d of %d, %s, score %s\n%s", v.Outcome, v.Cause, v.Passed, v.Expected, v.Strength, v.Score, failures(v))
			}
			if len(v.Hidden) == 0 {
				t.Error("the hidden tests were not used")
			}
			for _, one := range v.Tests {
				if one.Strength != guild.Strong {
					t.Errorf("%s of layer %s is %s: %s", one.ID, one.Layer, one.Strength, one.Because)
				}
			}
			if len(v.Unproven) > 0 {
				t.Errorf("lies pass: %q", v.Unproven)
			}
			layers := map[string]int{}
			for _, one := range v.Tests {
				layers[one.Layer]++
			}
			if layers[guild.LayerSmoke] < 5 || layers[guild.LayerCorrectness] < 25 || layers[guild.LayerEdge] < 15 ||
				layers[guild.LayerPerformance] < 5 || layers[guild.LayerSecurity] < 5 {
				t.Errorf("tests by layer: %v", layers)
			}
			t.Logf("%d tests in %d ms of wall time", v.Expected, v.Usage.WallMs)
		})
	}
}

// TestSolverAgreesWithOracle checks more drawn exercises, without the judge.
func TestSolverAgreesWithOracle(t *testing.T) {
	t.Parallel()
	for i, s := range []Spec{
		{Variant: "correctness", Modules: []string{"computation"}}, {Variant: "correctness", Modules: []string{"memory"}},
		{Variant: "correctness", Modules: []string{"io"}}, {Modules: []string{"computation", "memory"}}, {Modules: []string{"io"}}, {}, {}, {},
	} {
		s.Task, s.Seed, s.Run = "python", seed(byte(100+i)), i
		bundle, _ := laid(t, s)
		b := drawn(t, s)
		for _, wrong := range disagreements(t, filepath.Join(delivery(t, bundle), "delivery", "artifacts"), b.cases) {
			t.Errorf("%v: %s", b.modules, wrong)
		}
		if len(b.cases) < 55 {
			t.Errorf("%v: %d cases", b.modules, len(b.cases))
		}
	}
}

// disagreements runs all cases with the solution in dir, in one process, and returns those with another answer.
func disagreements(t *testing.T, dir string, cases []check) (wrong []string) {
	t.Helper()
	const program = `import json, sys
sys.path.insert(0, sys.argv[1])
import solution
for line in sys.stdin:
    name, lines = json.loads(line)
    try:
        print(json.dumps(getattr(solution, name)(lines)))
    except ValueError:
        print("null")
`
	var asked bytes.Buffer
	lines := json.NewEncoder(&asked)
	for _, c := range cases {
		if err := lines.Encode([]any{c.exercise, append([]string{}, c.in...)}); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", program, dir)
	cmd.Stdin = &asked
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	answers := json.NewDecoder(&out)
	for _, c := range cases {
		var got []string // nil if it was refused
		if err := answers.Decode(&got); err != nil {
			t.Fatal(err)
		}
		if (got == nil) != c.refused || !c.refused && !slices.Equal(got, c.out) {
			wrong = append(wrong, fmt.Sprintf("%s %s %d: %.80q, want %.80q, refused %v", c.exercise, c.layer, c.number, got, c.out, c.refused))
		}
	}
	return wrong
}

func TestLazySolutionFails(t *testing.T) {
	t.Parallel()
	for _, task := range Tasks() {
		bundle, hidden := laid(t, spec(task, 21))
		if v := judged(t, bundle, hidden, delivery(t, bundle, "--lazy")); v.Outcome != guild.Failure {
			t.Errorf("%s: %s, %d of %d", task, v.Outcome, v.Passed, v.Expected)
		}
	}
}

func TestCopiedDeliveryFails(t *testing.T) {
	t.Parallel()
	for _, task := range Tasks() {
		mine, _ := laid(t, spec(task, 31))
		yours, hidden := laid(t, spec(task, 32))
		v := judged(t, yours, hidden, renamed(t, delivery(t, mine), mine, yours))
		if v.Outcome != guild.Failure {
			t.Errorf("%s: %s, %d of %d", task, v.Outcome, v.Passed, v.Expected)
		}
	}
}

// renamed adapts a delivery for one bundle to the names in another bundle, for each kind of exercise, as a provider
// could that got it from another.
func renamed(t *testing.T, dir, from, to string) string {
	t.Helper()
	names := func(bundle string) []string {
		b, err := os.ReadFile(filepath.Join(bundle, "context", "requirements.md"))
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, section := range strings.Split(string(b), "\n## ")[1:] {
			name, _, _ := strings.Cut(section, "\n")
			all = append(all, name)
		}
		return all
	}
	old, fresh := names(from), names(to)
	files, err := filepath.Glob(filepath.Join(dir, "delivery", "artifacts", "*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range old {
			code = bytes.ReplaceAll(code, []byte(name), []byte(fresh[i]))
		}
		if err := os.WriteFile(file, code, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestQuadraticTooSlow(t *testing.T) {
	t.Parallel()
	// Only the exercises of the computation module have an obvious quadratic solution.
	bundle, hidden := laid(t, Spec{Task: "python", Modules: []string{"computation"}, Seed: seed(41)})
	v := judged(t, bundle, hidden, delivery(t, bundle, "--square"))
	if v.Outcome != guild.Error {
		t.Errorf("%s (%s), %d of %d", v.Outcome, v.Cause, v.Passed, v.Expected)
	}
	for _, one := range v.Tests {
		if one.State != guild.TestPassed && one.Layer != guild.LayerPerformance {
			t.Errorf("%s of layer %s: %s", one.ID, one.Layer, one.Message)
		}
	}
}

// TestQuadraticStopped does the same for a task whose program runs once for each test, with shorter inputs.
func TestQuadraticStopped(t *testing.T) {
	t.Parallel()
	s := Spec{Task: "benchmark-task", Modules: []string{"computation"}, Seed: seed(41)}
	bundle, _ := laid(t, s)
	b := drawn(t, s)
	program := filepath.Join(delivery(t, bundle, "--square"), "delivery", "artifacts", b.file)
	longest := slices.MaxFunc(b.cases, func(x, y check) int { return len(x.in) - len(y.in) })
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `ulimit -t "$1"; exec /usr/bin/python3 "$2" "$3"`, "sh", strconv.Itoa(b.limit), program, longest.exercise)
	cmd.Stdin = strings.NewReader(text(longest.in))
	if _, err := cmd.Output(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != -1 {
		t.Errorf("%s with %d lines ended by itself: %v", longest.exercise, len(longest.in), err)
	}
}

func TestEvalFailsSecurity(t *testing.T) {
	t.Parallel()
	bundle, hidden := laid(t, Spec{Task: "python", Variant: "correctness", Modules: []string{"computation"}, Seed: seed(51)})
	v := judged(t, bundle, hidden, delivery(t, bundle, "--trusting"))
	failed := map[string]int{}
	for _, one := range v.Tests {
		if one.State != guild.TestPassed {
			failed[one.Layer]++
		}
	}
	if failed[guild.LayerSecurity] == 0 || failed[guild.LayerSmoke]+failed[guild.LayerPerformance] > 0 {
		t.Errorf("%s (%s): %v", v.Outcome, v.Cause, failed)
	}
}

func TestManifestTags(t *testing.T) {
	var m struct {
		Type       string `json:"bundle_type"`
		Extensions struct {
			Guild struct {
				Task      string
				Benchmark struct {
					Suite, Type string
					Modules     []string
					Iterations  int
				}
			}
		}
	}
	b := drawn(t, Spec{Task: "shell", Variant: "stress", Modules: []string{"memory"}, Seed: seed(5)})
	if err := json.Unmarshal(b.public()[nutshell.ManifestFile], &m); err != nil {
		t.Fatal(err)
	}
	g := m.Extensions.Guild
	if m.Type != "request" || g.Task != "shell" || g.Benchmark.Suite != "shell-v2" || g.Benchmark.Type != "stress" || g.Benchmark.Iterations != 5 ||
		!slices.Equal(g.Benchmark.Modules, []string{"memory"}) {
		t.Errorf("%+v", m)
	}
	if names := slices.Sorted(maps.Keys(b.public())); !slices.Contains(names, "context/requirements.md") {
		t.Errorf("%v", names)
	}
}
