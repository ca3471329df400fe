package oa_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"guild"
	"guild/oa"
)

// says checks that an error has exactly the wanted faults.
func says(t *testing.T, name string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case want != "" && (!errors.Is(err, oa.ErrInvalid) || err.Error() != want):
		t.Errorf("%s: %v, want %s", name, err, want)
	}
}

func chunkRequest() oa.ChunkRequest {
	return oa.ChunkRequest{Task: "explain", Chunk: oa.Chunk{Path: "a.go", StartLine: 10, EndLine: 20, Content: "…"}}
}

func TestChunks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*oa.ChunkRequest)
		want   string
	}{
		"a good one":      {func(*oa.ChunkRequest) {}, ""},
		"one line":        {func(r *oa.ChunkRequest) { r.Chunk.EndLine = 10 }, ""},
		"lines from 0":    {func(r *oa.ChunkRequest) { r.Chunk.StartLine = 0 }, "inputs.chunk.start_line is 0, and lines are counted from 1"},
		"lines backwards": {func(r *oa.ChunkRequest) { r.Chunk.EndLine = 9 }, "inputs.chunk.end_line is 9, before start_line 10"},
		"nothing asked":   {func(r *oa.ChunkRequest) { r.Task = " \n" }, "inputs.task is empty"},
		"a model for no judge": {func(r *oa.ChunkRequest) {
			r.Verification = oa.Verification{Mode: oa.Subjective, Adjudication: oa.Merge, JudgeModel: "m"}
		}, "inputs.verification.judge_model is there, and adjudication is merge"},
	} {
		r := chunkRequest()
		c.change(&r)
		says(t, name, r.Validate(), c.want)
	}
}

func TestChunkResults(t *testing.T) {
	request := chunkRequest()
	request.OutputConstraints = oa.OutputConstraints{MaxSummaryLength: new(5), MaxSymbols: new(1), MaxNextProbes: new(0)}
	for name, c := range map[string]struct {
		change func(*oa.ChunkResult)
		want   string
	}{
		"a good one": {func(*oa.ChunkResult) {}, ""},
		"a line before it": {func(r *oa.ChunkResult) { r.Symbols[0].Line = 9 },
			"outputs.symbols[0].line is 9, outside of the chunk's lines 10 to 20"},
		"a line after it": {func(r *oa.ChunkResult) {
			r.SuspectedFaults = append(r.SuspectedFaults, oa.SuspectedFault{Line: 21, Severity: oa.High})
		},
			"outputs.suspected_faults[1].line is 21, outside of the chunk's lines 10 to 20"},
		"more symbols than asked for": {func(r *oa.ChunkResult) { r.Symbols = append(r.Symbols, r.Symbols[0]) },
			"outputs.symbols has 2 elements, and at most 1 were asked for"},
		"a long summary":        {func(r *oa.ChunkResult) { r.Summary = "éééééé" }, "outputs.summary has 6 characters, and at most 5 were asked for"},
		"a probe":               {func(r *oa.ChunkResult) { r.RecommendedNextProbes = []oa.Probe{{}} }, "outputs.recommended_next_probes has 1 elements, and at most 0 were asked for"},
		"too sure":              {func(r *oa.ChunkResult) { r.Confidence = "1.1" }, `outputs.confidence is "1.1", want 0 to 1`},
		"as sure as it can be":  {func(r *oa.ChunkResult) { r.Confidence = "1.0" }, ""},
		"a confidence of words": {func(r *oa.ChunkResult) { r.Confidence = "high" }, `outputs.confidence is "high", want 0 to 1`},
	} {
		r := oa.ChunkResult{Summary: "ééééé", Confidence: "0.5", Symbols: []oa.Symbol{{Name: "f", Kind: "function", Line: 10}},
			SuspectedFaults: []oa.SuspectedFault{{Line: 20, Severity: oa.Low, Description: "d"}}}
		c.change(&r)
		says(t, name, r.Validate(request), c.want)
	}
}

func rerankRequest() oa.RerankRequest {
	return oa.RerankRequest{UserTask: "find", K: 2, Candidates: []oa.Candidate{{ID: "a"}, {ID: "b"}, {ID: "c"}}}
}

