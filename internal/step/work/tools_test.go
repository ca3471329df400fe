package work

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"guild/replay/session"
)

// A worker that is part of the program records its calls, and the model that did the work.
func TestRecordOfWorkerWithTools(t *testing.T) {
	s := python(func(_ context.Context, a Assignment) error {
		a.Record("write", map[string]string{"path": "delivery/out.txt"})("written", 0)
		a.Record("run", map[string]string{"command": "false"})("failed", 1)
		a.RecordModel("m1", session.Tokens{Input: 7, Output: 2})
		return os.WriteFile(filepath.Join(a.Delivery, "out.txt"), nil, 0o644)
	})
	trial, _, err := tries(t, s, bundle(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"tool":"write"`, `"tool":"run"`, `"exit_code":1`} {
		if !bytes.Contains(trial.Replay, []byte(want)) {
			t.Errorf("%s is not in %s", want, trial.Replay)
		}
	}
	if want := `"provenance":{"model_id":"m1","tokens":{"input":7,"output":2}}`; !bytes.Contains(trial.Receipt, []byte(want)) {
		t.Errorf("the receipt is %s", trial.Receipt)
	}
}

func TestStepOfWorker(t *testing.T) {
	a, _ := assignment(t)
	x := Exec{Runner: runners(t)["sandboxed"], Env: []string{"MODEL=small"}}
	for command, want := range map[string]struct {
		exit int
		out  string
	}{
		"echo $MODEL; echo two >&2; exit 4":                 {4, "small\ntwo\n"},
		`echo hello >"$GUILD_DELIVERY/out.txt"`:             {0, ""},
		`cat "$GUILD_DELIVERY/out.txt" ../delivery/out.txt`: {0, "hello\nhello\n"},
		`env | grep -c "TOKEN\|KEY"; ls -A "$HOME"`:         {0, "0\n"},
	} {
		if strings.HasPrefix(command, "cat \"$GUILD") {
			if err := os.WriteFile(filepath.Join(a.Delivery, "out.txt"), []byte("hello\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		exit, err := x.Step(t.Context(), a, command, &out)
		if err != nil || exit != want.exit || out.String() != want.out {
			t.Errorf("%s: exit code %d, %q, %v", command, exit, &out, err)
		}
	}
	a.Limit = 300 * time.Millisecond
	var out bytes.Buffer
	if exit, err := x.Step(t.Context(), a, "sleep 60", &out); exit != 124 || err != nil || !strings.Contains(out.String(), "over its limit: wall") {
		t.Errorf("sleep: exit code %d, %q, %v", exit, &out, err)
	}
}
