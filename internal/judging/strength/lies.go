package strength

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// lie is a rule by which a name is answered for, whatever it is asked.
type lie struct {
	says  string                             // in words, for the customer
	tell  func(*replay, frame) (frame, bool) // false if it has no answer of the right type
	empty bool                               // it empties containers that it is given, and shows nothing where it is given none
	keeps bool                               // an argument of an earlier call
	joint bool                               // several names may tell it together
	group bool                               // and only all of them
	again bool                               // it answers with what was recorded
	plays bool                               // all that was recorded is played, with the values of the first time
	items bool                               // only each call of the tests' functions has the arguments of the first one
	steps bool                               // it may also stand for each item of what is gone through
	bare  bool                               // only of names whose answers are copies and that do something else besides
	ends  bool                               // only where something is gone through
	needs func(s *script, x *exchange) bool  // what a recorded exchange must have for it to differ from the others; nil for nothing
}

// Needs of lies. One that has nothing to give back is as good as a constant.
func needsArgument(i int) func(*script, *exchange) bool {
	return func(s *script, x *exchange) bool { return len(s.arguments(x.request)) > i }
}

func needsItems(s *script, x *exchange) bool {
	first := at(s.arguments(x.request), 0)
	_, isText := first.(string)
	tag, _ := tagged(first)
	return isText || tag == "t" || s.lang.container(tag)
}

func needsContainers(s *script, x *exchange) bool { return len(s.containers(x.request)) > 0 }

func needsPlain(s *script, x *exchange) bool {
	given := s.arguments(x.request)
	return len(given) > 0 && isPlain(given[0])
}

// needsKept is the need of a lie that empties what it is given, or what its object was made with.
func needsKept(s *script, x *exchange) bool {
	n, _, _ := numbered(target(x.request))
	maker := s.makers[n]
	return needsContainers(s, x) || maker != nil && (x.op == "method" || x.op == "get") && needsContainers(s, maker)
}

func needsStep(s *script, x *exchange) bool { return s.stepping(x.request) || s.walking(x.request) }

// needsItem is the need of a lie that always gives one item: another item, and nothing that is asked for otherwise, as by send.
func needsItem(s *script, x *exchange) bool {
	n, _, _ := numbered(target(x.request))
	return !s.sent[n] && needsStep(s, x) && x.item() && slices.ContainsFunc(s.exchanges, func(y *exchange) bool {
		return y != x && y.name == x.name && needsStep(s, y) && y.item()
	})
}

// needsTag is the need of a lie that is a value of a type: an answer of such a type.
func needsTag(tags string) func(*script, *exchange) bool {
	return func(_ *script, x *exchange) bool {
		if len(x.steps) == 0 {
			return false
		}
		value := x.steps[len(x.steps)-1].value
		tag, _ := tagged(value)
		if _, isNumber := value.(json.Number); isNumber {
			tag = "number"
		}
		return hasTag(tags, tag)
	}
}

// covers reports whether the lie answers a request that is about a name. about is a name, or "*" and how it ends. A lie
// about all names leaves alone what only hangs things together, such as the making of objects.
func (l *lie) covers(about string, f frame, s *script, recorded *exchange) bool {
	name := s.nameOf(f)
	if recorded != nil {
		name = recorded.name
	}
	switch f.op {
	case "call", "method", "op", "await", "lib":
		if s.walking(f) && (l.ends || (l.again || l.steps) && recorded != nil && !recorded.item()) {
			return l.ends && name == about
		}
		if next := s.stepping(f); l.ends || next { // any other lie would never come to an end
			if (l.again || l.steps) && recorded != nil {
				n, _, _ := numbered(target(recorded.request))
				return name == about && recorded.item() && !s.sent[n] && !(s.lang.named && s.promises(recorded))
			}
			return l.ends && next && name == about && (recorded == nil || s.lang.named || !s.promises(recorded) || f.op == "await")
		}
		if recorded != nil && s.stepped[s.awaited(f)] && !recorded.item() {
			return false // the end of an asynchronous iteration
		}
		operation, _ := at(f.args, 0).(string)
		symbol, _ := tagged(at(f.args, 1))
		if f.op == "op" && operation == "own" && (l.again || l.says == "always true") { // an honest object says so, too
			return false
		}
		if f.op == "op" && (operation == "__iter__" || operation == "__aiter__") || f.op == "method" && symbol == "y" {
			return false
		}
		if recorded != nil && s.promises(recorded) && !(f.op == "await" || s.settles(f) && recorded.itself()) {
			return false // what the promise brings is lied about
		}
		if recorded != nil && s.called[recorded.number()] {
			return false // and what a function answers that was made
		}
		if recorded != nil && (l.again || l.steps) && s.stepped[recorded.number()] && !s.sent[recorded.number()] {
			return false // and so are the items
		}
	case "get":
		if l.ends {
			return false
		}
		// Only what is known to be data is replaced: a function must stay one to be called.
		if l.empty && (recorded == nil || !needsKept(s, recorded)) || recorded != nil && !s.evident(recorded) && !s.derived(recorded) || s.inner(f) {
			return false
		}
	default:
		return false
	}
	if end, joint := strings.CutPrefix(about, "*"); joint {
		return strings.HasSuffix(name, end) && recorded != nil && s.evident(recorded)
	}
	return name == about || l.again && s.wholes[name] == about
}

