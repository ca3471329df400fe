package work

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/judging/typed"
	"guild/oa"
	"guild/replay/session"
)

// runner runs no commands and returns results for them.
func runner(result oa.SandboxResult) Service {
	id, err := oa.ParseID(oa.SandboxRun)
	if err != nil {
		panic(err)
	}
	one := Typed{Type: id, Author: typed.Author{PubKey: us.key.Hex(), Now: time.Now, Types: oa.Known()},
		Do: func(context.Context, Assignment, oa.Envelope) ([]byte, error) { return oa.Encode(result) }}
	return Service{Task: oa.SandboxRun, Check: one.Check, Do: one.Work}
}

func TestSandboxRunSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := guild.Sum([]byte("hello\n"))
		w := newWorld(t, runner(oa.SandboxResult{Status: oa.StatusFailed, Artifacts: []oa.Artifact{}, Runs: []oa.Run{
			{Cmd: "echo hello", DurationMs: 20, StdoutSHA256: out, StderrSHA256: guild.Sum(nil), StdoutPreview: "hello\n"},
			{Cmd: "false", ExitCode: 1, DurationMs: 5, StdoutSHA256: guild.Sum(nil), StderrSHA256: guild.Sum(nil)},
		}}))
		e, err := oa.NewEnvelope(oa.SandboxRequest{Sandbox: oa.Sandbox{ImageDigest: "host"}, Commands: []oa.Command{{Cmd: "echo hello"}, {Cmd: "false"}}})
		if err != nil {
			t.Fatal(err)
		}
		id := w.asks(customer, asTyped(e))
		w.pass(time.Minute)
		f := w.finishedBy(id)
		raw, err := w.blobs.ReadAll(f.Session, 1<<20)
		if err != nil {
			t.Fatalf("%+v, %v: %v", f, w.told(customer, id), err)
		}
		r, err := session.DecodeReceipt(raw)
		if err != nil || r.Validate() != nil {
			t.Fatal(err, r.Validate())
		}
		var tools []string
		for _, call := range r.ToolCalls {
			tools = append(tools, call.Tool)
		}
		if len(tools) != 3 || tools[0] != oa.SandboxRun || tools[1] != "exec" || tools[2] != "exec" || r.ToolCalls[1].OutputHash != out {
			t.Errorf("%+v", r.ToolCalls)
		}
	})
}

func TestTokensOfTypedModelAreRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		id, err := oa.ParseID(oa.Embedding)
		if err != nil {
			t.Fatal(err)
		}
		one := Typed{Type: id, Author: typed.Author{PubKey: us.key.Hex(), Now: time.Now, Types: oa.Known()},
			Do: func(context.Context, Assignment, oa.Envelope) ([]byte, error) {
				return oa.Encode(oa.EmbeddingResult{Embeddings: [][]float32{{1, 0}}, ModelID: "m", Dimensions: 2,
					Provenance: &oa.Provenance{ModelID: "m", Tokens: &oa.Tokens{Input: 3, Output: 4}}})
			}}
		w := newWorld(t, Service{Task: oa.Embedding, Check: one.Check, Do: one.Work})
		e, err := oa.NewEnvelope(oa.EmbeddingRequest{Texts: []string{"one"}, ModelHint: "m", Dimensions: 2})
		if err != nil {
			t.Fatal(err)
		}
		request := w.asks(customer, asTyped(e))
		w.pass(time.Minute)
		f := w.finishedBy(request)
		raw, err := w.blobs.ReadAll(f.Session, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		r, err := session.DecodeReceipt(raw)
		if err != nil || f.Tokens != 7 || r.Provenance == nil || r.Provenance.Model != "m" {
			t.Errorf("%d tokens; %+v, %v", f.Tokens, r.Provenance, err)
		}
	})
}

func TestTypedModelRefusesBehaviour(t *testing.T) {
	id, err := oa.ParseID(oa.Embedding)
	if err != nil {
		t.Fatal(err)
	}
	e, err := oa.NewEnvelope(oa.EmbeddingRequest{Texts: []string{"one"}, ModelHint: "m", Dimensions: 2})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := typed.Bundle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	one := Typed{Type: id, Author: typed.Author{PubKey: us.key.Hex(), Now: time.Now, Types: oa.Known()},
		Do: func(context.Context, Assignment, oa.Envelope) ([]byte, error) {
			panic("it works without its behaviour")
		}}
	_, _, err = tries(t, Behaviour{Tools: []string{"read"}}.acts(Service{Task: oa.Embedding, Check: one.Check, Do: one.Work}), packed)
	if failed, ok := errors.AsType[*FailedError](err); !ok || failed.Text != cannotAct {
		t.Errorf("%v", err)
	}
}
