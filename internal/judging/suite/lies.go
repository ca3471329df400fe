package suite

import (
	"slices"
	"strings"
)

// A lie answers all tests of an exercise by one rule, without the work: docs/JUDGE.md lists what the judge tries. A layer
// whose tests a lie passes shows nothing about the exercise, and the verdict on it would be weak.

// guess is the answer of a lie.
type guess struct {
	out     []string
	refused bool
}

// lies lists the rules. They get the test and the one before it, which is the test itself if there is none.
var lies = []func(c, before check) guess{
	func(check, check) guess { return guess{refused: true} },
	func(check, check) guess { return guess{} },
	func(c, _ check) guess { return guess{out: c.in} },
	func(_, before check) guess { return guess{out: before.in} },
	func(c, _ check) guess { return guess{out: []string{c.exercise}} },
	func(c, _ check) guess { return guess{out: end(c.in, false)} },
	func(c, _ check) guess { return guess{out: end(c.in, true)} },
	func(c, _ check) guess { return guess{out: end(strings.Fields(text(c.in)), false)} },
	func(c, _ check) guess { return guess{out: end(strings.Fields(text(c.in)), true)} },
}

// constants are lines that can be answered without looking at anything.
var constants = []string{"", "0", "1", "-1", "0.0", "true", "false", "null", "True", "False", "None", "[]", "{}"}

// end returns a list of the first or last one of several lines.
func end(lines []string, last bool) []string {
	switch {
	case len(lines) == 0:
		return nil
	case last:
		return lines[len(lines)-1:]
	default:
		return lines[:1]
	}
}

// accepts reports whether a test passes with an answer.
func (c check) accepts(g guess) bool {
	return c.refused == g.refused && (c.refused || slices.Equal(c.out, g.out))
}

// passedByLie reports whether a lie passes all these tests of an exercise.
func passedByLie(tests []check) bool {
	every := func(tell func(c, before check) guess) bool {
		for i, c := range tests {
			if !c.accepts(tell(c, tests[max(0, i-1)])) {
				return false
			}
		}
		return len(tests) > 0
	}
	always := func(g guess) bool { return every(func(check, check) guess { return g }) }
	return slices.ContainsFunc(lies, every) ||
		slices.ContainsFunc(constants, func(line string) bool { return always(guess{out: []string{line}}) }) ||
		len(tests) > 1 && always(guess{tests[0].out, tests[0].refused})
}
