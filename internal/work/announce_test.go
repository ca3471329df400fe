package work

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild/nip89"
)

// newPublic is a world without a journal: what is announced is no fact.
func newPublic(t *testing.T, services ...Service) *world {
	w := &world{T: t, began: time.Now()}
	w.Work = New(Config{
		Keyer: us.signer, PubKey: us.key, Node: "test", Now: time.Now, Services: services, Publish: w.publish,
		Relays: func() []string { return []string{"wss://ours.example"} }, Log: slog.New(slog.DiscardHandler),
	}, NewFold())
	return w
}

// announced runs Announce until stop, which returns its error, and lists what ready was told.
func (w *world) announced() (told *[]error, stop func() error) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	told = new([]error)
	go func() { done <- w.Announce(ctx, func(err error) { *told = append(*told, err) }) }()
	w.pass(0)
	return told, func() error { cancel(); return <-done }
}

// public lists what was published of a kind.
func (w *world) public(kind nostr.Kind) (all []publication) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.published {
		if p.Kind == kind {
			all = append(all, p)
		}
	}
	return all
}

func TestANodeAnnouncesWhatItOffersAgainAndAgainAndTakesItBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := python(echo)
		s.Name, s.About, s.Price = "snake", "does python", 7
		w := newPublic(t, s, Service{Task: "go", Kind: 5001, D: "gopher", Do: echo})
		told, stop := w.announced()
		if len(*told) != 1 || (*told)[0] != nil {
			t.Fatalf("ready was told %v", *told)
		}
		byD := map[string]nip89.Handler{}
		for _, e := range w.public(nip89.Kind) {
			h, err := nip89.Parse(e.Event)
			if err != nil {
				t.Fatal(err)
			}
			byD[h.D] = h
		}
		h := byD["python"]
		if len(byD) != 2 || h.Name != "snake" || h.About != "does python" || h.Price != 7 || !h.Confirms(5000) || !h.Accepts("nip44") ||
			h.MaxConcurrent != 2 || h.Confidence(5000, "python", nil) != nip89.Exact || len(h.Relays) != 1 || !byD["gopher"].Confirms(5001) {
			t.Errorf("%+v", byD)
		}
		var profile struct{ Name string }
		if err := json.Unmarshal([]byte(w.public(0)[0].Content), &profile); err != nil || profile.Name != "test" {
			t.Errorf("%+v, %v", profile, err)
		}
		if list := w.public(10002); len(list) != 1 || list[0].Tags.FindWithValue("r", "wss://ours.example") == nil {
			t.Errorf("%v", list)
		}

		w.pass(refresh)
		again := w.public(nip89.Kind)
		if len(again) != 4 || refresh > 7*24*time.Hour {
			t.Errorf("%d announcements", len(again))
		}
		w.pass(time.Hour)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		deletions := w.public(5)
		for _, d := range []string{"python", "gopher"} {
			address := fmt.Sprintf("%d:%s:%s", nip89.Kind, us.key.Hex(), d)
			for _, e := range deletions {
				if e.Tags.FindWithValue("a", address) != nil && e.CreatedAt != again[3].CreatedAt {
					t.Errorf("%s: dated %d, which would take back a later announcement too", d, e.CreatedAt)
				}
			}
		}
		if len(deletions) != 2 {
			t.Errorf("%d deletions", len(deletions))
		}
	})
}

func TestAnAnnouncementThatNoRelayTakesIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPublic(t, python(echo))
		w.relays(true)
		told, stop := w.announced()
		w.pass(24 * time.Second) // at once, and after 1, 2, 4 and 8 seconds
		w.relays(false)
		w.pass(10 * time.Second)
		if n := len(*told); n != 6 || (*told)[4] == nil || (*told)[5] != nil {
			t.Errorf("ready was told %v", *told)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestWhatWasNeverAnnouncedIsNotTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPublic(t, python(echo))
		w.relays(true)
		_, stop := w.announced()
		if err := stop(); err != nil || len(w.public(5)) != 0 {
			t.Errorf("%v, %d deletions", err, len(w.public(5)))
		}
	})
}

func TestWhoOffersNothingAnnouncesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPublic(t)
		told, stop := w.announced()
		if err := stop(); err != nil || len(*told) != 1 || len(w.published) != 0 {
			t.Errorf("%v, told %v, %d events", err, *told, len(w.published))
		}
	})
}
