package strength

import "fmt"

// notice is a message from an examiner to the judge about a test. The delivery never gets it.
type notice struct {
	op, id          string
	passed, unclean bool // how a run of the test has ended, and whether that does not count
}

// converse answers an examiner until it closes the connection, or nothing is left to do for it: notices by noticed, which also
// says when it is over, and all else by take.
func (r *replay) converse(noticed func(notice) (value, over bool), take func(frame) error) error {
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
		value, over := noticed(n)
		if over || r.reply(f, frame{kind: answer, value: value}) != nil {
			return nil
		}
	}
}
