package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"guild/internal/hand/workdir"
	"guild/internal/judging/typed"
	"guild/nip90"
	"guild/nutshell"
	"guild/oa"
)

// The documents of a command that does a typed job.
const (
	requestFile  = "request.json"  // in GUILD_BUNDLE: the payload of the request
	responseFile = "response.json" // in GUILD_DELIVERY: the payload of the result, with what the command knows of its provenance
)

// Typed is a worker for a job type of package oa. It checks a request before it is taken, and a result before it is sent.
type Typed struct {
	Type   oa.ID
	Author typed.Author
	Behave bool // Do enforces the assignment's behaviour; a request with a behaviour fails otherwise

	// Accept returns why this worker does not take a valid request. All are taken if it is nil.
	Accept func(e oa.Envelope) error
	// Do does the work and returns the payload of the result. Other files that it leaves in the delivery reach only customers
	// that know bundles.
	Do func(ctx context.Context, a Assignment, e oa.Envelope) ([]byte, error)
}

// Check implements Service.Check. A request whose bundle must be fetched first is checked when the work begins.
func (t Typed) Check(r nip90.Request) error {
	p, err := r.Bundle()
	if errors.Is(err, nip90.ErrNoBundle) {
		e, err := oa.ParseRequest(r)
		if err != nil {
			return err
		}
		return t.accept(e)
	}
	if err != nil || p.Inline == nil {
		return err
	}
	e, ok, err := typed.Requested(p.Inline)
	if err == nil && !ok {
		err = fmt.Errorf("the bundle has no request of the type %s", t.Type)
	}
	if err != nil {
		return err
	}
	return t.accept(e)
}

func (t Typed) accept(e oa.Envelope) error {
	if e.JobType != t.Type {
		return fmt.Errorf("job_type is %s, and this service is for %s", e.JobType, t.Type)
	}
	if err := t.Author.Types.CheckRequest(e.JobType, e.Payload); err != nil || t.Accept == nil {
		return err
	}
	return t.Accept(e)
}

// Work implements Service.Do.
func (t Typed) Work(ctx context.Context, a Assignment) error {
	e, err := typedRequest(a)
	if err == nil {
		err = t.accept(e)
	}
	if err == nil && a.Behaviour != nil && !t.Behave {
		err = &FailedError{Text: cannotAct, Stderr: "this worker for " + t.Type.String() + " takes no behaviour: only a command does"}
	}
	if err != nil {
		return err
	}
	result, err := t.Author.Answer(ctx, e, func(ctx context.Context, e oa.Envelope) ([]byte, error) { return t.recorded(ctx, a, e) })
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.Delivery, typed.ResultFile), result, 0o644)
}

// isBundled reports whether the customer sent a bundle, and so gets one.
func (a Assignment) isBundled() bool {
	_, ok, err := typed.RequestedIn(a.Bundle)
	return ok && err == nil
}

// typedRequest reads the typed job from an assignment: from the customer's bundle, or from the one that was made of a
// request without a bundle.
func typedRequest(a Assignment) (oa.Envelope, error) {
	if e, ok, err := typed.RequestedIn(a.Bundle); ok || err != nil {
		return e, err
	}
	var all []given
	var params map[string]any
	if err := readJSON(filepath.Join(a.Inputs, indexFile), &all); err != nil {
		return oa.Envelope{}, err
	}
	if err := readJSON(filepath.Join(a.Bundle, plainParams), &params); err != nil {
		return oa.Envelope{}, err
	}
	var r nip90.Request
	for _, in := range all {
		if in.Type != "text" || in.Marker != "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(a.Inputs, in.File))
		if err != nil {
			return oa.Envelope{}, err
		}
		r.Inputs = append(r.Inputs, nip90.Input{Type: in.Type, Data: string(text)})
	}
	for _, key := range []string{nip90.ParamJobType, nip90.ParamJobHash} {
		if text, ok := params[key].(string); ok {
			r.Set(key, text)
		}
	}
	return oa.ParseRequest(r)
}

// readJSON reads a document that we wrote ourselves.
func readJSON(name string, v any) error {
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		return fmt.Errorf("the request: %w", err)
	}
	return nil
}

// DoTyped implements Typed.Do with the command, which reads request.json and writes response.json.
func (x Exec) DoTyped(ctx context.Context, a Assignment, e oa.Envelope) ([]byte, error) {
	if err := os.WriteFile(filepath.Join(a.Bundle, requestFile), e.Payload, 0o644); err != nil {
		return nil, err
	}
	a.Delivery = filepath.Join(filepath.Dir(a.Delivery), "response") // other files there are dropped
	if err := os.Mkdir(a.Delivery, 0o755); err != nil {
		return nil, err
	}
	if err := x.Do(ctx, a); err != nil {
		return nil, err
	}
	left, err := workdir.FS(a.Delivery, nutshell.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("what the worker left: %w", err)
	}
	defer left.Close()
	f, err := left.Open(responseFile)
	if err != nil {
		return nil, fmt.Errorf("the worker left no %s in GUILD_DELIVERY", responseFile)
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, oa.MaxSize+1))
}

// DoRun returns a Typed.Do for sandbox runs. Artifacts are delivered if the request came in a bundle.
func DoRun(s typed.Sandbox) func(ctx context.Context, a Assignment, e oa.Envelope) ([]byte, error) {
	return func(ctx context.Context, a Assignment, e oa.Envelope) ([]byte, error) {
		leave := ""
		if a.isBundled() {
			leave = filepath.Join(a.Delivery, typed.ArtifactsDir)
		}
		return s.DoInto(ctx, e, leave)
	}
}
