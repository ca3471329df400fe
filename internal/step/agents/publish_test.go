package agents_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/agents"
	"guild/nipae"
)

// defined publishes and installs a definition of the owner.
func (w *world) defined(slug string) agents.Agent {
	w.Helper()
	v, err := w.step.Publish(w.Context(), nipae.Definition{D: slug})
	if err != nil {
		w.Fatal(err)
	}
	return w.install(v.ID.Hex())
}

func TestEventsReachEachRelay(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		if _, err := w.step.Publish(t.Context(), nipae.Definition{D: "fixer"}); err != nil {
			t.Fatal(err)
		}
		w.Pass(time.Second)
		w.silence(second)
		if _, err := w.step.Publish(t.Context(), nipae.Definition{D: "tester"}); err != nil {
			t.Fatal(err)
		}
		w.Pass(5 * time.Hour)
		w.silence("")
		if got := w.by(w.owner.key, nipae.KindDefinition, second); len(got) != 1 {
			t.Fatalf("%d definitions are at the silent relay", len(got))
		}
		w.Pass(4 * time.Hour) // it was sent after 1 and 2 hours
		if got := w.by(w.owner.key, nipae.KindDefinition, second); len(got) != 2 {
			t.Errorf("%d definitions are at the relay that answers again", len(got))
		}
		before := len(w.Entries())
		w.Pass(9 * time.Hour)
		if after := len(w.Entries()); after != before {
			t.Errorf("%d more entries: %q", after-before, w.FactTypes(""))
		}
	})
}

func TestProfileFollowsTheOwners(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.defined("fixer")
		boss := newPerson()
		for _, owners := range [][]nostr.PubKey{{boss.key}, nil} {
			w.Stop()
			w.CloseJournal()
			w.start(owners...)
			w.Pass(time.Minute)
			for _, url := range w.Ours() {
				all := w.by(a.PubKey, nipae.KindProfile, url)
				if len(all) != 1 {
					t.Fatalf("%d profiles at %s", len(all), url)
				}
				p, err := nipae.ParseProfile(all[0])
				if want := append([]nostr.PubKey{w.owner.key}, owners...); err != nil || !slices.Equal(p.Owners, want) || p.Definition.ID != a.Definition.ID {
					t.Errorf("at %s the profile names %v, want %v (%v)", url, p.Owners, want, err)
				}
			}
		}
	})
}

func TestReferences(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		const note = "note1vh79hlus5ywjxe68pgh5csh936kykhxeh02pvzcmg9pca6kyh7fsygc7qw"
		id, _, err := agents.EventNamed(note)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range []string{nip19.EncodeNevent(id, nil, nostr.PubKey{}), note, id.Hex()} {
			if got, _, err := agents.EventNamed(code); err != nil || got != id {
				t.Errorf("%s: %v %v", code, got, err)
			}
			if _, _, err := w.step.Find(t.Context(), code); !errors.Is(err, agents.ErrNotFound) {
				t.Errorf("%s: %v", code, err)
			}
		}
		for _, wrong := range []string{"", "fixer", "npub1xxx/fixer", "nsec1x", nip19.EncodeNsec(nostr.SecretKey{1}), "note1xyz"} {
			if _, _, err := w.step.Find(t.Context(), wrong); !errors.Is(err, agents.ErrReference) {
				t.Errorf("%q: %v", wrong, err)
			}
		}
	})
}

func TestDraftsOfOneCustomer(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a := w.defined("fixer")
		flooder, other := newPerson(), newPerson()
		draft := func(by person, n int) error {
			request := nostr.ID(guild.Sum(fmt.Append(nil, by.key, n)))
			w.Write(fact.RequestSubject(request), fact.RequestReceived{Request: request, Customer: by.key, Task: "python"})
			return w.step.DraftBy(t.Context(), a.PubKey, "python", fmt.Sprintf("Lesson %d of %s", n, by.key), "worker", request)
		}
		for n := range 10 {
			if err := draft(flooder, n); err != nil {
				t.Fatal(err)
			}
		}
		if err := draft(flooder, 10); !errors.Is(err, agents.ErrCustomer) {
			t.Errorf("one more of the same customer: %v", err)
		}
		if err := draft(other, 0); err != nil {
			t.Error(err)
		}
		lesson, err := w.step.Lessons(a.Name)
		if err != nil || len(lesson) != 11 {
			t.Fatal(len(lesson), err)
		}
		rejected, err := w.step.Reject(t.Context(), lesson[0].Draft)
		if err != nil || rejected.Draft != lesson[0].Draft || rejected.Agent != a.Name || rejected.Why != "rejected" {
			t.Errorf("%+v %v", rejected, err)
		}
	})
}
