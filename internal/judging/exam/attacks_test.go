package exam

import (
	"path/filepath"
	"strings"
	"testing"

	"guild"
)

// TestAttacksAreNotStrong examines deliveries that pass without solving the task, and honest ones of the same task. An
// attack with a file named refused must not pass all of its tests; of one with a file named part, some tests are passed rightly,
// and the whole must not be strong.
func TestAttacksAreNotStrong(t *testing.T) {
	if testing.Short() {
		t.Skip("runs two hundred sandboxes")
	}
	archives, err := filepath.Glob("testdata/attacks_*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no attacks", err)
	}
	e := quick(t)
	wait, done := some()
	for _, archive := range archives {
		for name, files := range sample(programs(t, filepath.Base(archive)), 16) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				wait()
				defer done()
				tests := under(files, "t", "tests/")
				attack(t, files, func(delivery map[string]string) Finding { return found(t, e, tests, delivery) })
			})
		}
	}
}

func attack(t *testing.T, files map[string]string, found func(delivery map[string]string) Finding) {
	forged := found(under(files, "forged", ""))
	reason, refused := files["refused"]
	t.Logf("forged: %d of %d passed, %s: %s", Passed(forged.Tests), len(forged.Tests), forged.Strength, forged.Because)
	if passes := Passed(forged.Tests) == len(forged.Tests); len(forged.Tests) == 0 || passes == refused {
		t.Errorf("forged: %d of %d passed; refused: %t, %s", Passed(forged.Tests), len(forged.Tests), refused, strings.TrimSpace(reason))
		unpassed(t, forged)
	}
	_, part := files["part"]
	if part && forged.Strength == guild.Strong {
		t.Errorf("forged: strong (%s)", forged.Because)
	}
	for _, test := range forged.Tests {
		if test.Strength == guild.Strong && !part {
			t.Errorf("forged: %s is strong (%s)", test.ID, test.Because)
		}
	}
	honest := under(files, "honest", "")
	if len(honest) == 0 {
		return
	}
	f := found(honest)
	t.Logf("honest: %d of %d passed, %s: %s", Passed(f.Tests), len(f.Tests), f.Strength, f.Because)
	if Passed(f.Tests) != len(f.Tests) || weighed(f) && f.Strength != guild.Strong {
		t.Errorf("honest: %d of %d passed, %s (%s), want all, strong", Passed(f.Tests), len(f.Tests), f.Strength, f.Because)
		unpassed(t, f)
	}
}

// weighed reports whether the judge has found the strength of each test of a finding, and not of the whole alone.
func weighed(f Finding) bool {
	for _, test := range f.Tests {
		if test.Strength != "" {
			return true
		}
	}
	return false
}
