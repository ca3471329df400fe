package behaviour_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nipae"
	"guild/nipae/behaviour"
)

func TestOrderOfArrivalChangesNothing(t *testing.T) {
	w := newWorld(t)
	hostile(t, w, rand.New(rand.NewPCG(5, 6)), 20)
	w.add(comment(t, owner, 300, w.lessons[1], w.lessons[1], "a"))
	w.add(owner.sign(t, 109, nipae.Claims{}.Add(mallory.pub)))                                            // older than the one that counts
	w.add(ada.sign(t, 105, nipae.Profile{Bot: true, Definition: nipae.Reference{ID: id(w.versions[1])}})) // of the same date as the one with an owner
	w.request.Asked = ids(w.add(mallory.sign(t, 1, nipae.Nudge{Content: "x", Deny: []string{"read"}})))
	want := w.compose(t)
	random := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		all := slices.Concat(w.events(), w.events()[:5])
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		l := library(t, behaviour.Config{}, all[:len(all)/2]...)
		_, _ = l.Compose(w.request) // fills what is kept for the next time
		for _, v := range all[len(all)/2:] {
			if err := l.Add(v); err != nil {
				t.Fatal(err)
			}
		}
		if got := compose(t, l, w.request); !reflect.DeepEqual(got, want) || hash(t, got) != hash(t, want) {
			t.Fatalf("%+v\nwant\n%+v", got, want)
		}
	}
}

func TestStrangersChangeNothing(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t)
		w.add(comment(t, owner, 300, w.lessons[1], w.lessons[1], "a"))
		want := w.compose(t)
		hostile(t, w, rand.New(rand.NewPCG(seed, 1)), 30)
		got := w.compose(t)
		if hash(t, got) != hash(t, want) || !reflect.DeepEqual(got.Sources, want.Sources) {
			t.Fatalf("seed %d: %s\nwant\n%s", seed, got.Prompt, want.Prompt)
		}
		if got.LeftOut.Stranger <= want.LeftOut.Stranger {
			t.Errorf("seed %d: no stranger was counted: %+v", seed, got.LeftOut)
		}
	}
}

func TestRemove(t *testing.T) {
	w := newWorld(t)
	l := library(t, behaviour.Config{}, w.events()...)
	if !l.Remove(id(w.lessons[1])) || l.Remove(id(w.lessons[1])) {
		t.Error("the lesson is not removed once")
	}
	has(t, compose(t, l, w.request), w.lessons[0], w.lessons[2], w.lessons[3])
	for _, v := range w.other {
		l.Remove(id(v))
	}
	has(t, compose(t, l, w.request))
	for _, v := range w.events() {
		l.Remove(id(v))
	}
	if events, bytes := l.Len(); events != 0 || bytes != 0 {
		t.Errorf("%d events, %d bytes", events, bytes)
	}
}

