package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"guild/internal/judging/sandbox"
)

// idlers is the number of sandboxes that wait while their memory is measured.
const idlers = 10

// idle measures the memory of one of guild's own sandboxes in which a program waits for input, cold and forked, as many
// times as there are rounds.
func (s *stand) idle(ctx context.Context, rounds int) ([]spread, error) {
	waiting := sandbox.Spec{Argv: []string{"/bin/cat"}}
	warm := sandbox.Spec{
		Argv: []string{python, "-B"}, Program: &sandbox.Program{Name: "bench", Setup: setup + "\n\ndef main():\n    print('up', flush=True)\n    sys.stdin.read()\n    os._exit(0)\n"},
	}
	var found []spread
	for _, one := range []struct {
		name string
		spec sandbox.Spec
	}{{ownCold, waiting}, {ownFork, warm}} {
		var all []float64
		for range rounds {
			bytes, err := idleMemory(ctx, s.own, one.spec)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", one.name, err)
			}
			all = append(all, float64(bytes)/(1<<20))
		}
		found = append(found, newSpread(one.name, all))
	}
	return found, nil
}

// idleMemory returns the proportional memory of one waiting sandbox, in bytes. It measures the increase over one
// sandbox that already exists, so that shared memory is not counted again.
func idleMemory(ctx context.Context, r sandbox.Runner, spec sandbox.Spec) (int64, error) {
	spec.Env = env()
	var all sync.WaitGroup
	failed := make(chan error, idlers+1)
	start := func() *os.File {
		in, out, err := os.Pipe()
		if err != nil {
			failed <- err
			return nil
		}
		up := make(chan struct{})
		all.Go(func() {
			defer in.Close()
			_, err := r.Run(ctx, spec, sandbox.IO{Stdin: in, Stdout: &first{up: up}})
			failed <- err
		})
		fmt.Fprintln(out, "hello") // cat echoes it; a program prints up
		<-up
		return out
	}
	ends := []*os.File{start()}
	before := proportional(strconv.Itoa(os.Getpid()))
	for range idlers {
		ends = append(ends, start())
	}
	after := proportional(strconv.Itoa(os.Getpid()))
	for _, end := range ends {
		end.Close()
	}
	all.Wait()
	for range ends {
		if err := <-failed; err != nil {
			return 0, err
		}
	}
	return (after - before) / idlers, nil
}

// first signals its first write.
type first struct {
	once sync.Once
	up   chan struct{}
}

func (f *first) Write(p []byte) (int, error) {
	f.once.Do(func() { close(f.up) })
	return len(p), nil
}

// proportional returns the memory of a process's descendants in bytes; each shared page counts once.
func proportional(pid string) int64 {
	var sum int64
	for _, child := range children(pid) {
		sum += pss(child) + proportional(child)
	}
	return sum
}

func children(pid string) []string {
	var found []string
	tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, t := range tasks {
		b, _ := os.ReadFile(t)
		found = append(found, strings.Fields(string(b))...)
	}
	return found
}

func pss(pid string) int64 {
	b, _ := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	for line := range bytes.Lines(b) {
		if kb, found := bytes.CutPrefix(line, []byte("Pss:")); found {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(string(kb)), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
