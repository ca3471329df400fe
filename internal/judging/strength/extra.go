package strength

import "maps"

// extra returns what else comes with a frame, with numbers as they are now.
func (r *replay) extra(recorded map[string]any) (map[string]any, bool) {
	if len(recorded) == 0 {
		return nil, true
	}
	extra := maps.Clone(recorded)
	delete(extra, "t")
	list, _ := recorded["u"].([]any)
	var updates []any
	for _, v := range list {
		pair, _ := v.([]any)
		n, ok := integer(at(pair, 0))
		if !ok {
			return nil, false
		}
		is, seen := r.names[n]
		if n%2 != 0 {
			is = r.alias(n)
			seen = r.known[is]
		}
		if !seen {
			continue
		}
		contents, ok := r.now(at(pair, 1))
		if !ok {
			return nil, false
		}
		updates = append(updates, []any{literal(is), contents})
	}
	if list != nil {
		extra["u"] = updates
	}
	if updates == nil {
		delete(extra, "u")
	}
	if warned, ok := recorded["W"]; ok {
		given, ok := r.now(warned)
		if !ok {
			return nil, false
		}
		extra["W"] = given
	}
	if exports, ok := recorded["m"]; ok { // [module, name, value]
		changed, ok := r.exports(exports)
		if !ok {
			return nil, false
		}
		extra["m"] = changed
	}
	return extra, true
}

// exports returns changes of what JavaScript modules export, with numbers as they are now.
func (r *replay) exports(recorded any) (any, bool) {
	list, _ := recorded.([]any)
	changed := []any{}
	for _, v := range list {
		parts, _ := v.([]any)
		n, ok := integer(at(parts, 0))
		is, seen := r.names[n]
		if !ok || !seen {
			continue
		}
		value, ok := r.now(at(parts, 2))
		if !ok {
			return nil, false
		}
		changed = append(changed, []any{literal(is), at(parts, 1), value})
	}
	return changed, true
}