func TestCandidates(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*oa.RerankRequest)
		want   string
	}{
		"a good one":         {func(*oa.RerankRequest) {}, ""},
		"the same one twice": {func(r *oa.RerankRequest) { r.Candidates[2].ID = "a" }, `inputs.candidates[2].id is "a", as that of candidate 0`},
		"one without id":     {func(r *oa.RerankRequest) { r.Candidates[1].ID = "" }, "inputs.candidates[1].id is empty"},
		"none":               {func(r *oa.RerankRequest) { r.Candidates = nil }, "inputs.candidates is empty"},
		"none wanted":        {func(r *oa.RerankRequest) { r.K = 0 }, "inputs.k is 0, want at least 1"},
	} {
		r := rerankRequest()
		c.change(&r)
		says(t, name, r.Validate(), c.want)
	}
}

func TestRerankResults(t *testing.T) {
	for name, c := range map[string]struct {
		topk []oa.Ranked
		want string
	}{
		"a good one":         {[]oa.Ranked{{Rank: 1, ID: "c"}, {Rank: 2, ID: "a"}}, ""},
		"in any order":       {[]oa.Ranked{{Rank: 2, ID: "c"}, {Rank: 1, ID: "a"}}, ""},
		"fewer than k":       {[]oa.Ranked{{Rank: 1, ID: "c"}}, ""},
		"nothing":            {nil, "outputs.topk is empty"},
		"ranks from 0":       {[]oa.Ranked{{Rank: 0, ID: "c"}, {Rank: 1, ID: "a"}}, "outputs.topk[0].rank is 0, want 1 to 2 without gaps"},
		"a gap":              {[]oa.Ranked{{Rank: 1, ID: "c"}, {Rank: 3, ID: "a"}}, "outputs.topk[1].rank is 3, want 1 to 2 without gaps"},
		"a rank twice":       {[]oa.Ranked{{Rank: 1, ID: "c"}, {Rank: 1, ID: "a"}}, "outputs.topk[1].rank is 1 a second time"},
		"a stranger":         {[]oa.Ranked{{Rank: 1, ID: "c"}, {Rank: 2, ID: "x"}}, `outputs.topk[1].id is "x", which is not a candidate`},
		"a candidate twice":  {[]oa.Ranked{{Rank: 1, ID: "c"}, {Rank: 2, ID: "c"}}, `outputs.topk[1].id is "c" a second time`},
		"more than k":        {[]oa.Ranked{{Rank: 1, ID: "c"}, {Rank: 2, ID: "b"}, {Rank: 3, ID: "a"}}, "outputs.topk has 3 elements, and k is 2"},
		"a rank of the moon": {[]oa.Ranked{{Rank: math.MaxInt, ID: "c"}}, "outputs.topk[0].rank is 9223372036854775807, want 1 to 1 without gaps"},
	} {
		says(t, name, oa.RerankResult{TopK: c.topk}.Validate(rerankRequest()), c.want)
	}
}

func sandboxRequest() oa.SandboxRequest {
	return oa.SandboxRequest{Sandbox: oa.Sandbox{ImageDigest: "sha256:1"}, Commands: []oa.Command{{Cmd: "lint", ContinueOnFail: true}, {Cmd: "build"}, {Cmd: "test"}}}
}

func TestSandboxRequests(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*oa.SandboxRequest)
		want   string
	}{
		"a good one":                {func(*oa.SandboxRequest) {}, ""},
		"no image":                  {func(r *oa.SandboxRequest) { r.Sandbox.ImageDigest = "" }, "inputs.sandbox.image_digest is empty"},
		"no commands":               {func(r *oa.SandboxRequest) { r.Commands = nil }, "inputs.commands is empty"},
		"an empty command":          {func(r *oa.SandboxRequest) { r.Commands[1].Cmd = "" }, "inputs.commands[1].cmd is empty"},
		"a command with a NUL":      {func(r *oa.SandboxRequest) { r.Commands[1].Cmd = "a\x00b" }, "inputs.commands[1].cmd has a NUL in it"},
		"a mount point to the side": {func(r *oa.SandboxRequest) { r.Repo.MountPath = "/work/../etc" }, `inputs.repo.mount_path is "/work/../etc", want a clean absolute path`},
		"no processor":              {func(r *oa.SandboxRequest) { r.Sandbox.Resources.CPUs = "0.0" }, `inputs.sandbox.resources.cpus is "0.0", want more than 0`},
		"two faulty variables":      {func(r *oa.SandboxRequest) { r.Env = map[string]string{"B=": "", "A=": ""} }, `inputs.env."A=" is not an environment variable; inputs.env."B=" is not an environment variable`},
		"invalid variable":          {func(r *oa.SandboxRequest) { r.Env = map[string]string{"A=B": ""} }, `inputs.env."A=B" is not an environment variable`},
	} {
		r := sandboxRequest()
		c.change(&r)
		says(t, name, r.Validate(), c.want)
	}
}

