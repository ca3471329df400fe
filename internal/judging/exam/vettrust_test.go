package exam

import (
	"maps"
	"os"
	"testing"

	"guild"
)

// TestVetTrustsHonestScripts vets the honest suites in JavaScript.
func TestVetTrustsHonestScripts(t *testing.T) {
	needNode(t)
	if testing.Short() {
		t.Skip("runs many sandboxes")
	}
	wait, done := some()
	archives := []string{"scriptidioms.txtar"}
	if os.Getenv("GUILD_SOAK") != "" {
		archives = append(archives, "scripts.txtar")
	}
	for _, archive := range archives {
		for name, files := range sample(programs(t, archive), 8) {
			if _, is := files["inproc"]; is || name == "" {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				wait()
				defer done()
				bundle := scriptBundle(t, runner(files), modeSplit, under(files, "t", "tests/"), under(files, "f", "files/"))
				v := vetted(t, vetEngine(t, files), bundle, true)
				honest := under(files, "honest", "")
				maps.Copy(honest, under(files, "a", ""))
				trusts(t, v, func() Finding { return scriptExamined(t, bundle, deliver(t, honest)) })
			})
		}
	}
}

// TestVetTrustsHonestGoTests vets the honest suites in Go, with the delivery as what the bundle declares.
func TestVetTrustsHonestGoTests(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles many programs")
	}
	suites := goIdiomParts(t)
	if !whole() {
		delete(suites, "first") // TestIdioms has it
	}
	if os.Getenv("GUILD_SOAK") != "" {
		maps.Copy(suites, programs(t, "gohonest.txtar"))
	}
	e := goEngine(t)
	wait, done := some()
	for name, files := range suites {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wait()
			defer done()
			declared := under(files, "f", "files/")
			maps.Copy(declared, under(files, "a", "files/"))
			trusts(t, vettedAnew(t, e, goBundle(t, files, declared)), func() Finding { return foundGo(t, e, files, "a") })
		})
	}
}

// trusts checks that no test that is named is strong with an honest delivery.
func trusts(t *testing.T, v Vetting, examine func() Finding) {
	t.Helper()
	t.Logf("%+v", v.Criteria[0])
	var honest map[string]guild.Test
	for _, test := range v.Criteria[0].Tests {
		if !test.Nothing {
			continue
		}
		if honest == nil {
			honest = map[string]guild.Test{}
			for _, found := range examine().Tests {
				honest[found.ID] = found
			}
		}
		if found, there := honest[test.ID]; !there || found.State != guild.TestPassed || found.Strength == guild.Strong {
			t.Errorf("%s shows nothing, because %s; with an honest delivery it is %s, %s", test.ID, test.Because, found.State, found.Strength)
		}
	}
}
