package verify_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"guild"
	"guild/nip90"
)

// The typed job of the stories: its payload, its result, and the verdict.
const (
	typedPayload  = `{"commands":[{"cmd":"true","workdir":"/"}],"env":{},"image_digest":"sha256:00"}`
	typedResult   = `{"runs":[{"cmd":"true","exit_code":0}]}`
	typedManifest = `{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"a run"}}`

	typedVerdictText = `{"outcome":"SUCCESS","score_micro":1000000,"strength":"strong","tier":"namespaces","expected":2,"passed":2,
"tests":[{"id":"schema","state":"passed","layer":"correctness"},{"id":"exit codes","state":"passed","layer":"correctness"}],
"dimensions":[{"name":"correctness","weight":50,"value_micro":1000000,"known":true,"reason":"run again"}],
"standing":"active","usage":{"wall_ms":0}}`
)

// task returns the task of the request.
func (s story) task() string {
	if s.typed {
		return "oa.sandbox_run.v1"
	}
	return "python-function"
}

// jobHash returns the job hash of the request.
func (s story) jobHash(t testing.TB, r nip90.Request) guild.Hash {
	t.Helper()
	if s.typed {
		return guild.Sum([]byte(typedPayload))
	}
	return must[guild.Hash](t)(r.JobHash())
}

// nut returns a bundle of files, the manifest first.
func nut(t testing.TB, manifest string, content map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	out.WriteString("NUT\x01")
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	content["nutshell.json"] = manifest
	names := slices.SortedFunc(maps.Keys(content), func(a, b string) int { return bytes.Compare([]byte(b), []byte(a)) })
	for _, name := range names {
		ok(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content[name])), Typeflag: tar.TypeReg}))
		_, err := w.Write([]byte(content[name]))
		ok(t, err)
	}
	ok(t, w.Close())
	ok(t, z.Close())
	return out.Bytes()
}

// preferred changes the verdict on a typed job as an opinion does that prefers another result.
func preferred(v map[string]any) {
	v["tests"] = append(v["tests"].([]any), map[string]any{"id": "judge_model", "state": "failed", "layer": "correctness"})
	v["outcome"], v["cause"], v["score_micro"], v["standing"], v["strength"] = "PARTIAL", "another result was preferred", 600_000, "conditional", "weak"
	v["expected"], v["opinion"] = 3, map[string]any{"adjudication": "judge_model"}
	dimension(v, 0)["value_micro"] = 600_000
}

// alone sets the evidence of that verdict, from before the opinion.
func alone(e map[string]any) {
	var v map[string]any
	if err := json.Unmarshal([]byte(typedVerdictText), &v); err != nil {
		panic(err)
	}
	e["verdict"] = v
	report := e["report"].(map[string]any)
	report["tests"], report["strength"] = v["tests"], v["strength"]
}

// ruledPartial changes the verdict to one on a typed job whose run hit a limit, with a person's ruling.
func ruledPartial(v map[string]any) {
	v["tests"].([]any)[1].(map[string]any)["state"] = "failed"
	v["passed"], v["outcome"], v["cause"], v["score_micro"], v["standing"] = 1, "PARTIAL", "a limit ended our own run", 0, "rejected"
	v["ruling"] = map[string]any{"by": "owner"}
	dimension(v, 0)["value_micro"] = 0
}
