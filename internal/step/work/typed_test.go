package work

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"guild"
	"guild/internal/judging/typed"
	"guild/internal/step/steptest"
	"guild/nip90"
	"guild/oa"
)

// reranker returns a service for oa.retrieval_rerank.v1 with a function as its worker.
func reranker(do func(context.Context, Assignment, oa.Envelope) ([]byte, error)) Service {
	id, err := oa.ParseID(oa.RetrievalRerank)
	if err != nil {
		panic(err)
	}
	one := Typed{Type: id, Author: typed.Author{PubKey: us.key.Hex(), Now: time.Now, Types: oa.Known()}, Do: do}
	return Service{Task: oa.RetrievalRerank, Check: one.Check, Do: one.Work}
}

// first ranks the first candidate first.
func first(context.Context, Assignment, oa.Envelope) ([]byte, error) {
	return []byte(`{"topk": [{"rank": 1, "id": "a", "score": 0.5}], "provenance": {"model_id": "coin"}}`), nil
}

// rerank returns a request for one of two candidates.
func rerank(t *testing.T) oa.Envelope {
	t.Helper()
	e, err := oa.NewEnvelope(oa.RerankRequest{UserTask: "find it", K: 1, Candidates: []oa.Candidate{{ID: "a", Content: "here"}, {ID: "b", Content: "there"}}})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// asTyped returns a typed job as programs other than guild send it.
func asTyped(e oa.Envelope) nip90.Request {
	r := nip90.Request{Provider: &us.key, Job: "mine"}
	e.AddTo(&r)
	return r
}

func TestTypedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reranker(first))
		e := rerank(t)
		id := w.asks(customer, asTyped(e))
		w.pass(time.Minute)
		r, _ := w.result(customer, 6050, id)
		if err := oa.Known().CheckResult(e.JobType, e.Payload, []byte(r.Content)); err != nil {
			t.Errorf("%s: %v", r.Content, err)
		}
		result, err := oa.Decode[oa.RerankResult]([]byte(r.Content))
		if err != nil {
			t.Fatal(err)
		}
		if p := result.Provenance; p.ModelID != "coin" || p.ProviderPubKey != us.key.Hex() || p.InputSHA256 != e.JobHash || p.OutputSHA256 != typed.Essence([]byte(r.Content)) {
			t.Errorf("%+v", p)
		}
	})
}

func TestTypedRequestInBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reranker(first))
		packed, err := typed.Bundle(t.Context(), rerank(t))
		if err != nil {
			t.Fatal(err)
		}
		r := task(t, packed)
		r.Kind = 5050
		r.Set(nip90.ParamJobType, oa.RetrievalRerank)
		id := w.asks(customer, r)
		w.pass(time.Minute)
		answer, _ := w.result(customer, 6050, id)
		p, err := answer.Delivery()
		if err != nil || len(p.Inline) == 0 {
			t.Errorf("%q %v", answer.Content, err)
		}
	})
}

func TestOtherNamesOfJobType(t *testing.T) {
	s := Service{Task: oa.Embedding}.withDefaults()
	if !s.does("oa.embeddings.v1", 5050) || s.does("oa.embedding.v2", 5050) || s.does("oa.embeddings.v1", 5000) {
		t.Error("oa.embeddings.v1 is oa.embedding.v1, and nothing else is")
	}
}

