package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/control"
)

// watched serves the updates of one job on a socket, and keeps the stream open if the job has not ended.
func watched(t *testing.T, updates []control.Update) *control.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, u := range updates {
			json.NewEncoder(w).Encode(u)
		}
		w.(http.Flusher).Flush()
		if len(updates) == 0 || updates[len(updates)-1].Ended == nil {
			<-r.Context().Done()
		}
	})}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
	return control.Dial(socket)
}

func endedAs(ending guild.Ending) []control.Update {
	job := python
	job.Ending, job.Closed = ending, noon+1
	return tale(append(begun(), control.Update{At: 4000, Event: "ended", Ended: &job})...)
}

func TestWatchWithoutTerminal(t *testing.T) {
	t.Setenv("TZ", "UTC")
	var out bytes.Buffer
	p := &program{out: &out, err: io.Discard}
	_, err := p.watch(t.Context(), watched(t, endedAs(guild.JobRejected)), python, false)
	if codeOf(err) != exitRejected {
		t.Errorf("exit %d: %v", codeOf(err), err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 10 || lines[0] != "job 5f21c9aa  python" || lines[9] != "rejected; nothing was paid" {
		t.Fatalf("%q", lines)
	}
	want := fmt.Sprintf("%s request   asked able", clock(noon+800))
	if lines[5] != want {
		t.Errorf("%q, want %q", lines[5], want)
	}
}

func TestWatchWithJSONWritesEachUpdate(t *testing.T) {
	var out bytes.Buffer
	p := &program{out: &out}
	if ended, err := p.watch(t.Context(), watched(t, endedAs(guild.JobAccepted)), python, true); err != nil || !isEnded(ended) {
		t.Error(err)
	}
	last := control.Update{}
	n := 0
	for line := range strings.Lines(out.String()) {
		last = control.Update{}
		if err := json.Unmarshal([]byte(line), &last); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 8 || last.Ended == nil || last.Ended.Ending != guild.JobAccepted {
		t.Errorf("%d updates, the last %+v", n, last)
	}
}

func TestWatchLosesNode(t *testing.T) {
	var updates iter.Seq2[control.Update, error] = func(func(control.Update, error) bool) {}
	if _, err := writeUpdates(updates, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v", err)
	}
}

// terminal opens a pseudo-terminal of 100 columns with two ends, of the person and of the program.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("this machine has no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100})
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// read returns what the terminal showed up to a text, or everything until the deadline.
func read(t *testing.T, person *os.File, until string) string {
	t.Helper()
	person.SetReadDeadline(time.Now().Add(longest))
	var seen bytes.Buffer
	b := make([]byte, 4096)
	for !strings.Contains(seen.String(), until) {
		n, err := person.Read(b)
		seen.Write(b[:n])
		if err != nil {
			t.Fatalf("%v after %q", err, seen.String())
		}
	}
	return seen.String()
}

func TestTerminalWatchIsLeft(t *testing.T) {
	for name, key := range map[string]string{"q": "q", "Ctrl-C": "\x03"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TERM", "xterm-256color")
			person, screen := terminal(t)
			client := watched(t, tale(begun()...))
			p := &program{in: screen, out: screen}
			over := make(chan error, 1)
			go func() {
				_, err := p.watch(t.Context(), client, python, false)
				over <- err
			}()
			read(t, person, "able works")
			person.WriteString(key)
			go io.Copy(io.Discard, person)
			if err := <-over; codeOf(err) != exitInterrupted || hintOf(err) != "guild job watch 5f21c9aa" {
				t.Errorf("exit %d, hint %q", codeOf(err), hintOf(err))
			}
		})
	}
}

// A person has left the screen of a hire that is its own node, and then ends that, too.
func TestNodeOfALeftJobIsEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hears, errs := io.Pipe()
	p := &program{out: io.Discard, err: errs}
	said := ""
	go func() {
		said, _ = bufio.NewReader(hears).ReadString('\n')
		cancel() // Ctrl-C
	}()
	ended, err := p.stay(ctx, watched(t, tale(begun()...)), python, false)
	if codeOf(err) != exitInterrupted || hintOf(err) != "guild up goes on with it" || isEnded(ended) || !strings.Contains(said, "Ctrl-C ends it") {
		t.Errorf("%v, hint %q, after %q", err, hintOf(err), said)
	}
}

func TestTerminalWatchToEnd(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("NO_COLOR", "1")
	person, screen := terminal(t)
	client := watched(t, endedAs(guild.JobViolated))
	p := &program{in: screen, out: screen}
	over := make(chan error, 1)
	go func() {
		_, err := p.watch(t.Context(), client, python, false)
		over <- err
	}()
	shown := read(t, person, "violated")
	go io.Copy(io.Discard, person)
	if err := <-over; codeOf(err) != exitViolation {
		t.Errorf("exit %d: %v", codeOf(err), err)
	}
	if strings.Contains(shown, "\x1b[3") || strings.Contains(shown, "\x1b[38;") {
		t.Errorf("colours in spite of NO_COLOR: %q", shown)
	}
}
