package agents_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/step/agents"
	"guild/nipae"
	"guild/nipae/behaviour"
	"guild/nipsa"
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

// A deletion counts before its lesson comes, when a relay gives the lesson again, and after a restart.
func TestDeletedLessonsStayAway(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		student, stranger := newPerson(), newPerson()
		w.publish(student.profile(t, nostr.ID{1}, w.owner.key))
		if _, err := w.step.Claim(t.Context(), student.key); err != nil {
			t.Fatal(err)
		}
		deletion := func(by person, tags ...nostr.Tag) guild.Verified {
			return by.sign(t, nostr.Event{Kind: 5, Tags: tags}, nil)
		}
		e := func(v guild.Verified) nostr.Tag { return nostr.Tag{"e", v.Event().ID.Hex()} }
		early, known, strange, other := student.learn(t, nostr.ID{1}, "a"), student.learn(t, nostr.ID{1}, "b"), stranger.learn(t, nostr.ID{1}, "c"), student.learn(t, nostr.ID{1}, "d")
		w.observe(known, strange)
		for _, v := range []guild.Verified{
			deletion(student, e(early), e(strange), nostr.Tag{"k", "4129"}), deletion(student, e(known)), deletion(stranger, e(strange)),
		} {
			if !w.step.Deletes(v.Event()) {
				t.Errorf("%s does not count", v.Event())
			}
			if err := w.step.ObserveDeletion(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		job, foreign := deletion(student, e(early), nostr.Tag{"k", "5900"}), deletion(stranger, e(other), nostr.Tag{"k", "4129"})
		if w.step.Deletes(job.Event()) || w.step.Deletes(foreign.Event()) {
			t.Error("a deletion of something else counts")
		}
		for range 2 {
			for _, v := range []guild.Verified{early, known, strange, other} {
				w.observe(v)
				if w.seen(v) != (v.Event().ID == other.Event().ID) {
					t.Errorf("%s is seen: %v", v.Event().Content, w.seen(v))
				}
			}
			w.step = w.reopened()
		}
	})
}

// reopened returns the step after a restart, with all that was recorded and seen.
func (w *world) reopened() *agents.Step { return w.reopenedAt(w.network) }

func (w *world) reopenedAt(relays agents.Relays) *agents.Step {
	w.Helper()
	f := agents.NewFold()
	for _, e := range w.Entries() {
		f.Apply(e)
	}
	s := agents.New(agents.Config{
		Journal: w.Journal, Owner: w.owner, PubKey: w.owner.key, Now: time.Now, Keys: w.keys, Relays: relays, Files: w.files,
	}, f)
	if err := s.Open(w.Context()); err != nil {
		w.Fatal(err)
	}
	return s
}

func TestDeletionsAreBounded(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stranger := newPerson()
		var first, last guild.Verified
		for i := range 1001 {
			lesson := stranger.learn(t, nostr.ID{1}, fmt.Sprint(i))
			w.observe(lesson)
			if i == 0 {
				first = lesson
			}
			last = lesson
			v := stranger.sign(t, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", lesson.Event().ID.Hex()}}}, nil)
			if err := w.step.ObserveDeletion(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
		w.observe(first, last)
		if !w.seen(first) || w.seen(last) {
			t.Errorf("seen: %v, %v", w.seen(first), w.seen(last))
		}
	})
}

// What the journal could not keep is kept when it comes again.
func TestObservedAgainAfterAFailure(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		student := newPerson()
		before := student.profile(t, nostr.ID{1})
		w.observe(before)
		w.Pass(time.Second)
		after := student.profile(t, nostr.ID{2})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.step.Observe(ctx, after); !errors.Is(err, context.Canceled) || !w.seen(before) {
			t.Error(err)
		}
		w.observe(after)
		if !w.seen(after) {
			t.Error("not kept")
		}
	})
}

// Only what people that matter write, and versions of what is installed, can change the filters.
func TestWhatChangesTheFilters(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		publisher, agent, stranger := newPerson(), newPerson(), newPerson()
		d := publisher.define(t, nipae.Definition{D: "coder", Ver: 1})
		w.publish(d)
		is := func(c <-chan struct{}) bool {
			select {
			case <-c:
				return true
			default:
				return false
			}
		}
		_, changed, heard := w.step.Filters()
		w.install(d.Event().ID.Hex())
		if _, err := w.step.Claim(t.Context(), agent.key); err != nil {
			t.Fatal(err)
		}
		if !is(changed) || is(heard) {
			t.Error("what the owner did is not told apart")
		}
		for _, c := range []struct {
			name string
			v    guild.Verified
			want bool
		}{
			{"a stranger's profile", stranger.profile(t, d.Event().ID, w.owner.key), false},
			{"a stranger's claims", stranger.claim(t, 0, w.owner.key), false},
			{"a stranger's definition", stranger.define(t, nipae.Definition{D: "coder"}), false},
			{"another definition", publisher.define(t, nipae.Definition{D: "other"}), false},
			{"a stranger's lesson", stranger.learn(t, d.Event().ID, "x"), false},
			{"an agent's profile", agent.profile(t, d.Event().ID, w.owner.key), true},
			{"the next version", publisher.define(t, nipae.Definition{D: "coder", Ver: 2}), true},
		} {
			_, changed, heard = w.step.Filters()
			w.observe(c.v)
			if is(changed) || is(heard) != c.want {
				t.Errorf("%s: %v, %v", c.name, is(changed), is(heard))
			}
		}
		for i := range 120 {
			w.observe(publisher.define(t, nipae.Definition{D: "coder", Ver: 3 + i}))
		}
		filters, _, _ := w.step.Filters()
		if versions := filters[2].Tags["e"]; len(versions) != 101 || versions[0] != d.Event().ID.Hex() {
			t.Errorf("lessons about %d versions are read", len(versions))
		}
	})
}

