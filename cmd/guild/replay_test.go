package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"guild/replay"
)

const trajectoryText = `{"event":"ReplayHeader","replay_version":1,"producer":"x@1","created_at":"2026-11-20T06:55:00Z"}
{"event":"SessionStart","session_id":"s1","issue_number":7,"policy_bundle_id":"p1","t":"2026-11-20T06:55:00Z"}
{"event":"ToolCall","id":"tc_1","tool":"read","params":{"a":1},"t":"2026-11-20T06:55:01.5Z"}
{"event":"ToolResult","id":"tc_1","exit_code":1,"latency_ms":1500,"output_preview":"no\u001b[2J\nsuch","t":"2026-11-20T08:00:00Z"}
oops
{"event":"FromTheFuture","x":"\u001b[2Jhi","y_hash":"sha256:00"}
{"event":"Verification","commands":["go test"],"exit_codes":[0],"t":"2026-11-20T08:00:01Z"}
{"event":"SessionEnd","status":"success","confidence":0.5,"total_tool_calls":1,"total_latency_ms":1500,"t":"2026-11-20T08:00:01Z"}
`

func TestTrajectoryLines(t *testing.T) {
	t.Setenv("TZ", "UTC")
	var out bytes.Buffer
	p := &program{in: strings.NewReader(trajectoryText), out: &out, err: io.Discard}
	err := p.runReplayShow(t.Context(), "-", replayOptions{Speed: 1}, false)
	if codeOf(err) != exitFailed || !strings.Contains(err.Error(), "line 5 is faulty") {
		t.Errorf("exit %d: %v", codeOf(err), err)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for i, want := range []string{
		" 0:00.0 header    by x@1", " 0:00.0 session   s1, issue 7, policy p1", " 0:01.5 call      read {\"a\":1}", "65:00.0 result    1.5s, exit 1: no·[2J such",
		"65:00.0 ✗ line 5  ", "65:00.0 FromTheFutu… x=·[2Jhi", "65:01.0 verify    go test → 0", "65:01.0 end       Success, confidence 0.50, 1 call, 1.5s",
	} {
		if i >= len(lines) || !strings.Contains(lines[i], want) {
			t.Errorf("want %q in\n%s", want, out.String())
		}
	}
	if len(lines) != 8 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%q", out.String())
	}
}

