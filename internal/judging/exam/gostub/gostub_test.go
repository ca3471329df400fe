package gostub

import (
	"encoding/json"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// module writes the files of a module called task.
func module(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// goroot returns the Go installation.
func goroot(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

const goMod = "module task\n\ngo 1.24\n"

// described describes a package with the given source.
func described(t testing.TB, source string) *Description {
	t.Helper()
	d, err := Describe(module(t, map[string]string{"go.mod": goMod, "task.go": source}), goroot(t), []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestReasons(t *testing.T) {
	d := described(t, `package task

import (
	"net/http"
	"sync"
)

type hidden struct{ N int }
type Pair[T any] struct{ A, B T }
type Queue struct{ mu sync.Mutex; Items []int }
type Locked struct{ sync.Mutex }
type Point struct{ X, Y int }
type Odd struct{ X int `+"`json:\"-\"`"+` }
type Closed interface{ close() }

func (q *Queue) Wait() <-chan int { return nil }
func (q *Queue) Len() int { return 0 }
func New() *hidden { return nil }
func Map[T any](x T) T { return x }
func Serve(*http.Request) {}
func Use(Closed) {}
func Move(*Point, ...Point) (Point, error) { return Point{}, nil }
`)
	for name, want := range map[string]string{
		"task.New": "the unexported type task.hidden", "task.Pair": "a generic type", "task.Map": "a generic function",
		"task.Serve": "the foreign type http.Request", "task.Queue.Wait": "a channel",
		"task.Use": "the interface task.Closed with the unexported method close", "task.Move": "",
	} {
		if got := d.Reasons()[name]; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	handles := map[string]bool{}
	for _, n := range d.Packages[0].Types {
		handles[n.Name] = n.Handle
	}
	if !handles["Queue"] || !handles["Locked"] || !handles["Odd"] || handles["Point"] {
		t.Error(handles)
	}
}

// selected selects the tests of an external test package, and returns why each is not split, and its file.
func selected(t *testing.T, source, test string) (because map[string]string, file string) {
	t.Helper()
	d := described(t, source)
	files, err := d.Stub()
	if err != nil {
		t.Fatal(err)
	}
	files["task_test.go"] = test
	files[WireDir+"/wire.go"] = "package gowire\n\ntype Handle struct{ N int }\nfunc Type[T any](string, bool) {}\n" +
		"func Call(string, []any, []any) {}\nfunc Method(any, string, []any, []any) {}\nfunc Sentinel(string) error { return nil }\n" +
		"func Variable(string, any) {}\n"
	s, err := Select(module(t, files), goroot(t), d, []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	because = map[string]string{}
	for _, one := range s.Tests {
		because[one.ID] = one.Because
	}
	return because, s.Files["task_test.go"]
}

func TestSelection(t *testing.T) {
	const source = `package task

type Queue struct{ items []int }

var Default = &Queue{}
var Err error
var Limit int

func New() Queue { return Queue{} }
func (q *Queue) Len() int { return 0 }
func Map[T any](x T) T { return x }
func Two() int { return 2 }
`
	const test = `package task_test

import (
	"fmt"
	"strings"
	"testing"

	"task"
)

func TestTwo(t *testing.T) { if task.Two() != 2 { t.Error() } }
func TestMap(t *testing.T) { _ = helper(strings.ToUpper("x")) }
func helper(s string) string { return task.Map(s) }
func TestUnnamed(*testing.T) { task.Two() }
func TestCopy(t *testing.T) { q := task.New(); r := q; r.Len() }
func TestVariable(t *testing.T) { task.Limit = 3; q := task.New(); q.Len() }
func TestPointer(t *testing.T) { task.Default = nil }
func TestReplaced(t *testing.T) { task.Err = nil }
func TestPrinted(t *testing.T) { q := task.New(); _ = fmt.Sprint(&q) }
func TestField(t *testing.T) { q := task.New(); _ = q.Items }
func ExampleTwo() { fmt.Println(task.Two()) }
`
	because, file := selected(t, source, test)
	for id, want := range map[string]string{
		"TestTwo": "", "TestMap": "task.Map: a generic function", "TestUnnamed": "", "TestCopy": "a copy of task.Queue",
		"TestVariable": "", "TestPointer": "", "TestReplaced": "an assignment to the variable Err", "TestPrinted": "by value", "TestField": "Items",
	} {
		if got, there := because[id]; !there || want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	if strings.Count(file, "\n") != strings.Count(test, "\n") {
		t.Error("the lines have moved")
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", file, 0); err != nil || strings.Contains(file, "Example") {
		t.Errorf("%v\n%s", err, file)
	}
	if !strings.Contains(file, `_ "strings"`) || !strings.Contains(file, `guildwire.Run(t, "TestTwo", 0, func(t *testing.T) {`) {
		t.Error(file)
	}
}

func TestHostileDescriptionsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Description){
		"module":     func(d *Description) { d.Module = "a\nb" },
		"library":    func(d *Description) { d.Module = "testing" },
		"parent":     func(d *Description) { d.Module = "a/../b" },
		"version":    func(d *Description) { d.Go = "1.24\nreplace a => b" },
		"directory":  func(d *Description) { d.Packages[0].Dir = "../x" },
		"package":    func(d *Description) { d.Packages[0].Name = "a; import" },
		"function":   func(d *Description) { d.Packages[0].Funcs[0].Name = "F() {}; func G" },
		"lower case": func(d *Description) { d.Packages[0].Funcs[0].Name = "init" },
		"twice":      func(d *Description) { d.Packages[0].Funcs = append(d.Packages[0].Funcs, d.Packages[0].Funcs[0]) },
		"type":       func(d *Description) { d.Packages[0].Funcs[0].Type.Results[0].Name = "int = 1; var X int" },
		"named": func(d *Description) {
			d.Packages[0].Funcs[0].Type.Results[0] = Type{Kind: kindNamed, Path: "evil.com/x", Name: "X"}
		},
		"unsafe": func(d *Description) {
			d.Packages[0].Funcs[0].Type.Results[0] = Type{Kind: kindNamed, Path: "unsafe", Name: "Pointer"}
		},
		"constant": func(d *Description) { d.Packages[0].Consts[0].Value = "1; func init() {}" },
		"tag":      func(d *Description) { d.Packages[0].Types[0].Type.Fields[0].Tag = `json:"-"` },
		"variadic": func(d *Description) { d.Packages[0].Funcs[0].Type.Variadic = true },
		"foreign":  func(d *Description) { d.Foreign = []Named{{Path: "evil.com/x", Name: "X"}} },
	} {
		d := described(t, "package task\n\nconst K = 1\n\ntype P struct{ X int }\n\nfunc F() int { return 1 }\n")
		change(d)
		if d.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzDescription(f *testing.F) {
	d := described(f, "package task\n\nimport \"io\"\n\nconst K, R = 1.5, 'x'\n\nvar V map[string][]int\n\ntype P struct{ X int `json:\"x\"` }\n\n"+
		"type I interface{ M(io.Reader, ...P) (func() error, [2]*P) }\n\ntype H struct{ x int }\n\nfunc (*H) M(I) {}\n\nfunc F() int { return 1 }\n")
	b, err := json.Marshal(d)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var d Description
		if json.Unmarshal(b, &d) != nil || d.Check() != nil {
			return
		}
		for _, make := range []func() (map[string]string, error){d.Stub, d.Dispatcher} {
			files, err := make()
			if err != nil {
				t.Fatal(err)
			}
			for name, text := range files {
				if !filepath.IsLocal(name) {
					t.Errorf("file %q", name)
				}
				if strings.HasSuffix(name, ".go") {
					if _, err := parser.ParseFile(token.NewFileSet(), name, text, 0); err != nil {
						t.Error(err)
					}
				}
			}
		}
	})
}