// inner reports whether a request is for an attribute of a coroutine or generator, at which Python's library looks.
func (s *script) inner(f frame) bool {
	if f.op != "get" || !s.lang.named || !innerName.MatchString(text(at(f.args, 1))) {
		return false
	}
	n, _, _ := numbered(target(f))
	_, payload := tagged(s.definitions[n])
	parts, _ := payload.([]any)
	class := at(parts, 1)
	if n, defines, ok := numbered(class); ok && !defines {
		class = s.definitions[n]
	}
	_, payload = tagged(class)
	parts, _ = payload.([]any)
	name, _ := at(parts, 1).(string)
	return hasTag("coroutine generator async_generator", name) && at(parts, 2) == any("builtins")
}

// innerName matches the names of these attributes.
var innerName = regexp.MustCompile(`^"(cr|gi|ag)_`)

// derived reports whether an answer is an object of Python's with the plain value that its class is derived from.
func (s *script) derived(x *exchange) bool {
	last := len(x.steps) - 1
	if last < 0 || !s.lang.named {
		return false
	}
	tag, payload := tagged(x.steps[last].value)
	parts, _ := payload.([]any)
	more, _ := at(parts, 2).(map[string]any)
	return tag == "h" && (more["d"] != nil || more["c"] != nil)
}

// evident reports whether an answer is data that the examiner can look at, or an object that only operators look at.
func (s *script) evident(x *exchange) bool {
	l := s.lang
	last := len(x.steps) - 1
	if (!x.kind.judged() && x.kind != shown) || last < 0 {
		return false
	}
	value := x.steps[last].value
	tag, _ := tagged(value)
	found := hasTag(l.opaque, tag) && !(l.named && tag == "h" && !s.handled[x.number()])
	if l.typed {
		each(value, func(v any) {
			tag, _ := tagged(v)
			found = found || hasTag(l.opaque, tag)
		})
	}
	return !found
}

// promises reports whether an answer is a promise of JavaScript's, or what Python's tests await or enter.
func (s *script) promises(x *exchange) bool {
	last := len(x.steps) - 1
	if last < 0 {
		return false
	}
	tag, _ := tagged(x.steps[last].value)
	return tag == "p" || s.promised[x.number()]
}

// number returns the number of the object that an exchange was answered with, 0 if it was none of the subject's.
func (x *exchange) number() int64 {
	if len(x.steps) == 0 {
		return 0
	}
	n, _, _ := numbered(x.steps[len(x.steps)-1].value)
	return n
}

// awaited returns the number of the asynchronous iterator of Python's whose next item a request awaits, or 0.
func (s *script) awaited(f frame) int64 {
	n, _, _ := numbered(target(f))
	maker := s.makers[n]
	if !s.lang.named || maker == nil || !s.settles(f) || at(maker.args, 0) != any("__anext__") {
		return 0
	}
	of, _, _ := numbered(target(maker.request))
	return of
}

// itself reports whether an object has answered with itself.
func (x *exchange) itself() bool {
	n, _, ok := numbered(target(x.request))
	return ok && (x.number() == 0 || n == x.number())
}

// settles reports whether a request is for what an object stands for: what it brings when it is awaited or entered.
func (s *script) settles(f frame) bool {
	operation, _ := at(f.args, 0).(string)
	return f.op == "await" || f.op == "op" && s.lang.named && hasTag("__await__ __enter__ __aenter__", operation)
}

func says(v any) (frame, bool) { return say(v), true }

func say(v any) frame { return frame{kind: answer, value: v} }

