package oa_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
	"guild/oa"
)

func TestRequestEventRoundTrip(t *testing.T) {
	// The text has characters that events lose: control characters that JSON does not escape.
	request := oa.RerankRequest{UserTask: "a\x7fb\u0085c\x00d\n\u2028é", Candidates: []oa.Candidate{{ID: "1", Content: "\u009b31m", OriginalScore: "0.8"}}}
	e := must[oa.Envelope](t)(oa.NewEnvelope(request))
	var r nip90.Request
	e.AddTo(&r)
	if r.Kind != 5050 || r.Get(nip90.ParamJobType) != oa.RetrievalRerank || r.Get(nip90.ParamJobHash) != e.JobHash.Hex() || len(r.Get(nip90.ParamJobHash)) != 64 {
		t.Errorf("%+v", r)
	}
	event := must[nostr.Event](t)(r.Event())
	if tag := event.Tags.Find("i"); len(tag) != 3 || tag[2] != "text" {
		t.Errorf("%q", tag)
	}
	got, err := oa.ParseRequest(must[nip90.Request](t)(nip90.ParseRequest(event, nil)))
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Fatalf("%v\n%+v, want\n%+v", err, got, e)
	}
	back := must[oa.RerankRequest](t)(oa.Decode[oa.RerankRequest](got.Payload))
	if back.UserTask != request.UserTask || back.Candidates[0].Content != request.Candidates[0].Content || back.Candidates[0].OriginalScore != oa.Single(0.8) {
		t.Errorf("%+v", back)
	}
}

func TestForeignRequest(t *testing.T) {
	for _, v := range vectors(t) {
		event := nostr.Event{Kind: 5050, Tags: nostr.Tags{
			{"i", "https://example.com", "url"}, {"i", v.Plain, "text"}, {"param", "job_type", v.JobType}, {"param", "job_hash", v.JobHash}, {"bid", "1000"},
		}}
		e, err := oa.ParseRequest(must[nip90.Request](t)(nip90.ParseRequest(event, nil)))
		if err != nil || e.JobHash.Hex() != v.JobHash || e.JobType != id(t, v.JobType) {
			t.Errorf("%s: %+v, %v", v.Name, e, err)
		}
		if guild.Sum(e.Payload) != e.JobHash {
			t.Errorf("%s: the payload %s has not the job hash", v.Name, e.Payload)
		}
		event.Tags[1] = nostr.Tag{"i", `{"job_type":"` + v.JobType + `","schema_version":"1.0.0","payload":` + v.Plain + `}`, "text"}
		if e, err = oa.ParseRequest(must[nip90.Request](t)(nip90.ParseRequest(event, nil))); err != nil || e.JobHash.Hex() != v.JobHash {
			t.Errorf("%s in an envelope: %+v, %v", v.Name, e, err)
		}
	}
}

func TestTextEscapesBidi(t *testing.T) {
	payload := "{\"a\":\"x\u202ey\u2066z\"}"
	text := oa.Text([]byte(payload))
	if text != `{"a":"x\u202ey\u2066z"}` || must[guild.Hash](t)(oa.JobHash([]byte(text))) != guild.Sum([]byte(payload)) {
		t.Error(text)
	}
}

