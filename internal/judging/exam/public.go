package exam

import (
	"fmt"
	"slices"
	"strings"

	"guild"
	"guild/internal/judging/sandbox"
	"guild/nutshell"
)

// kept replaces what the hidden tests showed.
const kept = "kept with the hidden tests"

// expose sets the exposure of the tests of a finding, and marks what others must not see of it.
//
// A finding with hidden tests is closed as a whole: delivered code that a hidden test has called could repeat its values
// in a visible one. So is one whose tests were copied beside the delivery, which could read the hidden tests there.
func (j *examination) expose(e Entry, f *Finding) {
	committed := func(file string) bool { // or some file of the directory
		return slices.ContainsFunc(j.acceptance.Hidden, func(t nutshell.HiddenTest) bool {
			return t.Path == file || strings.HasSuffix(file, "/") && strings.HasPrefix(t.Path, file)
		})
	}
	used := len(j.hidden) > 0 || j.uncommitted
	apart := e.Framework == "io" || e.Framework == "pytest" && e.Mode == modeSplit
	f.closed = used && (!apart || e.hidden)
	f.hidden = make([]bool, len(f.Tests))
	for i := range f.Tests {
		t := &f.Tests[i]
		file := e.Script
		if e.hidden {
			file = nutshell.HiddenDir + "/criteria.json"
		} else if at := strings.Index(t.ID, nutshell.HiddenDir+"/"); at >= 0 {
			file, _, _ = strings.Cut(t.ID[at:], "::")
		} else if e.Framework == "go-test" && (strings.HasPrefix(t.ID, hiddenName+".") || strings.HasPrefix(t.ID, hiddenName+"/")) {
			file = nutshell.HiddenDir + "/" // a package
		}
		f.hidden[i] = used && strings.HasPrefix(file, nutshell.HiddenDir+"/")
		f.closed = f.closed || f.hidden[i]
		switch {
		case apart && t.Exposure == guild.Drawn:
		case f.hidden[i] && committed(file):
			t.Exposure = guild.Hidden
		default:
			t.Exposure = guild.Visible
		}
	}
}

// Public returns the report without what the hidden tests showed: their names and messages, the output of their runs,
// their criteria and the salts of the commitments to them. less reports whether anything was left out. The rest decides
// the same, so a verdict on it may be shown to anybody.
func (r Report) Public() (public Report, less bool) {
	public = r
	public.Findings = slices.Clone(r.Findings)
	public.Criteria.Criteria = slices.Clone(r.Criteria.Criteria)
	public.Hidden = slices.Clone(r.Hidden)
	for i := range public.Hidden {
		public.Hidden[i].Salt = ""
	}
	tests := 0
	for i := range public.Findings {
		f := &public.Findings[i]
		if !f.closed {
			continue
		}
		less = true
		name := f.Criterion
		if i < len(public.Criteria.Criteria) && public.Criteria.Criteria[i].hidden {
			e := public.Criteria.Criteria[i]
			name = fmt.Sprintf("hidden criterion %d", i+1)
			public.Criteria.Criteria[i] = Entry{Case: Case{caseName: caseName{ID: name, Layer: e.Layer}}, Type: e.Framework, Framework: e.Framework}
		}
		*f = f.public(name, &tests)
	}
	return public, less || len(r.Hidden) > 0
}

// public returns a finding without what its tests showed. tests counts the hidden tests, for their names.
func (f Finding) public(criterion string, tests *int) Finding {
	f.Criterion = criterion
	if f.Because != "" {
		f.Because = kept
	}
	if len(f.Unproven) > 0 { // a name may be a key that a test reads, a lie a value of it
		f.Unproven = []string{fmt.Sprintf("names %s: %d", kept, len(f.Unproven))}
	}
	f.Breaches = withoutDetails(f.Breaches)
	f.Tests = slices.Clone(f.Tests)
	for i := range f.Tests {
		t := &f.Tests[i]
		if i < len(f.hidden) && f.hidden[i] {
			*tests++
			t.ID = fmt.Sprintf("hidden test %d", *tests)
		}
		if t.Message != "" {
			t.Message = kept
		}
		if t.Because != "" {
			t.Because = kept
		}
	}
	if f.Fault != "" && !f.OverLimit && len(f.Runs) > 0 {
		f.Fault = "a run did not end properly" // it may repeat what the delivery wrote
	}
	if len(f.Warnings) > 0 {
		f.Warnings = []string{fmt.Sprintf("warnings %s: %d", kept, len(f.Warnings))}
	}
	f.Runs = slices.Clone(f.Runs)
	for i, run := range f.Runs {
		res := run.Result
		f.Runs[i] = RunRecord{Argv: []string{}, Limits: run.Limits, Result: sandbox.Result{
			Exit: res.Exit, Signal: res.Signal, Killed: res.Killed, Cut: res.Cut, Usage: res.Usage, Breaches: withoutDetails(res.Breaches),
		}}
	}
	return f
}

// withoutDetails returns violations without what the delivery chose of them: an address, a path, the name of a process.
func withoutDetails(breaches []guild.Breach) []guild.Breach {
	public := slices.Clone(breaches)
	for i := range public {
		public[i].Detail = kept
	}
	return public
}
