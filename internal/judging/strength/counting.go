package strength

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// counting returns the lies that only look at how often a name was asked before, in all tests, and not at what it is asked: numbers
// that rise or fall, or its first two answers in turn. They are told where it was asked with different arguments often enough, so that
// what is to count, such as a method without arguments, is not taken for a lie.
func counting() []*lie {
	var table []*lie
	add := func(says string, needs func(*script, *exchange) bool, tell func(r *replay, asked frame, nth int) (any, bool)) {
		table = append(table, &lie{says: says, again: true, needs: needs, tell: func(r *replay, asked frame) (frame, bool) {
			nth, ok := r.nth()
			if !ok {
				return frame{}, false
			}
			v, ok := tell(r, asked, nth)
			return frame{kind: answer, value: v}, ok
		}})
	}
	for _, c := range []struct {
		says        string
		first, step int
	}{{"0, 1, 2 and so on", 0, 1}, {"1, 2, 3 and so on", 1, 1}, {"numbers that fall", 120, -1}} {
		add(c.says, needsNumbers, func(r *replay, asked frame, nth int) (any, bool) {
			n := literal(int64(c.first + c.step*nth))
			if !r.script.lang.typed {
				return n, true
			}
			return answers(results(asked), full(r.fresh, true, text(n), ""))
		})
	}
	add("texts that fall", needsTexts, func(r *replay, asked frame, nth int) (any, bool) {
		falling := fmt.Sprintf("%09d", 1_000_000-nth)
		if !r.script.lang.typed {
			return falling, true
		}
		return answers(results(asked), full(r.fresh, true, "1", falling))
	})
	add("its first two answers in turn", func(s *script, x *exchange) bool {
		return s.once("in turn "+x.name, func() bool {
			_, isBool := s.firstValue(x.name).(bool)
			return s.differently(x.name) >= mostDifferent || !isBool && s.differently(x.name) >= mostAlternating
		})
	}, func(r *replay, _ frame, nth int) (any, bool) {
		two := r.script.firstTwo(r.trial.about)
		if len(two) < 2 {
			return nil, false
		}
		return r.now(r.script.underlying(two[nth%2]))
	})
	return table
}

// again returns the lie that only looks at whether it was asked the same before: it has one answer then, and another for the first time.
func again() *lie {
	return &lie{says: "one answer to what it was asked before, and one to all else", again: true,
		needs: func(s *script, x *exchange) bool {
			return s.once("asks again "+x.name, func() bool {
				once, more := s.firstAndAgain(x.name)
				return once != nil && more != nil && s.differently(x.name) > 1
			})
		},
		tell: func(r *replay, asked frame) (frame, bool) {
			once, more := r.script.firstAndAgain(r.trial.about)
			if r.recorded == nil || r.recorded.with == "" || once == nil || more == nil {
				return frame{}, false
			}
			if r.script.askedBefore(r.recorded) != nil {
				once = more
			}
			v, ok := r.now(r.script.underlying(once))
			return frame{kind: answer, value: v}, ok
		}}
}

// askedBefore returns the exchange in which the same was asked with the same arguments first, nil if that is this one.
func (s *script) askedBefore(x *exchange) *exchange {
	if s.firsts == nil {
		s.firsts = map[string]*exchange{}
		for _, x := range s.exchanges {
			if s.firsts[x.key+x.with] == nil {
				s.firsts[x.key+x.with] = x
			}
		}
	}
	if first := s.firsts[x.key+x.with]; first != x {
		return first
	}
	return nil
}

// firstAndAgain returns the first exchange of a name that has arguments, and the first that had another answer than when the same was
// asked before. Without such calls, or if one was not answered with data, they are nil.
func (s *script) firstAndAgain(name string) (once, more *exchange) {
	for _, x := range s.exchanges {
		if x.name != name || x.with == "" {
			continue
		}
		if !s.evident(x) || x.steps[len(x.steps)-1].kind != answer {
			return nil, nil
		}
		if once == nil {
			once = x
		}
		before := s.askedBefore(x)
		if more == nil && before != nil && text(bare(s.underlying(before))) != text(bare(s.underlying(x))) {
			more = x
		}
	}
	return once, more
}

// firstValue returns the first answer of a name, nil if it has none.
func (s *script) firstValue(name string) any {
	if two := s.firstTwo(name); len(two) > 0 {
		return s.underlying(two[0])
	}
	return nil
}