func TestContradictoryRequests(t *testing.T) {
	const payload = `{"texts":["a"]}`
	hash := must[guild.Hash](t)(oa.JobHash([]byte(payload)))
	good := func() nip90.Request {
		r := nip90.Request{Kind: 5050, Inputs: []nip90.Input{{Data: payload, Type: "text"}}}
		r.Set(nip90.ParamJobType, oa.Embedding)
		r.Set(nip90.ParamJobHash, hash.Hex())
		return r
	}
	for name, c := range map[string]struct {
		change func(*nip90.Request)
		want   string
		is     error
	}{
		"nothing":            {func(*nip90.Request) {}, "", nil},
		"no hash":            {func(r *nip90.Request) { r.Unset(nip90.ParamJobHash) }, "", nil},
		"a hash with prefix": {func(r *nip90.Request) { r.Set(nip90.ParamJobHash, hash.String()) }, "", nil},
		"no job type":        {func(r *nip90.Request) { r.Unset(nip90.ParamJobType) }, "parameter job_type", oa.ErrID},
		"an ordinary task":   {func(r *nip90.Request) { r.Set(nip90.ParamJobType, "python") }, `parameter job_type: "python"`, oa.ErrID},
		"another payload":    {func(r *nip90.Request) { r.Inputs[0].Data = `{"texts":["b"]}` }, "parameter job_hash: another job hash: job_hash is " + hash.Hex(), oa.ErrHash},
		"a hash of zeros":    {func(r *nip90.Request) { r.Set(nip90.ParamJobHash, strings.Repeat("0", 64)) }, "parameter job_hash: another", oa.ErrHash},
		"invalid hash":       {func(r *nip90.Request) { r.Set(nip90.ParamJobHash, "abc") }, "parameter job_hash: ", nil},
		"no input":           {func(r *nip90.Request) { r.Inputs = nil }, "no input of type text", nil},
		"an input elsewhere": {func(r *nip90.Request) { r.Inputs[0].Type = "url" }, "no input of type text", nil},
		"a bundle":           {func(r *nip90.Request) { r.Inputs[0].Marker = nip90.MarkerBundle }, "no input of type text", nil},
		"no JSON":            {func(r *nip90.Request) { r.Inputs[0].Data = "texts" }, "input: ", nil},
		"a field twice":      {func(r *nip90.Request) { r.Inputs[0].Data = `{"texts":[],"texts":[]}` }, "duplicate", nil},
		"another's envelope": {func(r *nip90.Request) { r.Inputs[0].Data = `{"job_type":"oa.x.v1","payload":{}}` }, "job_type is oa.x.v1, want oa.embedding.v1", oa.ErrInvalid},
		"another version": {func(r *nip90.Request) {
			r.Inputs[0].Data = `{"job_type":"oa.embedding.v1","schema_version":"2.0.0","payload":{}}`
		}, "only 1.x is read", oa.ErrVersion},
	} {
		r := good()
		c.change(&r)
		_, err := oa.ParseRequest(r)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)), c.is != nil && !errors.Is(err, c.is):
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestResultEventRoundTrip(t *testing.T) {
	s := must[oa.Schema](t)(oa.Known().Schema(id(t, oa.RetrievalRerank)))
	payload, err := oa.Encode(oa.RerankResult{TopK: []oa.Ranked{{Rank: 1, ID: "a\u0085", Score: "0.5"}}})
	if err != nil {
		t.Fatal(err)
	}
	event := must[nostr.Event](t)(nip90.Result{Kind: nip90.ResultKind(s.ID.Kind()), Content: oa.Text(payload)}.Event())
	if event.Kind != 6050 {
		t.Errorf("kind %d", event.Kind)
	}
	got, err := s.ParseResult(must[nip90.Result](t)(nip90.ParseResult(event, nil)))
	if err != nil || string(got) != string(payload) {
		t.Errorf("%s, %v, want %s", got, err, payload)
	}
	if _, err := s.ParseResult(nip90.Result{Content: `{"topk":[{}]}`}); !errors.Is(err, oa.ErrInvalid) || !strings.HasPrefix(err.Error(), "outputs.topk[0].id is missing") {
		t.Error(err)
	}
	if _, err := s.ParseResult(nip90.Result{Content: "sorry"}); err == nil {
		t.Error("words are a result")
	}
}

func TestEncryptedRequestSameJob(t *testing.T) {
	e := must[oa.Envelope](t)(oa.NewEnvelope(oa.EmbeddingRequest{Texts: []string{"a"}}))
	var r nip90.Request
	e.AddTo(&r)
	event := must[nostr.Event](t)(r.Sealed(func(plain string) (string, error) { return plain, nil }))
	open := func(_ nostr.PubKey, sealed string) (string, error) { return sealed, context.Cause(t.Context()) }
	got, err := oa.ParseRequest(must[nip90.Request](t)(nip90.ParseRequest(event, open)))
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Errorf("%+v, %v", got, err)
	}
}