func TestStrangersPushOutNothing(t *testing.T) {
	w := newWorld(t)
	own := w.events()
	isOwn := func(v guild.Verified) bool { return slices.Contains(ids(own...), id(v)) }
	hostile(t, w, rand.New(rand.NewPCG(9, 9)), 200)
	config := behaviour.Config{Owners: []nostr.PubKey{owner.pub}, Keep: []nostr.PubKey{publisher.pub}, MaxEvents: 40}
	l := behaviour.NewLibrary(config)
	l.Keep(carl.pub)
	add := func(v guild.Verified) {
		if err := l.Add(v); err != nil && (isOwn(v) || !errors.Is(err, behaviour.ErrFull)) {
			t.Fatal(err)
		}
		if events, _ := l.Len(); events > 40 {
			t.Fatalf("%d events", events)
		}
	}
	for _, v := range w.events() { // the strangers first: their share is full
		if !isOwn(v) {
			add(v)
		}
	}
	add(owner.sign(t, 110, nipae.Claims{}.Add(ada.pub).Add(bob.pub)))
	for _, v := range own {
		if v.Event().PubKey != mallory.pub {
			add(v)
		}
	}
	for _, v := range w.events() {
		if !isOwn(v) {
			add(v)
		}
	}
	strangers := 0
	for _, v := range w.events() {
		if _, held := l.Author(id(v)); held && !isOwn(v) {
			strangers++
		}
	}
	if strangers == 0 || strangers > 10 {
		t.Errorf("%d events of strangers", strangers)
	}
	has(t, compose(t, l, w.request), w.lessons[:4]...)

	l = behaviour.NewLibrary(behaviour.Config{Keep: []nostr.PubKey{publisher.pub}, MaxBytes: 16_000})
	for i, c := range []struct {
		by    party
		bytes int
		want  error
	}{{mallory, 900, nil}, {mallory, 1100, behaviour.ErrFull}, {publisher, 7900, nil}, {publisher, 7900, nil}, {publisher, 7900, behaviour.ErrFull}, {mallory, 900, behaviour.ErrFull}} {
		if err := l.Add(c.by.sign(t, nostr.Timestamp(i), nipae.Nudge{Content: strings.Repeat("x", c.bytes)})); !errors.Is(err, c.want) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// A stranger who writes much takes no room from others: not from those that matter, and not from other strangers.
func TestStrangersShare(t *testing.T) {
	strangers := []party{mallory, newParty(7), newParty(8), newParty(9), newParty(10), newParty(11), newParty(12)}
	l := behaviour.NewLibrary(behaviour.Config{MaxBytes: 64_000, MaxEvents: 64})
	all := map[nostr.PubKey][]nostr.ID{}
	held := func(by party) (n int) {
		for _, event := range all[by.pub] {
			if _, ok := l.Author(event); ok {
				n++
			}
		}
		return n
	}
	write := func(by party, events, bytes int) {
		t.Helper()
		for range events {
			v := by.sign(t, nostr.Timestamp(len(all[by.pub])), nipae.Nudge{Content: strings.Repeat("x", bytes)})
			if err := l.Add(v); err != nil {
				t.Error(err)
			}
			all[by.pub] = append(all[by.pub], id(v))
		}
	}
	write(mallory, 20, 950)
	if n := held(mallory); n != 4 {
		t.Errorf("one stranger has %d events", n)
	}
	if _, newest := l.Author(all[mallory.pub][19]); !newest {
		t.Error("the newest event is not held")
	}
	for _, other := range strangers[1:] {
		write(other, 2, 900)
	}
	write(mallory, 20, 1300)
	for _, other := range strangers[1:] {
		if held(other) != 2 {
			t.Errorf("%d events of another stranger are left", held(other))
		}
	}
	if events, bytes := l.Len(); events > 16 || bytes > 16_000 {
		t.Errorf("strangers have %d events, %d bytes", events, bytes)
	}
	if l.Keeps(mallory.pub) {
		t.Error("a stranger matters")
	}
	write(mallory, 1, 300)
	l.Keep(mallory.pub)
	if l.Keep(mallory.pub); !l.Keeps(mallory.pub) {
		t.Error("a key to keep does not matter")
	}
	write(mallory, 20, 950)
	if n := held(mallory); n < 20 {
		t.Errorf("%d events of a key to keep", n)
	}
}

// Publishers that were looked up take no room from the owner's agents.
func TestAgentsMatterMoreThanPublishers(t *testing.T) {
	l := library(t, behaviour.Config{Owners: []nostr.PubKey{owner.pub}, MaxEvents: 16}, owner.sign(t, 1, nipae.Claims{}.Add(ada.pub)))
	l.Keep(publisher.pub, ada.pub)
	for i := range 20 {
		if err := l.Add(publisher.sign(t, nostr.Timestamp(i), nipae.Nudge{Content: "x"})); err != nil && !errors.Is(err, behaviour.ErrFull) {
			t.Fatal(err)
		}
	}
	for i := range 15 {
		if err := l.Add(ada.sign(t, nostr.Timestamp(i), nipae.Nudge{Content: "x"})); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := l.Add(publisher.sign(t, 30, nipae.Nudge{Content: "x"})); !errors.Is(err, behaviour.ErrFull) {
		t.Error(err)
	}
}

// A profile that has no room does not take away the one before.
func TestRefusedProfileReplacesNothing(t *testing.T) {
	profile := func(at nostr.Timestamp, bytes int) guild.Verified {
		return owner.sign(t, at, nipae.Profile{Bot: true, Members: map[string]json.RawMessage{"about": json.RawMessage(`"` + strings.Repeat("x", bytes) + `"`)}})
	}
	before := profile(1, 600)
	l := library(t, behaviour.Config{Owners: []nostr.PubKey{owner.pub}, MaxBytes: 1000}, before)
	if err := l.Add(profile(2, 2000)); !errors.Is(err, behaviour.ErrFull) {
		t.Error(err)
	}
	if p, _ := l.Profile(owner.pub); p.ID != id(before) {
		t.Errorf("%+v", p)
	}
	next := profile(3, 700) // fits where the one before was
	if err := l.Add(next); err != nil {
		t.Error(err)
	}
	if p, _ := l.Profile(owner.pub); p.ID != id(next) {
		t.Errorf("%+v", p)
	}
}

func TestForeignKindsRefused(t *testing.T) {
	v, err := guild.Sign(t.Context(), owner, nostr.Event{Kind: 1})
	if err != nil {
		t.Fatal(err)
	}
	l := behaviour.NewLibrary(behaviour.Config{})
	if err := l.Add(v); !errors.Is(err, nipae.ErrKind) {
		t.Error(err)
	}
	if v, err = guild.Sign(t.Context(), owner, nostr.Event{Kind: 4129}); err != nil {
		t.Fatal(err)
	}
	if err := l.Add(v); !errors.Is(err, nipae.ErrMissing) {
		t.Error(err)
	}
}
