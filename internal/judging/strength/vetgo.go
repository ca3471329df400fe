package strength

import (
	"slices"
	"strings"
)

// goTable returns the lies of Go. Without a recording, the errors are those that the words name, or any.
func (w Words) goTable() []*lie {
	errs := []any{anError("refused")}
	for _, name := range w.Raised {
		errs = append(errs, map[string]any{"g": name})
	}
	for _, class := range w.Errors {
		var e any = map[string]any{"T": []any{class, map[string]any{"P": []any{literal(unnumbered), nil}}}}
		name, pointer := strings.CutPrefix(class, "*")
		switch {
		case !pointer:
			e = map[string]any{"T": []any{class, nil}}
		case slices.Contains(w.Objects, name):
			e = map[string]any{"h": []any{literal(unnumbered), name, map[string]any{}}}
		}
		errs = append(errs, e)
	}
	table := goLies([]any{"a panic"}, errs)
	return append(table, &lie{says: "zero values and nil", tell: func(_ *replay, asked frame) (frame, bool) {
		v, ok := answers(results(asked), zero)
		return frame{kind: answer, value: v}, ok
	}})
}

// answerGo answers a request of Go's tests. Objects that stay with the delivery are made when a function returns a pointer to
// one; that alone is not lied about.
func (l *liar) answerGo(f frame) error {
	l.script.receivers(f)
	types := results(f)
	to, ok := l.vetting.lies[0].tell(l.replay, f)
	if f.op == "get" {
		if at(f.args, 1) == nil { // an error that both sides know by its name
			name, _ := at(f.args, 0).(string)
			to.value, ok = l.now(anError(name))
		}
		return l.replyGo(f, to, ok)
	}
	if slices.ContainsFunc(types, func(t form) bool { return !t.object() }) || len(types) == 0 {
		l.ask(display(root(l.script.nameOf(f))))
		if l.tells != nil {
			if told, fits := l.tells.tell(l.replay, f); fits {
				to, ok = told, true
			}
		}
	}
	l.remember(f)
	return l.replyGo(f, to, ok)
}

// replyGo answers with what the objects of an answer are, so that they are known when they are asked.
func (l *liar) replyGo(f, to frame, ok bool) error {
	if !ok {
		return l.over(f.number)
	}
	each(to.value, func(v any) {
		if tag, _ := tagged(v); tag == "h" {
			class, n := receiverClass(v)
			l.script.origins[n] = l.script.short(class)
		}
	})
	return l.reply(f, to)
}
