package typed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild/canon"
	"guild/oa"
)

// Do does a typed job and returns the result's payload; what it knows of the provenance may be in it. The error is for
// the customer to read.
type Do func(ctx context.Context, e oa.Envelope) ([]byte, error)

// Author is who stands for results.
type Author struct {
	PubKey string           // hex
	Now    func() time.Time // stamps results
	Types  oa.Registry      // the job types that are known
}

// Answer does a job, completes the provenance of the result, and checks both documents: what would be wrong at the
// customer's is an error here, and not sent. It returns the result in its canonical form.
func (a Author) Answer(ctx context.Context, e oa.Envelope, do Do) ([]byte, error) {
	if err := a.Types.CheckRequest(e.JobType, e.Payload); err != nil {
		return nil, err
	}
	begun := a.Now()
	raw, err := do(ctx, e)
	if err != nil {
		return nil, err
	}
	result, err := a.sign(e, raw, begun)
	if err == nil {
		err = a.Types.CheckResult(e.JobType, e.Payload, result)
	}
	if err != nil {
		return nil, fmt.Errorf("the result is not one of %s: %w", e.JobType, err)
	}
	return result, nil
}

// sign says in a result's provenance who made it, of what, when and how long it took. What the worker said of its model,
// its sampling and its tokens stays.
func (a Author) sign(e oa.Envelope, raw []byte, begun time.Time) ([]byte, error) {
	if len(raw) > oa.MaxSize {
		return nil, fmt.Errorf("%d bytes: %w", len(raw), oa.ErrTooBig)
	}
	canonical, err := canon.Canonical(raw)
	if err != nil {
		return nil, err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(canonical, &members); err != nil || members == nil {
		return nil, errors.New("outputs is no object")
	}
	var p oa.Provenance
	if said, ok := members["provenance"]; ok && said.Kind() == '{' {
		if err := json.Unmarshal(said, &p); err != nil {
			return nil, fmt.Errorf("outputs.provenance: %w", err)
		}
	}
	if said, ok := members["model_id"]; ok && p.ModelID == "" { // of an embedding
		if err := json.Unmarshal(said, &p.ModelID); err != nil {
			return nil, fmt.Errorf("outputs.model_id: %w", err)
		}
	}
	took := a.Now().Sub(begun).Milliseconds()
	p.InputSHA256, p.ProviderPubKey, p.ExecutedAt, p.DurationMs = e.JobHash, a.PubKey, begun.Unix(), &took
	if p.OutputSHA256, err = oa.OutputHash(canonical); err != nil {
		return nil, err
	}
	if members["provenance"], err = json.Marshal(p, json.Deterministic(true)); err != nil {
		return nil, err
	}
	text, err := json.Marshal(members, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return canon.Canonical(text)
}
