package strength

import "strings"

// key returns what identifies a question: the operation, what is asked, and the name of what is asked for.
func (s *script) key(f frame) string {
	parts := []any{f.op, at(f.args, 0), nil}
	if class, _ := receiverClass(at(f.args, 0)); s.lang.typed && class != "" { // not by its contents
		parts[1] = class
	}
	switch f.op {
	case "get", "set", "del", "method":
		parts[2] = at(f.args, 1)
	case "import":
		if s.lang == Python {
			parts[2] = at(f.args, 1) // whether it is loaded anew
		}
	case "op", "lib":
		parts[2] = target(f)
		if class, _ := receiverClass(target(f)); s.lang.typed && class != "" {
			parts[2] = class
		}
		if f.op == "lib" {
			parts = append(parts, at(f.args, 1))
		}
	}
	return text(parts)
}

// target returns what a request asks something of.
func target(f frame) any {
	switch f.op {
	case "op":
		return at(f.args, 1)
	case "lib":
		args, _ := at(f.args, 2).([]any)
		return at(args, 0)
	case "import", "threads", "idle", "modules":
		return nil
	default:
		return at(f.args, 0)
	}
}

// of returns the name of what a request asks something of.
func (s *script) of(f frame) string {
	n, _, _ := numbered(target(f))
	return s.origins[n]
}

// nameOf returns the name of an answer: how the tests come to it from a name of a delivered module.
func (s *script) nameOf(f frame) string {
	what := target(f)
	if tag, payload := tagged(what); tag == "a" { // a method that was kept
		parts, _ := payload.([]any)
		inner := frame{op: "method", args: parts}
		return s.nameOf(inner)
	}
	if name, ok := s.lang.name(s, f); ok {
		return name
	}
	n, _, _ := numbered(what)
	of := s.of(f)
	member := func(name any) string {
		text, _ := name.(string)
		if s.modules[n] {
			if owner, there := s.owners[text]; there && owner != of && !s.lang.typed {
				return strings.ReplaceAll(of, ".", "/") + "/" + text // another module has it, too
			}
			s.owners[text] = of
			return text
		}
		if strings.HasSuffix(of, "."+text) || strings.Count(of, ".") > 6 {
			return of // a chain of the same things, such as the nodes of a list
		}
		return of + "." + text
	}
	switch f.op {
	case "import":
		name, _ := at(f.args, 0).(string)
		return name
	case "get", "set", "del":
		return member(at(f.args, 1))
	case "method":
		return member(at(f.args, 1)) + "()"
	case "call":
		return strings.TrimSuffix(of, "()") + "()"
	case "new": // not what the class answers as a function
		return "new " + strings.TrimSuffix(of, "()") + "()"
	case "op":
		operation, _ := at(f.args, 0).(string)
		return member(operation)
	case "lib":
		return member(at(f.args, 1))
	default:
		return of
	}
}

// receivers notes the types of the objects that a Go test has made itself.
func (s *script) receivers(f frame) {
	if !s.lang.typed {
		return
	}
	each(any(f.args), func(v any) {
		if tag, _ := tagged(v); tag == "h" {
			if class, n := receiverClass(v); n%2 != 0 {
				s.origins[n] = s.short(class)
			}
		}
	})
}

// root returns the name of a delivered module at which a name begins.
func root(name string) string {
	if i := strings.IndexAny(name, ".("); i >= 0 {
		return name[:i]
	}
	return name
}

// isHandle reports whether a value is an object that stays with the delivery, isNamespace whether it is one without a class: what it
// has are functions of the module like those that the module itself has.
func isHandle(v any) bool {
	tag, _ := tagged(v)
	return tag == "h"
}

func isNamespace(v any) bool {
	_, payload := tagged(v)
	parts, _ := payload.([]any)
	methods, _ := at(parts, 2).([]any)
	return isHandle(v) && len(methods) == 0 && (at(parts, 1) == nil || text(at(parts, 1)) == `{"g":"Object"}`)
}
