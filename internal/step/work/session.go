package work

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"guild"
	"guild/canon"
	"guild/internal/journal/fact"
	"guild/internal/judging/sandbox"
	"guild/replay"
	"guild/replay/session"
)

// recording is the record of one run of a worker. If a run is cut short, the next one has its own.
type recording struct {
	*session.Recorder
	now func() time.Time

	began    bool // a command began, so there is something to record
	overtime bool // the command was ended by a time limit
}

// newRecording begins the record of a run on a request. The session has the request's id.
func (w *Work) newRecording(s Service, r fact.RequestReceived, b *Behaviour, hide func(string) string) (*recording, error) {
	policy, err := s.policyID()
	if err != nil {
		return nil, err
	}
	return &recording{now: w.c.Now, Recorder: session.New(session.Config{
		Producer: cmp.Or(w.c.Producer, "guild"), SessionID: r.Request.Hex(), PolicyBundleID: policy, BehaviourID: b.id(),
		Created: w.c.Now(), Hide: hide,
	})}, nil
}

// policyID returns the id of the policy that a worker runs under: the canonical hash of a policy manifest (the OpenAgents
// surface) without files.
func (s Service) policyID() (string, error) {
	h, err := canon.HashValue(map[string]any{
		"version": "1", "files": []string{}, "parent": nil,
		"parameters": map[string]any{
			"service": s.D, "tasks": s.Tasks, "network": s.Network, "walls": s.Walls, "time_limit_ms": s.Limit.Milliseconds(),
		},
	})
	if err != nil {
		return "", fmt.Errorf("the policy of the service %.80q: %w", s.D, err)
	}
	return h.String(), nil
}

// listener records a command while it runs, and passes its lines to the customer.
type listener struct {
	*recording
	id string // of the command's own call

	all    digest         // of the standard output
	said   io.Writer      // gets the standard output, for the customer
	trace  *session.Lines // gets the trace, GUILD_TRACE
	finish func()         // to be called when all output was written
}

// listen begins to record the command.
func (x Exec) listen(a Assignment) *listener {
	h := &listener{recording: a.recording, all: digest{hash: sha256.New(), Head: sandbox.Head{Most: 4 * replay.MaxPreview}}}
	if h.recording == nil { // it is not kept
		h.recording = &recording{now: func() time.Time { return time.Time{} }, Recorder: session.New(session.Config{})}
	}
	h.began = true
	h.id, _ = h.Call(h.now(), "exec", map[string]string{"command": a.hide(x.Command)}) // the first call has room
	h.trace = &session.Lines{To: h.Recorder, Format: session.Guild, Now: h.now}
	if x.Trace == "" {
		out, done := lines(func(line string) { a.Say(guild.Cut(a.hide(line), 2000)) }) // hidden first: the cut could split a secret
		h.said, h.finish = out, func() { out.Close(); <-done }
		return h
	}
	events := &session.Lines{To: h.Recorder, Format: x.Trace, Now: h.now, Say: func(note string) { a.Say(guild.Cut(note, 2000)) }}
	h.said, h.finish = events, events.Flush
	return h
}

// streams returns the streams of the command. The trace has bounds of its own and no effect on the run.
func (h *listener) streams(stdin io.Reader, stderr io.Writer) sandbox.IO {
	return sandbox.IO{
		Stdin: stdin, Stderr: stderr,
		Stdout:  sandbox.Whole{Writer: io.MultiWriter(&h.all, h.said)},
		Results: sandbox.Whole{Writer: h.trace, Free: true},
	}
}

// end ends the command's own call.
func (h *listener) end(ctx context.Context, result sandbox.Result, err error) {
	h.finish()
	h.trace.Flush()
	h.overtime = result.Killed == sandbox.KilledWall || errors.Is(ctx.Err(), context.DeadlineExceeded)
	exit := &result.Exit
	if err != nil {
		exit = nil
	}
	h.Result(h.now(), h.id, h.all.output(), exit) // cannot fail: the call is open, and a result always has room
}

// digest is a writer that hashes its input and keeps the beginning.
type digest struct {
	sandbox.Head
	hash hash.Hash
}

// Write implements io.Writer.
func (d *digest) Write(p []byte) (int, error) {
	d.hash.Write(p)
	return d.Head.Write(p)
}

func (d *digest) output() session.Output {
	return session.Output{Hash: guild.Hash(d.hash.Sum(nil)), Head: d.String()}
}

// documents has the trajectory of a session and its receipt. Both are nil if there is nothing to record.
type documents struct {
	replay, receipt []byte     // REPLAY.jsonl and RECEIPT.json
	trajectory      guild.Hash // canonical hash of replay, as the receipt names it
	tokens          int64      // of the model
	report          session.Report
}

// status returns how a session ended, given the error of its run.
func (r *recording) status(ctx context.Context, err error) replay.Status {
	switch {
	case err == nil:
		return replay.Success
	case r.overtime:
		return replay.Timeout
	case ctx.Err() != nil:
		return replay.Cancelled
	}
	return replay.Failed
}

// endSession makes the documents of a run that ended with an error, or nil for a delivery. It touches no disk, so that the
// result of the run can name them by their hashes without waiting. Without them the customer gets its answer all the same.
func (w *Work) endSession(ctx context.Context, r *recording, job string, failure error) documents {
	if r == nil || !r.began {
		return documents{}
	}
	s := r.End(w.c.Now(), r.status(ctx, failure))
	d, err := encodeSession(s)
	if err != nil {
		w.c.Log.Warn("the record of a worker's session is lost", "job", job, "err", err)
		d = documents{}
	}
	if used := s.Provenance.Tokens; used != nil {
		d.tokens = used.Input + used.Output
	}
	d.report = s.Report
	return d
}

// keepSession stores the documents of a run and returns their hashes as blobs. If that fails it logs why, and the hashes are
// zero; the customer gets its answer all the same, which then names documents that are not kept.
func (w *Work) keepSession(ctx context.Context, d documents, job string) (replay, receipt guild.Hash) {
	if d.report.Faults() > 0 {
		w.c.Log.Warn("a worker's trace has faults", "job", job, "malformed", d.report.Malformed, "too_long", d.report.TooLong,
			"dropped", d.report.Dropped, "first", d.report.First)
	}
	if d.replay == nil {
		return guild.Hash{}, guild.Hash{}
	}
	var putting errgroup.Group
	putting.Go(func() (err error) { replay, err = w.c.Blobs.PutBytes(ctx, d.replay); return err })
	putting.Go(func() (err error) { receipt, err = w.c.Blobs.PutBytes(ctx, d.receipt); return err })
	if err := putting.Wait(); err != nil {
		w.c.Log.Warn("the record of a worker's session is lost", "job", job, "err", err)
		return guild.Hash{}, guild.Hash{}
	}
	return replay, receipt
}

// encodeSession makes the trajectory and the receipt of a session.
func encodeSession(s session.Session) (d documents, err error) {
	if d.replay, d.trajectory, err = session.Encode(s.Events); err != nil {
		return documents{}, err
	}
	r, err := session.NewReceipt(s.Events, d.trajectory, s.Effects)
	if err != nil {
		return documents{}, err
	}
	if s.Report.Lines > 0 {
		r.Trace = &s.Report
	}
	if s.Provenance != (session.Provenance{}) {
		r.Provenance = &s.Provenance
	}
	d.receipt, err = r.Encode()
	return d, err
}
