package suite

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"guild"
	"guild/nutshell"
)

// layers lists the layers of the tests, in the order in which they are run.
var layers = []string{guild.LayerSmoke, guild.LayerCorrectness, guild.LayerEdge, guild.LayerSecurity, guild.LayerPerformance}

// examples returns two public tests of each exercise, or more if a lie passes these. None of them is a hidden test.
//
// They are drawn from the public id of the bundle. Examples that were drawn from the seed would reveal a part of the
// sequence from which the hidden tests are drawn.
func (b *benchmark) examples() []check {
	const each = 2
	d := newDice([32]byte{}, b.id) // public, so it must not depend on the seed
	var all []check
	for _, e := range b.exercises {
		all = append(all, d.tests(e, guild.LayerCorrectness, d.samples(e, each, 4, 7))...)
	}
	return all
}

// requirements writes the complete rules.
func (b *benchmark) requirements() []byte {
	var t bytes.Buffer
	fmt.Fprintf(&t, "# %s\n\n", b.title())
	if b.command == nil {
		fmt.Fprintf(&t, "Deliver `%s`, a Python 3 module with the %d functions below. Each takes a list of lines (`list[str]`, without line\n"+
			"ends) and returns its answer, a list of lines as well. It leaves its argument as it is.\n", b.file, len(b.exercises))
	} else {
		fmt.Fprintf(&t, "Deliver `%s`, a program with the %d exercises below. `%s NAME` reads lines from its standard input,\n"+
			"does the exercise with that name, writes its answer to its standard output, a line end after each line, and ends with exit code 0.\n",
			b.file, len(b.exercises), strings.Join(b.command, " "))
	}
	refusal := "the function raises `ValueError`"
	if b.command != nil {
		refusal = "the program writes nothing to its standard output and ends with exit code 2"
	}
	fmt.Fprintf(&t, `
What holds for all of them:

- Lines are ASCII text. A number is a minus or nothing, and then one to nine digits; it has nothing else, and no spaces
  around it.
- Where a line is not as the exercise says, %s, whatever the other lines are.
- Input may have no line at all. Then the answer follows the same rules.
- Byte order is the order of the characters' ASCII codes.
- Input is never a command, a name of a file, a format or an option: what stands there is text, or it is wrong. Nothing
  else is read or written, and no network is used.
- Input may have 60,000 lines, and a run has %d seconds of processor time: comparing each line with each other takes too
  long.
- Use nothing but the language and its standard library.

What stands between back quotes is meant to the character. The tests that decide are hidden; tests/ has the examples.
`, refusal, b.limit)
	examples := b.examples()
	for _, e := range b.exercises {
		fmt.Fprintf(&t, "\n## %s\n\n%s\n", e.name, e.text)
		for _, c := range examples {
			if c.exercise == e.name {
				fmt.Fprintf(&t, "\nThe lines\n\n%s\nanswer\n\n%s", indented(c.in), indented(c.out))
			}
		}
	}
	return t.Bytes()
}

// indented returns lines as a Markdown code block.
func indented(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("    " + l + "\n")
	}
	return b.String()
}

// hidden returns the tests that the provider does not see.
func (b *benchmark) hidden() files {
	f := files{nutshell.HiddenDir + "/criteria.json": b.criteria("hidden ", b.cases)}
	for _, layer := range layers {
		if b.command == nil {
			f[nutshell.HiddenDir+"/test_"+layer+".py"] = pytestFile(only(b.cases, layer))
		}
	}
	return f
}

// only returns the tests of one layer.
func only(cases []check, layer string) []check {
	var some []check
	for _, c := range cases {
		if c.layer == layer {
			some = append(some, c)
		}
	}
	return some
}

// criteria writes a criteria.json with one criterion for each layer.
func (b *benchmark) criteria(prefix string, cases []check) []byte {
	type object = map[string]any
	var list []object
	for _, layer := range layers {
		some := only(cases, layer)
		if len(some) == 0 {
			continue
		}
		c := object{"id": prefix + layer, "layer": layer}
		switch {
		case b.command != nil:
			c["type"], c["command"], c["cases"] = "io", b.command, ioCases(some)
		case prefix == "hidden ":
			c["type"], c["script"] = "pytest", nutshell.HiddenDir+"/test_"+layer+".py"
		default:
			c["type"], c["script"] = "pytest", "tests/test_example.py"
		}
		list = append(list, c)
	}
	framework := "pytest"
	if b.command != nil {
		framework = "io"
	}
	return encode(object{"criteria_version": "0.2.0", "test_framework": framework, "auto_verifiable": true,
		"time_limit_seconds": b.limit, "criteria": list})
}

// ioCases returns the tests of a program.
func ioCases(cases []check) []any {
	type expected struct {
		Exit   int    `json:"exit_code,omitempty"`
		Stdout string `json:"stdout"`
	}
	type ioCase struct {
		ID       string   `json:"id"`
		Args     []string `json:"args"`
		Stdin    string   `json:"stdin"`
		Expected expected `json:"expected"`
	}
	all := make([]any, len(cases))
	for i, c := range cases {
		one := ioCase{ID: fmt.Sprintf("%s %s %d", c.exercise, c.layer, c.number), Args: []string{c.exercise}, Stdin: text(c.in)}
		if c.refused {
			one.Expected.Exit = 2
		} else {
			one.Expected.Stdout = text(c.out)
		}
		all[i] = one
	}
	return all
}

// text joins lines, with a newline after each.
func text(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// pytestFile writes the tests of a module's functions.
func pytestFile(cases []check) []byte {
	var t bytes.Buffer
	fmt.Fprint(&t, "import pytest\nimport solution\n")
	for _, c := range cases {
		fmt.Fprintf(&t, "\n\ndef test_%s_%s_%d():\n", c.exercise, c.layer, c.number)
		if c.refused {
			fmt.Fprintf(&t, "    with pytest.raises(ValueError):\n        solution.%s(%s)\n", c.exercise, literal(c.in))
			continue
		}
		fmt.Fprintf(&t, "    assert solution.%s(%s) == %s\n", c.exercise, literal(c.in), literal(c.out))
	}
	return t.Bytes()
}

// literal writes lines as a Python list. Many lines are written as one text that is split, because Python parses that
// faster.
func literal(lines []string) string {
	const many = 200
	if len(lines) > many {
		return strconv.QuoteToASCII(strings.Join(lines, "\n")) + `.split("\n")`
	}
	quoted := make([]string, len(lines))
	for i, l := range lines {
		quoted[i] = strconv.QuoteToASCII(l)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
