package agents_test

import (
	"errors"
	"fmt"
	"testing"

	"fiatjaf.com/nostr"

	"guild/internal/step/agents"
	"guild/nipae"
)

func TestLessonsWithTheSameBeginning(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		v := w.owner.define(t, nipae.Definition{D: "fixer", Title: "Fixer", Ver: 1, Content: "Fix it."})
		w.publish(v)
		name := w.install(v.Event().ID.Hex()).Name
		found := map[string]bool{}
		for i := 0; ; i++ { // 17 lessons at most have all digits
			draft, err := w.step.Draft(t.Context(), name, "", fmt.Sprintf("Lesson %d", i), "owner", nostr.ID{})
			if err != nil {
				t.Fatal(err)
			}
			id, err := w.step.Accept(t.Context(), draft)
			if err != nil {
				t.Fatal(err)
			}
			if l, err := w.step.Lesson(draft); err != nil || l.ID != id {
				t.Errorf("the draft %s became %.8s, %v", draft, l.ID.Hex(), err)
			}
			digit := id.Hex()[:1]
			if _, err := w.step.Lesson(digit); !found[digit] && err != nil || found[digit] && !errors.Is(err, agents.ErrSeveral) {
				t.Errorf("%s: %v", digit, err)
			}
			if found[digit] {
				return
			}
			found[digit] = true
		}
	})
}
