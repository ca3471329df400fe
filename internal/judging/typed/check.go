package typed

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/internal/judging/opinion"
	"guild/oa"
)

// sampled is the number of texts that are embedded again.
const sampled = 8

// Checker checks the results of others. A result that it cannot recompute is checked only by its schema, and if it fits,
// the report is unverified.
type Checker struct {
	Types   oa.Registry       // known job types
	Sandbox *Sandbox          // runs commands again; may be nil
	Vectors *opinion.Endpoint // embeds a sample again; may be nil

	Log *slog.Logger // logs why an endpoint did not answer; slog.Default() if nil
}

// Report holds the result of a check.
type Report struct {
	Tests    []guild.Test   `json:"tests"` // each in the correctness layer
	Strength guild.Strength `json:"strength"`
	Warnings []string       `json:"warnings,omitempty"` // such as gaps in the provenance; they decide nothing
	How      string         `json:"how"`                // how it was checked
	Ran      bool           `json:"ran"`                // commands were run in our own sandbox

	Again *oa.SandboxResult `json:"again,omitempty"` // our own run
	Twice *oa.SandboxResult `json:"twice,omitempty"` // our second run, if the first one differs from the provider's

	Person string `json:"person,omitempty"` // why a person must decide; the tests are then only what is known so far
}

// test adds a test, which passes if there are no faults.
func (r *Report) test(id string, faults ...string) {
	const longest = 500
	t := guild.Test{ID: id, State: guild.TestPassed, Layer: guild.LayerCorrectness}
	if len(faults) > 0 {
		t.State, t.Message = guild.TestFailed, guild.Cut(guild.Clean(strings.Join(faults, "; ")), longest)
	}
	r.Tests = append(r.Tests, t)
}

// Passed reports whether every test passed.
func (r Report) Passed() bool {
	return len(r.Tests) > 0 && !slices.ContainsFunc(r.Tests, func(t guild.Test) bool { return t.State != guild.TestPassed })
}

// Check checks a delivery: the directory of its artifacts, which is hostile. by is the provider that delivered it, zero
// if unknown. An error means that this node could not check it, for example because the job type is unknown, and says
// nothing about the delivery.
func (c Checker) Check(ctx context.Context, e oa.Envelope, dir string, by nostr.PubKey) (Report, error) {
	if err := c.Types.CheckRequest(e.JobType, e.Payload); err != nil {
		return Report{}, fmt.Errorf("our own request: %w", err)
	}
	r := Report{Strength: guild.Unverified, How: "by its schema"}
	err := c.check(ctx, e, dir, by, &r)
	r.weigh()
	return r, err
}

// check adds the tests of a delivery to a report.
func (c Checker) check(ctx context.Context, e oa.Envelope, dir string, by nostr.PubKey, r *Report) error {
	result, err := Result(dir)
	if err == nil {
		err = c.Types.CheckResult(e.JobType, e.Payload, result)
	}
	if err != nil {
		r.test("schema", err.Error())
		return nil
	}
	r.test("schema")
	if another := r.provenance(c.Types, e, result, by); another != "" {
		r.test("provenance", another)
		r.How = "by the provider that it names"
		return nil
	}
	switch e.JobType.String() {
	case oa.SandboxRun:
		return c.checkRun(ctx, e, result, dir, r)
	case oa.Embedding:
		return c.checkVectors(ctx, e, result, r)
	}
	return nil
}

// weigh sets the strength of a report with all its tests, and that of the tests that passed. A failed test is weak by
// the rule of all verdicts. If a person must decide, nothing is verified yet.
func (r *Report) weigh() {
	switch {
	case !r.Passed():
		r.Strength = guild.Weak
	case r.Person != "":
		r.Strength = guild.Unverified
	}
	for i := range r.Tests {
		r.Tests[i].Exposure = guild.Visible // the provider had the whole request
		if r.Tests[i].State == guild.TestPassed {
			r.Tests[i].Strength = r.Strength
		}
	}
}

