package replay

import (
	"fmt"
	"time"
)

// Sequence checks what the events of a trajectory say of each other. The zero value is ready.
type Sequence struct {
	open   map[string]int // calls without a result yet, by id
	calls  int
	latest int64 // Unix s
}

// MaxBack limits how far a clock may be set back between two events.
const MaxBack = time.Hour

// Add returns why an event cannot follow those before it: a result without its call, a time before that of an earlier
// event, or a wrong number of calls at the end.
func (s *Sequence) Add(e Event) error {
	var at string
	switch e := e.(type) {
	case SessionStart:
		at = e.T
	case PlanStart:
		at = e.T
	case ToolCall:
		if s.open == nil {
			s.open = map[string]int{}
		}
		s.open[e.ID]++
		s.calls++
		at = e.T
	case ToolResult:
		if s.open[e.ID] == 0 {
			return fmt.Errorf("result of %.40q, and there is no such call before it", e.ID)
		}
		s.open[e.ID]--
		at = e.T
	case StepComplete:
		at = e.T
	case Verification:
		at = e.T
	case SessionEnd:
		if e.TotalToolCalls != s.calls {
			return fmt.Errorf("total_tool_calls %d, after %d calls: %w", e.TotalToolCalls, s.calls, ErrValue)
		}
		at = e.T
	}
	t, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		return nil // Check reports it
	}
	if t.Unix()+int64(MaxBack.Seconds()) < s.latest {
		return fmt.Errorf("time %s, after %s: %w", at, Time(time.Unix(s.latest, 0)), ErrValue)
	}
	s.latest = max(s.latest, t.Unix())
	return nil
}
