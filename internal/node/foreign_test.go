package node

import (
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"guild"
	"guild/internal/control"
)

// foreign is another implementation, as interop/foreign/cards.mjs has its card and its events from its source.
type foreign struct {
	program string // of interop/foreign
	form    string // of cards.mjs
	task    string // that its kind or its card fits
}

// TestForeignImplementationsAreHired hires each implementation for a task that fits without naming it, and by its key
// for a task that its announcement does not name. None of them knows guild's words or bundles.
func TestForeignImplementationsAreHired(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]foreign{
		"NIP-89 bare":       {program: "nostr-tools", form: "bare", task: "text-generation"},
		"the specification": {program: "nostr-tools", form: "specification", task: "data-processing"},
		"2020117":           {program: "nostr-tools", form: "2020117", task: "text"},
		"nostrdvm":          {program: "nostr-tools", form: "nostrdvm", task: "summarization"},
		"DVMCP":             {program: "nostr-tools", form: "dvmcp", task: "summarize"},
		"NDK":               {program: "ndk", task: "text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			relay := startRelay(t)
			provider := startProgram(t, "foreign/"+f.program, map[string]any{"relay": relay, "form": f.form})
			var said struct{ PubKey string }
			provider.next(&said)
			customer, _ := start(t, relay, func(c *Config) { c.Examine = examineCapitals })
			awaitProviders(t, customer, 1)
			for _, h := range []control.Hire{
				{Task: f.task},
				{Task: "something else", Providers: []string{said.PubKey}},
			} {
				h.Timeout = time.Minute.Milliseconds()
				a := only(t, finish(t, customer, open(t, customer, promptOf(t, "hello, "+name), h)))
				if a.State != string(guild.Accepted) {
					t.Errorf("for %s it is %s: %s", h.Task, a.State, a.Reason)
				}
			}
		})
	}
}

// promptOf packs a task whose requirements are the text to work on.
func promptOf(t *testing.T, text string) []byte {
	t.Helper()
	return pack(t, fstest.MapFS{
		"nutshell.json": {Data: fmt.Appendf(nil, `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-test",
			"task":{"title":"In capitals"},"context":{"requirements":"context/requirements.md"}}`)},
		"context/requirements.md": {Data: []byte(text)},
		"files/in.txt":            {Data: []byte(text)},
	})
}
