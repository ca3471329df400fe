package strength

import (
	"encoding/json"
	"slices"
)

// returned keeps the errors that a Go function has returned.
func (s *script) returned(v any) {
	each(v, func(v any) {
		tag, payload := tagged(v)
		parts, _ := payload.([]any)
		says := func(v any) string {
			_, payload := tagged(v)
			parts, _ := payload.([]any)
			return text(at(parts, 3))
		}
		if tag == "E" && len(parts) == 6 && len(s.errors) < mostErrors && !slices.ContainsFunc(s.errors, func(e any) bool { return says(e) == says(v) }) ||
			tag == "g" && len(s.errors) < mostErrors && !slices.ContainsFunc(s.errors, func(e any) bool { return text(e) == text(v) }) {
			s.errors = append(s.errors, v)
		}
	})
}

// alone returns an exception without what it refers to, so that it can be raised anywhere.
func (s *script) alone(v any) any {
	tag, payload := tagged(v)
	list, _ := payload.([]any)
	parts := slices.Clone(list)
	switch {
	case len(parts) < 3:
		return v
	case s.lang.typed:
		return v
	case s.lang == JavaScript: // number, class, message, stack, properties
		return map[string]any{tag: append(slices.Clone(parts[:min(3, len(parts))]), "", []any{})}
	}
	refers := false
	each(at(parts, 2), func(v any) {
		_, _, ok := numbered(v)
		refers = refers || ok
	})
	if refers {
		parts[2] = []any{}
	}
	for i := 4; i < len(parts)-1; i++ {
		parts[i] = nil
	}
	if last := len(parts) - 1; last > 5 {
		parts[last] = map[string]any{"D": []any{json.Number("0"), []any{}}}
	}
	return map[string]any{tag: parts}
}

// exceptionClass returns the class of an exception as text.
func exceptionClass(v any) string {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	if tag != "E" || len(parts) < 2 {
		return ""
	}
	if n, _, ok := numbered(parts[1]); ok {
		return text(known(n))
	}
	return text(parts[1])
}
