package exam

import (
	"fmt"
	"iter"
	"regexp/syntax"
	"slices"
	"strings"

	"guild"
)

// A lie answers every case of a criterion by one rule, without the work. It says something about each part of an
// answer, such as the exit code and the output of a program. Whether a case passes with it needs no run: the judge has
// the input and the expectation. docs/JUDGE.md lists the lies.

// lie answers one part of a case by a rule.
type lie struct {
	says   string
	passes func(i int) bool // whether case i accepts this part of it
}

// part has all that lies say about one part of the answers. A lie about all parts exists if there is one for each,
// because the cases compare the parts one by one.
type part []lie

// liar returns a lie that passes in all of these cases, in words, or "".
func liar(parts iter.Seq[part], cases []int) string {
	var words []string
	for p := range parts {
		i := slices.IndexFunc(p, func(l lie) bool { return !slices.ContainsFunc(cases, func(i int) bool { return !l.passes(i) }) })
		if i < 0 {
			return ""
		}
		if p[i].says != "" {
			words = append(words, p[i].says)
		}
	}
	return strings.Join(words, ", ")
}

// proveCases sets the strength of the cases that passed, and of their criterion. f.Tests has the tests of the cases, in
// order. name names the program or service that answered. idle reports whether a case passes whatever the answer is.
//
// Only the cases that passed count: a delivery that is itself a lie fails the others, and must not gain by that.
func (f *Finding) proveCases(name string, parts iter.Seq[part], idle func(i int) bool) {
	var passed []int
	for i, t := range f.Tests {
		if t.State == guild.TestPassed {
			passed = append(passed, i)
		}
	}
	if len(passed) == 0 {
		return
	}
	says := liar(parts, passed)
	if says != "" {
		f.Unproven = append(f.Unproven, cut(name+": "+says))
	}
	for _, i := range passed {
		t := &f.Tests[i]
		switch {
		case idle(i):
			t.Strength, t.Because = guild.Weak, cut("it passes whatever "+name+" answers")
		case says != "":
			t.Strength, t.Because = guild.Weak, cut(name+" can lie: "+says)
		default:
			t.Strength = guild.Strong
		}
	}
	strong := f.Because
	f.carried = func(ids []string) (guild.Strength, string) {
		because := strong
		for _, t := range f.Tests {
			if t.State != guild.TestPassed || !slices.Contains(ids, t.ID) {
				continue
			}
			if t.Strength == guild.Strong {
				return guild.Strong, strong
			}
			because = t.Because
		}
		return guild.Weak, because
	}
	f.Strength, f.Because = f.carried(passedTests(f.Tests))
}

// proven returns what cases can show if all of them pass, before there is an answer.
func proven[C interface {
	test(state, message string) guild.Test
}](name string, cases []C, parts iter.Seq[part], idle func(i int) bool) Finding {
	f := Finding{Strength: guild.Strong, Tests: tests(cases, guild.TestPassed, "")}
	f.proveCases(name, parts, idle)
	return f
}

// rule makes a text from what the judge gives in a case; ok is false if there is nothing to make it from.
type rule struct {
	says string
	text func(i int) (text string, ok bool)
}

// constants are texts that can be answered without looking at anything.
var constants = []string{"", "0", "1", "-1", "0.0", "true", "false", "True", "False", "null", "None", `""`, "[]", "{}"}

// Limits of the texts that are tried as the one answer to all cases.
const (
	mostSame = 20
	maxSame  = 16 << 10 // bytes; the first one may have more
)

// same returns rules that answer all cases of a criterion with one text: one that a case has got from the delivery or
// expects, or all of these together. One case has no other in which such an answer could be wrong: it is a table of
// answers, which guild.Exposure tells about.
func same(cases int, got, expected []string) []rule {
	if cases < 2 {
		return nil
	}
	var rules []rule
	var tried []string
	size := 0
	for _, text := range slices.Concat(got, expected) {
		size += len(text) + 1
		if len(tried) > 0 && len(text) > maxSame || len(tried) == mostSame || slices.Contains(tried, text) {
			continue
		}
		tried = append(tried, text)
		rules = append(rules, rule{"always " + quote(text), func(int) (string, bool) { return text, true }})
	}
	if size <= maxSame {
		together := strings.Join(slices.Concat(got, expected), "\n")
		rules = append(rules, rule{"always the same", func(int) (string, bool) { return together, true }})
	}
	return rules
}

