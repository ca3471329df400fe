package strength

// A class or a function of a module can stand in the place of a module: it only has what the tests ask for, and is never called
// itself. What it has are names of their own then, each of which must be shown.

// use notes which of the subject's things a frame names, but for those of which it asks for a member.
func (s *script) use(f frame) {
	see := func(v any) {
		if n, defines, ok := numbered(v); ok && !defines {
			s.used[n] = true
		}
	}
	args := f.args
	if f.op == "call" { // what comes after the arguments by name is JavaScript's this
		args = args[:min(3, len(args))]
	}
	tag, _ := tagged(at(args, 0))
	if f.op == "get" || f.op == "method" || f.op == "call" && tag == "a" { // a method that is called later
		args = args[min(1, len(args)):]
	}
	each(any(args), see)
	if tag, _ := tagged(f.value); tag != "k" { // the same thing again
		each(f.value, see)
	}
	each(any(f.extra), see)
}

// standsIn reports whether a value that a module has, or is, is a class or a function in the place of one.
func (s *script) standsIn(v any) bool {
	n, defines, ok := numbered(v)
	tag, _ := tagged(v)
	return ok && defines && n%2 == 0 && (tag == "C" || tag == "F") && !s.used[n]
}
