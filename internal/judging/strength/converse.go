package strength

import (
	"fmt"
	"io"
	"time"
)

// notice is a message from an examiner to the judge about a test. The delivery never gets it.
type notice struct {
	op, id          string
	passed, unclean bool // how a run of the test has ended, and whether that does not count
	late            bool // the process has ended because a run took too long
}

// Examiner is a process that runs tests, while somebody answers it.
type Examiner struct {
	Conn     io.ReadWriter
	Patience time.Duration       // how long a run of a test may take at least
	Gives    func(time.Duration) // takes how long the process may be silent about its tests from now on
	Short    func() bool         // waits for the end of the process, and reports whether its time was not enough
}

// converse answers an examiner until it closes the connection, or nothing is left to do for it: notices by noticed, which also
// says when it is over, and all else by take.
func (r *replay) converse(noticed func(notice) (value any, over bool), take func(frame) error) error {
	for {
		raw, err := readFrame(r.conn)
		if err != nil {
			return nil // the examiner has ended, however that came; its own report says so
		}
		f, err := parse(raw)
		if err != nil {
			return fmt.Errorf("the examiner: %w", err)
		}
		if f.kind != request || !marks[f.op] {
			if take(f) != nil {
				return nil
			}
			continue
		}
		n := notice{op: f.op}
		n.id, _ = at(f.args, 0).(string)
		n.passed, _ = at(f.args, 1).(bool)
		clean, said := at(f.args, 2).(bool)
		n.unclean = said && !clean
		n.late = n.op == opDied && n.passed
		value, over := noticed(n)
		if over || r.reply(f, frame{kind: answer, value: value}) != nil {
			return nil
		}
	}
}

// lasts notes that the running test has lasted until a time.
func (in *reader) lasts(since time.Duration) {
	in.since = since
	in.took[in.current] = since - in.begun[in.current]
}

// Limits of one run of a test.
const (
	timesLonger  = 4 // than the recorded one
	mostPatience = time.Minute
)

// patience returns how long a run of a test may take, at least as long as given. It is a multiple of what the recorded one took
// under the same load, and more once that was not enough.
func (s *script) patience(test int, least time.Duration, late bool) time.Duration {
	took, there := s.took[test]
	if !there { // between tests
		took = s.whole
	}
	p := max(least, timesLonger*took)
	if late {
		p *= timesLonger
	}
	return min(p, max(least, mostPatience))
}