// pieces returns rules that repeat a text that a case gives, and its first and last line and word.
func pieces(name string, given func(i int) string) []rule {
	end := func(split func(string) []string, last bool) func(i int) (string, bool) {
		return func(i int) (string, bool) {
			list := split(strings.TrimRight(given(i), "\n"))
			if len(list) == 0 {
				return "", true
			}
			if last {
				return list[len(list)-1], true
			}
			return list[0], true
		}
	}
	lines := func(s string) []string { return strings.Split(s, "\n") }
	return []rule{
		{name, func(i int) (string, bool) { return given(i), true }},
		{"the first line of " + name, end(lines, false)},
		{"the last line of " + name, end(lines, true)},
		{"the first word of " + name, end(strings.Fields, false)},
		{"the last word of " + name, end(strings.Fields, true)},
	}
}

// mostItems limits from which of several given texts a lie may repeat.
const mostItems = 4

// items returns rules that repeat one of several texts that a case gives, counted from the first or from the last, and
// those that repeat the texts from one on.
func items(name string, given func(i int) []string) []rule {
	var rules []rule
	for n := range mostItems {
		rules = append(rules,
			rule{fmt.Sprintf("%s, from number %d on", name, n+1), func(i int) (string, bool) {
				return strings.Join(given(i)[min(n, len(given(i))):], " "), true
			}},
			rule{fmt.Sprintf("%s, from number %d on, in lines", name, n+1), func(i int) (string, bool) {
				return strings.Join(given(i)[min(n, len(given(i))):], "\n"), true
			}},
			rule{fmt.Sprintf("number %d of %s", n+1, name), func(i int) (string, bool) { return item(given(i), n) }},
			rule{fmt.Sprintf("number %d from the end of %s", n+1, name), func(i int) (string, bool) { return item(given(i), len(given(i))-1-n) }},
		)
	}
	return rules
}

// item returns an item of a list, if it has one at i.
func item(list []string, i int) (string, bool) {
	if i < 0 || i >= len(list) {
		return "", false
	}
	return list[i], true
}

// texts returns what lies say about a text: the constants, and what the rules make. Each is tried as it is, and with one
// line end or none at its end.
func texts(what string, rules []rule, accepts func(i int, text string) bool) part {
	p := part{{"", func(i int) bool { return accepts(i, "") && accepts(i, odd) }}} // nobody looks at it
	for _, c := range constants {
		p = append(p, lie{what + ": " + quote(c), func(i int) bool { return accepts(i, c) || accepts(i, c+"\n") }})
	}
	for _, r := range rules {
		p = append(p, lie{what + ": " + r.says, func(i int) bool {
			text, ok := r.text(i)
			if !ok {
				text = odd
			}
			bare := strings.TrimSpace(text)
			return accepts(i, text) || accepts(i, bare) || accepts(i, bare+"\n")
		}})
	}
	return p
}

// odd is a text that nobody expects.
const odd = "\x01odd\x02\n"

// sample returns a text that a condition is likely to accept.
func (m *Match) sample() string {
	switch {
	case m == nil:
		return ""
	case m.Equals != nil:
		return *m.Equals
	case m.Trimmed != nil:
		return *m.Trimmed
	case m.Numbers != nil:
		return *m.Numbers
	case m.JSON != nil:
		return string(m.JSON)
	case m.pattern != nil:
		parsed, err := syntax.Parse(m.Matches, syntax.Perl)
		if err != nil {
			return ""
		}
		return matching(parsed)
	default:
		return strings.Join(m.Contains, "\n")
	}
}

// matching returns a short text that a regular expression is likely to match.
func matching(re *syntax.Regexp) string {
	var text string
	switch re.Op {
	case syntax.OpLiteral:
		text = string(re.Rune)
	case syntax.OpCharClass:
		text = string(re.Rune[:1])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		text = "a"
	case syntax.OpCapture, syntax.OpPlus, syntax.OpAlternate:
		text = matching(re.Sub[0])
	case syntax.OpRepeat:
		text = strings.Repeat(matching(re.Sub[0]), re.Min)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			text += matching(sub)
		}
	}
	return text
}
