package work

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"guild/nutshell"
)

// advising returns a bundle whose manifest gives the advice.
func advising(t *testing.T, harness string) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := nutshell.Pack(t.Context(), fstest.MapFS{"nutshell.json": {Data: []byte(
		`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Echo"},"harness":` + harness + `}`)}}, &b, nutshell.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// shown runs a command on a bundle and returns what it printed.
func shown(t *testing.T, x Exec, harness string) string {
	t.Helper()
	x.Command += `; echo done >"$GUILD_DELIVERY/out"`
	_, lines, err := tries(t, x.service(), advising(t, harness))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

func TestAdviceReachesWorker(t *testing.T) {
	const advice = `{"agent_type_hint":"review","context_budget_hint":0.35,"execution_strategy":"incremental","checkpoints":true,
		"constraints":["Deliver solution.py and nothing else","Two\nlines"]}`
	for runner, box := range runners(t) {
		t.Run(runner, func(t *testing.T) {
			got := shown(t, Exec{Runner: box, Command: `echo "$GUILD_AGENT_TYPE $GUILD_STRATEGY $GUILD_CONTEXT_BUDGET $GUILD_CHECKPOINTS"; cat "$GUILD_CONSTRAINTS"; grep -c review "$GUILD_HINTS"`}, advice)
			if want := "review incremental 0.35 1\nDeliver solution.py and nothing else\nTwo lines\n1"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestWorkerCannotChangeAdviceInSandbox(t *testing.T) {
	if got := shown(t, Exec{Runner: runners(t)["sandboxed"], Command: `(echo no >"$GUILD_HINTS") 2>/dev/null || echo kept`}, `{"checkpoints":true}`); got != "kept" {
		t.Errorf("got %q", got)
	}
}

func TestWithoutAdviceThereAreNoVariables(t *testing.T) {
	for _, harness := range []string{`{}`, `{"constraints":[],"checkpoints":false}`} {
		if got := shown(t, Exec{Runner: Bare{}, Command: `env | grep -c "GUILD_HINTS\|GUILD_CON\|GUILD_CHECK\|GUILD_STRAT\|GUILD_AGENT"`}, harness); got != "0" {
			t.Errorf("%s: %s variables", harness, got)
		}
	}
}

func TestHostileAdviceIsNoVariable(t *testing.T) {
	got := shown(t, Exec{Runner: Bare{}, Command: `env | grep -c "GUILD_AGENT_TYPE\|GUILD_STRATEGY\|GUILD_CONTEXT_BUDGET"; wc -l <"$GUILD_CONSTRAINTS"`},
		`{"agent_type_hint":"$(touch /tmp/x)","execution_strategy":"a b\nPATH=/evil","context_budget_hint":35,"constraints":["a\u0000b","\u001b[31mred\n\n\n"]}`)
	if got != "0\n2" {
		t.Errorf("got %q", got)
	}
	dir := filepath.Join(t.TempDir(), "hints")
	if _, err := writeHints(nutshell.Harness{Constraints: []string{"a\x1b[31m\x00b"}}, dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, constraintsFile)); err != nil || strings.ContainsAny(string(text), "\x00\x1b") {
		t.Errorf("%q, %v", text, err)
	}
}