// item reports whether an exchange gave an item of what is gone through, and not its end.
func (x *exchange) item() bool {
	last := len(x.steps) - 1
	if last < 0 || x.steps[last].kind != answer {
		return false
	}
	tag, payload := tagged(x.steps[last].value)
	parts, _ := payload.([]any)
	members, _ := at(parts, 1).([]any)
	for i := 0; tag == "D" && i+1 < len(members); i += 2 {
		if members[i] == any("done") && members[i+1] == any(true) {
			return false
		}
	}
	return true
}

// walking reports whether a request is for an item of a sequence of Python's that has nothing but __getitem__ to go through it:
// IndexError says where it ends.
func (s *script) walking(f frame) bool {
	n, _, _ := numbered(target(f))
	return f.op == "op" && at(f.args, 0) == any("__getitem__") && s.walked[n]
}

// walk notes the sequences that a test has gone through in this way.
func (s *script) walk(x *exchange, f frame) {
	i, ok := integer(at(x.args, 2))
	if !s.lang.named || !ok || i < 1 || x.op != "op" || at(x.args, 0) != any("__getitem__") || f.kind != raised || exceptionClass(f.value) != `{"g":"builtins.IndexError"}` {
		return
	}
	n, _, _ := numbered(target(x.request))
	before := s.asked[x.test]
	for _, y := range slices.Backward(before[:max(0, slices.Index(before, x))]) {
		if m, _, _ := numbered(target(y.request)); m == n {
			last, isItem := integer(at(y.args, 2))
			s.walked[n] = s.walked[n] || isItem && y.key == x.key && last == i-1
			return
		}
	}
}

// firstStep reports whether an exchange is the first that a test asks for of what it goes through.
func (s *script) firstStep(x *exchange) bool {
	if i, ok := integer(at(x.args, 2)); ok && s.walking(x.request) {
		return i == 0
	}
	n, _, _ := numbered(target(x.request))
	for _, y := range s.asked[x.test] {
		if m, _, _ := numbered(target(y.request)); m == n && s.stepping(y.request) {
			return x == y
		}
	}
	return false
}

// varied reports whether a name was asked with three different arguments, or for three items of one iteration; two are
// enough if their answers are equal, and three objects if theirs are. With fewer, one of the recorded answers is as good as
// the table of all.
func (s *script) varied(name string) bool {
	return s.once("varied "+name, func() bool { return s.varies(name) })
}

func (s *script) varies(name string) bool {
	given, answers, items, most := map[string]bool{}, map[string]bool{}, map[int]int{}, 0
	objects := map[int64]bool{}
	for _, x := range s.exchanges {
		if x.name != name && s.wholes[x.name] != name || !x.item() {
			continue
		}
		asked := s.question(x)
		n, _, isObject := numbered(target(asked.request))
		switch {
		case s.promises(x): // what it brings is the answer
			continue
		case s.stepping(x.request):
			items[x.test]++
			most = max(most, items[x.test])
		case asked.with != "":
			given[asked.with] = true
		case isObject && (x.op == "get" || x.op == "method" || s.lang.named):
			objects[n] = true
		default:
			continue
		}
		value := x.steps[len(x.steps)-1].value
		if n, defines, ok := numbered(value); ok && !defines && s.definitions[n] != nil {
			value = s.definitions[n]
		}
		answers[text(bare(value))] = true
	}
	most = max(most, len(given))
	return most > 2 || len(answers) == 1 && (most == 2 || len(objects) > 2)
}

// once returns what f returned when it was first asked for under a name: it depends on the recording alone.
func (s *script) once(name string, f func() bool) bool {
	found, known := s.known[name]
	if !known {
		found = f()
		s.known[name] = found
	}
	return found
}

// question returns the exchange on whose request an answer depends: of what tests await or enter the one that made it.
func (s *script) question(x *exchange) *exchange {
	n, _, _ := numbered(target(x.request))
	if maker := s.makers[n]; maker != nil && s.settles(x.request) {
		return maker
	}
	return x
}

// answered returns the first or the last exchange of a name that was answered with data, or nil.
func (s *script) answered(name string, last bool) (found *exchange) {
	for _, x := range s.exchanges {
		if (x.name == name || s.wholes[x.name] == name) && (s.evident(x) || s.derived(x)) && x.item() && len(x.steps) > 0 && (found == nil || last) {
			found = x
		}
	}
	return found
}

// underlying returns the value of an answer; of derived data in Python the plain value, because a lie has no methods.
func (s *script) underlying(x *exchange) any {
	value := x.steps[len(x.steps)-1].value
	if !s.derived(x) {
		return value
	}
	_, payload := tagged(value)
	parts, _ := payload.([]any)
	more, _ := at(parts, 2).(map[string]any)
	if more["d"] != nil {
		return more["d"]
	}
	n, _, _ := numbered(at(parts, 1))
	_, class := tagged(s.definitions[n])
	described, _ := class.([]any)
	for tag, base := range map[string]string{"L": "builtins.list", "D": "builtins.dict", "S": "builtins.set"} {
		if at(described, 5) == any(base) {
			return map[string]any{tag: []any{literal(0), more["c"]}}
		}
	}
	return value
}

