package agents_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nipae"
)

func (p person) learn(t *testing.T, definition nostr.ID, content string) guild.Verified {
	t.Helper()
	e, err := nipae.Lesson{Title: "x", Content: content, Definition: nipae.Reference{ID: definition}}.Event()
	return p.sign(t, e, err)
}

func (p person) comment(t *testing.T, lesson guild.Verified, content string) guild.Verified {
	t.Helper()
	on := nipae.Reference{ID: lesson.Event().ID}
	e, err := nipae.Comment{Lesson: on, LessonAuthor: lesson.Event().PubKey, Parent: on, ParentAuthor: lesson.Event().PubKey, Content: content}.Event()
	return p.sign(t, e, err)
}

// seen reports whether the journal keeps an event of others.
func (w *world) seen(v guild.Verified) (kept bool) {
	w.Helper()
	for _, err := range w.Journal.Seen(w.Context(), "agents."+v.Event().ID.Hex()) {
		if err != nil {
			w.Fatal(err)
		}
		kept = true
	}
	return kept
}

// Many strangers fill their share, and take nothing from a definition that the owner looked up.
func TestFloodOfStrangers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		text := strings.Repeat("x", 60<<10)
		publisher := newPerson()
		d := publisher.define(t, nipae.Definition{D: "coder", Description: text, Role: text, Instructions: text, Content: text})
		w.publish(d)
		find := func() {
			t.Helper()
			if _, exact, err := w.step.Find(t.Context(), publisher.key.Hex()+"/coder"); err != nil || exact.ID != d.Event().ID {
				t.Errorf("%.8s, %v", exact.ID.Hex(), err)
			}
		}
		find()
		var all []guild.Verified
		for range 100 {
			all = append(all, newPerson().define(t, nipae.Definition{D: "x", Description: text, Role: text, Instructions: text}))
		}
		w.observe(all...)
		if w.seen(all[0]) || !w.seen(all[99]) {
			t.Error("the journal keeps what the library dropped, or nothing")
		}
		clear(w.stored[first])
		clear(w.stored[second])
		find()
	})
}

func TestStrangersCommentsOnUnknownLessons(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		student, mallory := newPerson(), newPerson()
		lesson := student.learn(t, nostr.ID{1}, "y")
		early, ours := mallory.comment(t, lesson, "early"), w.owner.comment(t, lesson, "the owner's other program")
		w.observe(early, ours)
		w.observe(lesson)
		late := mallory.comment(t, lesson, "late")
		w.observe(late)
		if w.seen(early) || !w.seen(ours) || !w.seen(late) {
			t.Errorf("seen: %v, %v, %v", w.seen(early), w.seen(ours), w.seen(late))
		}
	})
}

func TestFindSaysWhatFailed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		publisher := newPerson()
		w.publish(publisher.define(t, nipae.Definition{D: "coder"}))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := w.step.Find(ctx, publisher.key.Hex()+"/coder"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