func TestReplayWaits(t *testing.T) {
	all, err := moments(replay.Read(strings.NewReader(trajectoryText)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		n     int
		speed float64
		want  time.Duration
	}{{0, 1, 0}, {1, 1, 0}, {2, 1, 1500 * time.Millisecond}, {2, 3, 500 * time.Millisecond}, {3, 1, 2 * time.Second}, {3, 4, 500 * time.Millisecond}, {3, 0, 0}, {4, 1, 0}, {6, 1, time.Second}} {
		if got := waitBefore(all, c.n, c.speed); got != c.want {
			t.Errorf("before %d at %v: %v, want %v", c.n, c.speed, got, c.want)
		}
	}
}

func TestElapsed(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0:00.0", 61_250 * time.Millisecond: "1:01.2", -time.Second: "-0:01.0", 59_999 * time.Millisecond: "0:59.9"} {
		if got := elapsed(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// played writes the trajectory to a file and plays it on a terminal.
func played(t *testing.T, ctx context.Context, o replayOptions) (person, screen *os.File, over chan error) {
	t.Helper()
	t.Setenv("TERM", "xterm-256color")
	t.Setenv("TZ", "UTC")
	file := filepath.Join(t.TempDir(), "REPLAY.jsonl")
	if err := os.WriteFile(file, []byte(strings.Replace(trajectoryText, "oops\n", "", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	person, screen = terminal(t)
	p := &program{in: screen, out: screen, err: io.Discard}
	over = make(chan error, 1)
	go func() { over <- p.runReplayShow(ctx, file, o, false) }()
	return person, screen, over
}

func TestTerminalReplayToEnd(t *testing.T) {
	person, _, over := played(t, t.Context(), replayOptions{Speed: 20}) // slow enough for a picture of it
	shown := read(t, person, "confidence 0.50")
	go io.Copy(io.Discard, person)
	if err := <-over; err != nil {
		t.Error(err)
	}
	if !strings.Contains(shown, "header") || !strings.Contains(shown, "space pause") || strings.Contains(shown, "no\x1b[2J") {
		t.Errorf("%q", shown)
	}
}

func TestTerminalReplayByStep(t *testing.T) {
	person, _, over := played(t, t.Context(), replayOptions{Speed: 1, Step: true})
	for _, c := range [][2]string{{"space play", "n"}, {"header", "n"}, {"session", "\r"}, {"call", "e"}} {
		read(t, person, c[0])
		person.WriteString(c[1])
	}
	read(t, person, "confidence 0.50")
	go io.Copy(io.Discard, person)
	if err := <-over; err != nil {
		t.Error(err)
	}
}

func TestTerminalReplayIsLeft(t *testing.T) {
	for key, code := range map[string]int{"q": 0, "\x03": exitInterrupted} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		person, screen, over := played(t, ctx, replayOptions{Speed: 1, Step: true})
		before, err := unix.IoctlGetTermios(int(screen.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		read(t, person, "space play")
		person.WriteString(key)
		go io.Copy(io.Discard, person)
		var said bytes.Buffer
		if err := <-over; (&program{err: &said}).report(err, false) != code || said.Len() > 0 {
			t.Errorf("%q: exit %d: %v, %q", key, codeOf(err), err, said.String())
		}
		after, err := unix.IoctlGetTermios(int(screen.Fd()), unix.TCGETS)
		if err != nil || after.Lflag&unix.ECHO == 0 || after.Lflag&unix.ICANON == 0 || before.Lflag != after.Lflag && before.Lflag&unix.ECHO != 0 {
			t.Errorf("%q: the terminal is left as %+v, %v", key, after, err)
		}
	}
}

func TestTheKeysOfThePlayer(t *testing.T) {
	all, err := moments(replay.Read(strings.NewReader(trajectoryText)))
	if err != nil {
		t.Fatal(err)
	}
	p := &player{all: all, speed: 1}
	p.key("+")
	if p.speed != 2 {
		t.Errorf("speed %v", p.speed)
	}
	for range 20 {
		p.key("-")
	}
	if p.speed != 1.0/16 {
		t.Errorf("speed %v", p.speed)
	}
	p.key("space")
	if !p.paused || p.key("space") == nil || p.paused {
		t.Error("space does not halt and go on")
	}
	old := dueMsg(p.turn)
	p.show()
	if p.Update(old); p.next != 1 {
		t.Error("a wait that is over showed something")
	}
	if p.Update(dueMsg(p.turn)); p.next != 2 {
		t.Error("a wait showed nothing")
	}
	if p.key("e"); p.next != len(all) || p.View().Content != "" {
		t.Errorf("at %d of %d", p.next, len(all))
	}
	if p.key("x") != nil {
		t.Error("x means something")
	}
}

func TestWrongFlagsOfReplayShow(t *testing.T) {
	p := &program{in: strings.NewReader(""), out: io.Discard, err: io.Discard}
	for _, o := range []replayOptions{{Speed: -1}, {Speed: 1e9}, {Speed: 1, Step: true}} {
		if err := p.runReplayShow(t.Context(), "-", o, false); codeOf(err) != exitUsage {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if err := p.runReplayConvert(t.Context(), "-", converting{to: "xml"}); codeOf(err) != exitUsage {
		t.Errorf("got %v", err)
	}
	if err := p.runReplayDiff(t.Context(), "-", "-", false); codeOf(err) != exitUsage {
		t.Errorf("got %v", err)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestWhatCannotBeReadIsSaid(t *testing.T) {
	p := &program{in: brokenReader{}, out: io.Discard, err: io.Discard}
	if err := p.runReplayShow(t.Context(), "-", replayOptions{}, false); err == nil || err.Error() != "standard input: broken pipe" {
		t.Errorf("got %v", err)
	}
}

func TestDiffOfLongParams(t *testing.T) {
	same := strings.Repeat("é", 40)
	if a, b := fromDifference(same+"1", same+"2"); a != "…"+strings.Repeat("é", 16)+"1" || b != "…"+strings.Repeat("é", 16)+"2" {
		t.Errorf("%s, %s", a, b)
	}
	if a, b := fromDifference("x1", "x2"); a != "x1" || b != "x2" {
		t.Errorf("%s, %s", a, b)
	}
}
