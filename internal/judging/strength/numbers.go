package strength

// now returns a recorded value as the examiner can read it in this run: what it has not seen is defined, with a new
// number, and what it has seen is only named. It reports false for what there is not in this run.
func (r *replay) now(v any) (any, bool) {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i, x := range v {
			var ok bool
			if list[i], ok = r.now(x); !ok {
				return nil, false
			}
		}
		return list, true
	case map[string]any:
		n, defines, ok := numbered(v)
		is, seen := r.names[n]
		tag, _ := tagged(v)
		switch {
		case !ok:
			return r.members(v)
		case n == 0: // an empty one, which has no number in the recording
			return r.renew(v, r.fresh())
		case n%2 != 0:
			n = r.alias(n)
			return known(n), r.known[n]
		case seen && (!defines || tag != "E"): // an exception that was raised does not come back
			return known(is), true
		case !defines && r.script.definitions[n] != nil:
			of := r.script.definitions[n]
			if m, _, _ := numbered(of); m != n { // of a class, which defines both
				if _, ok := r.now(of); !ok {
					return nil, false
				}
				is, ok = r.names[n]
				return known(is), ok
			}
			return r.now(of)
		case !defines:
			return nil, false
		}
		is = r.fresh()
		was := n
		if original, there := r.script.copies[n]; there {
			was = original
		}
		r.names[n], r.back[is] = is, was
		return r.renew(v, is)
	default:
		return v, true
	}
}

// renew returns a recorded value that defines something, with another number.
func (r *replay) renew(v map[string]any, is int64) (any, bool) {
	tag, payload := tagged(v)
	parts, _ := payload.([]any)
	if tag == "p" {
		return map[string]any{tag: literal(is)}, true
	}
	if len(parts) == 0 {
		return v, false
	}
	rest, ok := r.now(parts[1:])
	list, _ := rest.([]any)
	if tag == "F" && len(list) == 6 { // what the objects of a class are made after has a number, too
		if was, _ := integer(list[5]); was > 0 {
			prototype := r.fresh()
			r.names[was], r.back[prototype] = prototype, was
			list[5] = literal(prototype)
		}
	}
	return map[string]any{tag: append([]any{literal(is)}, list...)}, ok
}

func (r *replay) members(v map[string]any) (any, bool) {
	m := make(map[string]any, len(v))
	for name, x := range v {
		var ok bool
		if m[name], ok = r.now(x); !ok {
			return nil, false
		}
	}
	return m, true
}

// fresh returns a new number of ours.
func (r *replay) fresh() int64 {
	r.last += 2
	return r.last
}

func (r *replay) alias(n int64) int64 {
	if is, there := r.aliases[n]; there {
		return is
	}
	return n
}
