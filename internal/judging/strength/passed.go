package strength

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// mostSet limits how many names of what a test has set are kept.
const mostSet = 64

// pass keeps what the tests pass, and what they change in it.
func (in *reader) pass(f frame) {
	for _, v := range []any{any(f.args), f.value} {
		each(v, func(v any) {
			if n, defines, ok := numbered(v); ok && defines && n%2 != 0 {
				in.passed[n] = v
			}
		})
	}
	in.update(f)
}

// update takes over what a frame says of the contents of what was passed.
func (in *reader) update(f frame) {
	list, _ := f.extra["u"].([]any)
	for _, u := range list {
		pair, _ := u.([]any)
		n, ok := integer(at(pair, 0))
		tag, payload := tagged(in.passed[n])
		parts, _ := payload.([]any)
		if ok && len(pair) == 2 && len(parts) > 1 {
			if in.lang == JavaScript && hasTag(in.lang.pairs, tag) {
				in.replace(parts[1], pair[1])
			}
			changed := append([]any{parts[0], pair[1]}, parts[2:]...)
			if tag == "B" { // its class comes first
				fresh, _ := pair[1].([]any)
				changed = []any{parts[0], parts[1], at(fresh, 0)}
			}
			in.passed[n] = map[string]any{tag: changed}
		}
	}
}

// fill keeps what an answer defines in the objects of JavaScript's tests.
func (in *reader) fill(x *exchange, f frame) {
	changes, _ := f.extra["u"].([]any)
	for _, c := range changes {
		pair, _ := c.([]any)
		n, _ := integer(at(pair, 0))
		members, _ := at(pair, 1).([]any)
		for i := 1; i < len(members) && in.lang == JavaScript && hasTag(in.lang.pairs, in.tags[n]); i += 2 {
			name, _ := members[i-1].(string)
			in.define(x, x.name+"."+name, members[i])
		}
	}
}

// mostNow limits how many values are looked at for what tells two requests apart.
const mostNow = 10_000

// now returns a value with the contents of what was passed before.
func (in *reader) now(v any) any {
	left := mostNow
	var now func(v any, level int) any
	now = func(v any, level int) any {
		left--
		switch v := v.(type) {
		case []any:
			all := slices.Clone(v)
			for i := range v {
				if left > 0 {
					all[i] = now(v[i], level)
				}
			}
			return all
		case map[string]any:
			n, defines, ok := numbered(v)
			if was := in.passed[n]; ok && !defines && was != nil && level < deepest && left > 0 {
				return now(was, level+1)
			}
			tag, payload := tagged(v)
			if parts, isList := payload.([]any); isList {
				return map[string]any{tag: now(parts, level)}
			}
		}
		return v
	}
	return now(v, 0)
}

// spell returns what tells two requests for one name apart: their arguments with what is in them, and in Go a receiver that is sent
// whole. It is empty without any.
func (in *reader) spell(f frame) string {
	given := in.script.arguments(f)
	if _, self, ok := receiver(f); ok {
		given = append([]any{self}, given...)
	}
	if len(given) == 0 {
		return ""
	}
	list, _ := in.now(given).([]any)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(text(bares(list)))))
}

// givenBack returns a container of the test's that an exchange passes and gets back.
func (s *script) givenBack(x *exchange, v any) (found any) {
	back, defines, ok := numbered(v)
	if !ok || defines || back%2 == 0 {
		return nil
	}
	each(any(x.args), func(v any) {
		n, defines, ok := numbered(v)
		tag, payload := tagged(v)
		if !ok || !defines || n != back || !s.lang.container(tag) {
			return
		}
		s.last += 2
		s.defined[x.test] = append(s.defined[x.test], s.last)
		found = map[string]any{tag: append([]any{literal(s.last)}, payload.([]any)[1:]...)}
	})
	return found
}

// give notes the files that come with a frame of the examiner's.
func give(given map[string]bool, f frame) {
	for _, name := range []string{"f", "g"} {
		list, _ := f.extra[name].([]any)
		for _, pair := range list {
			parts, _ := pair.([]any)
			if data, ok := at(parts, 1).(string); ok {
				given[data] = true
			}
		}
	}
}
