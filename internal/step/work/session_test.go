package work

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/journal/fact"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/tiers"
	"guild/internal/step/steptest"
	"guild/replay"
	"guild/replay/session"
)

// traced runs a command with a recording, and returns the events between the start and the end of its session.
func traced(t *testing.T, x Exec) (s session.Session, said []string, err error) {
	t.Helper()
	a, lines := assignment(t)
	a.Limit = 5 * time.Minute
	now := time.Now
	a.recording = &recording{now: now, Recorder: session.New(session.Config{Producer: "guild@test", SessionID: "s", Created: now()})}
	err = x.Do(t.Context(), a)
	s = a.recording.End(now(), a.recording.status(t.Context(), err))
	if _, err := encodeSession(s); err != nil {
		t.Fatal(err)
	}
	return s, lines(), err
}

// calls lists the tools that a session called, each with its outcome.
func calls(s session.Session) (all []string) {
	exits, names := map[string]string{}, map[string]string{}
	for _, e := range s.Events {
		if r, ok := e.(replay.ToolResult); ok {
			exits[r.ID] = r.OutputHash[:15]
			if r.ExitCode != nil {
				exits[r.ID] += fmt.Sprint(" ", *r.ExitCode)
			}
		}
	}
	for _, e := range s.Events {
		if c, ok := e.(replay.ToolCall); ok {
			names[c.ID] = c.Tool
			all = append(all, c.Tool+" "+exits[c.ID])
		}
	}
	return all
}

func digestOf(text string) string { return guild.Sum([]byte(text)).String()[:15] }

func wantCalls(t *testing.T, s session.Session, want ...string) {
	t.Helper()
	if got := calls(s); !slices.Equal(got, want) {
		t.Errorf("calls %q, want %q; %+v", got, want, s.Report)
	}
}

// runners lists the runners that work on this machine.
func runners(t *testing.T) map[string]sandbox.Runner {
	t.Helper()
	best, _, err := tiers.Best(t.Context())
	if err != nil {
		t.Fatalf("no sandbox works here: %v", err)
	}
	return map[string]sandbox.Runner{"bare": Bare{}, "sandboxed": best}
}

const pythonTrace = `python3 -c '
import json, os
with os.fdopen(int(os.environ["GUILD_TRACE"]), "w") as trace:
    def say(**line): print(json.dumps(line), file=trace, flush=True)
    say(tool="compute", id="c1", params={"n": 3})
    say(id="c1", output_part="par")
    say(id="c1", output_part="ts")
    say(id="c1", exit_code=0)
    say(tokens={"input": 10, "output": 2}, model="small")
print("done")
'`

func TestTraceIsRecorded(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Fatal(err)
	}
	for name, runner := range runners(t) {
		t.Run(name, func(t *testing.T) {
			s, said, err := traced(t, Exec{Runner: runner, Command: `echo out; echo '{"tool":"look","output":"seen","exit_code":2}' >&$GUILD_TRACE; echo broken >&3; echo '{"note":"last' >&3`})
			if err != nil || !slices.Equal(said, []string{"out"}) {
				t.Fatalf("%v, said %q", err, said)
			}
			wantCalls(t, s, "exec "+digestOf("out\n")+" 0", "look "+digestOf("seen")+" 2")
			if s.Report.Malformed != 2 || s.Report.Lines != 3 {
				t.Errorf("%+v", s.Report)
			}
			s, _, err = traced(t, Exec{Runner: runner, Command: pythonTrace})
			if err != nil {
				t.Fatal(err)
			}
			wantCalls(t, s, "exec "+digestOf("done\n")+" 0", "compute "+digestOf("parts")+" 0")
			if s.Model != "small" || s.Tokens == nil || *s.Tokens != (session.Tokens{Input: 10, Output: 2}) {
				t.Errorf("%+v", s.Provenance)
			}
		})
	}
}

func TestSessionOfSilentWorker(t *testing.T) {
	for name, runner := range runners(t) {
		t.Run(name, func(t *testing.T) {
			s, _, err := traced(t, Exec{Runner: runner, Command: "exec 3>&-; exit 3"})
			if err == nil {
				t.Fatal("it did not fail")
			}
			wantCalls(t, s, "exec "+digestOf("")+" 3")
			if end := s.Events[len(s.Events)-1].(replay.SessionEnd); end.Status != replay.Failed || end.TotalToolCalls != 1 {
				t.Errorf("%+v", end)
			}
		})
	}
}

