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

// Do does a typed job and returns the result's payload, with the parts of the provenance that it knows. The customer
// sees the error.
type Do func(ctx context.Context, e oa.Envelope) ([]byte, error)

// Author signs results.
type Author struct {
	PubKey string           // hex
	Now    func() time.Time // stamps results
	Types  oa.Registry      // known job types
}

// Answer does a job, completes the provenance of the result, and checks request and result in the same way as the
// customer will. An invalid result is an error and is not sent. It returns the result in canonical form.
//
// The request is checked first, so that an invalid one costs no work, and the result last, so that an invalid one costs
// no trust.
func (a Author) Answer(ctx context.Context, e oa.Envelope, do Do) ([]byte, error) {
	if err := a.Types.CheckRequest(e.JobType, e.Payload); err != nil {
		return nil, err
	}
	start := a.Now()
	raw, err := do(ctx, e)
	if err != nil {
		return nil, err
	}
	result, err := a.sign(e, raw, start)
	if err == nil {
		err = a.Types.CheckResult(e.JobType, e.Payload, result)
	}
	if err != nil {
		return nil, fmt.Errorf("the result is not one of %s: %w", e.JobType, err)
	}
	return result, nil
}

// sign completes a result's provenance with the provider, the request, the time and the duration. The worker's model,
// sampling and tokens remain.
func (a Author) sign(e oa.Envelope, raw []byte, start time.Time) ([]byte, error) {
	if len(raw) > oa.MaxSize {
		return nil, fmt.Errorf("%d bytes: %w", len(raw), oa.ErrTooBig)
	}
	canonical, err := canon.Canonical(raw)
	if err != nil {
		return nil, err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(canonical, &members); err != nil || members == nil {
		return nil, errors.New("outputs is not an object")
	}
	var p oa.Provenance
	if own, ok := members["provenance"]; ok && own.Kind() == '{' {
		if err := json.Unmarshal(own, &p); err != nil {
			return nil, fmt.Errorf("outputs.provenance: %w", err)
		}
	}
	if id, ok := members["model_id"]; ok && p.ModelID == "" { // of an embedding
		if err := json.Unmarshal(id, &p.ModelID); err != nil {
			return nil, fmt.Errorf("outputs.model_id: %w", err)
		}
	}
	took := a.Now().Sub(start).Milliseconds()
	p.InputSHA256, p.ProviderPubKey = e.JobHash, a.PubKey
	p.ExecutedAt, p.DurationMs = start.Unix(), &took
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
