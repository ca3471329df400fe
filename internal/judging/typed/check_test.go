package typed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/judging/opinion"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/typed"
	"guild/oa"
)

// left returns a directory with a delivered result, and perhaps artifacts.
func left(t *testing.T, result string, artifacts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range artifacts {
		name = filepath.Join(dir, typed.ArtifactsDir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, typed.ResultFile), []byte(result), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func checked(t *testing.T, c typed.Checker, e oa.Envelope, dir string) typed.Report {
	t.Helper()
	r, err := c.Check(t.Context(), e, dir, nostr.ZeroPK)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// wants checks a report: that it passed and its strength, or which test failed and where.
func wants(t *testing.T, r typed.Report, strength guild.Strength, failed, where string) {
	t.Helper()
	if r.Strength != strength || r.Passed() != (failed == "") {
		t.Errorf("%+v", r)
	}
	for _, one := range r.Tests {
		if (one.State == guild.TestFailed) != (one.ID == failed) || !strings.Contains(one.Message, where) && one.ID == failed {
			t.Errorf("%+v, want %q to fail at %q", one, failed, where)
		}
	}
}

// answered returns the honest result of a request, as text.
func answered(t *testing.T, e oa.Envelope, do typed.Do) string {
	t.Helper()
	raw, err := author.Answer(t.Context(), e, do)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestCheckRun(t *testing.T) {
	s := host(t)
	e := envelope(t, commands("date +%N; echo x >f", "grep -q y f"))
	honest := answered(t, e, s.Do)
	c := typed.Checker{Types: oa.Known(), Sandbox: &s}
	wants(t, checked(t, c, e, left(t, honest, nil)), guild.Strong, "", "")

	cheat := strings.Replace(honest, `"exit_code":1`, `"exit_code":0`, 1)
	cheat = strings.Replace(cheat, `"status":"failed"`, `"status":"success"`, 1)
	r := checked(t, c, e, left(t, cheat, nil))
	if r.Passed() || r.Strength != guild.Weak || r.Again == nil {
		t.Errorf("%+v", r)
	}
	for id, where := range map[string]string{"status": "outputs.status is success, and failed", "exit codes": "outputs.runs[1].exit_code is 0, and 1"} {
		found := false
		for _, one := range r.Tests {
			found = found || one.ID == id && one.State == guild.TestFailed && strings.Contains(one.Message, where)
		}
		if !found {
			t.Errorf("%+v does not say %q", r.Tests, where)
		}
	}

	hash := guild.Sum([]byte("x\n")).Hex()
	cheat = strings.Replace(honest, hash, strings.Repeat("0a", 32), 1)
	wants(t, checked(t, c, e, left(t, cheat, nil)), guild.Weak, "artifacts", "outputs.artifacts.f is 0a0a0a0a…, and 73cb3858… when we run it")
}

func TestCheckRunNondeterministic(t *testing.T) {
	s := host(t)
	c := typed.Checker{Types: oa.Known(), Sandbox: &s}
	for _, random := range []string{"head -c 16 /dev/urandom >f; echo x >g", "echo x >g; echo x >$(tr -dc a-z </dev/urandom | head -c 20)"} {
		e := envelope(t, commands(random))
		honest := answered(t, e, s.Do)
		r := checked(t, c, e, left(t, honest, nil))
		wants(t, r, guild.Weak, "", "")
		if r.Twice == nil || len(r.Warnings) != 1 || !strings.HasPrefix(r.Warnings[0], "our own two runs differ too, so this proves nothing: outputs.artifacts.") {
			t.Errorf("%q: %q", random, r.Warnings)
		}
		cheat := strings.Replace(honest, `"exit_code":0`, `"exit_code":1`, 1)
		cheat = strings.Replace(cheat, `"status":"success"`, `"status":"failed"`, 1)
		if r := checked(t, c, e, left(t, cheat, nil)); r.Passed() || r.Strength != guild.Weak {
			t.Errorf("%q hides a lie: %+v", random, r)
		}
		if strings.Contains(random, ">f") {
			cheat = strings.Replace(honest, guild.Sum([]byte("x\n")).Hex(), strings.Repeat("0a", 32), 1)
			wants(t, checked(t, c, e, left(t, cheat, nil)), guild.Weak, "artifacts", "outputs.artifacts.g is 0a0a0a0a")
		}
	}
}

// Even if many parts differ in each run, the others are compared.
func TestCheckRunMixed(t *testing.T) {
	s := host(t)
	c := typed.Checker{Types: oa.Known(), Sandbox: &s}
	e := envelope(t, commands("for i in $(seq 30); do head -c 8 /dev/urandom >r$i; done; mktemp -p . >/dev/null; echo x >z"))
	honest := answered(t, e, s.Do)
	wants(t, checked(t, c, e, left(t, honest, nil)), guild.Weak, "", "")
	lie := strings.Replace(honest, `"exit_code":0`, `"exit_code":1`, 1)
	lie = strings.Replace(lie, `"status":"success"`, `"status":"failed"`, 1)
	if r := checked(t, c, e, left(t, lie, nil)); r.Passed() || r.Strength != guild.Weak {
		t.Errorf("a false exit code: %+v", r)
	}
	z := guild.Sum([]byte("x\n")).Hex()
	wants(t, checked(t, c, e, left(t, strings.Replace(honest, z, strings.Repeat("0a", 32), 1), nil)), guild.Weak, "artifacts", "outputs.artifacts.z is 0a0a0a0a")
	without := regexp.MustCompile(`,?\{[^{}]*"path":"z"[^{}]*\}`).ReplaceAllString(honest, "")
	wants(t, checked(t, c, e, left(t, without, nil)), guild.Weak, "artifacts", "outputs.artifacts.z is only there when we run it")
}

// Archives and clocks have a resolution of seconds, and a short command ends within one.
func TestCheckRunClock(t *testing.T) {
	s := host(t)
	c := typed.Checker{Types: oa.Known(), Sandbox: &s}
	e := envelope(t, commands("date +%s >f"))
	now := regexp.MustCompile(`"path":"f","sha256":"sha256:[0-9a-f]{64}"`)
	honest := now.ReplaceAllString(answered(t, e, s.Do), `"path":"f","sha256":"`+guild.Sum([]byte("1700000000\n")).String()+`"`) // an earlier run
	wants(t, checked(t, c, e, left(t, honest, nil)), guild.Weak, "", "")
}

func TestCheckArtifactHash(t *testing.T) {
	s := host(t)
	c := typed.Checker{Types: oa.Known(), Sandbox: &s}
	e := envelope(t, commands("echo x >f"))
	honest := answered(t, e, s.Do)
	r := checked(t, c, e, left(t, honest, map[string]string{"f": "y\n"}))
	if r.Passed() || r.Strength != guild.Weak || r.Again != nil {
		t.Errorf("%+v", r)
	}
}

func TestCheckRunCutShort(t *testing.T) {
	s := host(t)
	q := commands("sleep 30")
	q.Sandbox.Resources.TimeoutSecs = 1
	e := envelope(t, q)
	honest := answered(t, e, s.Do)
	c := typed.Checker{Types: oa.Known(), Sandbox: &s}
	if r := checked(t, c, e, left(t, honest, nil)); r.Person != "" || !r.Passed() {
		t.Errorf("%+v", r)
	}
	none := strings.Repeat("0a", 32)
	claims := `{"env_info":{"image_digest":"host"},"runs":[{"cmd":"sleep 30","exit_code":0,"duration_ms":1,"stdout_sha256":"` + none + `","stderr_sha256":"` + none + `"}],"artifacts":[],"status":"success"}`
	r := checked(t, c, e, left(t, claims, nil))
	if !strings.Contains(r.Person, "the provider says success, and our own run came to timeout: command 0 ran over the 1s") || r.Passed() {
		t.Errorf("%+v", r)
	}
}

func TestCopiedResultFails(t *testing.T) {
	e := envelope(t, candidates())
	made := answered(t, e, func(context.Context, oa.Envelope) ([]byte, error) { return []byte(ranked), nil })
	maker, err := nostr.PubKeyFromHex(author.PubKey)
	if err != nil {
		t.Fatal(err)
	}
	c := typed.Checker{Types: oa.Known()}
	for _, one := range []struct {
		by     nostr.PubKey
		result string
		failed string
	}{
		{maker, made, ""}, {nostr.PubKey{7}, made, "provenance"}, {nostr.ZeroPK, made, ""}, {nostr.PubKey{7}, ranked, ""},
		{maker, strings.Replace(made, author.PubKey, nip19.EncodeNpub(maker), 1), ""},
		{nostr.PubKey{7}, strings.Replace(made, author.PubKey, nip19.EncodeNpub(maker), 1), "provenance"},
		{maker, strings.Replace(made, author.PubKey, "somebody", 1), ""},
	} {
		r, err := c.Check(t.Context(), e, left(t, one.result, nil), one.by)
		if err != nil {
			t.Fatal(err)
		}
		want := guild.Unverified
		if one.failed != "" {
			want = guild.Weak
		}
		wants(t, r, want, one.failed, "outputs.provenance.provider_pubkey is "+maker.Hex()[:8])
	}
}

func TestWrongResultFails(t *testing.T) {
	e := envelope(t, commands("true"))
	for where, result := range map[string]string{
		"not JSON":                  `nothing`,
		"outputs.runs is missing":   `{}`,
		"outputs.runs has 0":        `{"env_info": {"image_digest": "host"}, "runs": [], "artifacts": [], "status": "success"}`,
		"outputs.env_info.image_di": `{"env_info": {"image_digest": "sha256:1"}, "runs": [], "artifacts": [], "status": "timeout"}`,
	} {
		wants(t, checked(t, typed.Checker{Types: oa.Known()}, e, left(t, result, nil)), guild.Weak, "schema", where)
	}
	wants(t, checked(t, typed.Checker{Types: oa.Known()}, e, t.TempDir()), guild.Weak, "schema", "no file output.json")
	prose := t.TempDir()
	if err := os.WriteFile(filepath.Join(prose, "output.txt"), []byte("Done!"), 0o644); err != nil {
		t.Fatal(err)
	}
	wants(t, checked(t, typed.Checker{Types: oa.Known()}, e, prose), guild.Weak, "schema", "outputs is not JSON")
}

func TestCheckWithoutSandbox(t *testing.T) {
	s := host(t)
	e := envelope(t, commands("echo x >f; echo y >g"))
	honest := answered(t, e, s.Do)
	other := typed.Sandbox{Images: map[string]sandbox.Runner{"sha256:01": nil}}
	for _, c := range []typed.Checker{{Types: oa.Known()}, {Types: oa.Known(), Sandbox: &other}} {
		r := checked(t, c, e, left(t, honest, nil))
		wants(t, r, guild.Unverified, "", "")
		if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "not run again") {
			t.Errorf("%q", r.Warnings)
		}
	}
	wants(t, checked(t, typed.Checker{Types: oa.Known()}, e, left(t, honest, map[string]string{"f": "x\n"})), guild.Unverified, "", "")
	larger := strings.Replace(honest, `"size_bytes":2`, `"size_bytes":3`, 1)
	wants(t, checked(t, typed.Checker{Types: oa.Known()}, e, left(t, larger, map[string]string{"f": "x\n"})), guild.Weak,
		"artifacts that travelled", "outputs.artifacts[0].size_bytes is 3, and the file has 2")
	nothing := `{"env_info": {"image_digest": "host"}, "runs": [], "artifacts": [], "status": "timeout"}`
	wants(t, checked(t, typed.Checker{Types: oa.Known()}, e, left(t, nothing, nil)), guild.Weak, "schema", "no command ran over its time")
	wants(t, checked(t, typed.Checker{Types: oa.Known()}, e, left(t, honest, map[string]string{"f": "x\n", "g": "z\n"})), guild.Weak,
		"artifacts that travelled", "outputs.artifacts[1].sha256 is 3bb2abb6…, and the file's is c865f6c5…")
}

func TestIncompleteProvenance(t *testing.T) {
	e := envelope(t, candidates())
	r := checked(t, typed.Checker{Types: oa.Known()}, e, left(t, ranked, nil))
	wants(t, r, guild.Unverified, "", "")
	if text := strings.Join(r.Warnings, "\n"); !strings.Contains(text, "provenance.model is missing, and required") || !strings.Contains(text, "provenance.provider_id is missing") {
		t.Errorf("%q", r.Warnings)
	}
	lying := strings.TrimSuffix(ranked, "}") + `, "provenance": {"model_id": "m", "provider_pubkey": "ab", "input_sha256": "` + strings.Repeat("0a", 32) + `"}}`
	r = checked(t, typed.Checker{Types: oa.Known()}, e, left(t, lying, nil))
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "input_sha256 is not that of the request") {
		t.Errorf("%q", r.Warnings)
	}
}

func TestCheckVectors(t *testing.T) {
	m := model(t, "embedder", func(_ string, q question) any {
		if q.Model != "embedder" {
			return http.StatusNotFound
		}
		return vectors(q)
	})
	e := envelope(t, texts(true, "one", "three", "fifteen"))
	honest := answered(t, e, m.Do)
	c := typed.Checker{Types: oa.Known(), Vectors: &m.Endpoint}
	wants(t, checked(t, c, e, left(t, honest, nil)), guild.Strong, "", "")
	wants(t, checked(t, typed.Checker{Types: oa.Known()}, e, left(t, honest, nil)), guild.Unverified, "", "")

	invented := func(context.Context, oa.Envelope) ([]byte, error) {
		return []byte(`{"embeddings": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "model_id": "embedder", "dimensions": 3}`), nil
	}
	wants(t, checked(t, c, e, left(t, answered(t, e, invented), nil)), guild.Weak, "vectors", "outputs.embeddings[0] has the cosine")

	unpinned := envelope(t, texts(false, "one"))
	wants(t, checked(t, c, unpinned, left(t, answered(t, unpinned, m.Do), nil)), guild.Unverified, "", "")
	down := opinion.Endpoint{URL: "http://127.0.0.1:1/v1"}
	wants(t, checked(t, typed.Checker{Types: oa.Known(), Vectors: &down}, e, left(t, honest, nil)), guild.Unverified, "", "")
}

func TestEqualVectorsRefused(t *testing.T) {
	c := typed.Checker{Types: oa.Known()}
	long := strings.Repeat("the same beginning ", 20)
	for _, one := range []struct {
		name, vectors string
		texts         []string
		failed        string
	}{
		{"one vector for all", `[[0.1,0.1,0.1],[0.1,0.1,0.1],[0.1,0.1,0.1]]`, []string{"one", "three", "fifteen"}, "different vectors"},
		{"two of three", `[[0.1,0.1,0.1],[0.2,0.1,0.1],[0.1,0.1,0.1]]`, []string{"one", "three", "fifteen"}, "different vectors"},
		{"each its own", `[[0.1,0.1,0.1],[0.2,0.1,0.1],[0.3,0.1,0.1]]`, []string{"one", "three", "fifteen"}, ""},
		{"the same text", `[[0.1,0.1,0.1],[0.1,0.1,0.1]]`, []string{"One, two", " one TWO!"}, ""},
		{"the same beginning", `[[0.1,0.1,0.1],[0.1,0.1,0.1]]`, []string{long + "a", long + "b"}, ""},
	} {
		e := envelope(t, texts(false, one.texts...))
		result := fmt.Sprintf(`{"embeddings": %s, "model_id": "m", "dimensions": 3}`, one.vectors)
		strength := guild.Unverified
		if one.failed != "" {
			strength = guild.Weak
		}
		t.Run(one.name, func(t *testing.T) {
			wants(t, checked(t, c, e, left(t, result, nil)), strength, one.failed, "")
		})
	}
}

func TestCheckVectorDimensions(t *testing.T) {
	m := model(t, "embedder", func(_ string, q question) any { return vectors(q) })
	e := envelope(t, texts(true, "one", "three"))
	honest := answered(t, e, m.Do)
	for name, ours := range map[string]func(q question) any{
		"ignores them":  func(q question) any { q.Dimensions += 5; return vectors(q) },
		"knows nothing": func(q question) any { return map[string]any{"data": []any{zeros(0, q), zeros(1, q)}} },
	} {
		other := model(t, "embedder", func(_ string, q question) any { return ours(q) })
		r := checked(t, typed.Checker{Types: oa.Known(), Vectors: &other.Endpoint}, e, left(t, honest, nil))
		wants(t, r, guild.Unverified, "", "")
		if text := strings.Join(r.Warnings, "\n"); !strings.Contains(text, "no vectors of") {
			t.Errorf("%s: %q", name, r.Warnings)
		}
	}
}

// zeros returns a vector without a direction, for one text.
func zeros(index int, q question) any {
	return map[string]any{"index": index, "embedding": make([]float32, q.Dimensions)}
}

func TestUncheckableRequests(t *testing.T) {
	id, err := oa.ParseID("oa.other.v1")
	if err != nil {
		t.Fatal(err)
	}
	unknown := oa.Envelope{JobType: id, Payload: []byte(`{"x":1}`)}
	if r, err := (typed.Checker{Types: oa.Known()}).Check(t.Context(), unknown, left(t, `{"y": 1}`, nil), nostr.ZeroPK); !errors.Is(err, oa.ErrUnknown) {
		t.Errorf("%+v %v", r, err)
	}
	bad := oa.Envelope{JobType: envelope(t, commands("true")).JobType, Payload: []byte(`{}`)}
	if r, err := (typed.Checker{Types: oa.Known()}).Check(t.Context(), bad, left(t, `{}`, nil), nostr.ZeroPK); !errors.Is(err, oa.ErrInvalid) {
		t.Errorf("%+v %v", r, err)
	}
}

func TestAgree(t *testing.T) {
	rank := func(ids ...string) string {
		text := `{"topk": [`
		for i, id := range ids {
			text += `{"rank": ` + string(rune('1'+i)) + `, "id": "` + id + `", "score": 0.` + string(rune('1'+len(id))) + `},`
		}
		return strings.TrimSuffix(text, ",") + `], "provenance": {"model_id": "` + ids[0] + `"}}`
	}
	run := func(took, exit string) string {
		return `{"env_info": {"image_digest": "host"}, "runs": [{"cmd": "x", "exit_code": ` + exit + `, "duration_ms": ` + took + `,
			"stdout_sha256": "` + strings.Repeat("0a", 32) + `", "stderr_sha256": "` + strings.Repeat("0a", 32) + `"}], "artifacts": [], "status": "failed"}`
	}
	vector := func(x string) string { return `{"embeddings": [[1, ` + x + `]], "model_id": "m", "dimensions": 2}` }
	for _, c := range []struct {
		task, a, b string
		same       bool
	}{
		{oa.RetrievalRerank, rank("a", "b"), strings.Replace(rank("a", "b"), "0.2", "0.7", 2), true},
		{oa.RetrievalRerank, rank("a", "b"), rank("b", "a"), false},
		{oa.SandboxRun, run("1", "1"), run("2", "1"), true},
		{oa.SandboxRun, run("1", "1"), run("1", "2"), false},
		{oa.Embedding, vector("0.5"), vector("0.501"), true},
		{oa.Embedding, vector("0.5"), vector("0.9"), false},
		{"oa.other.v1", `{"x": 1, "provenance": {"a": 1}}`, `{"provenance": {"a": 2}, "x": 1}`, true},
		{"oa.other.v1", `{"x": 1}`, `{"x": 1.0}`, false},
		{"oa.other.v1", `nothing`, `nothing`, false},
		{oa.SandboxRun, `{}`, `{}`, false},
	} {
		id, err := oa.ParseID(c.task)
		if err != nil {
			t.Fatal(err)
		}
		if typed.Agree(id, []byte(c.a), []byte(c.b)) != c.same {
			t.Errorf("%s: %s and %s", c.task, c.a, c.b)
		}
	}
}

func TestBundle(t *testing.T) {
	e := envelope(t, commands("true"))
	packed, err := typed.Bundle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	got, ok, err := typed.Requested(packed)
	if err != nil || !ok || got.JobHash != e.JobHash || string(got.Payload) != string(e.Payload) || got.JobType != e.JobType {
		t.Errorf("%+v %v %v", got, ok, err)
	}
	if _, ok, err := typed.Requested([]byte("no bundle")); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
}

func TestVerificationLevels(t *testing.T) {
	for _, c := range []struct {
		redundancy   int
		adjudication oa.Adjudication
		want         guild.Criticality
	}{
		{1, oa.NoAdjudication, guild.Low}, {1, oa.MajorityVote, guild.Low}, {2, oa.NoAdjudication, guild.Medium}, {2, oa.JudgeModel, guild.Medium},
		{3, oa.JudgeModel, guild.High}, {3, oa.Merge, guild.High}, {4, oa.JudgeModel, guild.Critical}, {5, oa.Merge, guild.Critical},
		{2, oa.MajorityVote, guild.High}, {3, oa.MajorityVote, guild.High}, {4, oa.MajorityVote, guild.Critical}, {5, oa.NoAdjudication, guild.Critical},
	} {
		got, err := typed.CriticalityOf(oa.Verification{Redundancy: c.redundancy, Adjudication: c.adjudication})
		if err != nil || got != c.want {
			t.Errorf("%d %s: %s %v, want %s", c.redundancy, c.adjudication, got, err, c.want)
		}
	}
	for _, how := range []oa.Adjudication{oa.NoAdjudication, oa.MajorityVote, oa.JudgeModel} {
		if _, err := typed.CriticalityOf(oa.Verification{Redundancy: 6, Adjudication: how}); err == nil {
			t.Errorf("six are asked for %s", how)
		}
	}
}

func TestInvalidResultNotSent(t *testing.T) {
	e := envelope(t, candidates())
	for name, do := range map[string]typed.Do{
		"fails":    func(context.Context, oa.Envelope) ([]byte, error) { return nil, errors.New("it fails") },
		"no JSON":  func(context.Context, oa.Envelope) ([]byte, error) { return []byte("{"), nil },
		"null":     func(context.Context, oa.Envelope) ([]byte, error) { return []byte("null"), nil },
		"another":  func(context.Context, oa.Envelope) ([]byte, error) { return []byte(`{"topk": []}`), nil },
		"too long": func(context.Context, oa.Envelope) ([]byte, error) { return make([]byte, oa.MaxSize+1), nil },
	} {
		if raw, err := author.Answer(t.Context(), e, do); err == nil {
			t.Errorf("%s: %s", name, raw)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(ranked), true)
	f.Add([]byte(`{"embeddings": [[1]], "model_id": "m", "dimensions": 1}`), false)
	f.Fuzz(func(t *testing.T, result []byte, rerank bool) {
		e, err := oa.NewEnvelope(oa.EmbeddingRequest{Texts: []string{"a"}})
		if rerank {
			e, err = oa.NewEnvelope(candidates())
		}
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, typed.ResultFile), result, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := typed.Checker{Types: oa.Known()}.Check(t.Context(), e, dir, nostr.ZeroPK)
		if err != nil || len(r.Tests) == 0 || r.Passed() && typed.Essence(result).IsZero() {
			t.Errorf("%+v %v", r, err)
		}
		typed.Agree(e.JobType, result, result)
	})
}
