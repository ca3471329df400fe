package oa

import (
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"unicode/utf8"
)

// faults adds contradictions between the members.
func (v Verification) faults(f *Faults) {
	if v.Adjudication != JudgeModel && v.JudgeModel != "" {
		f.add("inputs.verification.judge_model", "is there, and adjudication is %s", v.Adjudication)
	}
}

// notEmpty adds a fault for a blank text.
func notEmpty(f *Faults, at, text string) {
	if strings.TrimSpace(text) == "" {
		f.add(at, "is empty")
	}
}

// Validate returns, as Faults, the contradictions in a request.
func (r ChunkRequest) Validate() error {
	var f Faults
	notEmpty(&f, "inputs.task", r.Task)
	notEmpty(&f, "inputs.chunk.path", r.Chunk.Path)
	if r.Chunk.StartLine < 1 {
		f.add("inputs.chunk.start_line", "is %d, and lines are counted from 1", r.Chunk.StartLine)
	}
	if r.Chunk.EndLine < r.Chunk.StartLine {
		f.add("inputs.chunk.end_line", "is %d, before start_line %d", r.Chunk.EndLine, r.Chunk.StartLine)
	}
	r.Verification.faults(&f)
	return f.err()
}

// Validate returns, as Faults, how a result does not fit its request: lines outside the chunk, and more than was asked
// for.
func (r ChunkResult) Validate(of ChunkRequest) error {
	var f Faults
	notEmpty(&f, "outputs.summary", r.Summary)
	inside := func(at string, line int) {
		if line < of.Chunk.StartLine || line > of.Chunk.EndLine {
			f.add(at+".line", "is %d, outside of the chunk's lines %d to %d", line, of.Chunk.StartLine, of.Chunk.EndLine)
		}
	}
	for i, s := range r.Symbols {
		at := element("outputs.symbols", i)
		notEmpty(&f, at+".name", s.Name)
		inside(at, s.Line)
	}
	for i, s := range r.SuspectedFaults {
		inside(element("outputs.suspected_faults", i), s.Line)
	}
	for _, bound := range []struct {
		name string
		n    int
		most *int
		unit string
	}{
		{"summary", utf8.RuneCountInString(r.Summary), of.OutputConstraints.MaxSummaryLength, "characters"},
		{"symbols", len(r.Symbols), of.OutputConstraints.MaxSymbols, "elements"},
		{"suspected_faults", len(r.SuspectedFaults), of.OutputConstraints.MaxFaults, "elements"},
		{"recommended_next_probes", len(r.RecommendedNextProbes), of.OutputConstraints.MaxNextProbes, "elements"},
	} {
		if bound.most != nil && bound.n > *bound.most {
			f.add("outputs."+bound.name, "has %d %s, and at most %d were asked for", bound.n, bound.unit, *bound.most)
		}
	}
	between(&f, "outputs.confidence", r.Confidence, 0, 1)
	return f.err()
}

// between adds a fault for a number outside a range.
func between(f *Faults, at string, n Number, least, most float64) {
	if x := n.Float(); !(least <= x && x <= most) {
		f.add(at, "is %.40q, want %g to %g", string(n), least, most)
	}
}

// Validate returns, as Faults, the contradictions in a request.
func (r RerankRequest) Validate() error {
	var f Faults
	notEmpty(&f, "inputs.user_task", r.UserTask)
	if len(r.Candidates) == 0 {
		f.add("inputs.candidates", "is empty")
	}
	if r.K < 1 {
		f.add("inputs.k", "is %d, want at least 1", r.K)
	}
	first := map[string]int{}
	for i, c := range r.Candidates {
		at := element("inputs.candidates", i) + ".id"
		notEmpty(&f, at, c.ID)
		if j, twice := first[c.ID]; twice {
			f.add(at, "is %.40q, as that of candidate %d", c.ID, j)
			continue
		}
		first[c.ID] = i
	}
	r.Verification.faults(&f)
	return f.err()
}

// Validate returns, as Faults, how a result does not fit its request: ranks with gaps, unknown or duplicate
// candidates, and more than k. Fewer than k are valid: the surface does not require k, and useless candidates need not
// be ranked.
func (r RerankResult) Validate(of RerankRequest) error {
	var f Faults
	if len(r.TopK) > of.K {
		f.add("outputs.topk", "has %d elements, and k is %d", len(r.TopK), of.K)
	}
	if len(r.TopK) == 0 && len(of.Candidates) > 0 {
		f.add("outputs.topk", "is empty")
	}
	asked, ids, ranks := map[string]bool{}, map[string]bool{}, map[int]bool{}
	for _, c := range of.Candidates {
		asked[c.ID] = true
	}
	for i, one := range r.TopK {
		at := element("outputs.topk", i)
		switch {
		case one.Rank < 1 || one.Rank > len(r.TopK):
			f.add(at+".rank", "is %d, want 1 to %d without gaps", one.Rank, len(r.TopK))
		case ranks[one.Rank]:
			f.add(at+".rank", "is %d a second time", one.Rank)
		}
		switch {
		case !asked[one.ID]:
			f.add(at+".id", "is %.40q, which is not a candidate", one.ID)
		case ids[one.ID]:
			f.add(at+".id", "is %.40q a second time", one.ID)
		}
		ids[one.ID], ranks[one.Rank] = true, true
	}
	return f.err()
}