// deaf is relays that do not answer about one author.
type deaf struct {
	*counted
	to nostr.PubKey
}

func (d deaf) Find(ctx context.Context, f nostr.Filter, urls []string) ([]guild.Verified, error) {
	if slices.Contains(f.Authors, d.to) {
		return nil, errors.New("no answer")
	}
	return d.counted.Find(ctx, f, urls)
}

// An agent that names many owners, or one whose relays are away, hides none that is verified.
func TestOwnersAreCheckedOneByOne(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		agent, away, boss := newPerson(), newPerson(), newPerson()
		owners := []nostr.PubKey{away.key, boss.key}
		for range 20 {
			owners = append(owners, newPerson().key)
		}
		claims := boss.claim(t, 0, agent.key)
		w.publish(agent.profile(t, nostr.ID{1}, owners...), claims, away.claim(t, 0, agent.key))
		relays := deaf{&counted{network: w.network}, away.key}
		all, err := w.reopenedAt(relays).Verify(t.Context(), agent.key)
		if err != nil || len(all) != 22 || relays.finds > 5 {
			t.Fatalf("%d owners after %d questions, %v", len(all), relays.finds, err)
		}
		if all[0].Verified || !strings.Contains(all[0].Reason, "no answer") || !all[1].Verified || all[1].Reason != "" {
			t.Errorf("%+v", all[:2])
		}
		if last := all[21]; last.Verified || !strings.Contains(last.Reason, "not looked up") {
			t.Errorf("%+v", last)
		}
	})
}

// counted counts the questions to relays.
type counted struct {
	*network
	finds int
	slow  time.Duration
}

func (c *counted) Find(ctx context.Context, f nostr.Filter, urls []string) ([]guild.Verified, error) {
	c.finds++
	select {
	case <-time.After(c.slow):
		return c.network.Find(ctx, f, urls)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A customer's nudges are read at once, and a job does not wait long for them. Only those that apply are kept.
func TestDraftsOfLifecycle(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		bot := newPerson()
		if d, err := w.step.Drafts(t.Context(), bot.key); err != nil || d.Profile != nil || d.State != nil {
			t.Errorf("%+v %v", d, err)
		}
		for at, e := range []nostr.Event{
			{Kind: nipsa.KindOldProfile, Content: `{"name":"old"}`}, {Kind: nipsa.KindProfile, Content: `{"name":"new"}`}, {Kind: nipsa.KindProfile, Content: `broken`},
			{Kind: nipsa.KindState, Tags: nostr.Tags{{"state_meta", "goals", "3"}}},
		} {
			e.CreatedAt = nostr.Timestamp(at + 1)
			w.publish(bot.sign(t, e, nil))
		}
		d, err := w.step.Drafts(t.Context(), bot.key)
		if err != nil || d.Profile == nil || d.Profile.Name != "new" || d.State == nil || d.State.Counts["goals"] != 3 {
			t.Errorf("%+v %v", d, err)
		}
	})
}

func TestNudgesOfCustomers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		publisher, mallory := newPerson(), newPerson()
		d := publisher.define(t, nipae.Definition{D: "coder", Tools: []string{"read"}})
		w.publish(d)
		w.install(d.Event().ID.Hex())
		nudge := func(by person, text string) guild.Verified {
			e, err := nipae.Nudge{Content: text}.Event()
			return by.sign(t, e, err)
		}
		trusted, strange := nudge(w.owner, "Be brief."), nudge(mallory, "Be rude.")
		lesson := w.owner.learn(t, d.Event().ID, "x")
		w.publish(trusted, strange, lesson)
		asked := []nostr.ID{strange.Event().ID, lesson.Event().ID, trusted.Event().ID, d.Event().ID, {7}}
		behave := func() []nostr.ID {
			t.Helper()
			doing, err := w.step.Behave(t.Context(), agents.Roster{Agents: []string{"coder"}}, agents.Job{Asked: asked})
			if err != nil {
				t.Fatal(err)
			}
			var nudges []nostr.ID
			for _, source := range doing.Behaviour.Sources {
				if source.Why == behaviour.Asked {
					nudges = append(nudges, source.Event)
				}
			}
			return nudges
		}
		relays := &counted{network: w.network, slow: time.Hour}
		w.step = w.reopenedAt(relays)
		began := time.Now()
		if got := behave(); len(got) > 0 || time.Since(began) > 5*time.Second || relays.finds != 1 {
			t.Errorf("%v after %s and %d questions", got, time.Since(began), relays.finds)
		}
		relays.slow, relays.finds = 0, 0
		if got := behave(); len(got) != 1 || got[0] != trusted.Event().ID || relays.finds != 1 {
			t.Errorf("%v after %d questions", got, relays.finds)
		}
		if !w.seen(trusted) || w.seen(strange) || w.seen(lesson) {
			t.Errorf("seen: %v, %v, %v", w.seen(trusted), w.seen(strange), w.seen(lesson))
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
