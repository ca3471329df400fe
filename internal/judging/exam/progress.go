package exam

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"guild/internal/judging/sandbox"
)

// Progress is called when a criterion begins, with no test, when it has come to a test or finished one, and when it is
// over; possibly concurrently. The name of the test may be forged.
type Progress func(criterion, test string, over bool)

type progressKey struct{}

// WithProgress returns a context in which examinations and vettings call p.
func WithProgress(ctx context.Context, p Progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// toTell returns the Progress of a context, nil without one.
func toTell(ctx context.Context) Progress {
	p, _ := ctx.Value(progressKey{}).(Progress)
	return p
}

// begins tells that the current criterion has come to a test.
func (j *examination) begins(test string) {
	if j.progress != nil {
		j.progress(j.current, test, false)
	}
}

// seen returns a writer that also tells of the tests that a run reports on w. What it tells may be
// forged, and serves only to show.
func (j *examination) seen(w io.Writer) io.Writer {
	if j.progress == nil {
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
