package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/journal/fact"
	"guild/internal/node"
)

// patient bounds the time of a worker, and the wait of its customer for the first feedback. It is longer than any
// test.
const patient = 30 * time.Minute

// mortal is a program for the tests: guild up, or guild work if there is a command, that notes each entry of its
// journal in a file before anything can follow from it, and is killed by what it has noted last.
func mortal() {
	flags := flag.NewFlagSet("mortal", flag.ExitOnError)
	home := flags.String("home", "", "as of guild")
	relay := flags.String("relay", "", "as of guild up")
	task := flags.String("task", "", "as of guild work")
	command := flags.String("exec", "", "as of guild work")
	notes := flags.String("notes", "", "file for the number and the hash of each entry")
	after := flags.Int("after", 0, "entries that it lives to see; never ends if zero")
	last := flags.String("last", "", "type of a fact that it dies of")
	fresh := flags.Int("fresh", 0, "occurrences of each type of fact in all its lives that it dies of; of effects the first only")
	bare := flags.Bool("unsandboxed", false, "as of guild work")
	mount := flags.String("mount", "", "as of guild work")
	slots := flags.Int("jobs", 2, "as of guild work")
	flags.Parse(os.Args[1:])

	p := &program{home: *home, out: os.Stdout, err: os.Stderr, now: time.Now}
	var offers []service
	if *command != "" {
		offers = []service{{Tasks: []string{*task}, D: *task, Name: *task, Exec: *command, Jobs: *slots, Queue: 16, TimeLimit: patient, Unsandboxed: *bare}}
		if *mount != "" {
			offers[0].Mounts = []string{*mount}
		}
	}
	died := func(fact.Entry) bool { return false }
	if *fresh > 0 {
		died = fresher(*notes+".types", *fresh)
	}
	os.Exit(p.report(p.runMortal(*relay, offers, witness(*notes, *after, *last, died)), false))
}

func (p *program) runMortal(relay string, offers []service, appended func(fact.Entry)) error {
	ctx, stop := cli.Interruptible()
	defer stop()
	c, err := p.config()
	if err != nil {
		return err
	}
	c.Relays = []string{relay}
	id, err := p.identity(c)
	if err != nil {
		return err
	}
	n, err := nodeConfig(c, id, nodeOptions{Services: offers, Log: p.logger(p.err), Ready: p.out})
	if err != nil {
		return err
	}
	n.Appended = appended
	n.Hiring.Limits.PerMinute = 1000 // what dies again and again does a lot in a minute
	n.Hiring.Patience.Offers, n.Hiring.Patience.Discover = 30*time.Second, longest
	n.Hiring.Patience.Silence = patient
	return node.Run(ctx, n)
}

// fresher reports whether an entry has one of the first facts of its type, also counting earlier lives.
func fresher(path string, first int) func(fact.Entry) bool {
	seen := map[string]int{}
	before, _ := os.ReadFile(path) // there is none in the first life
	for line := range strings.Lines(string(before)) {
		seen[strings.TrimSpace(line)]++
	}
	notes := appendTo(path)
	return func(e fact.Entry) (fresh bool) {
		for _, f := range e.Facts {
			most := first
			if strings.HasPrefix(f.Type(), "effect.") {
				most = 1
			}
			if _, err := fmt.Fprintln(notes, f.Type()); err != nil {
				panic(err)
			}
			seen[f.Type()]++
			fresh = fresh || seen[f.Type()] <= most
		}
		return fresh
	}
}

func appendTo(path string) *os.File {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	return f
}

// witness notes entries, and kills this process after so many, after one with a fact of the type last, or
// after one for which dies is true.
func witness(path string, after int, last string, dies func(fact.Entry) bool) func(fact.Entry) {
	notes := appendTo(path)
	seen := 0
	return func(e fact.Entry) {
		raw, err := json.Marshal(e)
		if err == nil {
			_, err = fmt.Fprintf(notes, "%d %x\n", e.Seq, sha256.Sum256(raw))
		}
		if err != nil {
			panic(err)
		}
		isLast := func(f fact.Fact) bool { return f.Type() == last }
		seen++
		if dies(e) || seen == after || slices.ContainsFunc(e.Facts, isLast) {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
}

// notesOf returns the file of notes of a home's mortal node.
func notesOf(home string) string { return home + ".notes" }

// mortalUp runs a customer that is killed after so many entries.
func (w *town) mortalUp(home string, after int) *process {
	w.t.Helper()
	return w.start("mortal", nil, "-home", home, "-relay", w.relay, "-notes", notesOf(home), "-after", fmt.Sprint(after))
}

// mortalFresh runs a customer that is killed after the first facts of each type.
func (w *town) mortalFresh(home string, first int) *process {
	w.t.Helper()
	return w.start("mortal", nil, "-home", home, "-relay", w.relay, "-notes", notesOf(home), "-fresh", fmt.Sprint(first))
}

// mortalWork runs a provider that is killed after so many entries.
func (w *town) mortalWork(home, task, command string, after int, more ...string) *process {
	w.t.Helper()
	args := append([]string{"-home", home, "-relay", w.relay, "-notes", notesOf(home), "-after", fmt.Sprint(after),
		"-task", task, "-exec", command}, more...)
	return w.start("mortal", nil, args...)
}

// adopts has a node adopt its policy, the first fact of a journal, and be killed of that. What comes after it is the
// work that a test is about.
func (w *town) adopts(home string) {
	w.t.Helper()
	p := w.start("mortal", nil, "-home", home, "-relay", w.relay, "-notes", notesOf(home), "-last", "policy.adopted")
	p.wait(w.t)
}

// awaitDeath waits until a node has died of its last entry. Feedback that came too late to be noted leaves a job
// with an entry less: then the job ends, and the node is killed after that.
func (p *process) awaitDeath(t *testing.T, c *control.Client) {
	t.Helper()
	eventually(t, "its death", func(ctx context.Context) error {
		select {
		case <-p.ended:
			return nil
		default:
		}
		if jobs, err := control.Jobs.Call(ctx, c); err == nil && len(jobs) == 1 && isOver(jobs[0]) {
			p.kill()
		}
		return fmt.Errorf("it still lives")
	})
}

// mustHoldWhatWasNoted fails the test unless every entry that a mortal node has noted so far is in its journal, unchanged.
func mustHoldWhatWasNoted(t *testing.T, c *control.Client, home string) {
	t.Helper()
	notes, err := os.ReadFile(notesOf(home)) // before the journal, which may still grow
	if err != nil {
		t.Fatal(err)
	}
	held, there := map[string]bool{}, map[string]string{}
	for _, e := range entries(t, c) {
		raw, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		held[fmt.Sprintf("%d %x", e.Seq, sha256.Sum256(raw))] = true
		there[fmt.Sprint(e.Seq)] = string(raw)
	}
	for line := range strings.Lines(string(notes)) {
		if !held[strings.TrimSpace(line)] {
			seq, _, _ := strings.Cut(line, " ")
			t.Errorf("entry %s was acknowledged and is not in the journal, which has %.600s", strings.TrimSpace(line), there[seq])
		}
	}
}

// isOver reports whether nothing more will happen to a job of one attempt.
func isOver(job control.Job) bool {
	return job.Closed != 0 && len(job.Attempts) == 1 && job.Attempts[0].TrustTo != nil && job.Attempts[0].Receipt != ""
}
