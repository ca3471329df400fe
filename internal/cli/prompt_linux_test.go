//go:build !race

// huh closes its reader during a read, which the race detector reports.

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo-terminal: the end that a person has, and the one that a program has.
func terminal(t *testing.T) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// answer types each text when the question before it has appeared on the screen.
func answer(person *os.File, questionsAndAnswers ...string) {
	var screen bytes.Buffer
	buf := make([]byte, 4096)
	for i := 0; i+1 < len(questionsAndAnswers); {
		if bytes.Contains(screen.Bytes(), []byte(questionsAndAnswers[i])) {
			screen.Reset()
			io.WriteString(person, questionsAndAnswers[i+1])
			i += 2
			continue
		}
		n, err := person.Read(buf)
		if err != nil {
			return
		}
		screen.Write(buf[:n])
	}
	io.Copy(io.Discard, person)
}

func TestPromptOnTerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-256color")
	for _, plain := range []bool{false, true} {
		person, program := terminal(t)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		enter, down := "\r", "\x1b[B\r"
		if plain {
			enter, down = "\n", "3\n"
		}
		go answer(person, "Title", "Sort a list"+enter, "Really", "n"+enter, "Which", down, "Last", "\x03")
		a := &Prompt{ctx: ctx, in: program, out: program, plain: plain}
		title, err := a.Line("Title", "why")
		if title != "Sort a list" || err != nil {
			t.Errorf("plain %v: %q, %v", plain, title, err)
		}
		really, err := a.Yes("Really")
		if really || err != nil {
			t.Errorf("plain %v: %v, %v", plain, really, err)
		}
		which, err := a.Choose("Which", "b", "a", "b", "c")
		if which != "c" || err != nil {
			t.Errorf("plain %v: %q, %v", plain, which, err)
		}
		if plain {
			cancel() // as a signal does; this is not the test's controlling terminal
		}
		if _, err := a.Line("Last", ""); !errors.Is(err, context.Canceled) {
			t.Errorf("plain %v: %v", plain, err)
		}
	}
}
