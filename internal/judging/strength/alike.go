package strength

import (
	"maps"
	"slices"
)

// errorsAlike returns exported errors that tell nothing apart, and what they are: in Go those that are nil or the same as another, and
// elsewhere classes of exceptions that were raised and have two names.
func (s *script) errorsAlike() map[string]string {
	found := map[string]string{}
	for _, x := range s.exchanges {
		if n := x.raises(); s.twice[n] {
			found[s.origins[n]] = "another exception is the same class"
		}
		if !s.lang.typed || x.op != "get" || len(x.types) != 1 || x.types[0].kind != "error" || len(x.steps) == 0 {
			continue
		}
		value := x.steps[len(x.steps)-1].value
		tag, payload := tagged(value)
		of, _ := payload.(string)
		switch {
		case value == nil:
			found[x.name] = "it is nil"
		case tag == "g" && s.short(of) != x.name:
			found[x.name] = "it is " + display(s.short(of))
		}
	}
	return found
}

// alike returns an exported error that tells nothing apart, if an answer of a group has an error that the tests may compare with it.
func (s *script) alike(g *group) string {
	for _, c := range g.changes {
		n := c.at.raises()
		switch {
		case len(s.same) == 0:
		case s.twice[n]:
			return s.origins[n]
		case s.lang.typed && needsError(s, c.at):
			return slices.Min(slices.Collect(maps.Keys(s.same)))
		}
	}
	return ""
}

// raises returns the number of the class of the exception that an exchange has raised, 0 if it has none.
func (x *exchange) raises() int64 {
	if len(x.steps) == 0 || x.steps[len(x.steps)-1].kind != raised {
		return 0
	}
	_, payload := tagged(x.steps[len(x.steps)-1].value)
	parts, _ := payload.([]any)
	n, _, _ := numbered(at(parts, 1))
	return n
}
