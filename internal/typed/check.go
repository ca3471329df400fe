package typed

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"guild"
	"guild/internal/opinion"
	"guild/internal/workdir"
	"guild/nutshell"
	"guild/oa"
)

// sampled is how many texts are embedded again.
const sampled = 8

// Checker checks results that somebody else made. What it cannot do again it takes on the word of the schema, and says
// so: such a report is weak.
type Checker struct {
	Types   oa.Registry       // the job types that are known
	Sandbox *Sandbox          // runs commands again; nil if they cannot be
	Vectors *opinion.Endpoint // embeds a sample again; nil if none can
}

// Report is what a check found.
type Report struct {
	Tests    []guild.Test   `json:"tests"` // each in the layer of correctness
	Strength guild.Strength `json:"strength"`
	Warnings []string       `json:"warnings,omitempty"` // what decides nothing: a lack in the provenance is a violation all the same
	How      string         `json:"how"`                // what was done
	Ran      bool           `json:"ran"`                // in our own sandbox

	Again *oa.SandboxResult `json:"again,omitempty"` // what running it again came to
}

// test adds a test, which is passed if there are no faults.
func (r *Report) test(id string, faults ...string) {
	const longest = 500
	t := guild.Test{ID: id, State: guild.TestPassed, Layer: guild.LayerCorrectness}
	if len(faults) > 0 {
		t.State, t.Message = guild.TestFailed, guild.Cut(guild.Clean(strings.Join(faults, "; ")), longest)
	}
	r.Tests = append(r.Tests, t)
}

// Passed reports whether every test did.
func (r Report) Passed() bool {
	return len(r.Tests) > 0 && !slices.ContainsFunc(r.Tests, func(t guild.Test) bool { return t.State != guild.TestPassed })
}

// Check checks a delivery: the directory of its artifacts, which a stranger has filled. The error is that this side
// could not, as with a job type that is not described here, and nothing is known about the delivery.
func (c Checker) Check(ctx context.Context, e oa.Envelope, dir string) (Report, error) {
	if err := c.Types.CheckRequest(e.JobType, e.Payload); err != nil {
		return Report{}, fmt.Errorf("our own request: %w", err)
	}
	r := Report{Strength: guild.Weak, How: "by its schema"}
	result, err := Result(dir)
	if err == nil {
		err = c.Types.CheckResult(e.JobType, e.Payload, result)
	}
	if err != nil {
		r.test("schema", err.Error())
		r.Strength = guild.Strong // nobody needs to be believed that it is none
		return r, nil
	}
	r.test("schema")
	r.provenance(c.Types, e, result)
	switch e.JobType.String() {
	case oa.SandboxRun:
		err = c.checkRun(ctx, e, result, dir, &r)
	case oa.Embedding:
		err = c.checkVectors(ctx, e, result, &r)
	}
	return r, err
}

// provenance notes what a result does not say of how it came to be, and what it says that is not so. Whatever it is, the
// result counts.
func (r *Report) provenance(types oa.Registry, e oa.Envelope, result []byte) {
	if s, err := types.Schema(e.JobType); err == nil {
		for _, lack := range s.Lacks(result) {
			if lack.Rule == oa.Required {
				r.Warnings = append(r.Warnings, lack.String())
			}
		}
	}
	var said struct {
		Provenance oa.Provenance `json:"provenance"`
	}
	if json.Unmarshal(result, &said) != nil {
		return
	}
	p := said.Provenance
	if !p.InputSHA256.IsZero() && p.InputSHA256 != e.JobHash {
		r.Warnings = append(r.Warnings, "provenance.input_sha256 is not that of the request")
	}
	if !p.OutputSHA256.IsZero() && p.OutputSHA256 != Essence(result) {
		r.Warnings = append(r.Warnings, "provenance.output_sha256 is not that of the result without its provenance")
	}
}

