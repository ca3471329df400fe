package oa_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/quick"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
	"guild/nip90"
	"guild/oa"
)

// must returns a function that unwraps a result or fails the test.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func id(t testing.TB, name string) oa.ID {
	t.Helper()
	return must[oa.ID](t)(oa.ParseID(name))
}

// vector is a job hash of canon's test data, which names its source.
type vector struct {
	Name      string
	JobType   string `json:"job_type"`
	Version   string `json:"schema_version"`
	JobHash   string `json:"job_hash"`
	Payload   json.RawMessage
	Canonical string `json:"payload_canonical"`
	Plain     string `json:"payload_plain_json"` // as sent
}

func vectors(t testing.TB) []vector {
	t.Helper()
	var v struct{ Jobs []vector }
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile("../canon/testdata/serde-vectors.json")), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Jobs) != 10 {
		t.Fatalf("%d jobs, want 10", len(v.Jobs))
	}
	return v.Jobs
}

// singles are the vectors whose sender hashes other numbers than it sends.
var singles = map[string]bool{"rerank-full-f32-scores": true, "sandbox-cpus-0.1-f32": true}

func TestSurfaceJobHashes(t *testing.T) {
	for _, v := range vectors(t) {
		want := must[guild.Hash](t)(guild.ParseHash(v.JobHash))
		if got := must[guild.Hash](t)(oa.JobHash(v.Payload)); got != want {
			t.Errorf("%s: %s, want %s", v.Name, got, want)
		}
		asSent := must[guild.Hash](t)(oa.JobHash([]byte(v.Plain)))
		if (asSent != want) != singles[v.Name] {
			t.Errorf("%s: as it is sent %s, and the job hash is %s", v.Name, asSent, want)
		}
		s := must[oa.Schema](t)(oa.Known().Schema(id(t, v.JobType)))
		if !s.Matches([]byte(v.Plain), want) || !s.Matches(v.Payload, want) || !s.Matches([]byte(v.Plain), asSent) {
			t.Errorf("%s: the job hash is not taken for that of the payload", v.Name)
		}
		if s.Matches([]byte(v.Plain), guild.Sum(nil)) {
			t.Errorf("%s: any hash is taken for that of the payload", v.Name)
		}
	}
}

// A sender can hash either form of a payload; the reader must get a payload and a hash that match.
func TestEnvelopePayloadMatchesHash(t *testing.T) {
	s := must[oa.Schema](t)(oa.Known().Schema(id(t, oa.RetrievalRerank)))
	fits := func(score float64, widen bool) bool {
		payload := fmt.Sprintf(`{"candidates":[{"content":"x","id":"a","original_score":%s}],"user_task":"t"}`, oa.Number(canon.AppendFloat(nil, score)))
		widened := fmt.Sprintf(`{"candidates":[{"content":"x","id":"a","original_score":%s}],"user_task":"t"}`, oa.Single(score))
		want := payload
		if widen {
			want = widened
		}
		hash := guild.Sum([]byte(want))
		e, err := oa.DecodeAs("", fmt.Appendf(nil, `{"job_type":%q,"job_hash":%q,"payload":%s}`, oa.RetrievalRerank, hash.Hex(), payload))
		if err != nil || string(e.Payload) != want || e.JobHash != guild.Sum(e.Payload) {
			t.Logf("%v: %+v, want %s", err, e, want)
			return false
		}
		var r nip90.Request
		e.AddTo(&r)
		if sent, err := oa.JobHash([]byte(r.Inputs[0].Data)); err != nil || sent.Hex() != r.Get(nip90.ParamJobHash) {
			t.Logf("%v: %+v", err, r)
			return false
		}
		r.Inputs[0].Data = payload // as received
		back, err := oa.ParseRequest(r)
		return err == nil && back.JobHash == guild.Sum(back.Payload) && s.Matches([]byte(payload), back.JobHash)
	}
	single := func(n int32, widen bool) bool { return fits(float64(n)/1000, widen) }
	if err := quick.Check(single, nil); err != nil {
		t.Error(err)
	}
}

func TestPublishedHashes(t *testing.T) {
	var v struct {
		Vectors []struct {
			Name    string
			Payload json.RawMessage
			SHA256  guild.Hash
		}
	}
	if err := json.Unmarshal(must[[]byte](t)(os.ReadFile("../canon/testdata/published-vectors.json")), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Vectors) != 5 {
		t.Fatalf("%d vectors, want 5", len(v.Vectors))
	}
	for _, one := range v.Vectors {
		if got := must[guild.Hash](t)(oa.JobHash(one.Payload)); got != one.SHA256 {
			t.Errorf("%s: %s, want %s", one.Name, got, one.SHA256)
		}
	}
}