// ran returns a result with one run for each exit code, of the commands in order.
func ran(status oa.Status, codes ...int) oa.SandboxResult {
	r := oa.SandboxResult{EnvInfo: oa.EnvInfo{ImageDigest: "sha256:1"}, Status: status}
	for i, code := range codes {
		r.Runs = append(r.Runs, oa.Run{Cmd: []string{"lint", "build", "test", "more"}[i], ExitCode: code, StdoutSHA256: guild.Sum(nil), StderrSHA256: guild.Sum(nil)})
	}
	return r
}

func TestRunsMatchCommands(t *testing.T) {
	other := ran(oa.StatusSuccess, 0, 0, 0)
	other.Runs[1].Cmd = "make"
	elsewhere := ran(oa.StatusSuccess, 0, 0, 0)
	elsewhere.EnvInfo.ImageDigest = "sha256:2"
	twice := ran(oa.StatusSuccess, 0, 0, 0)
	twice.Artifacts = []oa.Artifact{{Path: "a", SHA256: guild.Sum(nil)}, {Path: "a", SizeBytes: -1}, {SHA256: guild.Sum(nil)}}
	for _, c := range []struct {
		name   string
		result oa.SandboxResult
		want   string
	}{
		{"all went well", ran(oa.StatusSuccess, 0, 0, 0), ""},
		{"one may fail", ran(oa.StatusSuccess, 1, 0, 0), ""},
		{"one may fail, and that is said", ran(oa.StatusFailed, 1, 0, 0), ""},
		{"the build fails", ran(oa.StatusFailed, 0, 2), ""},
		{"both fail", ran(oa.StatusFailed, 1, 2), ""},
		{"the time ran out", ran(oa.StatusTimeout, 0), ""},
		{"the sandbox broke", ran(oa.StatusError), ""},
		{"it went on after a failure", ran(oa.StatusFailed, 0, 2, 0), "outputs.runs[2] is after a command that failed"},
		{"it stopped early", ran(oa.StatusSuccess, 0, 0), "outputs.runs has 2 elements, and status is success: command 2 was not run"},
		{"it stopped at what may fail", ran(oa.StatusFailed, 1), "outputs.runs has 1 elements, and status is failed: command 1 was not run"},
		{"a failure called success", ran(oa.StatusSuccess, 0, 2), "outputs.status is success, and a command failed"},
		{"a success called failure", ran(oa.StatusFailed, 0, 0, 0), "outputs.status is failed, and every exit code is 0"},
		{"one too many", ran(oa.StatusSuccess, 0, 0, 0, 0), "outputs.runs[3] is one too many: there are 3 commands"},
		{"another command", other, `outputs.runs[1].cmd is "make", want "build"`},
		{"another image", elsewhere, `outputs.env_info.image_digest is "sha256:2", want "sha256:1"`},
		{"bad artifacts", twice, `outputs.artifacts[1].path is "a" a second time; outputs.artifacts[1].size_bytes is -1; outputs.artifacts[1].sha256 is empty; outputs.artifacts[2].path is "", want a clean path below the mount path`},
		{"no time ran out", ran(oa.StatusTimeout), "outputs.runs is empty, and status is timeout: no command ran over its time"},
	} {
		says(t, c.name, c.result.Validate(sandboxRequest()), c.want)
	}
}

func TestArtifactPaths(t *testing.T) {
	for _, path := range []string{"/etc/passwd", "a/../b", "../a", "a//b", ".", "a\x00b", "a/"} {
		r := ran(oa.StatusSuccess, 0, 0, 0)
		r.Artifacts = []oa.Artifact{{Path: path, SHA256: guild.Sum(nil)}}
		says(t, path, r.Validate(sandboxRequest()), fmt.Sprintf("outputs.artifacts[0].path is %q, want a clean path below the mount path", path))
	}
}

func TestArtifactSizeDiffers(t *testing.T) {
	ours, other := ran(oa.StatusSuccess, 0, 0, 0), ran(oa.StatusSuccess, 0, 0, 0)
	ours.Artifacts = []oa.Artifact{{Path: "a", SHA256: guild.Sum(nil), SizeBytes: 7}}
	other.Artifacts = []oa.Artifact{{Path: "a", SHA256: guild.Sum(nil)}}
	if d := ours.Differences(other, false); len(d) != 1 || d[0].String() != "outputs.artifacts.a has 7 bytes, and 0 of the other" {
		t.Errorf("differences: %v", d)
	}
}

