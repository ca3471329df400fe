package humaneval

import (
	"fmt"
	"strings"
)

// Tests returns the pytest file of the problem. It has one test for each assert if check is a plain list of asserts,
// otherwise one test that calls check. It repeats the part of the prompt before the function (imports, and helpers
// that some checks call), so that a delivery cannot replace it.
func (p Problem) Tests() string {
	var b strings.Builder
	if before := p.preamble(); before != "" {
		b.WriteString(before + "\n\n\n")
	}
	// Import the delivery only when it is called, so that the tests can be listed without it.
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

// preamble returns the part of the prompt before the requested function.
func (p Problem) preamble() string {
	before, _, _ := strings.Cut(p.Prompt, "def "+p.Entry+"(")
	return strings.TrimSpace(before)
}

// asserts returns the statements of check if each is an assert on its own line, otherwise nil. It omits asserts that
// never call the candidate ("assert True"), because they do not test it.
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