// Validate returns, as Faults, the contradictions in a request.
func (r SandboxRequest) Validate() error {
	var f Faults
	notEmpty(&f, "inputs.sandbox.image_digest", r.Sandbox.ImageDigest)
	if r.Sandbox.Resources.CPUs != "" && !(r.Sandbox.Resources.CPUs.Float() > 0) {
		f.add("inputs.sandbox.resources.cpus", "is %.40q, want more than 0", string(r.Sandbox.Resources.CPUs))
	}
	if m := r.Repo.MountPath; m != "" && (!path.IsAbs(m) || path.Clean(m) != m || strings.ContainsRune(m, 0)) {
		f.add("inputs.repo.mount_path", "is %.80q, want a clean absolute path", m)
	}
	if len(r.Commands) == 0 {
		f.add("inputs.commands", "is empty")
	}
	for i, c := range r.Commands {
		notEmpty(&f, element("inputs.commands", i)+".cmd", c.Cmd)
		if strings.ContainsRune(c.Cmd, 0) {
			f.add(element("inputs.commands", i)+".cmd", "has a NUL in it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		value := r.Env[name]
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			f.add(member("inputs.env", name), "is not an environment variable")
		}
	}
	r.Verification.faults(&f)
	return f.err()
}

// Validate returns, as Faults, how a result does not fit its request: another image, runs that differ from the
// commands up to the first failure, and a status that contradicts the runs.
func (r SandboxResult) Validate(of SandboxRequest) error {
	var f Faults
	if r.EnvInfo.ImageDigest != of.Sandbox.ImageDigest {
		f.add("outputs.env_info.image_digest", "is %.80q, want %.80q", r.EnvInfo.ImageDigest, of.Sandbox.ImageDigest)
	}
	r.runsFit(of.Commands, &f)
	paths := map[string]bool{}
	for i, a := range r.Artifacts {
		at := element("outputs.artifacts", i)
		if !fs.ValidPath(a.Path) || a.Path == "." || strings.ContainsRune(a.Path, 0) {
			f.add(at+".path", "is %.80q, want a clean path below the mount path", a.Path)
		}
		if paths[a.Path] {
			f.add(at+".path", "is %.80q a second time", a.Path)
		}
		paths[a.Path] = true
		if a.SizeBytes < 0 {
			f.add(at+".size_bytes", "is %d", a.SizeBytes)
		}
		if a.SHA256.IsZero() {
			f.add(at+".sha256", "is empty")
		}
	}
	return f.err()
}

// runsFit adds the differences between the runs and the commands.
func (r SandboxResult) runsFit(commands []Command, f *Faults) {
	stopped := false // by a failed command
	due, failures := 0, 0
	for i, run := range r.Runs {
		at := element("outputs.runs", i)
		switch {
		case i >= len(commands):
			f.add(at, "is one too many: there are %d commands", len(commands))
			return
		case stopped:
			f.add(at, "is after a command that failed")
			return
		case run.Cmd != commands[i].Cmd:
			f.add(at+".cmd", "is %.80q, want %.80q", run.Cmd, commands[i].Cmd)
		}
		due++
		if run.ExitCode != 0 {
			failures++
			stopped = !commands[i].ContinueOnFail
		}
	}
	complete := stopped || due == len(commands)
	switch r.Status {
	case StatusSuccess, StatusFailed:
		if !complete {
			f.add("outputs.runs", "has %d elements, and status is %s: command %d was not run", len(r.Runs), r.Status, due)
		}
		if r.Status == StatusSuccess && stopped {
			f.add("outputs.status", "is success, and a command failed")
		}
		if r.Status == StatusFailed && failures == 0 {
			f.add("outputs.status", "is failed, and every exit code is 0")
		}
	case StatusTimeout:
		if due == 0 {
			f.add("outputs.runs", "is empty, and status is timeout: no command ran over its time")
		}
	}
}

// Validate returns, as Faults, the contradictions in a request.
func (r EmbeddingRequest) Validate() error {
	var f Faults
	if len(r.Texts) == 0 {
		f.add("inputs.texts", "is empty")
	}
	if r.Verification.Mode == Objective && !r.Pinned() {
		f.add("inputs.verification.mode", "is objective, and model_hint and dimensions are not both there")
	}
	r.Verification.faults(&f)
	return f.err()
}

// Validate returns, as Faults, how a result does not fit its request. There must be one vector for each text, with the
// requested dimensions and finite numbers. The vector of a text that is not blank may not be all zeros: its cosine
// with any vector is 0. If the request is pinned, the model must be the requested one.
func (r EmbeddingResult) Validate(of EmbeddingRequest) error {
	var f Faults
	if len(r.Embeddings) != len(of.Texts) {
		f.add("outputs.embeddings", "has %d elements for %d texts", len(r.Embeddings), len(of.Texts))
	}
	if of.Dimensions > 0 && r.Dimensions != of.Dimensions {
		f.add("outputs.dimensions", "is %d, want %d", r.Dimensions, of.Dimensions)
	}
	notEmpty(&f, "outputs.model_id", r.ModelID)
	if of.Verification.Mode == Objective && of.ModelHint != "" && r.ModelID != of.ModelHint {
		f.add("outputs.model_id", "is %.80q, want %.80q", r.ModelID, of.ModelHint)
	}
	for i, vector := range r.Embeddings {
		at := element("outputs.embeddings", i)
		if len(vector) != r.Dimensions {
			f.add(at, "has %d numbers, and dimensions is %d", len(vector), r.Dimensions)
		}
		for j, x := range vector {
			if y := float64(x); math.IsNaN(y) || math.IsInf(y, 0) {
				f.add(element(at, j), "is not finite")
				break
			}
		}
		zero := !slices.ContainsFunc(vector, func(x float32) bool { return x != 0 })
		if zero && len(vector) > 0 && i < len(of.Texts) && strings.TrimSpace(of.Texts[i]) != "" {
			f.add(at, "has zeros only")
		}
	}
	return f.err()
}
