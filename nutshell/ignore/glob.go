package ignore

import "strings"

// glob is a pattern with wildcards as an automaton that reads a name byte by byte. All states that it may be in are
// followed at once, so that there is no backtracking. The zero glob matches the empty name.
type glob struct {
	states []state
	tail   string // the bytes after the last wildcard, which most names do not end in
}

// state is a step of the automaton.
type state struct {
	kind  kind
	takes set
}

// kind is the kind of a state.
type kind byte

const (
	one  kind = iota // takes one byte, and leads to the next state
	run              // takes any number of bytes, and leads to the next state
	fork             // takes nothing, and leads to the next state and past a "**/", which is two states
)

// compile compiles a pattern. A malformed one gets a state that takes no byte, and matches nothing.
func compile(text string) glob {
	var g glob
	for i := 0; i < len(text); {
		rest := text[i:]
		switch rest[0] {
		case '*':
			leads, after := stars(rest, i == 0 || text[i-1] == '/')
			g.add("", leads...)
			i = len(text) - len(after)
		case '?':
			g.add("", state{one, allBut('/')})
			i++
		case '[':
			takes, after := bracket(rest[1:])
			g.add("", state{one, takes})
			i = len(text) - len(after)
		default:
			c, after, ok := plain(rest)
			if !ok {
				g.add("", state{})
				return g
			}
			g.add(string([]byte{c}), state{one, only(c)})
			i = len(text) - len(after)
		}
	}
	return g
}

// add adds states; tail is the byte that they match, empty for a wildcard.
func (g *glob) add(tail string, states ...state) {
	g.states = append(g.states, states...)
	if tail == "" {
		g.tail = ""
	} else {
		g.tail += tail
	}
}

// stars reads one or more stars; begin is whether a segment begins there. Two or more stars that are a whole segment span
// folders, and are read with the slash that follows.
func stars(text string, begin bool) (leads []state, after string) {
	after = strings.TrimLeft(text, "*")
	span := begin && len(text)-len(after) > 1
	switch {
	case span && strings.HasPrefix(after, "/"):
		return []state{{kind: fork}, {run, all()}, {one, only('/')}}, after[1:]
	case span && (after == "" || strings.HasPrefix(after, `\/`)):
		return []state{{run, all()}}, after
	}
	return []state{{run, allBut('/')}}, after
}

// match reports whether the pattern matches the whole name.
func (g glob) match(name string) bool {
	if len(g.states) == 0 || !strings.HasSuffix(name, g.tail) {
		return len(g.states) == 0 && name == ""
	}
	now, next := newFrontier(g.states), newFrontier(g.states)
	now.enter(0)
	for i := range len(name) {
		for _, at := range now.states {
			s := &g.states[at]
			switch {
			case !s.takes.has(name[i]):
			case s.kind == run:
				next.enter(at)
			default:
				next.enter(at + 1)
			}
		}
		if len(next.states) == 0 && !next.done {
			return false
		}
		now.clear()
		now, next = next, now
	}
	return now.done
}

// frontier is the set of states that an automaton may be in.
type frontier struct {
	all     []state
	states  []int // those that take bytes
	entered []bool
	done    bool // past the last state
}

func newFrontier(all []state) *frontier { return &frontier{all: all, entered: make([]bool, len(all))} }

// enter adds a state, and the states that it leads to without a byte.
func (f *frontier) enter(at int) {
	for ; at < len(f.all) && !f.entered[at]; at++ {
		f.entered[at] = true
		switch f.all[at].kind {
		case one:
			f.states = append(f.states, at)
			return
		case run:
			f.states = append(f.states, at)
		case fork:
			f.enter(at + 3)
		}
	}
	f.done = f.done || at == len(f.all)
}

func (f *frontier) clear() {
	clear(f.entered)
	f.states, f.done = f.states[:0], false
}
