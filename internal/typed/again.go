package typed

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"guild"
	"guild/internal/workdir"
	"guild/nutshell"
	"guild/oa"
)

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
	differences, moved := theirs.Differences(ours, false), oa.Faults(nil)
	if len(differences) > 0 {
		if moved, err = c.runTwice(ctx, q, theirs, ours, r); err != nil {
			return err
		}
	}
	r.compare(differences, moved)
	return nil
}

// runTwice runs the commands a second time where the first time differs from the provider's, and returns in what our own
// two runs differ. Where a limit ended one of ours, and the provider says that none did, who is right is for a person to
// say: this machine may be slower, and a command that never ends would have the same excuse.
func (c Checker) runTwice(ctx context.Context, q oa.SandboxRequest, theirs, ours oa.SandboxResult, r *Report) (oa.Faults, error) {
	if cutShort(ours) && !cutShort(theirs) && theirs.Status != oa.StatusCancelled {
		r.Person = guild.Cut(fmt.Sprintf("the provider says %s, and our own run came to %s: %s", theirs.Status, ours.Status, ours.Error), 500)
		return nil, nil
	}
	twice, err := c.Sandbox.run(ctx, q, "")
	if err != nil {
		return nil, fmt.Errorf("run the commands a second time: %w", err)
	}
	r.Twice = &twice
	if cutShort(twice) && !cutShort(ours) {
		r.Person = guild.Cut(fmt.Sprintf("of our own two runs one came to %s: %s", twice.Status, twice.Error), 500)
		return nil, nil
	}
	return ours.Differences(twice, false), nil
}

// cutShort reports whether a limit ended a run, or the sandbox did.
func cutShort(s oa.SandboxResult) bool {
	return s.Status == oa.StatusTimeout || s.Status == oa.StatusError
}

// compare makes tests of the differences from our own run. What moved between our own two runs, as random bytes do, is
// nobody's fault and proves nothing: where it is all that differs, the report is weak.
func (r *Report) compare(differences, moved oa.Faults) {
	all := len(moved) >= oa.MaxFaults // there may be more that are not listed
	files := slices.ContainsFunc(moved, isPresence)
	moves := func(d oa.Fault) bool {
		return all || files && isPresence(d) || slices.ContainsFunc(moved, func(m oa.Fault) bool { return m.Path == d.Path })
	}
	var unsure []string
	for _, part := range []struct{ id, path string }{{"status", "outputs.status"}, {"exit codes", "outputs.runs"}, {"artifacts", "outputs.artifacts"}} {
		var faults []string
		before := len(unsure)
		for _, d := range differences {
			switch {
			case !strings.HasPrefix(d.Path, part.path):
			case moves(d):
				unsure = append(unsure, d.Path)
			default:
				faults = append(faults, besideOurs(d))
			}
		}
		if len(faults) > 0 || len(unsure) == before { // else there is nothing to compare it with
			r.test(part.id, faults...)
		}
	}
	if len(unsure) == 0 {
		return
	}
	r.Warnings = append(r.Warnings, guild.Cut("our own two runs differ too, so this proves nothing: "+strings.Join(unsure, ", "), 500))
	if r.Passed() {
		r.Strength, r.How = guild.Weak, "the commands were run again, twice, and came out otherwise each time"
	}
}

// isPresence reports whether a difference is that only one of two runs has an artifact.
func isPresence(d oa.Fault) bool { return strings.HasPrefix(d.Says, "is only") }

// besideOurs says a difference of the provider's run from ours.
func besideOurs(d oa.Fault) string {
	switch says, compared := strings.CutSuffix(d.Says, " of the other"); {
	case d.Says == "is only here":
		return d.Path + " is not there when we run it"
	case says == "is only":
		return d.Path + " is only there when we run it"
	case compared:
		return d.Path + " " + says + " when we run it"
	}
	return d.String()
}

// ended is a test of whether a run that nobody repeats says at least that its commands were run.
func (r *Report) ended(theirs oa.SandboxResult) {
	if theirs.Status == oa.StatusCancelled || theirs.Status == oa.StatusError {
		r.test("status", fmt.Sprintf("outputs.status is %s", theirs.Status))
		return
	}
	r.test("status")
}

// rehash compares the artifacts that came along with what is said of them.
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
			continue // it did not come along
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
