package work

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/step/steptest"
	"guild/nip89"
)

// newPublic begins a world without a journal. Announcements are not recorded.
func newPublic(t *testing.T, services ...Service) *world {
	w := &world{World: &steptest.World{T: t}, began: time.Now()}
	w.Work = New(Config{
		Keyer: us.signer, PubKey: us.key, Node: "test", Now: time.Now, Services: services,
		Relays: relays{w, []string{"wss://ours.example"}}, Log: slog.New(slog.DiscardHandler),
	}, NewFold())
	return w
}

// announced runs Announce until stop, which returns its error. told lists the arguments of ready.
func (w *world) announced() (told *[]error, stop func() error) {
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	told = new([]error)
	go func() { done <- w.Announce(ctx, func(err error) { *told = append(*told, err) }) }()
	w.pass(0)
	return told, func() error { cancel(); return <-done }
}

// public lists the published events of a kind.
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

// distinct lists the published events of a kind, each once, in the order of their first publication.
func (w *world) distinct(kind nostr.Kind) (all []publication) {
	for _, p := range w.public(kind) {
		if !slices.ContainsFunc(all, func(before publication) bool { return before.ID == p.ID }) {
			all = append(all, p)
		}
	}
	return all
}

// latest returns the newest announcement.
func (w *world) latest() nip89.Handler {
	w.Helper()
	all := w.distinct(nip89.Kind)
	if len(all) == 0 {
		w.Fatal("nothing is announced")
	}
	h, err := nip89.Parse(all[len(all)-1].Event)
	if err != nil {
		w.Fatal(err)
	}
	return h
}

func TestAnnouncementLife(t *testing.T) {
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
		again := w.distinct(nip89.Kind)
		if len(again) != 4 || refresh > 7*24*time.Hour {
			t.Fatalf("%d announcements", len(again))
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

func TestAnnouncementIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPublic(t, python(echo))
		w.setDeaf(true)
		told, stop := w.announced()
		w.pass(24 * time.Second) // at once, and after 1, 2, 4 and 8 seconds
		w.setDeaf(false)
		w.pass(10 * time.Second)
		if n := len(*told); n != 6 || (*told)[4] == nil || (*told)[5] != nil {
			t.Errorf("ready was told %v", *told)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestNothingAnnouncedNothingDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPublic(t, python(echo))
		w.setDeaf(true)
		_, stop := w.announced()
		if err := stop(); err != nil || len(w.public(5)) != 0 {
			t.Errorf("%v, %d deletions", err, len(w.public(5)))
		}
	})
}

func TestNodeWithoutServicesAnnouncesInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPublic(t)
		told, stop := w.announced()
		if err := stop(); err != nil || len(*told) != 1 || len(w.published) != 1 || w.published[0].Kind != nostr.KindDMRelayList {
			t.Errorf("%v, told %v, published %v", err, *told, w.published)
		}
	})
}

func TestAnnouncementOfClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Service{
			D: "agents", Tasks: []string{"oa.code_chunk_analysis.v1", "oa.sandbox_run.v1", "Code Review"}, Kinds: []int{5050, 5100}, Slots: 4, Do: echo,
			Price: 100, Schema: `{"type":"object"}`, Claims: Claims{
				SupplyClass: "BundleRack", Models: []string{"codex-3-sonnet"}, MaxContext: 128_000,
				Hardware: nip89.Hardware{MemoryGB: 64, GPU: "M4 Max", VRAMGB: 128},
			},
		}
		w := newPublic(t, s)
		_, stop := w.announced()
		defer stop()
		e := w.public(nip89.Kind)[0].Event
		var tags []string
		for _, tag := range e.Tags {
			tags = append(tags, strings.Join(tag, " "))
		}
		want := []string{"d agents", "k 5050", "k 5100", "t code-review", "t oa.code_chunk_analysis.v1", "t oa.sandbox_run.v1",
			"relays wss://ours.example", "encryption nip44"}
		if !slices.Equal(tags, want) {
			t.Errorf("tags %q", tags)
		}
		const says = `{"accepts":["application/x-nutshell+gzip","application/x-nutshell+zstd","application/x-nutshell","text/plain"],` +
			`"capabilities":{"supported_jobs":["code-review","oa.code_chunk_analysis.v1","oa.sandbox_run.v1"],"models":["codex-3-sonnet"],` +
			`"hardware":{"memory_gb":64,"gpu_type":"M4 Max","vram_gb":128}},"capacity":{"max_concurrent_jobs":4,"max_context_tokens":128000},"name":"test",` +
			`"pricing":{"per_job_msats":100},"schema":{"type":"object"},"supply_class":"BundleRack","supported_kinds":[5050,5100]}`
		if e.Content != says {
			t.Errorf("content %s", e.Content)
		}
	})
}