// What other programs encode must be decoded and encoded to the same bytes, including defaults and omissions.
func TestSurfaceEncodingRoundTrip(t *testing.T) {
	for _, v := range vectors(t) {
		var got jsontext.Value
		var err error
		switch id(t, v.JobType).String() {
		case oa.CodeChunkAnalysis:
			got, err = again[oa.ChunkRequest](v.Payload)
		case oa.RetrievalRerank:
			got, err = again[oa.RerankRequest](v.Payload)
		case oa.SandboxRun:
			got, err = again[oa.SandboxRequest](v.Payload)
		case oa.Embedding:
			got, err = again[oa.EmbeddingRequest](v.Payload)
		}
		if err != nil || string(got) != v.Canonical {
			t.Errorf("%s: %v\n%s, want\n%s", v.Name, err, got, v.Canonical)
		}
	}
}

func again[P oa.Payload](payload []byte) (jsontext.Value, error) {
	p, err := oa.Decode[P](payload)
	if err != nil {
		return nil, err
	}
	return oa.Encode(p)
}

func TestSinglePrecisionSpelling(t *testing.T) {
	for _, v := range vectors(t) {
		if v.Name != "sandbox-cpus-0.1-f32" {
			continue
		}
		r := must[oa.SandboxRequest](t)(oa.Decode[oa.SandboxRequest]([]byte(v.Plain)))
		e := must[oa.Envelope](t)(oa.NewEnvelope(r))
		if r.Sandbox.Resources.CPUs != "0.1" || e.JobHash.Hex() != v.JobHash {
			t.Errorf("cpus %s, hash %s, want %s", r.Sandbox.Resources.CPUs, e.JobHash.Hex(), v.JobHash)
		}
	}
	if got := oa.Single(0.1); got != "0.10000000149011612" {
		t.Errorf("0.1 is %s", got)
	}
	if got := oa.Single(1); got != "1.0" {
		t.Errorf("1 is %s", got)
	}
}