func TestObjectiveDifferences(t *testing.T) {
	ours := ran(oa.StatusSuccess, 0, 0, 0)
	ours.Artifacts = []oa.Artifact{{Path: "b", SHA256: guild.Sum([]byte("b"))}, {Path: "a", SHA256: guild.Sum([]byte("a"))}}
	same := ran(oa.StatusSuccess, 0, 0, 0)
	same.Artifacts = []oa.Artifact{ours.Artifacts[1], ours.Artifacts[0]}
	same.EnvInfo.Hostname, same.Runs[0].DurationMs, same.Runs[1].StdoutSHA256 = "elsewhere", 99, guild.Sum([]byte("at another time"))
	if d := ours.Differences(same, false); len(d) > 0 {
		t.Errorf("differences: %v", d)
	}
	if d := ours.Differences(same, true); len(d) != 1 || d[0].Path != "outputs.runs[1].stdout_sha256" {
		t.Errorf("differences in what was written: %v", d)
	}
	other := ran(oa.StatusFailed, 0, 3)
	other.Artifacts = []oa.Artifact{{Path: "a", SHA256: guild.Sum([]byte("x"))}, {Path: "c d"}}
	var paths []string
	for _, d := range ours.Differences(other, true) {
		paths = append(paths, d.Path)
	}
	want := `outputs.status outputs.runs outputs.runs[1].exit_code outputs.artifacts.a outputs.artifacts.b outputs.artifacts."c d"`
	if got := strings.Join(paths, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestContinueOnFailStatus(t *testing.T) {
	success, failed := ran(oa.StatusSuccess, 0, 3, 0), ran(oa.StatusFailed, 0, 3, 0)
	if d := success.Differences(failed, false); len(d) > 0 {
		t.Errorf("differences: %v", d)
	}
	for _, other := range []oa.SandboxResult{ran(oa.StatusTimeout, 0, 3, 0), ran(oa.StatusFailed, 0, 3, 1)} {
		if d := success.Differences(other, false); len(d) == 0 || d[0].Path != "outputs.status" {
			t.Errorf("%s: %v", other.Status, d)
		}
	}
}

func TestEmbeddingResults(t *testing.T) {
	request := oa.EmbeddingRequest{Texts: []string{"a", "b"}, ModelHint: "m", Dimensions: 2, Verification: oa.Verification{Mode: oa.Objective}}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name   string
		result oa.EmbeddingResult
		want   string
	}{
		{"a good one", oa.EmbeddingResult{ModelID: "m", Dimensions: 2, Embeddings: [][]float32{{1, 2}, {3, 4}}}, ""},
		{"one too few", oa.EmbeddingResult{ModelID: "m", Dimensions: 2, Embeddings: [][]float32{{1, 2}}}, "outputs.embeddings has 1 elements for 2 texts"},
		{"a short one", oa.EmbeddingResult{ModelID: "m", Dimensions: 2, Embeddings: [][]float32{{1, 2}, {3}}}, "outputs.embeddings[1] has 1 numbers, and dimensions is 2"},
		{"other dimensions", oa.EmbeddingResult{ModelID: "m", Dimensions: 1, Embeddings: [][]float32{{1}, {3}}}, "outputs.dimensions is 1, want 2"},
		{"a vector that says nothing", oa.EmbeddingResult{ModelID: "m", Dimensions: 2, Embeddings: [][]float32{{1, 2}, {0, 0}}}, "outputs.embeddings[1] has zeros only"},
		{"another model", oa.EmbeddingResult{ModelID: "n", Dimensions: 2, Embeddings: [][]float32{{1, 2}, {3, 4}}}, `outputs.model_id is "n", want "m"`},
		{"no number", oa.EmbeddingResult{ModelID: "m", Dimensions: 2, Embeddings: [][]float32{{nan, 2}, {3, inf}}}, "outputs.embeddings[0][0] is not finite; outputs.embeddings[1][1] is not finite"},
	} {
		says(t, c.name, c.result.Validate(request), c.want)
	}
	free := oa.EmbeddingRequest{Texts: []string{"a"}}
	says(t, "whatever model", oa.EmbeddingResult{ModelID: "n", Dimensions: 1, Embeddings: [][]float32{{1}}}.Validate(free), "")
	blank := oa.EmbeddingRequest{Texts: []string{" "}}
	says(t, "of nothing", oa.EmbeddingResult{ModelID: "n", Dimensions: 1, Embeddings: [][]float32{{0}}}.Validate(blank), "")
	free.Verification.Mode = oa.Objective
	says(t, "objective and not pinned", free.Validate(), "inputs.verification.mode is objective, and model_hint and dimensions are not both there")
	says(t, "no texts", oa.EmbeddingRequest{}.Validate(), "inputs.texts is empty")
}

func TestCosine(t *testing.T) {
	huge := []float32{math.MaxFloat32, math.MaxFloat32}
	for _, c := range []struct {
		name string
		a, b []float32
		want float64
	}{
		{"the same", []float32{1, 2, 3}, []float32{1, 2, 3}, 1},
		{"longer", []float32{1, 2, 3}, []float32{2, 4, 6}, 1},
		{"opposite", []float32{1, 0}, []float32{-3, 0}, -1},
		{"at a right angle", []float32{1, 0}, []float32{0, 5}, 0},
		{"halfway", []float32{1, 0}, []float32{1, 1}, math.Sqrt2 / 2},
		{"as large as can be", huge, huge, 1},
		{"of other lengths", []float32{1}, []float32{1, 0}, 0},
		{"of zeros", []float32{0, 0}, []float32{0, 0}, 0},
		{"of nothing", nil, nil, 0},
		{"not a number", []float32{float32(math.NaN())}, []float32{1}, 0},
		{"infinite", []float32{float32(math.Inf(1))}, []float32{1}, 0},
	} {
		if got := oa.Cosine(c.a, c.b); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A fault of one field does not hide the contradictions between the others.
func TestEveryStageIsChecked(t *testing.T) {
	for payload, c := range map[string]struct{ jobType, want string }{
		`{"user_task":"find","candidates":[{"id":"a","content":"x"},{"id":"a","content":"y"}],"k":0}`: {
			oa.RetrievalRerank, `inputs.k is 0, want at least 1; inputs.candidates[1].id is "a", as that of candidate 0`},
		`{"user_task":" ","candidates":7,"k":"one"}`: {
			oa.RetrievalRerank, `inputs.candidates is a number, want an array; inputs.k is a string, want an integer; inputs.user_task is empty`},
		`{"sandbox":{"provider":"docker","image_digest":"","network_policy":"open"},"repo":{"source":"x"},"commands":[]}`: {
			oa.SandboxRun, `inputs.sandbox.network_policy is "open", want one of none, localhost, full; inputs.sandbox.image_digest is empty; inputs.commands is empty`},
		`{"task":"","chunk":{"path":"","start_line":"1","end_line":-4,"content":"x"},"verification":{"mode":"subjective","adjudication":"coin","judge_model":"m"}}`: {
			oa.CodeChunkAnalysis, `inputs.chunk.end_line is -4, want at least 0; inputs.chunk.start_line is a string, want an integer; ` +
				`inputs.verification.adjudication is "coin", want one of none, majority_vote, judge_model, merge; inputs.task is empty; inputs.chunk.path is empty`},
	} {
		says(t, payload, oa.Known().CheckRequest(id(t, c.jobType), []byte(payload)), c.want)
	}
	asked := []byte(`{"user_task":"find","candidates":[{"id":"a","content":"x"},{"id":"b","content":"y"}],"k":2}`)
	ranked := []byte(`{"topk":[{"rank":1,"id":"a","score":"high"},{"rank":1,"id":"z","score":0.5}]}`)
	says(t, "a ranking", oa.Known().CheckResult(id(t, oa.RetrievalRerank), asked, ranked),
		`outputs.topk[0].score is a string, want a number; outputs.topk[1].rank is 1 a second time; outputs.topk[1].id is "z", which is not a candidate`)
	says(t, "vectors", oa.Known().CheckResult(id(t, oa.Embedding), []byte(`{"texts":["a"]}`), []byte(`{"embeddings":[[1,2]],"model_id":" ","dimensions":"2"}`)),
		`outputs.dimensions is a string, want an integer; outputs.model_id is empty`)
	says(t, "vectors for fewer texts", oa.Known().CheckResult(id(t, oa.Embedding), []byte(`{"texts":["a"]}`), []byte(`{"embeddings":[[1,2],[3,4]],"model_id":"m","dimensions":"2"}`)),
		`outputs.dimensions is a string, want an integer; outputs.embeddings has 2 elements for 1 texts`)
}
