package strength

import "strings"

// operand is a value of a type that a Go function or method is asked about.
type operand struct{ class, value string }

// operands returns the receiver and the arguments of a request of Go's.
func (s *script) operands(f frame) []operand {
	var all []operand
	if class, _ := receiverClass(target(f)); class != "" {
		_, payload := tagged(target(f))
		parts, _ := payload.([]any)
		v := target(f)
		if tag, _ := tagged(v); tag == "T" {
			v = at(parts, 1)
		}
		all = append(all, operand{unqualified(class), identity(v)})
	} else if n, _, ok := numbered(target(f)); ok && f.op == "method" {
		class, _ := receiverClass(s.definitions[n])
		all = append(all, operand{unqualified(class), identity(target(f))})
	}
	given := s.arguments(f)
	for i, t := range inputs(f) {
		all = append(all, operand{unqualified(t.name), identity(at(given, i))})
	}
	return all
}

// unqualified returns the name of a type without the directories of its package, or "" for one that has no package.
func unqualified(class string) string {
	class = strings.TrimPrefix(class, "*")
	if !strings.Contains(class, ".") || strings.ContainsAny(class, "[]() ") {
		return ""
	}
	return class[strings.LastIndexByte(class, '/')+1:]
}

// identity returns what is the same for two values that are.
func identity(v any) string {
	if n, _, ok := numbered(v); ok && n%2 == 0 {
		return text(known(n))
	}
	return text(bare(v))
}

// compares marks an exchange as a claim if it compares two values of one type and a delivered function made one of them: the
// delivery then decides whether its own result is right. It also records what functions make.
func (in *reader) compares(x *exchange, f frame) {
	if !in.lang.typed || f.kind != answer || x.op != "call" && x.op != "method" || len(x.types) == 0 {
		return
	}
	all := in.operands(x.request)
	if len(x.types) == 1 && x.types[0].kind == "bool" {
		for i, a := range all {
			for j, b := range all {
				if maker := in.made[a]; i != j && a.class != "" && a.class == b.class && maker != "" {
					x.kind, x.about = operator, maker
				}
			}
		}
		return
	}
	v := f.value
	if len(x.types) > 1 {
		_, payload := tagged(v)
		parts, _ := payload.([]any)
		v = at(parts, 0)
	}
	class := unqualified(x.types[0].name)
	for _, o := range all {
		if class != "" && o.class == class {
			in.made[operand{class, identity(v)}] = x.name
		}
	}
}
