package exam

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	"guild"
)

// nodeValue stands in the title of a test for a text of the delivery's (javascript/blank.cjs).
const nodeValue = "\ue000"

// nodeNamed reports whether a test that was listed without the delivery is one that was reported with it.
func nodeNamed(listed, id string) bool {
	if !strings.Contains(listed, nodeValue) {
		return listed == id
	}
	var parts []string
	for part := range strings.SplitSeq(listed, nodeValue) {
		parts = append(parts, regexp.QuoteMeta(part))
	}
	found, err := regexp.MatchString("(?s)^"+strings.Join(parts, ".*")+"$", id)
	return err == nil && found
}

// nodeExpected returns the expected tests with the names that they have in the reports, where the delivery's values are
// in them. Those that did not pass come first, so that others cannot displace them.
func nodeExpected(reports []nodeReport, listed map[string]int) map[string]int {
	expected := map[string]int{}
	for id, n := range listed {
		if !strings.Contains(id, nodeValue) {
			expected[id] += n
		}
	}
	left := slices.DeleteFunc(slices.Clone(reports), func(r nodeReport) bool { return expected[r.ID] > 0 })
	slices.SortStableFunc(left, worstFirst)
	for _, id := range slices.Sorted(maps.Keys(listed)) {
		if !strings.Contains(id, nodeValue) {
			continue
		}
		n := listed[id]
		left = slices.DeleteFunc(left, func(r nodeReport) bool {
			is := n > 0 && nodeNamed(id, r.ID)
			if is {
				expected[r.ID]++
				n--
			}
			return is
		})
		if n > 0 {
			expected[strings.ReplaceAll(id, nodeValue, "…")] += n
		}
	}
	return expected
}

// absentPackage matches node's and jest's messages about a package that is not found.
var absentPackage = regexp.MustCompile(`Cannot find (?:module|package) '((?:@[\w.-]+/)?[\w-][\w.-]*)[/']`)

// blameTests finds out whose fault it is that tests did not pass, as that of a Python criterion does. beyond has what the
// judge cannot do, by file. Tests fail in the same way without the delivery if they do so with a thing that answers
// everything with itself, which they do not use, and with modules that have nothing.
func (c *nodeCriterion) blameTests(ctx context.Context, j *examination, f *Finding, p nodeParts, files []string, beyond map[string]string) error {
	of := func(file string) func(guild.Test) bool {
		return func(t guild.Test) bool { return t.State == guild.TestMissing && strings.Contains(t.ID, file+"::") }
	}
	for file, why := range beyond {
		f.excuse(guild.BlameJudge, why, of(file))
	}
	for _, file := range files {
		if len(f.Breaches) > 0 || !slices.ContainsFunc(f.Tests, func(t guild.Test) bool {
			return t.State != guild.TestPassed && t.Blame == "" && (c.tests > 0 || strings.Contains(t.ID, file+"::"))
		}) {
			continue
		}
		itself, alone, err := c.alone(ctx, j, p, file, "itself")
		if err != nil {
			return err
		}
		nothing, _, err := c.alone(ctx, j, p, file, "nothing")
		if err != nil {
			return err
		}
		if name := absentPackage.FindStringSubmatch(alone.Fault); name != nil && len(itself) == 0 {
			f.excuse(guild.BlameMachine, absent(name[1]), func(t guild.Test) bool {
				return t.State == guild.TestMissing && (len(files) == 1 || of(file)(t))
			})
		}
		for _, r := range itself {
			fails := func(message string) bool {
				return r.State != guild.TestPassed && !r.Used && nodeFailure(r.Message) == nodeFailure(message)
			}
			if !slices.ContainsFunc(nothing, func(o nodeReport) bool { return o.ID == r.ID && o.State == r.State && fails(o.Message) }) {
				continue
			}
			who, because := guild.BlameTests, "it fails in the same way without the delivery"
			if name := absentPackage.FindStringSubmatch(r.Message); name != nil {
				who, because = guild.BlameMachine, absent(name[1])
			}
			f.excuse(who, because, func(t guild.Test) bool {
				return (t.ID == r.ID || c.tests > 0 && strings.HasSuffix(t.ID, "] "+cut(r.ID))) && t.State == r.State && fails(t.Message)
			})
		}
	}
	return nil
}

func absent(name string) string { return "the package " + name + " of npm is not installed here" }

// nodeFailure returns a message for comparisons, without its numbers and where it was raised.
func nodeFailure(message string) string {
	message, _, _ = strings.Cut(message, "\n    at ")
	return number.ReplaceAllString(cut(message), "0")
}
