package ignore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// question asks git whether the patterns of one file leave a path out.
type question struct {
	path  string
	isDir bool
}

// sample is a file of patterns and the paths to ask about.
type sample struct {
	text      string
	questions []question
}

// Patterns are made of pieces, and paths of segments. There are few of both, so that they often match.
var (
	pieces = []string{
		"a", "b", "ab", "abc", ".", "*", "**", "***", "?", "/", "[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[!]a]", "[a-]", "[--a]", `[\]a]`, `[a\-c]`,
		"[[:alpha:]]", "[![:space:]]", "[[:punct:][:upper:]]", "[[:nonsense:]]", "[[:]", "[[::]]", "[a", "[", "]", "-", `\a`, `\*`, `\/`, `\`, " ", `\ `, "!", "#",
		"é", "A", "\t", "\r", "/**/", "**/", "/*", "*.b",
	}
	segments = []string{"a", "b", "ab", "abc", "ba", ".a", "a.b", "*", "a b", "a ", "é", "A", "[", "]", "-", "!", "#", "c", "~", "_"}
)

func patterns(t *rapid.T) string {
	line := rapid.Custom(func(t *rapid.T) string {
		before := rapid.SampledFrom([]string{"", "", "", "!", "/", "!/", "**/", "a/", "a/**/"}).Draw(t, "before")
		after := rapid.SampledFrom([]string{"", "", "", "/", "/**", "/*", " ", "*", "\r"}).Draw(t, "after")
		return before + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 5).Draw(t, "pieces"), "") + after
	})
	end := rapid.SampledFrom([]string{"\n", "", "\r\n"}).Draw(t, "end")
	return strings.Join(rapid.SliceOfN(line, 1, 5).Draw(t, "lines"), "\n") + end
}

func drawSample(t *rapid.T) sample {
	path := rapid.Custom(func(t *rapid.T) question {
		return question{
			strings.Join(rapid.SliceOfN(rapid.SampledFrom(segments), 1, 4).Draw(t, "path"), "/"),
			rapid.Bool().Draw(t, "folder"),
		}
	})
	return sample{patterns(t), rapid.SliceOfN(path, 4, 12).Draw(t, "questions")}
}

// git is a repository in which the real git is asked. It has no ignore files other than those of the samples.
type git struct{ dir string }

func newGit(t testing.TB) git {
	t.Helper()
	g := git{t.TempDir()}
	if _, err := g.run(nil, "init", "--quiet", "."); err != nil {
		t.Fatal("git, which says what is right, does not run:", err)
	}
	return g
}

func (g git) run(in []byte, args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = g.dir, bytes.NewReader(in)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C"}
	return cmd.Output()
}

// ask returns the questions that git answers with yes, as "0/path" for those of the first sample. Each sample has a
// folder of its own with a .gitignore, where the folders that are asked about are made: git takes what is not there
// for a file. It corrects the questions about files that are folders.
func (g git) ask(all []sample) (map[string]bool, error) {
	var in bytes.Buffer
	for i, s := range all {
		root := filepath.Join(g.dir, fmt.Sprint(i))
		if err := errors.Join(os.RemoveAll(root), os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(root, ".gitignore"), []byte(s.text), 0o644)); err != nil {
			return nil, err
		}
		for _, q := range s.questions {
			if q.isDir {
				if err := os.MkdirAll(filepath.Join(root, q.path), 0o755); err != nil {
					return nil, err
				}
			}
		}
		for j, q := range s.questions {
			_, err := os.Stat(filepath.Join(root, q.path))
			s.questions[j].isDir = err == nil
			fmt.Fprintf(&in, "%d/%s\x00", i, q.path)
		}
	}
	out, err := g.run(in.Bytes(), "check-ignore", "--no-index", "--stdin", "-z")
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) { // 1: none of them
		return nil, err
	}
	yes := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		yes[name] = true
	}
	return yes, nil
}

func TestRandomPatternsLikeGit(t *testing.T) {
	g := newGit(t)
	rapid.Check(t, func(r *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(drawSample), 6, 6).Draw(r, "samples")
		out, err := g.ask(all)
		if err != nil {
			r.Fatal(err)
		}
		for i, s := range all {
			p := parse(t, s.text)
			for _, q := range s.questions {
				if got, want := p.Match(q.path, q.isDir), out[fmt.Sprintf("%d/%s", i, q.path)]; got != want {
					r.Errorf("%q: %q, folder %v: %v, git says %v", s.text, q.path, q.isDir, got, want)
				}
			}
		}
	})
}

func TestClassesLikeGit(t *testing.T) {
	g := newGit(t)
	var all []sample
	for _, class := range []string{"alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "xdigit", "word"} {
		s := sample{text: "[[:" + class + ":]]\n"}
		for c := byte(1); c < 0x80; c++ {
			if c != '/' && c != '.' { // no names
				s.questions = append(s.questions, question{path: string(rune(c))})
			}
		}
		all = append(all, s)
	}
	out, err := g.ask(all)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		p := parse(t, s.text)
		for _, q := range s.questions {
			if got, want := p.Match(q.path, q.isDir), out[fmt.Sprintf("%d/%s", i, q.path)]; got != want {
				t.Errorf("%q: %q: %v, git says %v", s.text, q.path, got, want)
			}
		}
	}
}