// visits returns the lies that only look at how often an object was asked for a number, and not at what else was done with it. They are
// told where something with an argument was asked between: what is asked without any, such as the next number, may be a count.
func visits() []*lie {
	var table []*lie
	for _, c := range []struct {
		says string
		step int64
	}{{"rises by 1 each time that its object is asked", 1}, {"falls by 1 each time that its object is asked", -1}} {
		table = append(table, &lie{says: c.says, again: true,
			needs: func(s *script, x *exchange) bool {
				return s.once("visits "+x.name, func() bool { return s.visited(x.name) })
			},
			tell: func(r *replay, asked frame) (frame, bool) {
				if r.recorded == nil || r.recorded.with != "" {
					return frame{}, false
				}
				first, nth := r.script.turn(r.recorded)
				if len(first.steps) == 0 {
					return frame{}, false
				}
				n, ok := integer(first.steps[len(first.steps)-1].value)
				if !ok {
					return frame{}, false
				}
				n += c.step * int64(nth)
				if !r.script.lang.typed {
					return says(literal(n))
				}
				v, ok := answers(results(asked), full(r.fresh, true, text(literal(n)), ""))
				return frame{kind: answer, value: v}, ok
			}})
	}
	return table
}

// turn returns the exchange in which a test asked the same of the same object first, and how often it did before this one.
func (s *script) turn(x *exchange) (first *exchange, nth int) {
	if s.turns == nil {
		s.turns, s.starts = map[*exchange]int{}, map[string]*exchange{}
		often := map[string]int{}
		for _, x := range s.exchanges {
			k := queue(x.test, x.key)
			s.turns[x] = often[k]
			often[k]++
			if s.starts[k] == nil {
				s.starts[k] = x
			}
		}
	}
	return s.starts[queue(x.test, x.key)], s.turns[x]
}

// visited reports whether an object was asked three times for a number of this name without an argument, each time after something with another argument.
func (s *script) visited(name string) bool {
	often := map[int64]int{}
	with := map[int64]string{}
	for _, x := range s.exchanges {
		n, _, ok := numbered(target(x.request))
		if _, own := receiverClass(target(x.request)); s.lang.typed && own != 0 {
			n, ok = own, true
		}
		switch {
		case !ok:
		case x.name != name && x.with != "":
			with[n] = x.with
		case x.name == name && x.with == "" && with[n] != "" && needsTag("number")(s, x):
			delete(with, n)
			often[n]++
			if often[n] == mostVisits {
				return true
			}
		}
	}
	return false
}

// mostVisits is the number of calls to one object from which on a count of its calls is tried as a lie.
const mostVisits = 3

// needsNumbers is the need of a lie that is a number each time.
func needsNumbers(s *script, x *exchange) bool {
	if s.lang.typed {
		return len(x.types) > 0 && (x.types[0].whole() || x.types[0].counts() || x.types[0].float()) && s.differently(x.name) >= mostCounted
	}
	return needsTag("number f")(s, x) && s.differently(x.name) >= mostCounted
}

// needsTexts is the need of a lie that is a text each time.
func needsTexts(s *script, x *exchange) bool {
	isText := len(x.types) > 0 && x.types[0].kind == "string"
	if !s.lang.typed && len(x.steps) > 0 {
		_, isText = x.steps[len(x.steps)-1].value.(string)
	}
	return isText && s.differently(x.name) >= mostCounted
}

// apart returns what tells an exchange from others of its name: the arguments of a call, of what is awaited, or those by which the
// object was made whose method or attribute is asked for without any. It is empty where a count is no lie.
func (s *script) apart(x *exchange) string {
	if x == nil || len(x.steps) == 0 || s.stepping(x.request) || s.promises(x) {
		return ""
	}
	asked := s.question(x)
	if asked.with != "" {
		if hasTag("call method new", asked.op) {
			return asked.with
		}
		return ""
	}
	n, _, _ := numbered(target(x.request))
	if _, own := receiverClass(target(x.request)); s.lang.typed && own != 0 {
		n = own
	}
	if maker := s.makers[n]; maker != nil && hasTag("call new", maker.op) && hasTag("method get", x.op) {
		return maker.with
	}
	return ""
}

// nth returns how often the name of what is lied about was asked before: in the recorded tests before this one, and in this run, in
// which a test may ask in another order.
func (r *replay) nth() (int, bool) {
	s := r.script
	if s.apart(r.recorded) == "" {
		return 0, false
	}
	if s.places == nil {
		s.places = map[*exchange]int{}
		often := map[string]int{}
		for _, x := range s.exchanges {
			if s.apart(x) != "" {
				s.places[x] = often[x.name]
				often[x.name]++
			}
		}
	}
	first := slices.IndexFunc(s.asked[r.recorded.test], func(x *exchange) bool { return x.name == r.recorded.name && s.apart(x) != "" })
	r.counted++
	return s.places[s.asked[r.recorded.test][max(first, 0)]] + r.counted - 1, true
}