func TestAnnouncedFigures(t *testing.T) {
	figures := func(delivered, failed int, latency time.Duration) string {
		s := stability(Figures{Delivered: delivered, Failed: failed, Latency: latency})
		if s.SuccessRate == nil {
			return "nothing"
		}
		text := fmt.Sprint(*s.SuccessRate, *s.JobsCompleted)
		if s.AvgLatencyMs != nil {
			text += fmt.Sprint(" ", *s.AvgLatencyMs)
		}
		return text
	}
	for _, c := range []struct {
		delivered, failed int
		latency           time.Duration
		want              string
	}{
		{0, 0, 0, "nothing"},
		{0, 3, 0, "0 0"},
		{1, 0, 900 * time.Microsecond, "1 1 0"},
		{9, 1, 17 * time.Millisecond, "0.9 9 20"},
		{1523, 80, 247 * time.Millisecond, "0.95 1000 200"},
		{1999, 80, 251 * time.Millisecond, "0.95 1000 300"},
		{96, 4, 95 * time.Second, "0.95 90 100000"},
	} {
		if got := figures(c.delivered, c.failed, c.latency); got != c.want {
			t.Errorf("%d delivered, %d failed, %s: %s, want %s", c.delivered, c.failed, c.latency, got, c.want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		_, stop := w.announced()
		defer stop()
		if s := w.latest().Stability; s.SuccessRate != nil {
			t.Errorf("before the first job: %+v", s)
		}
		for i := range 20 {
			r := task(t, bundle(t, nil))
			r.Job = fmt.Sprint(i)
			if i == 10 {
				r.Inputs[0].Data = "TlVU" // "NUT"
				r.Set("bundle_sha256", guild.Sum([]byte("NUT")).Hex())
				r.Set("bundle_size", "3")
			}
			w.asks(customer, r)
			w.pass(6 * time.Second)
		}
		if n := len(w.distinct(nip89.Kind)); n != 1 {
			t.Errorf("%d announcements during the first minutes", n)
		}
		w.pass(look)
		w.pass(24 * time.Hour)
		s := w.latest().Stability
		if n := len(w.distinct(nip89.Kind)); n != 2 || *s.SuccessRate != 0.95 || *s.JobsCompleted != 10 {
			t.Errorf("%d announcements, %v, %v", n, *s.SuccessRate, *s.JobsCompleted)
		}
	})
}

func TestPausedServiceIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo), Service{Task: "go", D: "gopher", Do: echo})
		_, stop := w.announced()
		first := w.public(nip89.Kind)
		for range 3 { // in one second
			if err := w.Pause(t.Context(), "python", false); err != nil {
				t.Fatal(err)
			}
			w.pass(0)
			if err := w.Resume(t.Context(), "python"); err != nil {
				t.Fatal(err)
			}
			w.pass(0)
		}
		back, again := w.public(5), w.public(nip89.Kind)[2:]
		if len(first) != 2 || len(back) != 3 || len(again) != 3 {
			t.Fatalf("announced %d, taken back %d, announced again %d", len(first), len(back), len(again))
		}
		at := first[0].CreatedAt
		for i := range again {
			if back[i].CreatedAt != at || again[i].CreatedAt <= at || again[i].Tags.GetD() != "python" {
				t.Errorf("taken back up to %d what is of %d, and announced anew at %d", back[i].CreatedAt, at, again[i].CreatedAt)
			}
			at = again[i].CreatedAt
		}
		if err := w.Pause(t.Context(), "python", true); err != nil {
			t.Fatal(err)
		}
		w.pass(24 * time.Hour)
		if n := len(w.distinct(nip89.Kind)); n != 5 {
			t.Errorf("%d announcements: a service that drains is announced", n)
		}
		if err := stop(); err != nil || len(w.distinct(5)) != 5 {
			t.Errorf("%v, %d deletions: only what stood is taken back at the end", err, len(w.distinct(5)))
		}
	})
}

func TestEarlierAnnouncementIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		if err := w.Pause(t.Context(), "python", false); err != nil {
			t.Fatal(err)
		}
		w.restart()
		_, stop := w.announced()
		w.pass(time.Hour)
		back := w.public(5)
		if len(back) != 1 || back[0].CreatedAt.Time().Before(w.began) || len(w.public(nip89.Kind)) != 0 {
			t.Errorf("%v, %v", back, w.public(nip89.Kind))
		}
		if err := w.Resume(t.Context(), "python"); err != nil {
			t.Fatal(err)
		}
		w.pass(0)
		if h := w.latest(); h.CreatedAt <= back[0].CreatedAt {
			t.Errorf("announced at %d, which the deletion of %d takes back", h.CreatedAt, back[0].CreatedAt)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestRelayGetsMissedAnnouncement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPublic(t, python(echo))
		_, stop := w.announced()
		defer stop()
		w.pass(look)
		all := w.public(nip89.Kind)
		if len(all) != 2 || all[0].ID != all[1].ID {
			t.Errorf("%v", all)
		}
	})
}

// publishedBefore puts these events of ours on the relays.
func (w *world) publishedBefore(events ...nostr.Event) {
	w.Helper()
	var found []guild.Verified
	for _, e := range events {
		v, err := guild.Sign(w.Context(), us.signer, e)
		if err != nil {
			w.Fatal(err)
		}
		found = append(found, v)
	}
	w.stored = func(context.Context, nostr.Filter, []string) ([]guild.Verified, error) { return found, nil }
}

func TestForeignProfileStays(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    int
	}{
		"a person's":                   {`{"name":"Ann","about":"I run a node","nip05":"ann@example.com"}`, 0},
		"a person's, short":            {`{"name":"Ann","about":"me"}`, 0},
		"one that cannot be read":      {`Ann`, 0},
		"ours, with more in it":        {`{"name":"old","about":"a guild node","picture":"https://example.com/p.png"}`, 0},
		"ours, and the same":           {`{"name":"test","about":"a guild node"}`, 0},
		"ours, under the name of then": {`{"name":"old","about":"a guild node"}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newPublic(t, python(echo))
				ahead := nostr.Timestamp(time.Now().Add(time.Minute).Unix()) // by another clock
				w.publishedBefore(nostr.Event{Kind: 0, Content: c.content, CreatedAt: ahead})
				_, stop := w.announced()
				defer stop()
				all := w.public(0)
				if len(all) != c.want || len(all) > 0 && all[0].CreatedAt <= ahead {
					t.Errorf("published %v", all)
				}
			})
		})
	}
}

func TestOwnersRelaysStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPublic(t, python(echo))
		w.publishedBefore(nostr.Event{Kind: 10002, Content: "x", Tags: nostr.Tags{
			{"r", "wss://owners.example", "write"}, {"r", "wss://OURS.example/", "write"}, {"r", "ws://127.0.0.1:40000"}, {"alt", "relays"},
		}})
		_, stop := w.announced()
		defer stop()
		list := w.public(10002)[0]
		want := nostr.Tags{{"r", "wss://owners.example", "write"}, {"alt", "relays"}, {"r", "wss://ours.example"}}
		if fmt.Sprint(list.Tags) != fmt.Sprint(want) || list.Content != "x" {
			t.Errorf("%v", list)
		}
	})
}

func TestUnknownProfileIsNotOverwritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPublic(t, python(echo))
		var answers atomic.Bool
		w.stored = func(ctx context.Context, _ nostr.Filter, _ []string) ([]guild.Verified, error) {
			if answers.Load() {
				return nil, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		told, stop := w.announced()
		w.pass(time.Minute)
		if len(w.public(0))+len(w.public(10002)) != 0 || len(w.public(nip89.Kind)) != 1 || len(*told) != 1 || (*told)[0] != nil {
			t.Errorf("%v, %v, told %v", w.public(0), w.public(10002), *told)
		}
		answers.Store(true)
		w.pass(look)
		if len(w.public(0)) != 1 || len(w.public(10002)) != 1 {
			t.Errorf("%v, %v", w.public(0), w.public(10002))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
