package namespaces

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"guild/internal/judging/sandbox"
)

// search counts, in the whole memory of a process, the words whose reverse is on standard input. It never contains the
// words themselves.
const search = `import os, sys

def main():
    words = {word: 0 for word in sys.stdin.buffer.read().split()}
    for line in open("/proc/self/maps"):
        place, rights = line.split()[:2]
        if "r" not in rights or "[v" in line:
            continue
        start, end = (int(x, 16) for x in place.split("-"))
        with open("/proc/self/mem", "rb", 0) as memory:
            memory.seek(start)
            backwards = (memory.read(end - start) or b"")[::-1]
        for word in words:
            words[word] += backwards.count(word)
    print(*words.values())
`

func TestForkSecrets(t *testing.T) {
	r := warm(t)
	secret := func(s string) func(*sandbox.Spec) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
		return func(spec *sandbox.Spec) {
			spec.Env = append(spec.Env, "SECRET="+s)
			spec.Copies = []sandbox.Copy{{Host: dir, Inside: sandbox.Workspace}}
		}
	}
	var earlier []string
	for range 5 {
		word := rand.Text()
		earlier = append(earlier, backwards(word))
		says(t, r, program(search, secret(word)), word+word+"\n", "0")
	}
	own := rand.Text()
	says(t, r, program(search, secret(own)), strings.Join(earlier, " "), "0 0 0 0 0")
	if got := told(t, r, program(search, secret(own)), backwards(own)); got.stdout == "0\n" || got.exit != 0 {
		t.Errorf("the search does not find what is there: %+v", got)
	}
}

func backwards(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// told runs a program with the text as input.
func told(t *testing.T, r *Runner, s sandbox.Spec, text string) ran {
	t.Helper()
	var out [3]bytes.Buffer
	res, err := r.fork(t, s, sandbox.IO{Stdin: strings.NewReader(text), Stdout: &out[0], Stderr: &out[1]})
	if err != nil {
		t.Fatal(err)
	}
	return result(res, &out)
}

// says fails the test unless a program with the text as input prints want.
func says(t *testing.T, r *Runner, s sandbox.Spec, text, want string) {
	t.Helper()
	if got := told(t, r, s, text); got.exit != 0 || strings.TrimSpace(got.stdout) != want {
		t.Errorf("got %+v, want %s", got, want)
	}
}

func TestForkStateNotReused(t *testing.T) {
	r := warm(t)
	s := does(`
print(os.path.exists("/tmp/x"), os.path.exists("/dev/shm/x"), hasattr(os, "mark"), os.getpid())
os.mark = open("/tmp/x", "w"), open("/dev/shm/x", "w")`)
	for range 3 {
		if got := forked(t, r, s); got.stdout != "False False False 2\n" {
			t.Errorf("%+v", got)
		}
	}
}

func TestForkLeavesNothing(t *testing.T) {
	runs, width := 300, 50
	if testing.Short() {
		runs, width = 60, 20
	}
	r := warm(t)
	s := does("n = sys.stdin.read()\nprint(n, end='')\nos.write(3, n.encode())\nif os.fork() == 0:\n  import time\n  time.sleep(100)")
	says(t, r, s, "first", "first")
	before := leftovers(t)
	var all sync.WaitGroup
	gate := make(chan struct{}, width)
	for i := range runs {
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			word := fmt.Sprint("run ", i)
			says(t, r, s, word, word)
		})
	}
	all.Wait()
	settles(t, before, leftovers)
}

// leftovers counts the descriptors, descendants, mounts and control groups of this process.
func leftovers(t *testing.T) map[string]int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("this test looks at /proc: " + err.Error())
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	ours := strings.Count("\n"+string(mounts), "\nbox ") // the source of a run's mounts
	groups := 0
	filepath.WalkDir("/sys/fs/cgroup", func(_ string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), fmt.Sprintf("guild-run-%d-", os.Getpid())) {
			groups++
		}
		return nil
	})
	return map[string]int{
		"descriptors": len(fds), "processes": descendants(fmt.Sprint(os.Getpid())), "mounts": ours, "control groups": groups,
	}
}

// descendants counts the descendants of a process.
func descendants(pid string) int {
	n := 0
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for child := range strings.FieldsSeq(string(children)) {
			n += 1 + descendants(child)
		}
	}
	return n
}
