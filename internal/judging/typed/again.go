package typed

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/hand/workdir"
	"guild/nutshell"
	"guild/oa"
)

// checkRun compares a sandbox run with the delivered artifacts and with our own run.
//
// A difference from our own run proves a wrong result only if the commands are deterministic. So in case of a
// difference the commands run a second time, and only parts that are equal in both of our runs count against the
// provider. If a limit ended one of our runs, a person must decide.
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
	if len(wrong) > 0 {
		return nil
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
	ours, limited, err := c.Sandbox.run(ctx, q, "")
	if err != nil {
		return fmt.Errorf("run the commands again: %w", err)
	}
	r.Strength, r.How, r.Ran, r.Again = guild.Strong, "the commands were run again", true, &ours
	twice := ours
	switch {
	case len(theirs.Differences(ours, false)) == 0:
	case limited && theirs.Status != oa.StatusCancelled:
		// This machine may be slower or smaller, but a provider whose command never ends could claim the same.
		r.Person = guild.Cut(fmt.Sprintf("the provider says %s, and our own run came to %s: %s", theirs.Status, ours.Status, ours.Error), 500)
	default:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(apart):
		}
		again, limited, err := c.Sandbox.run(ctx, q, "")
		if err != nil {
			return fmt.Errorf("run the commands a second time: %w", err)
		}
		r.Twice = &again
		if limited {
			r.Person = guild.Cut(fmt.Sprintf("of our own two runs one came to %s: %s", again.Status, again.Error), 500)
		} else {
			twice = again
		}
	}
	r.compare(theirs, ours, twice)
	return nil
}

// apart is the minimum time between our two runs, because archives store times in steps of two seconds.
const apart = 2 * time.Second

// compare turns the differences from our own run into tests. A part that differs between our own two runs, such as
// random bytes, proves nothing. If nothing else differs, the report is weak.
func (r *Report) compare(theirs, ours, twice oa.SandboxResult) {
	steadyTheirs, steadyOurs := steady(theirs, ours, twice)
	remaining := steadyTheirs.Differences(steadyOurs, false)
	var unsure []string
	for _, part := range []struct{ id, path string }{{"status", "outputs.status"}, {"exit codes", "outputs.runs"}, {"artifacts", "outputs.artifacts"}} {
		var faults []string
		for _, d := range remaining {
			if strings.HasPrefix(d.Path, part.path) {
				faults = append(faults, besideOurs(d))
			}
		}
		before := len(unsure)
		for _, d := range theirs.Differences(ours, false) {
			if strings.HasPrefix(d.Path, part.path) && !slices.ContainsFunc(remaining, func(f oa.Fault) bool { return f.Path == d.Path }) {
				unsure = append(unsure, d.Path)
			}
		}
		if len(faults) > 0 || len(unsure) == before { // otherwise nothing was compared
			r.test(part.id, faults...)
		}
	}
	if len(unsure) == 0 {
		return
	}
	r.Warnings = append(r.Warnings, guild.Cut("our own two runs differ too, so this proves nothing: "+strings.Join(unsure, ", "), 500))
	if r.Passed() {
		r.Strength, r.How = guild.Weak, "the commands were run again, twice, with different results"
	}
}

// steady returns the comparable parts of the provider's run and of ours: those that are equal in both of our runs.
func steady(theirs, ours, twice oa.SandboxResult) (oa.SandboxResult, oa.SandboxResult) {
	if ours.Status != twice.Status {
		theirs.Status = ours.Status
	}
	theirs.Runs = slices.Clone(theirs.Runs)
	if len(ours.Runs) != len(twice.Runs) {
		theirs.Runs = ours.Runs
	}
	for i := range min(len(theirs.Runs), len(ours.Runs), len(twice.Runs)) {
		if ours.Runs[i].ExitCode != twice.Runs[i].ExitCode {
			theirs.Runs[i].ExitCode = ours.Runs[i].ExitCode
		}
	}
	first, second := byPath(ours.Artifacts), byPath(twice.Artifacts)
	renamed := false // a file has another name in each run
	for name := range first {
		_, again := second[name]
		renamed = renamed || !again
	}
	for name := range second {
		_, before := first[name]
		renamed = renamed || !before
	}
	moves := func(a oa.Artifact) bool {
		one, before := first[a.Path]
		two, again := second[a.Path]
		if !before && !again {
			return renamed
		}
		return before != again || one.SHA256 != two.SHA256 || one.SizeBytes != two.SizeBytes
	}
	theirs.Artifacts = slices.DeleteFunc(slices.Clone(theirs.Artifacts), moves)
	ours.Artifacts = slices.DeleteFunc(slices.Clone(ours.Artifacts), moves)
	return theirs, ours
}

func byPath(all []oa.Artifact) map[string]oa.Artifact {
	named := map[string]oa.Artifact{}
	for _, a := range all {
		named[a.Path] = a
	}
	return named
}

// besideOurs describes a difference between the provider's run and ours.
func besideOurs(d oa.Fault) string {
	says, compared := strings.CutSuffix(d.Says, " of the other")
	switch {
	case d.Says == "is only here":
		return d.Path + " is not there when we run it"
	case says == "is only":
		return d.Path + " is only there when we run it"
	case compared:
		return d.Path + " " + says + " when we run it"
	}
	return d.String()
}

// ended tests a run that is not repeated: it must at least claim that its commands were run.
func (r *Report) ended(theirs oa.SandboxResult) {
	if theirs.Status == oa.StatusCancelled || theirs.Status == oa.StatusError {
		r.test("status", fmt.Sprintf("outputs.status is %s", theirs.Status))
		return
	}
	r.test("status")
}

// rehash compares the delivered artifacts with their hashes and sizes in the result.
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
		if _, err := fs.Stat(tree, name); err != nil {
			continue // it was not delivered
		}
		travelled++
		there, err := artifact(tree, name)
		switch {
		case err != nil || there.SHA256 != a.SHA256:
			wrong = append(wrong, fmt.Sprintf("outputs.artifacts[%d].sha256 is %.8s…, and the file's is %.8s…", i, a.SHA256.Hex(), there.SHA256.Hex()))
		case there.SizeBytes != a.SizeBytes:
			wrong = append(wrong, fmt.Sprintf("outputs.artifacts[%d].size_bytes is %d, and the file has %d", i, a.SizeBytes, there.SizeBytes))
		}
	}
	return wrong, travelled
}