// So often a name must be asked differently until a count, or two answers in turn, are a lie about it: honest tests often have a few
// cases in such an order.
const (
	mostCounted     = 4
	mostAlternating = 5 // two answers that are neither true nor false
	mostDifferent   = 7
)

// differently returns with how many different arguments a name was asked, at most mostDifferent.
func (s *script) differently(name string) int {
	with := map[string]bool{}
	for _, x := range s.exchanges {
		if apart := s.apart(x); x.name == name && apart != "" && len(with) < mostDifferent {
			with[apart] = true
		}
	}
	return len(with)
}

// firstTwo returns the exchanges with the first two different answers of a name.
func (s *script) firstTwo(name string) (two []*exchange) {
	for _, x := range s.exchanges {
		if x.name == name && s.apart(x) != "" && s.evident(x) && x.steps[len(x.steps)-1].kind == answer && len(two) < 2 &&
			(len(two) == 0 || text(bare(s.underlying(two[0]))) != text(bare(s.underlying(x)))) {
			two = append(two, x)
		}
	}
	return two
}

// onlyPrints reports whether a name does nothing but print: it answers nothing, and changes nothing of the tests'.
func (s *script) onlyPrints(name string) bool {
	for _, x := range s.exchanges {
		if x.name != name {
			continue
		}
		if len(x.steps) != 1 || x.steps[0].kind != answer || !returnsNothing(x.steps[0].value) {
			return false
		}
		for _, effect := range []string{"u", "f", "m", "W"} {
			if x.steps[0].extra[effect] != nil {
				return false
			}
		}
	}
	return true
}

// printing returns the lie that prints what it was given where a name only prints.
func printing() *lie {
	printed := func(x *exchange) []any {
		if len(x.steps) == 0 || x.steps[len(x.steps)-1].kind != answer {
			return nil
		}
		list, _ := x.steps[len(x.steps)-1].extra["w"].([]any)
		return list
	}
	return &lie{says: "what it was given, printed", again: true,
		needs: func(s *script, x *exchange) bool {
			return len(printed(x)) > 0 && len(s.arguments(x.request)) > 0 && s.once("only prints "+x.name, func() bool { return s.onlyPrints(x.name) })
		},
		tell: func(r *replay, asked frame) (frame, bool) {
			v, ok := r.recordedAnswer(asked)
			if !ok {
				return frame{}, false
			}
			extra, ok := r.extra(r.recorded.steps[len(r.recorded.steps)-1].extra)
			echo := spoken(r.script.arguments(asked))
			var all []any
			for _, p := range printed(r.recorded) {
				pair, _ := p.([]any)
				all, echo = append(all, []any{at(pair, 0), echo}), ""
			}
			if all != nil {
				extra["w"] = all
			}
			return frame{kind: answer, value: v, extra: extra}, ok
		}}
}

// spoken returns all plain values in a value as words of one line.
func spoken(v any) string {
	var all []string
	each(v, func(v any) {
		if isPlain(v) {
			all = append(all, fmt.Sprint(v))
		}
	})
	return strings.Join(all, " ") + "\n"
}

// filled returns the lie of Go that says yes to what is not empty or zero, and returns an error for the rest.
func filled() *lie {
	return &lie{says: "yes to what is not empty or zero, an error or no to the rest",
		needs: func(s *script, x *exchange) bool {
			return len(s.arguments(x.request)) > 0 && slices.ContainsFunc(x.types, func(t form) bool { return t.kind == "bool" || t.kind == "error" })
		},
		tell: func(r *replay, asked frame) (frame, bool) {
			there := !isEmpty(at(r.script.arguments(asked), 0))
			v, ok := answers(results(asked), func(t form) (any, bool) {
				switch {
				case t.kind == "bool":
					return there, true
				case t.kind == "error" && !there:
					return r.now(anError("empty"))
				}
				return zero(t)
			})
			return frame{kind: answer, value: v}, ok
		}}
}

// isEmpty reports whether a value of Go's is zero, or has nothing in it.
func isEmpty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case json.Number:
		f, err := v.Float64()
		return err == nil && f == 0
	}
	_, payload := tagged(v)
	parts, _ := payload.([]any)
	items, isList := at(parts, 1).([]any)
	return isList && len(items) == 0
}
