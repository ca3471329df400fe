package gowire

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// shared counts the decisions that were made before the first test, which all tests may use.
var shared = sync.OnceValue(func() int { return program().Decided() })

// Run runs a test function and reports its result. id is its name in the verdict, and decided is how often its source
// lets the delivery decide. Where the judge wants to know, it is told when the test begins and ends.
func Run(t *testing.T, id string, decided int, test func(*testing.T)) {
	p := program()
	decided += shared()
	before := p.Decided()
	marks := os.Getenv("GUILD_MARKS") == "1"
	if marks {
		p.mu.Lock()
		p.stopped, p.vain = false, 0
		p.mu.Unlock()
		p.mark("test", id, "")
	}
	finished := false
	// The first to be registered runs last: after the test's own, and after its parallel subtests.
	t.Cleanup(func() {
		state := "fail"
		switch {
		case t.Failed():
		case t.Skipped():
			state = "skip"
		case finished:
			state = "pass"
		}
		report(map[string]any{"kind": "test", "id": id, "state": state, "decided": decided + p.Decided() - before})
		if marks {
			p.mark("done", id, fmt.Sprint(",", state == "pass"))
		}
	})
	// A panic ends one test, not all that come after it: what fails here runs once more in one process.
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("panic: %v", v)
		}
	}()
	test(t)
	finished = true
}

// mark tells the judge that a test begins or has ended.
func (p *Peer) mark(op, id, more string) {
	p.ask(op, nil, func(e *encoder) []byte {
		return fmt.Appendf(nil, "[%s%s]", e.part(func() { e.text(id) }), more)
	}, func(frame) {})
}

// Sub runs a subtest in place of t.Run. A panic in it ends the subtest, not all tests.
func Sub(t *testing.T, name string, test func(*testing.T)) bool {
	return t.Run(name, func(t *testing.T) {
		defer func() {
			if v := recover(); v != nil {
				t.Errorf("panic: %v", v)
			}
		}()
		test(t)
	})
}

// Parallel stands in place of t.Parallel. The tests of a package run one after the other, so that the judge knows which of
// them asks.
func Parallel(*testing.T) {}
