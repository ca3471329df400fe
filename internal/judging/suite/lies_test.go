package suite

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"guild"
)

// answer holds the lines that a lie prints, or says that it refuses its input.
type answer struct {
	out     []string
	refused bool
}

// falsehoods are the lies about one exercise: rules by which all its tests are answered without the work.
func falsehoods(tests []check) map[string]func(i int) answer {
	all := map[string]func(int) answer{
		"refuses":        func(int) answer { return answer{refused: true} },
		"nothing":        func(int) answer { return answer{} },
		"its lines":      func(i int) answer { return answer{out: tests[i].in} },
		"its name":       func(i int) answer { return answer{out: []string{tests[i].exercise}} },
		"the first line": func(i int) answer { return answer{out: tests[i].in[:min(1, len(tests[i].in))]} },
		"the last line":  func(i int) answer { return answer{out: tests[i].in[max(0, len(tests[i].in)-1):]} },
		"the lines before": func(i int) answer {
			return answer{out: tests[max(0, i-1)].in}
		},
		"the first word": func(i int) answer { return answer{out: wordOf(tests[i], 1)} },
		"the last word":  func(i int) answer { return answer{out: wordOf(tests[i], -1)} },
	}
	for _, constant := range []string{"", "0", "1", "-1", "0.0", "true", "false", "null", "None", "True", "False", "[]", "{}"} {
		all["always "+constant] = func(int) answer { return answer{out: []string{constant}} }
	}
	if len(tests) > 1 {
		all["always the same"] = func(int) answer { return answer{tests[0].out, tests[0].refused} }
	}
	return all
}

// wordOf returns the first or the last word of the lines of a test.
func wordOf(c check, from int) []string {
	list := strings.Fields(strings.Join(c.in, " "))
	if len(list) == 0 {
		return nil
	}
	if from < 0 {
		return list[len(list)-1:]
	}
	return list[:1]
}

// passed returns the lies that pass all these tests.
func passed(tests []check) (names []string) {
	for name, tell := range falsehoods(tests) {
		wrong := func(i int) bool {
			a := tell(i)
			return a.refused != tests[i].refused || !a.refused && !slices.Equal(a.out, tests[i].out)
		}
		if !slices.ContainsFunc(indices(tests), wrong) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func indices(tests []check) []int {
	all := make([]int, len(tests))
	for i := range all {
		all[i] = i
	}
	return all
}

// TestNoLiePasses tries every lie on each exercise in each criterion of many benchmarks, with their public examples.
func TestNoLiePasses(t *testing.T) {
	t.Parallel()
	seeds := byte(8)
	if os.Getenv("GUILD_SOAK") != "" {
		seeds = 60
	}
	found := map[string]int{}
	for n := range seeds {
		for i, modules := range [][]string{nil, {"computation"}, {"memory"}, {"io"}} {
			s := Spec{Task: Tasks()[int(n)%len(Tasks())], Variant: Variants[(int(n)+i)%len(Variants)], Modules: modules, Seed: seed(n), Run: i}
			b := drawn(t, s)
			for _, e := range b.exercises {
				kind, _, _ := strings.Cut(e.text, ".")
				own := func(all []check) []check {
					return slices.DeleteFunc(slices.Clone(all), func(c check) bool { return c.exercise != e.name })
				}
				for _, layer := range layers {
					for _, name := range passed(own(only(b.cases, layer))) {
						found[kind+", "+layer+": "+name]++
					}
				}
				for _, name := range passed(own(b.examples())) {
					found[kind+", examples: "+name]++
				}
				for _, c := range own(slices.Concat(b.cases, b.examples())) {
					if out := text(c.out); strings.Contains(out, "../") || slices.Contains(c.out, "..") {
						found[kind+", "+c.layer+": a path out of a directory"]++
					}
				}
			}
		}
	}
	for lie, n := range found {
		t.Errorf("%s passes in %d benchmarks", lie, n)
	}
}

// TestLyingSolutionsNotStrong judges deliveries that answer every exercise by one rule.
func TestLyingSolutionsNotStrong(t *testing.T) {
	t.Parallel()
	functions := []string{"raise ValueError", "return []", "return lines", `return ["0"]`, "return lines[:1]"}
	programs := []string{"raise SystemExit(2)", "pass", "print(sys.stdin.read(), end='')", "print(0)", "print(sys.argv[1])"}
	for task, bodies := range map[string][]string{"python": functions, "benchmark-task": programs} {
		s := Spec{Task: task, Modules: []string{"computation"}, Seed: seed(71)}
		bundle, hidden := laid(t, s)
		b := drawn(t, s)
		for _, body := range bodies {
			code := "import sys\n" + body + "\n"
			if task == "python" {
				code = ""
				for _, e := range b.exercises {
					code += "def " + e.name + "(lines): " + body + "\n"
				}
			}
			artifacts := filepath.Join(t.TempDir(), "delivery", "artifacts")
			if err := os.MkdirAll(artifacts, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(artifacts, b.file), []byte(code), 0o644); err != nil {
				t.Fatal(err)
			}
			v := judged(t, bundle, hidden, filepath.Dir(filepath.Dir(artifacts)))
			if v.Outcome == guild.Success || v.Strength == guild.Strong || v.Strengths.Strong > 0 {
				t.Errorf("%s, %s: %s, %s, %+v", task, body, v.Outcome, v.Strength, *v.Strengths)
			}
		}
	}
}