func TestInvalidTypedRequest(t *testing.T) {
	e := rerank(t)
	for want, change := range map[string]func(*nip90.Request){
		"inputs.candidates[0].id is missing":     func(r *nip90.Request) { r.Inputs[0].Data = `{"user_task": "x", "candidates": [{"content": "y"}]}` },
		"inputs.candidates is empty":             func(r *nip90.Request) { r.Inputs[0].Data = `{"user_task": "x", "candidates": []}` },
		"not JSON":                               func(r *nip90.Request) { r.Inputs[0].Data = `{` },
		"another job hash":                       func(r *nip90.Request) { r.Set(nip90.ParamJobHash, strings.Repeat("0a", 32)) },
		"no input of type text has the payload":  func(r *nip90.Request) { r.Inputs[0].Marker = "other" },
		"the bundle has no request of the type ": func(r *nip90.Request) { r.SetBundle(nip90.NewParcel(bundle(t, []byte("x")))) },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, reranker(func(context.Context, Assignment, oa.Envelope) ([]byte, error) {
				t.Error("somebody works on it")
				return nil, nil
			}))
			r := asTyped(e)
			if change(&r); !strings.HasPrefix(want, "another job hash") && r.Inputs[0].Marker == "" {
				r.Unset(nip90.ParamJobHash)
			}
			id, err := w.sends(customer, r)
			steptest.WantDrop(t, err, guild.Malformed)
			w.pass(time.Second)
			if told := w.told(customer, id); len(told) != 1 || told[0].Status != nip90.Error || !strings.Contains(told[0].Text, want) {
				t.Errorf("told %+v, want %q", told, want)
			}
		})
	}
}

func TestInvalidTypedResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reranker(func(context.Context, Assignment, oa.Envelope) ([]byte, error) {
			return []byte(`{"topk": [{"rank": 1, "id": "c", "score": 1}]}`), nil
		}))
		id := w.asks(customer, asTyped(rerank(t)))
		w.pass(time.Minute)
		if all := w.sent(6050, id); len(all) > 0 {
			t.Errorf("%v is sent", all)
		}
		w.wantError(id, `the result is not one of oa.retrieval_rerank.v1: outputs.topk[0].id is "c", which is not a candidate`)
		if r, _ := w.Work.fold.request(id); r.Ending != failed {
			t.Errorf("%+v", r.Ending)
		}
	})
}

func TestTypedCommand(t *testing.T) {
	x := Exec{Runner: Bare{}, Command: `grep -q '"user_task":"find it"' request.json && echo x >"$GUILD_DELIVERY/junk" &&
		echo '{"topk": [{"rank": 1, "id": "b", "score": 1}]}' >"$GUILD_DELIVERY/response.json"`}
	dir, e := t.TempDir(), rerank(t)
	a := Assignment{Bundle: filepath.Join(dir, "bundle"), Delivery: filepath.Join(dir, "delivery"), Limit: time.Minute, Say: func(string) {}}
	if err := errors.Join(os.Mkdir(a.Bundle, 0o755), os.Mkdir(a.Delivery, 0o755)); err != nil {
		t.Fatal(err)
	}
	raw, err := x.DoTyped(t.Context(), a, e)
	if err != nil || !strings.Contains(string(raw), `"id": "b"`) {
		t.Errorf("%s %v", raw, err)
	}
	if left, err := os.ReadDir(a.Delivery); err != nil || len(left) > 0 {
		t.Errorf("%v %v would be delivered", left, err)
	}

	for want, command := range map[string]string{
		"the worker left no response.json":        "true",
		"exit code 3":                             "exit 3",
		"the worker left no response.json in GUI": `ln -s /etc/passwd "$GUILD_DELIVERY/response.json"`,
	} {
		os.RemoveAll(filepath.Join(dir, "response"))
		x.Command = command
		if raw, err := x.DoTyped(t.Context(), a, e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %s %v", command, raw, err)
		}
	}
}

func TestReadTypedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := rerank(t)
		w := newWorld(t, reranker(func(ctx context.Context, a Assignment, got oa.Envelope) ([]byte, error) {
			if got.JobHash != e.JobHash || string(got.Payload) != string(e.Payload) || a.isBundled() {
				t.Errorf("%+v", got)
			}
			return first(ctx, a, got)
		}))
		sealed, err := asTyped(e).Sealed(func(text string) (string, error) { return customer.signer.Encrypt(t.Context(), text, us.key) })
		if err != nil {
			t.Fatal(err)
		}
		id := w.does(customer, sealed)
		if r, event := w.result(customer, 6050, id); r.Encrypted == "" || strings.Contains(event.Content, "topk") {
			t.Errorf("%+v", r)
		}
	})
}
