package exam

import (
	"bytes"
	"encoding/json"
	"io"

	"guild/internal/judging/sandbox"
)

// begins tells Engine.Progress that the current criterion has come to a test.
func (j *examination) begins(test string) {
	if j.engine.Progress != nil {
		j.engine.Progress(j.current, test, false)
	}
}

// seen returns a writer that also tells Engine.Progress of the tests that a run reports on w. What it tells may be
// forged, and serves only to show.
func (j *examination) seen(w io.Writer) io.Writer {
	if j.engine.Progress == nil {
		return w
	}
	return io.MultiWriter(w, &reports{j: j})
}

// reports reads the records of an examiner while they arrive. It implements io.Writer and never fails.
type reports struct {
	j    *examination
	line []byte // the beginning of a record
}

func (r *reports) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		if len(r.line)+len(part) <= sandbox.DefaultOutput {
			r.line = append(r.line, part...)
		}
		if !whole {
			break
		}
		var one record
		if json.Unmarshal(r.line, &one) == nil && one.Kind == "test" {
			r.j.begins(one.ID)
		}
		r.line = r.line[:0]
	}
	return len(p), nil
}
