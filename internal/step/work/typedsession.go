package work

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"guild"
	"guild/oa"
	"guild/replay/session"
)

// recorded calls Do and records it as one call, with the commands of a sandbox run in it. An Exec records its command
// itself.
func (t Typed) recorded(ctx context.Context, a Assignment, e oa.Envelope) ([]byte, error) {
	r := a.recording
	if r == nil {
		return t.Do(ctx, a, e)
	}
	r.began = true
	began := r.now()
	id, unrecorded := r.Call(began, e.JobType.String(), e.Payload)
	result, err := t.Do(ctx, a, e)
	if unrecorded != nil { // the recording is full, which the session's report says
		return result, err
	}
	said, exit := string(result), 0
	if err != nil {
		said, exit = err.Error(), 1
		r.overtime = r.overtime || errors.Is(ctx.Err(), context.DeadlineExceeded)
	} else if e.JobType.String() == oa.SandboxRun {
		r.commands(began, result)
	}
	_ = r.Result(r.now(), id, session.Output{Hash: guild.Sum([]byte(said)), Head: said}, &exit) // its call is open
	a.recordTokens(result)
	return result, err
}

// recordTokens records the model and the tokens that a result names in its provenance, if it names tokens.
func (a Assignment) recordTokens(result []byte) {
	var named struct {
		Provenance struct {
			ModelID string          `json:"model_id"`
			Tokens  *session.Tokens `json:"tokens"`
		} `json:"provenance"`
	}
	if json.Unmarshal(result, &named) == nil && named.Provenance.Tokens != nil {
		a.RecordModel(named.Provenance.ModelID, *named.Provenance.Tokens)
	}
}

// commands records the commands of a sandbox run, one after another from its beginning on.
func (r *recording) commands(at time.Time, result []byte) {
	done, err := oa.Decode[oa.SandboxResult](result)
	if err != nil {
		return // the author of the result checks it, and reports the error
	}
	for _, run := range done.Runs {
		id, err := r.Call(at, "exec", map[string]string{"command": run.Cmd})
		if err != nil {
			return
		}
		at = at.Add(time.Duration(run.DurationMs) * time.Millisecond)
		_ = r.Result(at, id, session.Output{Hash: run.StdoutSHA256, Head: run.StdoutPreview}, &run.ExitCode)
	}
}