// list makes a list.
func (r *replay) list(items ...any) any {
	return map[string]any{"L": []any{literal(r.fresh()), append([]any{}, items...)}}
}

// item returns an item of the first argument, from its end if i is negative.
func item(given []any, i int) any {
	tag, payload := tagged(at(given, 0))
	list, _ := payload.([]any)
	if tag == "L" || tag == "Q" || tag == "S" {
		list, _ = at(list, 1).([]any)
	} else if hasTag("D G P", tag) { // its values
		members, _ := at(list, 1).([]any)
		list = nil
		for j := 1; j < len(members); j += 2 {
			list = append(list, members[j])
		}
	} else if s, ok := at(given, 0).(string); ok {
		for _, r := range s {
			list = append(list, string(r))
		}
	}
	if i < 0 {
		i += len(list)
	}
	if i < 0 || i >= len(list) {
		return nil
	}
	return back(list[i])
}

// exception makes one of the library's, without arguments.
func (r *replay) exception(class string) any {
	return map[string]any{"E": []any{
		literal(r.fresh()), map[string]any{"g": class}, []any{}, "", nil, nil,
		map[string]any{"D": []any{literal(r.fresh()), []any{}}},
	}}
}

// byToken hands out a token for what it is given, and gives that back for the token.
func byToken(r *replay, f frame) (frame, bool) {
	given := at(r.script.arguments(f), 0)
	if token, ok := given.(string); ok {
		if kept, there := r.tokens[token]; there {
			return says(kept)
		}
	}
	token := "token" + text(len(r.tokens))
	r.tokens[token] = back(given)
	return says(token)
}

// byBytes does so with bytes.
func byBytes(r *replay, f frame) (frame, bool) {
	given := at(r.script.arguments(f), 0)
	if kept, there := r.tokens[text(given)]; there {
		return says(kept)
	}
	token := map[string]any{"b": base64.StdEncoding.EncodeToString([]byte("token" + text(len(r.tokens))))}
	r.tokens[text(token)] = back(given)
	return says(token)
}

// earlier returns an argument of an earlier call of this test.
func (r *replay) earlier(call int, last bool) any {
	if call < 0 || call >= len(r.calls) {
		return nil
	}
	list := r.calls[call].given
	given := back(list[0])
	if last {
		given = back(list[len(list)-1])
	}
	n, _, ok := numbered(given)
	if _, theirs := r.back[n]; ok && !theirs && !r.known[n] {
		return nil // the examiner has let go of it
	}
	return given
}

// back returns an argument as it is sent back: what the examiner has is named by its number.
func back(v any) any {
	if n, _, ok := numbered(v); ok {
		if tag, _ := tagged(v); tag == "E" {
			return nil
		}
		return known(n)
	}
	tag, payload := tagged(v)
	if list, ok := payload.([]any); ok && (tag == "t" || tag == "z") {
		items := make([]any, len(list))
		for i, x := range list {
			items[i] = back(x)
		}
		return map[string]any{tag: items}
	}
	if tag == "a" || tag == "x" || tag == "n" {
		return nil
	}
	return v
}

// kept returns the containers that the object was made with of which a request asks something, by their numbers in this run.
func (r *replay) kept(f frame) map[int64]string {
	found := r.script.containers(f)
	n, _, _ := numbered(target(f))
	maker := r.script.makers[r.back[n]]
	if maker == nil || f.op != "method" && f.op != "get" {
		return found
	}
	for n, tag := range r.script.containers(maker.request) {
		if is := r.alias(n); r.known[is] {
			found[is] = tag
		}
	}
	return found
}

// containers returns the containers that a call is given, by number, each with its tag if it is passed for the first time.
func (s *script) containers(f frame) map[int64]string {
	found := map[int64]string{}
	given := []any{s.arguments(f)}
	if _, v, ok := receiver(f); ok && s.lang.typed {
		given = append(given, v)
	}
	each(any(given), func(v any) {
		tag, _ := tagged(v)
		n, defines, ok := numbered(v)
		if ok && (defines && (s.lang.container(tag) || tag == "Y" || tag == "B") || !defines && n%2 != 0) {
			found[n] = tag
		}
	})
	return found
}