// checkRun compares a sandbox run with what travelled of it, and with our own.
func (c Checker) checkRun(ctx context.Context, e oa.Envelope, result []byte, dir string, r *Report) error {
	q, theirs, err := both[oa.SandboxRequest, oa.SandboxResult](e.Payload, result)
	if err != nil {
		return err
	}
	wrong, travelled := rehash(theirs, dir)
	if travelled > 0 {
		r.test("artifacts that travelled", wrong...)
		r.How = fmt.Sprintf("by its schema, and by hashing %d artifacts", travelled)
	}
	if c.Sandbox == nil {
		r.Warnings = append(r.Warnings, "the commands were not run again: there is no sandbox")
		r.ended(theirs)
		return nil
	}
	if err := c.Sandbox.Check(q); err != nil {
		r.Warnings = append(r.Warnings, guild.Cut("the commands were not run again: "+err.Error(), 500))
		r.ended(theirs)
		return nil
	}
	ours, err := c.Sandbox.run(ctx, q, "")
	if err != nil {
		return fmt.Errorf("run the commands again: %w", err)
	}
	r.Strength, r.How, r.Ran, r.Again = guild.Strong, "the commands were run again", true, &ours
	differences := theirs.Differences(ours, false)
	for _, part := range []struct{ id, path string }{{"status", "outputs.status"}, {"exit codes", "outputs.runs"}, {"artifacts", "outputs.artifacts"}} {
		var faults []string
		for _, d := range differences {
			if strings.HasPrefix(d.Path, part.path) {
				faults = append(faults, d.String())
			}
		}
		r.test(part.id, faults...)
	}
	return nil
}

// ended is a test of whether a run that nobody repeats says at least that its commands were run.
func (r *Report) ended(theirs oa.SandboxResult) {
	if theirs.Status == oa.StatusCancelled || theirs.Status == oa.StatusError {
		r.test("status", fmt.Sprintf("outputs.status is %s", theirs.Status))
		return
	}
	r.test("status")
}

// rehash compares the artifacts that came along with the hashes that are said of them.
func rehash(r oa.SandboxResult, dir string) (wrong []string, travelled int) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0
	}
	defer root.Close()
	if _, err := root.Stat(ArtifactsDir); err != nil {
		return nil, 0
	}
	tree, err := workdir.FS(dir, nutshell.DefaultLimits())
	if err != nil {
		return []string{err.Error()}, 1
	}
	defer tree.Close()
	for i, a := range r.Artifacts {
		name := path.Join(ArtifactsDir, a.Path)
		if !fs.ValidPath(name) {
			continue
		}
		if _, err := fs.Stat(tree, name); err != nil {
			continue // it did not come along
		}
		travelled++
		there, err := artifact(tree, name)
		if err != nil || there.SHA256 != a.SHA256 {
			wrong = append(wrong, fmt.Sprintf("outputs.artifacts[%d].sha256 is %s, and the file's is %s", i, a.SHA256, there.SHA256))
		}
	}
	return wrong, travelled
}

// checkVectors embeds a sample of the texts again, where the request says by which model.
func (c Checker) checkVectors(ctx context.Context, e oa.Envelope, result []byte, r *Report) error {
	q, theirs, err := both[oa.EmbeddingRequest, oa.EmbeddingResult](e.Payload, result)
	if err != nil {
		return err
	}
	if !q.Pinned() || c.Vectors == nil {
		r.Warnings = append(r.Warnings, "nothing was embedded again: that needs a model and dimensions in the request, and an endpoint here")
		return nil
	}
	sample := rand.Perm(len(q.Texts)) // no provider knows which
	sample = sample[:min(len(sample), sampled)]
	slices.Sort(sample)
	var texts []string
	for _, i := range sample {
		texts = append(texts, q.Texts[i])
	}
	vectors, _, err := Model{Endpoint: *c.Vectors}.vectors(ctx, q.ModelHint, texts, q.Dimensions)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		r.Warnings = append(r.Warnings, guild.Cut("nothing was embedded again: "+err.Error(), 500))
		return nil
	}
	if slices.ContainsFunc(vectors, func(v []float32) bool { return len(v) != q.Dimensions || oa.Cosine(v, v) == 0 }) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("nothing was embedded again: the endpoint here has no vectors of %d dimensions", q.Dimensions))
		return nil
	}
	var faults []string
	for i, at := range sample {
		if cosine := oa.Cosine(theirs.Embeddings[at], vectors[i]); cosine < oa.SameVector {
			faults = append(faults, fmt.Sprintf("outputs.embeddings[%d] has the cosine %.4f with our vector of the same text, want %g", at, cosine, oa.SameVector))
		}
	}
	r.test("vectors", faults...)
	r.Strength, r.How = guild.Strong, fmt.Sprintf("%d of %d texts were embedded again", len(sample), len(q.Texts))
	return nil
}