// TestWholeOutputIsHashed prints more than a sandbox keeps.
func TestWholeOutputIsHashed(t *testing.T) {
	whole := bytes.Repeat([]byte{'x'}, 3<<20)
	for name, runner := range runners(t) {
		t.Run(name, func(t *testing.T) {
			s, _, err := traced(t, Exec{Runner: runner, Limits: sandbox.Limits{Output: 1 << 20}, Command: `head -c 3145728 /dev/zero | tr '\0' x`})
			if err != nil {
				t.Fatal(err)
			}
			wantCalls(t, s, "exec "+digestOf(string(whole))+" 0")
		})
	}
}

// TestTraceDoesNotStopWorker writes endless traces, and leaves the descriptor to other processes.
func TestTraceDoesNotStopWorker(t *testing.T) {
	for name, runner := range runners(t) {
		for what, command := range map[string]string{
			"a line without end":       `head -c 40000000 /dev/zero >&3; echo done > "$GUILD_DELIVERY/out.txt"`,
			"lines without end":        `yes '{"tool":"x","output":"y"}' | head -c 30000000 >&3; echo done > "$GUILD_DELIVERY/out.txt"`,
			"one that closes it early": `echo '{"tool":"x"}' >&3; exec 3>&-; echo done > "$GUILD_DELIVERY/out.txt"`,
			"one that never closes it": `(sleep 600) & echo done > "$GUILD_DELIVERY/out.txt"`,
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				began := time.Now()
				s, _, err := traced(t, Exec{Runner: runner, Limits: sandbox.Limits{Output: 1 << 20}, Command: command})
				if err != nil || time.Since(began) > 4*time.Minute {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				if len(s.Events) > session.MaxEvents+10 {
					t.Errorf("%d events", len(s.Events))
				}
			})
		}
	}
}

// TestDescriptorOutlivesBareWorker: a process that has left the group is not killed.
func TestDescriptorOutlivesBareWorker(t *testing.T) {
	before := runtime.NumGoroutine()
	began := time.Now()
	_, _, err := traced(t, Exec{Runner: Bare{}, Command: `setsid sh -c 'echo $$ > "$GUILD_DELIVERY/pid"; sleep 60 >/dev/null 2>&1' >/dev/null 2>&1 & while [ ! -s "$GUILD_DELIVERY/pid" ]; do sleep 0.01; done`})
	if err != nil || time.Since(began) > 40*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	for deadline := time.After(40 * time.Second); runtime.NumGoroutine() > before; {
		select {
		case <-deadline:
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		case <-time.Tick(10 * time.Millisecond):
		}
	}
}

func TestOutputAsTrace(t *testing.T) {
	s, said, err := traced(t, Exec{Runner: Bare{}, Trace: session.ClaudeCode, Command: `cat <<'END'
{"type":"assistant","message":{"content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"a","name":"Bash","input":{"command":"ls"}}]}}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a","content":"x"}]}}
not json
{"type":"result","subtype":"error_max_turns","is_error":true,"usage":{"input_tokens":1,"output_tokens":2}}
END`})
	if err != nil || !slices.Equal(said, []string{"I look."}) {
		t.Errorf("%v, the customer is told %q", err, said)
	}
	if got := calls(s); len(got) != 3 || !strings.HasPrefix(got[0], "exec ") || !strings.HasPrefix(got[1], "note ") || got[2] != "Bash "+digestOf("x") {
		t.Errorf("calls %q", got)
	}
	if end := s.Events[len(s.Events)-1].(replay.SessionEnd); end.Status != replay.Failed || s.Report.Malformed != 1 || s.Tokens == nil {
		t.Errorf("%+v, %+v", end, s.Report)
	}
}

// finishedBy returns the fact that ended a request.
func (w *world) finishedBy(id nostr.ID) (found fact.RequestFinished) {
	w.Helper()
	for _, f := range steptest.Facts[fact.RequestFinished](w) {
		if f.Request == id {
			found = f
		}
	}
	return found
}

// recorded is a worker that records a command, as Exec does.
func recorded(do func(context.Context, Assignment) error) func(context.Context, Assignment) error {
	return func(ctx context.Context, a Assignment) error {
		h := Exec{Command: "solve"}.listen(a)
		h.trace.Write([]byte(`{"tool":"think","output":"` + a.Job + `"}` + "\n"))
		err := do(ctx, a)
		h.end(ctx, sandbox.Result{}, nil)
		return err
	}
}

func TestRequestNamesSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(recorded(echo)))
		id := w.asks(customer, task(t, bundle(t, []byte("in"))))
		w.pass(time.Second)
		f := w.finishedBy(id)
		if f.Ending != delivered || f.Replay.IsZero() || f.Session.IsZero() {
			t.Fatalf("%+v, %v", f, w.told(customer, id))
		}
		raw, err := w.blobs.ReadAll(f.Replay, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		trajectory, err := replay.TrajectoryHash(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		raw, err = w.blobs.ReadAll(f.Session, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		r, err := session.DecodeReceipt(raw)
		if err != nil || r.Validate() != nil {
			t.Fatal(err, r.Validate())
		}
		if r.TrajectoryHash != trajectory || r.SessionID != id.Hex() || len(r.ToolCalls) != 2 || r.Trace == nil || !strings.HasPrefix(r.PolicyBundleID, "sha256:") {
			t.Errorf("%+v", r)
		}
	})
}

func TestNoSessionOfFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		id := w.asks(customer, task(t, bundle(t, nil)))
		w.pass(time.Second)
		if f := w.finishedBy(id); f.Ending != delivered || !f.Replay.IsZero() || !f.Session.IsZero() {
			t.Errorf("%+v", f)
		}
	})
}

func TestSessionOfFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(recorded(func(context.Context, Assignment) error { return fmt.Errorf("no luck") })))
		id := w.asks(customer, task(t, bundle(t, nil)))
		w.pass(time.Second)
		raw, err := w.blobs.ReadAll(w.finishedBy(id).Replay, 1<<20)
		if err != nil || !strings.Contains(string(raw), `"status":"Failed"`) {
			t.Errorf("%s, %v", raw, err)
		}
	})
}

// TestSessionOfLastRun: a run that was cut short leaves no session.
func TestSessionOfLastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		w := newWorld(t, python(recorded(func(ctx context.Context, a Assignment) error {
			if runs++; runs == 1 {
				<-ctx.Done()
				return ctx.Err()
			}
			return echo(ctx, a)
		})))
		id := w.asks(customer, task(t, bundle(t, nil)))
		w.pass(time.Minute)
		w.restart()
		w.pass(time.Hour)
		f := w.finishedBy(id)
		raw, err := w.blobs.ReadAll(f.Replay, 1<<20)
		if err != nil || runs != 2 {
			t.Fatal(err, runs)
		}
		end := raw[bytes.LastIndex(bytes.TrimSpace(raw), []byte("\n"))+1:]
		if !bytes.Contains(end, []byte(`"status":"Success"`)) || !bytes.Contains(end, []byte(`"total_latency_ms":0`)) {
			t.Errorf("%s", end)
		}
	})
}

func TestUnstoredSessionIsNotNamed(t *testing.T) {
	dir := t.TempDir()
	blobs, err := blob.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := New(Config{Blobs: blobs, Now: time.Now, Log: slog.New(slog.DiscardHandler)}, NewFold())
	r, err := w.newRecording(python(echo), fact.RequestReceived{Request: nostr.ID{1}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := Exec{Command: "true"}.listen(Assignment{recording: r, Say: func(string) {}})
	h.end(t.Context(), sandbox.Result{}, nil)
	d := w.endSession(t.Context(), r, "job", nil)
	if trajectory, receipt := w.keepSession(t.Context(), d, "job"); trajectory.IsZero() || receipt.IsZero() {
		t.Error("a session that can be stored is not")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if trajectory, receipt := w.keepSession(t.Context(), d, "job"); !trajectory.IsZero() || !receipt.IsZero() {
		t.Errorf("%s and %s are named", trajectory, receipt)
	}
}

func TestSessionHidesCredentials(t *testing.T) {
	a, _ := assignment(t)
	hide := func(text string) string { return strings.ReplaceAll(text, "s3cret-word", "[secret]") }
	a.Hide = hide
	a.recording = &recording{now: time.Now, Recorder: session.New(session.Config{SessionID: "s", Created: time.Now(), Hide: hide})}
	x := Exec{Runner: Bare{}, Command: `echo s3cret-word; echo '{"tool":"login","params":{"with":"s3cret-word"},"output":"s3cret-word"}' >&3`}
	if err := x.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	d, err := encodeSession(a.recording.End(time.Now(), replay.Success))
	if err != nil || bytes.Contains(d.replay, []byte("s3cret-word")) || bytes.Contains(d.receipt, []byte("s3cret-word")) {
		t.Errorf("%v: %s %s", err, d.replay, d.receipt)
	}
}
