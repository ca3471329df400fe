package check

import (
	"fmt"
	"slices"
	"strings"

	"guild/nutshell"
)

// acceptance checks the tests by which the work will be judged.
func (c *checker) acceptance() {
	a := c.m.Acceptance()
	tests := 0
	criteria := c.criteria(a.CriteriaFile)
	for i, script := range a.TestScripts {
		field := fmt.Sprintf("acceptance.test_scripts.%d", i)
		if c.notBlank(field, script) {
			tests++
			c.present(named(field, script))
		}
	}
	for _, one := range criteria {
		if !blank(one.Script) || !blank(one.Query) {
			tests++
		}
		script, _, _ := strings.Cut(one.Script, "::") // one test of a file
		c.present(reference{field: "acceptance.criteria." + one.ID, path: script, by: one.ID,
			fix: "Create " + short(script) + " with the test of " + short(one.ID)})
	}
	if tests == 0 && c.m.BundleType() != nutshell.TypeDelivery {
		c.lacks(advice, "acceptance.test_scripts")
	}
	c.hidden()
}

// criteria checks the machine-readable criteria, and returns them if they can be read.
func (c *checker) criteria(file string) []nutshell.Criterion {
	var doc *nutshell.Criteria
	r := named("acceptance.criteria_file", file)
	ok := c.document(r, func(b []byte) (err error) { doc, err = nutshell.ParseCriteria(b); return err })
	if !ok {
		return nil
	}
	if len(doc.Criteria) == 0 {
		c.add(advice, r.field, short(file)+": has no criteria — agent can't self-verify", "Add criteria to "+short(file))
	}
	return doc.Criteria
}

// hidden checks the hidden tests and the commitments to them.
func (c *checker) hidden() {
	committed := len(c.m.Acceptance().HiddenTests)
	files := len(hiddenFiles(c.fsys))
	const field = "acceptance.hidden_tests"
	switch {
	case files > 0 && c.o.Packed:
		c.add(gap, field, nutshell.HiddenDir+": "+plural(files, "hidden test is", "hidden tests are")+" in the bundle — agent can read them",
			"Pack the bundle again")
	case files > 0:
		c.add(fine, field, nutshell.HiddenDir+": "+plural(files, "hidden test stays", "hidden tests stay")+" with you", "")
		for _, p := range Idle(c.fsys) {
			c.file(advice, reference{field: field}, p, "a hidden test that no criterion names — it is never run",
				"Name it as the script of a criterion in "+hiddenCriteria)
		}
	case committed > 0:
		c.add(fine, field, field+": committed to ("+fmt.Sprint(committed)+")", "")
	}
}

// isHidden reports whether a path is that of a hidden test.
func (c *checker) isHidden(p string) bool { return strings.HasPrefix(p, nutshell.HiddenDir+"/") }

// committed reports whether the manifest has a commitment to a hidden test.
func (c *checker) committed(p string) bool {
	return slices.ContainsFunc(c.m.Acceptance().HiddenTests, func(h nutshell.HiddenTest) bool { return h.Path == p })
}

// delivery checks the result of a delivery and the files that it names.
func (c *checker) delivery() {
	if c.m.BundleType() != nutshell.TypeDelivery {
		return
	}
	var result *nutshell.Result
	r := reference{field: "delivery.result", path: nutshell.ResultFile,
		fix: "Create " + nutshell.ResultFile + ", or let it be written with: " + c.command("deliver")}
	ok := c.document(r, func(b []byte) (err error) { result, err = nutshell.ParseResult(b); return err })
	if !ok {
		return
	}
	id := c.m.RequestID()
	switch {
	case id == "" && result.RequestID == "":
		c.add(strange, "request_id", "request_id: missing — nobody can tell what it answers", "")
	case id != "" && result.RequestID != "" && result.RequestID != id:
		c.add(strange, "request_id", fmt.Sprintf("request_id: %s answers another request (%s)", nutshell.ResultFile, short(result.RequestID)), "")
	}
	c.artifacts(append(result.Artifacts.FilesCreated, result.Artifacts.FilesModified...))
	log := result.ExecutionLog.FullLog
	c.present(reference{field: "delivery.full_log", path: log, by: nutshell.ResultFile, fix: "Put the log at " + short(log)})
}

// artifacts checks that the artifacts exist. Their paths are relative to the bundle, or to its folder for artifacts.
func (c *checker) artifacts(made []nutshell.Artifact) {
	listed, there := 0, 0
	for _, a := range made {
		r := reference{field: "delivery.artifacts", path: a.Path, by: nutshell.ResultFile, fix: "Put the file at " + short(a.Path)}
		if blank(a.Path) {
			continue
		}
		if p, reason := r.cleaned(); reason == "" && !strings.HasPrefix(p, nutshell.ArtifactsDir+"/") && !c.there(p) {
			r.path = nutshell.ArtifactsDir + "/" + p
			r.fix = "Put the file at " + short(r.path)
		}
		if c.told(r) {
			continue
		}
		listed++
		if _, _, ok := c.follow(r); ok {
			there++
		}
	}
	if there > 0 {
		c.add(fine, "delivery.artifacts", nutshell.ArtifactsDir+": "+exist(there, listed), "")
	}
}
