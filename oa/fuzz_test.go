package oa_test

import (
	"errors"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
	"guild/nip90"
	"guild/oa"
)

// typeOf returns one of the job types.
func typeOf(which byte) string {
	return []string{oa.CodeChunkAnalysis, oa.RetrievalRerank, oa.SandboxRun, oa.Embedding}[which%4]
}

func FuzzRequest(f *testing.F) {
	for _, v := range vectors(f) {
		for which := range byte(4) {
			f.Add(which, []byte(v.Plain))
		}
	}
	f.Add(byte(3), []byte(`{"job_type":"oa.embeddings.v1","job_hash":"00","payload":{"texts":["a\u0085"]}}`))
	f.Fuzz(func(t *testing.T, which byte, text []byte) {
		name := typeOf(which)
		r := nip90.Request{Inputs: []nip90.Input{{Data: string(text), Type: "text"}}}
		r.Set(nip90.ParamJobType, name)
		e, err := oa.ParseRequest(r)
		if err != nil {
			return
		}
		if hash, err := oa.JobHash(e.Payload); err != nil || hash != e.JobHash && !oa.IsEnvelope(text) {
			t.Fatalf("job hash %s, %v, want %s", hash, err, e.JobHash)
		}
		var sent nip90.Request
		e.AddTo(&sent)
		if again, err := oa.ParseRequest(sent); err != nil || string(again.Payload) != string(e.Payload) || again.JobHash != e.JobHash {
			t.Fatalf("%s was sent and read as %s, %v", e.Payload, again.Payload, err)
		}
		if guild.Clean(oa.Text(e.Payload)) != oa.Text(e.Payload) {
			t.Fatalf("an event changes %q", oa.Text(e.Payload))
		}
		throughTypes(t, name, 0, e.Payload)
		_ = oa.Known().CheckRequest(e.JobType, e.Payload)
	})
}

func FuzzResponse(f *testing.F) {
	f.Add(byte(0), []byte(`{}`), []byte(`{"summary":"s","confidence":1e-1,"symbols":[{"name":"n","kind":"k","line":1}],"suspected_faults":null}`))
	f.Add(byte(1), []byte(`{"user_task":"t","candidates":[{"id":"a","content":"c"}]}`), []byte(`{"topk":[{"rank":1,"id":"a","score":0.10}]}`))
	f.Add(byte(2), []byte(`{}`), []byte(`{"env_info":{"image_digest":"d","system_info":[1.0]},"runs":[],"status":"error","error":"e","artifacts":[]}`))
	f.Add(byte(3), []byte(`{"texts":["a"]}`), []byte(`{"embeddings":[[0.1,2]],"model_id":"m","dimensions":2,"provenance":{"tokens":{"input":1,"output":0}}}`))
	f.Fuzz(func(t *testing.T, which byte, request, result []byte) {
		name := typeOf(which)
		s := must[oa.Schema](t)(oa.Known().Schema(id(t, name)))
		s.Lacks(result)
		if s.Check(oa.Outputs, result) != nil {
			return
		}
		throughTypes(t, name, 1, result)
		if err := oa.Known().CheckResult(s.ID, nil, result); err != nil {
			t.Fatalf("%s: %v", result, err)
		}
		_ = oa.Known().CheckResult(s.ID, request, result)
		if _, err := oa.OutputHash(result); err != nil {
			t.Fatalf("%s: %v", result, err)
		}
	})
}

// throughTypes checks that a document that fits its description can be decoded, and that encoding it is stable.
func throughTypes(t *testing.T, name string, side int, payload []byte) {
	s := must[oa.Schema](t)(oa.Known().Schema(id(t, name)))
	fits := s.Check([]oa.Side{oa.Inputs, oa.Outputs}[side], payload)
	encoded, err := codecs[name][side](payload)
	if (err == nil) != (fits == nil) {
		t.Fatalf("%s: check says %v, and the codec %v", payload, fits, err)
	}
	if err != nil {
		return
	}
	if twice, err := codecs[name][side](encoded); err != nil || string(twice) != string(encoded) {
		t.Fatalf("%s became %s, %v", encoded, twice, err)
	}
}

func FuzzSchema(f *testing.F) {
	f.Add([]byte(own), []byte(`{"text":"a","to":null}`))
	for _, s := range oa.Known().Schemas() {
		f.Add(must[[]byte](f)(s.Encode()), []byte(`{"texts":[],"verification":{"mode":"objective"}}`))
	}
	f.Fuzz(func(t *testing.T, text, payload []byte) {
		s, err := oa.ParseSchema(text)
		if err != nil {
			if !errors.Is(err, oa.ErrSchema) {
				t.Fatal(err)
			}
			return
		}
		if again, err := oa.ParseSchema(must[[]byte](t)(s.Encode())); err != nil || again.ID != s.ID {
			t.Fatalf("%s: %+v, %v", text, again, err)
		}
		for _, side := range []oa.Side{oa.Inputs, oa.Outputs} {
			if b := must[[]byte](t)(s.JSONSchema(side)); !jsontext.Value(b).IsValid() {
				t.Fatalf("%s is no JSON", b)
			}
			whole, err := s.Complete(side, payload)
			checked := s.Check(side, payload)
			if err != nil {
				continue
			}
			if checked != nil {
				t.Fatalf("%s: complete, and yet %v", payload, checked)
			}
			if canonical, err := canon.Canonical(whole); err != nil || string(canonical) != string(whole) {
				t.Fatalf("%s is not canonical: %v", whole, err)
			}
			if twice, err := s.Complete(side, whole); err != nil || string(twice) != string(whole) {
				t.Fatalf("%s\n%s became %s, %v", text, whole, twice, err)
			}
		}
		s.DefaultVerification()
	})
}
