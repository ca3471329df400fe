package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"guild/internal/judging/sandbox"
)

// echo is a program that prints the word it reads. It also searches its memory for the words of earlier runs, which it
// gets reversed, so that its own input does not match.
const echo = `import os
import sys


def main():
    word, *others = sys.stdin.read().split()
    found = 0
    for line in open("/proc/self/maps"):
        place, rights = line.split()[:2]
        if others and "r" in rights and "[v" not in line:
            start, end = (int(x, 16) for x in place.split("-"))
            with open("/proc/self/mem", "rb", 0) as memory:
                memory.seek(start)
                backwards = (memory.read(end - start) or b"")[::-1]
            found += sum(backwards.count(other.encode()) for other in others)
    if os.fork() == 0:
        os.setsid()
        import time
        time.sleep(1000)
    open("/tmp/" + word, "w").write(word)
    print(word, found, flush=True)
    os._exit(0)
`

// searchEvery: one run in searchEvery searches its memory, because that takes longer.
const searchEvery = 50

// coldEvery: one run in coldEvery starts its own interpreter.
const coldEvery = 20

// soak runs sandboxes one after the other and then many at once, most of them forked, and prints what they leave
// behind.
func (s *stand) soak(ctx context.Context, o options, out io.Writer) error {
	earlier, err := s.drop(ctx, 0, "")
	if err != nil {
		return err
	}
	show := func(when string, a ...any) { fmt.Fprintf(out, "%-24s %s\n", fmt.Sprintf(when, a...), remains()) }
	show("before")
	start := time.Now()
	for i := 1; i <= o.soak; i++ {
		told := ""
		if i%searchEvery == 0 {
			told = earlier
		}
		if earlier, err = s.drop(ctx, i, told); err != nil {
			return fmt.Errorf("run %d: %w", i, err)
		}
		if i%max(1, o.soak/10) == 0 {
			show("after %d in %v", i, time.Since(start).Round(time.Second))
		}
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for range o.width {
		group.Go(func() error {
			_, err := s.drop(groupCtx, 1, "")
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%d at once: %w", o.width, err)
	}
	show("after %d at once", o.width)
	if gaps := s.own.Probe(ctx).Gaps; len(gaps) > 0 {
		fmt.Fprintln(out, "gaps:", strings.Join(gaps, "; "))
	}
	s.own.Close()
	show("closed")
	return nil
}

// drop runs the program once. It must print its own word and find no earlier word. drop returns the word.
func (s *stand) drop(ctx context.Context, i int, earlier string) (string, error) {
	word := rand.Text()
	spec := sandbox.Spec{
		Argv: []string{python, "-I", "-B"}, Program: &sandbox.Program{Name: "echo", Setup: echo}, Env: env(),
	}
	if i%coldEvery == coldEvery-1 {
		spec.Argv, spec.Program = spec.Command(), nil
	}
	text := word
	if earlier != "" {
		b := []byte(earlier)
		slices.Reverse(b)
		text += " " + string(b)
	}
	var stdout, stderr bytes.Buffer
	res, err := s.own.Run(ctx, spec, sandbox.IO{Stdin: strings.NewReader(text), Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		return "", err
	}
	if res.Exit != 0 || stdout.String() != word+" 0\n" {
		return "", fmt.Errorf("exit %d %s, want %s 0: %s%s", res.Exit, res.Killed, word, stdout.String(), stderr.String())
	}
	return word, nil
}

// remains returns the resources of this process. A number that grows shows a leak.
func remains() string {
	fds, _ := os.ReadDir("/proc/self/fd")
	mounts, _ := os.ReadFile("/proc/self/mounts")
	groups := 0
	filepath.WalkDir("/sys/fs/cgroup", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), fmt.Sprintf("guild-run-%d-", os.Getpid())) {
			groups++
		}
		return nil
	})
	runtime.GC()
	return fmt.Sprintf("%d descriptors, %d goroutines, %.1f MB resident, %d processes with %.1f MB, %d mounts, %d control groups",
		len(fds), runtime.NumGoroutine(), float64(resident())/(1<<20), descendants(strconv.Itoa(os.Getpid())),
		float64(proportional(strconv.Itoa(os.Getpid())))/(1<<20), bytes.Count(mounts, []byte("\n")), groups)
}

// resident returns this process's resident memory in bytes.
func resident() int64 {
	b, _ := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

func descendants(pid string) int {
	n := 0
	for _, child := range children(pid) {
		n += 1 + descendants(child)
	}
	return n
}