func TestIDs(t *testing.T) {
	for text, want := range map[string]string{
		"oa.embedding.v1": "oa.embedding.v1", "oa.embeddings.v1": "oa.embedding.v1", "oa.embeddings.v2": "oa.embedding.v2",
		"oa.sandbox_run.v12": "oa.sandbox_run.v12", "oa.text.trans-late.v1": "oa.text.trans-late.v1", "oa.embeddings.fast.v1": "oa.embeddings.fast.v1",
	} {
		got, err := oa.ParseID(text)
		if err != nil || got.String() != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
		if back, err := oa.ParseID(got.String()); err != nil || back != got {
			t.Errorf("%s: read again as %s, %v", text, back, err)
		}
		if got.Kind() != 5050 {
			t.Errorf("%s: kind %d", text, got.Kind())
		}
	}
	for _, text := range []string{
		"", "oa", "oa.v1", "oa..v1", "oa.x", "oa.x.1", "oa.x.v", "oa.x.v0", "oa.x.v01", "oa.x.v-1", "oa.x.v+1", "oa.x.v1.", "oa.X.v1", "OA.x.v1",
		"python", "oa.a b.v1", "oa.x.v99999999999", "oa." + strings.Repeat("x", oa.MaxID) + ".v1", " oa.x.v1", "oa.x.v1\n",
	} {
		if got, err := oa.ParseID(text); !errors.Is(err, oa.ErrID) || got != (oa.ID{}) {
			t.Errorf("%.20q: %s, %v", text, got, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	chunk := must[oa.ChunkRequest](t)(oa.Decode[oa.ChunkRequest]([]byte(
		`{"task":"t","chunk":{"path":"p","start_line":1,"end_line":2,"content":"c","language":null},"verification":null}`)))
	if want := (oa.Verification{Mode: oa.Subjective, Redundancy: 2, Adjudication: oa.JudgeModel}); !reflect.DeepEqual(chunk.Verification, want) {
		t.Errorf("%+v", chunk.Verification)
	}
	rerank := must[oa.RerankRequest](t)(oa.Decode[oa.RerankRequest]([]byte(`{"user_task":"t","candidates":[]}`)))
	if want := (oa.Verification{Mode: oa.Subjective, Redundancy: 2, Adjudication: oa.MajorityVote}); rerank.K != 10 || !reflect.DeepEqual(rerank.Verification, want) {
		t.Errorf("%+v", rerank)
	}
	run := must[oa.SandboxRequest](t)(oa.Decode[oa.SandboxRequest]([]byte(
		`{"sandbox":{"image_digest":"d"},"repo":{"source":""},"commands":[{"cmd":"x"}],"verification":{"mode":"objective"}}`)))
	if r := run.Sandbox.Resources; r.MemoryMB != 512 || r.CPUs != "1.0" || r.TimeoutSecs != 60 || r.DiskMB != 0 || run.Sandbox.NetworkPolicy != oa.NetworkNone ||
		run.Repo.MountPath != "/workspace" || run.Commands[0].ContinueOnFail || run.Verification.Redundancy != 1 {
		t.Errorf("%+v", run)
	}
	probes := must[oa.ChunkResult](t)(oa.Decode[oa.ChunkResult]([]byte(
		`{"summary":"s","confidence":0.50,"recommended_next_probes":[{"path":"p","reason":"r"}],"provenance":{"sampling":{}}}`)))
	if probes.RecommendedNextProbes[0].Priority != "medium" || probes.Confidence != "0.5" || probes.Provenance.Sampling.Temperature != "0.0" {
		t.Errorf("%+v", probes)
	}
}

func TestPinnedEmbeddingObjective(t *testing.T) {
	for text, want := range map[string]oa.Verification{
		`{"texts":[],"model_hint":"m","dimensions":3}`:            {Mode: oa.Objective, Redundancy: 1, Adjudication: oa.NoAdjudication},
		`{"texts":[],"model_hint":"m"}`:                           {Mode: oa.Subjective, Redundancy: 2, Adjudication: oa.MajorityVote},
		`{"texts":[]}`:                                            {Mode: oa.Subjective, Redundancy: 2, Adjudication: oa.MajorityVote},
		`{"texts":[],"verification":{"mode":"subjective"}}`:       {Mode: oa.Subjective, Redundancy: 1, Adjudication: oa.NoAdjudication},
		`{"texts":[],"verification":null,"model_hint":"","k":10}`: {Mode: oa.Subjective, Redundancy: 2, Adjudication: oa.MajorityVote},
	} {
		r := must[oa.EmbeddingRequest](t)(oa.Decode[oa.EmbeddingRequest]([]byte(text)))
		if !reflect.DeepEqual(r.Verification, want) {
			t.Errorf("%s: %+v", text, r.Verification)
		}
	}
}

func TestDefaultVerification(t *testing.T) {
	for name, want := range map[string]oa.Verification{
		oa.CodeChunkAnalysis: {Mode: oa.Subjective, Redundancy: 2, Adjudication: oa.JudgeModel},
		oa.RetrievalRerank:   {Mode: oa.Subjective, Redundancy: 2, Adjudication: oa.MajorityVote},
		oa.SandboxRun:        {Mode: oa.Objective, Redundancy: 1, Adjudication: oa.NoAdjudication},
		oa.Embedding:         {Mode: oa.Objective, Redundancy: 1, Adjudication: oa.NoAdjudication},
	} {
		s := must[oa.Schema](t)(oa.Known().Schema(id(t, name)))
		if got := s.DefaultVerification(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestUnknownFieldsKept(t *testing.T) {
	const text = `{"candidates":[{"content":"c","id":"a","new":[1.0]}],"k":10,"other":{"b":1,"a":1.50},"user_task":"t",` +
		`"verification":{"adjudication":"none","judges":3,"mode":"subjective","redundancy":1}}`
	want := must[[]byte](t)(canon.Canonical([]byte(text)))
	if got := must[jsontext.Value](t)(again[oa.RerankRequest]([]byte(text))); string(got) != string(want) {
		t.Errorf("%s, want %s", got, want)
	}
	r := must[oa.RerankRequest](t)(oa.Decode[oa.RerankRequest]([]byte(text)))
	r.Extra["k"] = jsontext.Value("1")
	if b, err := oa.Encode(r); err == nil {
		t.Errorf("an unknown field replaced a known one: %s", b)
	}
}

func TestEnvelopes(t *testing.T) {
	for _, v := range vectors(t) {
		text := `{"job_type":"` + v.JobType + `","schema_version":"1.0.0","job_hash":"` + v.JobHash + `","payload":` + v.Plain + `,"x":1.0}`
		e, err := oa.DecodeEnvelope([]byte(text))
		if err != nil || e.JobHash.Hex() != v.JobHash || e.JobType != id(t, v.JobType) || string(e.Extra["x"]) != "1.0" {
			t.Errorf("%s: %+v, %v", v.Name, e, err)
		}
		back, err := oa.DecodeEnvelope(must[[]byte](t)(e.Encode()))
		if err != nil || !reflect.DeepEqual(back, e) {
			t.Errorf("%s: %+v, %v, want %+v", v.Name, back, err, e)
		}
	}
	const hash = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" // of {}
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"the least":           {`{"job_type":"oa.x.v1","payload":{}}`, nil},
		"a newer minor":       {`{"job_type":"oa.x.v1","payload":{},"schema_version":"1.7.2"}`, nil},
		"its hash":            {`{"job_type":"oa.x.v1","payload":{},"job_hash":"` + hash + `"}`, nil},
		"another major":       {`{"job_type":"oa.x.v1","payload":{},"schema_version":"2.0.0"}`, oa.ErrVersion},
		"version 0":           {`{"job_type":"oa.x.v1","payload":{},"schema_version":"0.9.0"}`, oa.ErrVersion},
		"no version":          {`{"job_type":"oa.x.v1","payload":{},"schema_version":"1"}`, oa.ErrVersion},
		"a version in words":  {`{"job_type":"oa.x.v1","payload":{},"schema_version":"1.x.0"}`, oa.ErrVersion},
		"another hash":        {`{"job_type":"oa.x.v1","payload":{"a":1},"job_hash":"` + hash + `"}`, oa.ErrHash},
		"the hash of 1.0":     {`{"job_type":"oa.x.v1","payload":{"a":1},"job_hash":"` + must[guild.Hash](t)(oa.JobHash([]byte(`{"a":1.0}`))).Hex() + `"}`, oa.ErrHash},
		"a hash of zeros":     {`{"job_type":"oa.x.v1","payload":{},"job_hash":"` + strings.Repeat("0", 64) + `"}`, oa.ErrHash},
		"no job type":         {`{"payload":{}}`, oa.ErrID},
		"another's job type":  {`{"job_type":"python","payload":{}}`, oa.ErrID},
		"no payload":          {`{"job_type":"oa.x.v1"}`, oa.ErrInvalid},
		"a member twice":      {`{"job_type":"oa.x.v1","payload":{"a":1,"a":1}}`, canon.ErrDuplicate},
		"more than the limit": {`{"job_type":"oa.x.v1","payload":"` + strings.Repeat("x", oa.MaxSize) + `"}`, oa.ErrTooBig},
		"no JSON":             {`{`, canon.ErrSyntax},
		"nested too deep":     {`{"job_type":"oa.x.v1","payload":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, canon.ErrDepth},
	} {
		if _, err := oa.DecodeEnvelope([]byte(c.text)); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestProvenanceLacks(t *testing.T) {
	lacks := func(name, result string) string {
		s := must[oa.Schema](t)(oa.Known().Schema(id(t, name)))
		var list []string
		for _, l := range s.Lacks([]byte(result)) {
			list = append(list, l.Name+" "+string(l.Rule))
		}
		return strings.Join(list, ", ")
	}
	whole := `{"model_id":"m","provider_pubkey":"ab","tokens":{"input":1,"output":2}}`
	for _, c := range []struct{ name, result, want string }{
		{oa.RetrievalRerank, `{"topk":[],"provenance":` + whole + `}`, ""},
		{oa.RetrievalRerank, `{"topk":[]}`, "model required, provider_id required, token_counts recommended"},
		{oa.RetrievalRerank, `{"topk":[],"provenance":{"model_id":"","provider_pubkey":null,"tokens":{"input":1,"output":2}}}`, "model required, provider_id required"},
		{oa.RetrievalRerank, `{"topk":[],"provenance":{"model":"m","provider_id":"npub1"}}`, "token_counts recommended"},
		{oa.RetrievalRerank, `{"topk":[],"provenance":7}`, "model required, provider_id required, token_counts recommended"},
		{oa.RetrievalRerank, `no JSON`, "model required, provider_id required, token_counts recommended"},
		{oa.SandboxRun, `{"env_info":{"image_digest":"sha256:1"},"provenance":{"provider_pubkey":"ab"}}`, ""},
		{oa.SandboxRun, `{"env_info":{"image_digest":""}}`, "model required, provider_id required"},
	} {
		if got := lacks(c.name, c.result); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.name, c.result, got, c.want)
		}
	}
	s := must[oa.Schema](t)(oa.Known().Schema(id(t, oa.RetrievalRerank)))
	if err := s.Check(oa.Outputs, []byte(`{"topk":[]}`)); err != nil {
		t.Errorf("a result without provenance is refused: %v", err)
	}
}

func TestOutputHashWithoutProvenance(t *testing.T) {
	a := must[guild.Hash](t)(oa.OutputHash([]byte(`{"b":1.0,"a":1}`)))
	b := must[guild.Hash](t)(oa.OutputHash([]byte(`{"a":1,"provenance":{"output_sha256":"x"},"b":1.0}`)))
	if a != b || a != guild.Sum([]byte(`{"a":1,"b":1.0}`)) {
		t.Errorf("%s, %s", a, b)
	}
	for _, bad := range []string{`[1]`, `null`} {
		if _, err := oa.OutputHash([]byte(bad)); err == nil {
			t.Errorf("%s has an output hash", bad)
		}
	}
}