// provenance adds warnings about missing or wrong parts of a result's provenance. They decide nothing. The exception is
// another provider's key: the result is then a copy, and another describes that.
func (r *Report) provenance(types oa.Registry, e oa.Envelope, result []byte, by nostr.PubKey) (another string) {
	if s, err := types.Schema(e.JobType); err == nil {
		for _, lack := range s.Lacks(result) {
			if lack.Rule == oa.Required {
				r.Warnings = append(r.Warnings, lack.String())
			}
		}
	}
	var outputs struct {
		Provenance oa.Provenance `json:"provenance"`
	}
	if json.Unmarshal(result, &outputs) != nil {
		return ""
	}
	p := outputs.Provenance
	if !p.InputSHA256.IsZero() && p.InputSHA256 != e.JobHash {
		r.Warnings = append(r.Warnings, "provenance.input_sha256 is not that of the request")
	}
	if !p.OutputSHA256.IsZero() && p.OutputSHA256 != Essence(result) {
		r.Warnings = append(r.Warnings, "provenance.output_sha256 is not that of the result without its provenance")
	}
	if p.ProviderPubKey == "" || by == nostr.ZeroPK {
		return ""
	}
	named, err := keyOf(p.ProviderPubKey)
	if err != nil {
		r.Warnings = append(r.Warnings, "provenance.provider_pubkey is not a public key")
		return ""
	}
	if named != by {
		return fmt.Sprintf("outputs.provenance.provider_pubkey is %.8s…, and %.8s… delivered it", named.Hex(), by.Hex())
	}
	return ""
}

// keyOf parses a public key in hex or as npub.
func keyOf(text string) (nostr.PubKey, error) {
	if strings.HasPrefix(text, "npub1") {
		prefix, value, err := nip19.Decode(text)
		if key, ok := value.(nostr.PubKey); ok && err == nil && prefix == "npub" {
			return key, nil
		}
	}
	return nostr.PubKeyFromHex(strings.ToLower(text))
}

// checkVectors refuses equal vectors for different texts, and embeds a random sample of the texts again, if the request
// names the model.
//
// Vectors of different models cannot be compared. If our endpoint does not answer, or has no such model, the report has
// a warning and no failed test: that is not the provider's fault.
func (c Checker) checkVectors(ctx context.Context, e oa.Envelope, result []byte, r *Report) error {
	q, theirs, err := both[oa.EmbeddingRequest, oa.EmbeddingResult](e.Payload, result)
	if err != nil {
		return err
	}
	if faults := equalVectors(q.Texts, theirs.Embeddings); len(faults) > 0 {
		r.test("different vectors", faults...)
		r.How = "by comparing its vectors with each other"
		return nil
	}
	if !q.Pinned() || c.Vectors == nil {
		r.Warnings = append(r.Warnings, "nothing was embedded again: that needs a model and dimensions in the request, and an endpoint here")
		return nil
	}
	sample := slices.DeleteFunc(rand.Perm(len(q.Texts)), func(i int) bool { return strings.TrimSpace(q.Texts[i]) == "" }) // random, so that no provider knows which texts are checked
	if len(sample) == 0 {
		r.Warnings = append(r.Warnings, "nothing was embedded again: the texts are empty")
		return nil
	}
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
		cmp.Or(c.Log, slog.Default()).Warn("nothing was embedded again", "endpoint", c.Vectors.URL, "err", err)
		r.Warnings = append(r.Warnings, guild.Cut("nothing was embedded again: "+opinion.Discreet(err).Error(), 500))
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

// compared limits the letters of a text that are compared, because a model ignores the rest of a long text.
const compared = 200

// equalVectors returns where different texts have the same vector. Texts are different if their letters and digits are,
// regardless of case: a model may ignore the rest.
func equalVectors(texts []string, vectors [][]float32) (faults []string) {
	first := map[string]int{} // vector → index of its first text
	for i, v := range vectors[:min(len(vectors), len(texts))] {
		key := fmt.Sprint(v)
		at, known := first[key]
		if !known {
			first[key] = i
			continue
		}
		if essence(texts[at]) != essence(texts[i]) {
			faults = append(faults, fmt.Sprintf("outputs.embeddings[%d] equals outputs.embeddings[%d], and the texts differ", i, at))
		}
	}
	return faults
}

// essence returns the letters and digits of a text in lower case, at most compared of them.
func essence(text string) string {
	var kept []rune
	for _, r := range text {
		if len(kept) == compared {
			break
		}
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			kept = append(kept, unicode.ToLower(r))
		}
	}
	return string(kept)
}
