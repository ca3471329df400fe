package humaneval

import (
	"fmt"
	"strings"
)

// Tests is the pytest file of the problem: a test for each assert of check where check is a plain list of
// asserts, else one test that calls check. What stands in the prompt before the function (its imports, and
// the helpers that some checks call) is repeated here, so that a delivery cannot replace it.
func (p Problem) Tests() string {
	var b strings.Builder
	if before := p.preamble(); before != "" {
		b.WriteString(before + "\n\n\n")
	}
	// The delivery is imported by the call: the tests can be listed without it.
	fmt.Fprintf(&b, "def candidate(*args):\n    import solution\n    return solution.%s(*args)\n", p.Entry)
	asserts := p.asserts()
	for i, assert := range asserts {
		fmt.Fprintf(&b, "\n\ndef test_%02d():\n    %s\n", i+1, assert)
	}
	if len(asserts) == 0 {
		fmt.Fprintf(&b, "\n\n%s\n\n\ndef test_check():\n    check(candidate)\n", strings.TrimSpace(p.Test))
	}
	return b.String()
}

// preamble is the prompt up to the function that is asked for.
func (p Problem) preamble() string {
	before, _, _ := strings.Cut(p.Prompt, "def "+p.Entry+"(")
	return strings.TrimSpace(before)
}

// asserts returns the statements of check if each is an assert on a line of its own, else none. Those that
// never call the candidate ("assert True") say nothing about it and are left out.
func (p Problem) asserts() []string {
	_, body, _ := strings.Cut(p.Test, "def check(candidate):\n")
	var found []string
	for line := range strings.Lines(body) {
		statement := strings.TrimSpace(line)
		switch {
		case statement == "" || strings.HasPrefix(statement, "#"):
		case !strings.HasPrefix(line, "    assert "):
			return nil
		case strings.Contains(statement, "candidate("):
			found = append(found, statement)
		}
	}
	return found
}
