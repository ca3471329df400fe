package strength

import "slices"

// tries notes that a delivery asks a function of the tests' for something else than that function has refused before, and than the
// tests gave it: it may try one thing after the other until it finds what is expected.
func (in *reader) tries(x *exchange, f frame) {
	of, with := tried(f)
	refused, there := in.refused[of]
	if of == "" || !there || refused == with || in.guessed[x.name] {
		return
	}
	for _, t := range in.heard[in.counted:] {
		each(t.value, func(v any) {
			if isPlain(v) {
				in.said[text(v)] = true
			}
		})
	}
	in.counted = len(in.heard)
	each(any(f.args[1:]), func(v any) {
		in.guessed[x.name] = in.guessed[x.name] || v != nil && isPlain(v) && !in.said[text(v)]
	})
}

// ended notes how a function of the tests' has ended that the delivery asked.
func (in *reader) ended(c callback, f frame) {
	asked := c.request
	n, _, _ := numbered(at(asked.args, 0))
	if call := in.awaited[n]; asked.op == "await" && call != nil {
		asked = call
	}
	if n, _, ok := numbered(f.value); ok && f.kind == answer {
		in.awaited[n] = asked
	}
	of, with := tried(*asked)
	tag, _ := tagged(f.value)
	if of != "" && (f.kind == raised || in.lang.typed && tag == "E") {
		in.refused[of] = with
	}
}

// tried returns which function of the tests' is asked, "" for none, and with what.
func tried(f frame) (of, with string) {
	given := 1
	switch f.op {
	case "method", "set":
		given = 2
	case "call":
	default:
		return "", ""
	}
	if len(f.args) <= given {
		return "", ""
	}
	return text(f.args[:given]), text(append(slices.Clone(f.args[given:]), f.extra["u"]))
}

// guess marks answers as claims that a function of the tests accepted after it had refused others.
func (s *script) guess() {
	for _, x := range s.exchanges {
		if !s.guessed[x.name] || !x.kind.judged() || len(x.steps) < 2 {
			continue
		}
		last, found := x.steps[len(x.steps)-2], x.steps[len(x.steps)-1].value
		each(any(last.args[min(1, len(last.args)):]), func(v any) {
			if isPlain(v) && v != nil && text(bare(v)) == text(bare(found)) {
				x.kind = operator
			}
		})
	}
}

// mostGuesses limits how many changes are tried of what the tests' functions were asked for last.
const mostGuesses = 6

// guesses returns the changes of what an exchange asked functions of the tests' for, if its name tries one thing after the other. A test
// that fails then looks at it, unlike one that is only to be tried again.
func (x *exchange) guesses(s *script) []change {
	if !s.guessed[x.name] {
		return nil
	}
	all := slices.DeleteFunc(x.every(s), func(c change) bool { return c.to.kind != request || c.to.op == "print" })
	return all[max(0, len(all)-mostGuesses):]
}

// guesses returns the names that find what is expected by trying one thing after the other.
func (x *Examination) guesses() map[string]bool {
	names := map[string]bool{}
	for _, t := range x.tests {
		for _, g := range t.groups {
			if g.guess && g.used {
				names[g.name] = true
			}
		}
	}
	return names
}
