package strength

import (
	"encoding/json"
	"math"
	"strings"
)

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

// isNothing reports whether an answer says that there is nothing: no distance, no differences.
func isNothing(t form, v any) bool {
	if v == nil {
		return t.kind == "slice" || t.kind == "map"
	}
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		return err == nil && math.Abs(f) < 1e-6
	}
	_, payload := tagged(v)
	parts, _ := payload.([]any)
	items, isList := at(parts, 1).([]any)
	return v == any("") || isList && len(items) == 0
}

// isOrder reports whether an answer can say which of two things comes first.
func isOrder(v any) bool {
	return v == json.Number("-1") || v == json.Number("0") || v == json.Number("1")
}

// withObject reports whether something is asked with an object of the delivery's.
func withObject(args []any) (found bool) {
	each(any(args[min(1, len(args)):]), func(v any) {
		n, _, ok := numbered(v)
		found = found || ok && n%2 == 0
	})
	return found
}

// compares marks an exchange as a claim if it compares two values of one type and a delivered function made one of them: the
// delivery then decides whether its own result is right, or which comes first. So it does where it finds nothing between the two: no distance, no
// difference. It also records what functions make.
func (in *reader) compares(x *exchange, f frame) {
	if !in.lang.typed || f.kind != answer || x.op != "call" && x.op != "method" || len(x.types) == 0 {
		return
	}
	all := in.operands(x.request)
	truth := len(x.types) == 1 && (x.types[0].kind == "bool" || x.types[0].whole() && isOrder(f.value))
	if truth || len(x.types) == 1 && isNothing(x.types[0], f.value) {
		for i, a := range all {
			for j, b := range all {
				stays := strings.HasPrefix(a.value, `{"k":`)
				if maker := in.made[a]; i != j && a.class != "" && a.class == b.class && maker != "" && (truth || stays) {
					x.kind, x.about = operator, maker
				}
			}
		}
	}
	if truth {
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
