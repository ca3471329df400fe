package scout

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"fiatjaf.com/nostr"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestNumbersOfSpecification(t *testing.T) {
	filters := recent(noon)
	if f := filters[0]; len(f.Kinds) != 1 || f.Kinds[0] != 31990 || f.Since.Time() != noon.Add(-24*time.Hour).Local() || len(f.Tags) != 0 {
		t.Errorf("filter for recent announcements: %v", f)
	}
	if f := filters[1]; len(f.Kinds) != 1 || f.Kinds[0] != 5 || f.Tags["k"][0] != "31990" {
		t.Errorf("filter for deletions: %v", f)
	}
	if f := stored(nil)[0]; len(f.Kinds) != 1 || f.Kinds[0] != 31990 || f.Since != 0 || f.Limit != 1000 || len(f.Tags) != 0 {
		t.Errorf("filter for stored announcements: %v", f)
	}
	if f := stored(make([]nostr.PubKey, 600)); len(f) != 6 || len(f[1].Authors) != 100 || f[1].Kinds[0] != 31990 || f[1].Since != 0 {
		t.Errorf("filters by author: %v", f[1:])
	}
	if everyPolled != 5*time.Minute || everySampled != time.Hour {
		t.Errorf("polled every %s, sampled every %s", everyPolled, everySampled)
	}
}

func TestEarnedTier(t *testing.T) {
	tests := []struct {
		name string
		p    place
		want Tier
	}{
		{"a newcomer has three hours to prove itself", place{Tier: Sampled, Looks: 2, Stable: 1, Yield: 100}, Sampled},
		{"after three hours a fruitful one is polled", place{Tier: Sampled, Looks: 3, Stable: 0.8, Yield: 0.05}, Polled},
		{"one with nothing new stays sampled", place{Tier: Sampled, Looks: 99, Stable: 1, Yield: 0.049}, Sampled},
		{"one that is often away stays sampled", place{Tier: Sampled, Looks: 99, Stable: 0.79, Yield: 100}, Sampled},
		{"after an hour a fruitful one is persistent", place{Tier: Polled, Looks: 12, Stable: 0.95, Yield: 0.5}, Persistent},
		{"not before an hour of polling", place{Tier: Polled, Looks: 11, Stable: 1, Yield: 100}, Polled},
		{"not for fewer announcements", place{Tier: Polled, Looks: 99, Stable: 1, Yield: 0.49}, Polled},
		{"not when it misses looks", place{Tier: Polled, Looks: 99, Stable: 0.94, Yield: 100}, Polled},
		{"what fell below the way up stays in the first tier", place{Tier: Persistent, Looks: 99, Stable: 0.8, Yield: 0.1}, Persistent},
		{"an unstable one leaves the first tier", place{Tier: Persistent, Looks: 12, Stable: 0.79, Yield: 100}, Polled},
		{"a fruitless one leaves the first tier", place{Tier: Persistent, Looks: 12, Stable: 1, Yield: 0.09}, Polled},
		{"a new one has an hour there", place{Tier: Persistent, Looks: 11, Stable: 0, Yield: 0}, Persistent},
		{"what fell below the way up stays in the second tier", place{Tier: Polled, Looks: 99, Stable: 0.5, Yield: 0.01}, Polled},
		{"an unstable one leaves the second tier", place{Tier: Polled, Looks: 12, Stable: 0.49, Yield: 0.3}, Sampled},
		{"a fruitless one leaves the second tier", place{Tier: Polled, Looks: 12, Stable: 1, Yield: 0.009}, Sampled},
		{"the third tier is the last", place{Tier: Sampled, Looks: 99}, Sampled},
		{"our own relays never fall", place{Tier: Persistent, Looks: 999, ours: true}, Persistent},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.p.next(); got != test.want {
				t.Errorf("tier %d, want %d", got, test.want)
			}
		})
	}
}

func TestTierIsStable(t *testing.T) {
	p := &place{URL: "wss://a", Tier: Sampled}
	moves := 0
	for hour := range 30 * 24 {
		now := p.due
		if p.Looks == 0 && hour == 0 {
			now = noon
		}
		before := p.Tier
		p.looked(now, hour%7 != 0, hour%2) // sometimes one event, sometimes unreachable
		settle([]*place{p}, now)
		if p.Tier != before {
			moves++
		}
	}
	if moves > 4 {
		t.Errorf("it moved %d times", moves)
	}
}

func TestYieldPerHour(t *testing.T) {
	for _, every := range []time.Duration{5 * time.Minute, time.Hour, 3 * time.Hour} {
		p, now := &place{Tier: Sampled}, noon
		for range int(96 * time.Hour / every) {
			now = now.Add(every)
			p.looked(now, true, int(every/(5*time.Minute))*2)
		}
		if math.Abs(p.Yield-24) > 0.5 {
			t.Errorf("every %s: %.2f an hour, want 24", every, p.Yield)
		}
	}
}

func TestTierSizes(t *testing.T) {
	var all []*place
	for i := range 300 {
		tier := Polled
		if i < 100 {
			tier = Persistent
		}
		all = append(all, &place{URL: fmt.Sprintf("wss://r%03d", i), Tier: tier, Looks: 1, Stable: 1, Yield: float64(i + 1)})
	}
	ours := &place{URL: "wss://ours", Tier: Persistent, ours: true}
	settle(append(all, ours), noon)
	count := map[Tier]int{}
	for _, p := range all {
		count[p.Tier]++
	}
	if count[Persistent] != 8 || count[Polled] != 32 || ours.Tier != Persistent {
		t.Errorf("%v, ours in tier %d", count, ours.Tier)
	}
	if all[99].Tier != Persistent || all[0].Tier == Persistent {
		t.Error("not the best are persistent")
	}
}

// Of relays that send as much, those that answer soonest are read all the time.
func TestSlowRelaysGiveWay(t *testing.T) {
	var all []*place
	for i := range 2 * mostPersistent {
		p := &place{URL: fmt.Sprintf("wss://r%03d", i), Tier: Persistent, Looks: 1, Stable: 1, Yield: 2}
		if i < mostPersistent {
			p.wait = 3 * time.Second
		}
		all = append(all, p)
	}
	settle(all, noon)
	for i, p := range all {
		if (p.Tier == Persistent) != (i >= mostPersistent) {
			t.Errorf("%s, answers in %v, is in tier %d", p.URL, p.wait, p.Tier)
		}
	}
}

func TestAdmitIsBounded(t *testing.T) {
	places := map[string]*place{}
	for i := range 1000 {
		admit(places, fmt.Sprintf("wss://r%03d.example", i), noon)
	}
	if len(places) != 200 {
		t.Errorf("%d relays were admitted, want 200", len(places))
	}
	for url, p := range places {
		if p.Tier != Sampled || p.due.Before(noon) || p.due.After(noon.Add(5*time.Minute)) {
			t.Errorf("%s is in tier %d, due %s", url, p.Tier, p.due)
		}
	}
	if admit(places, "wss://late.example", noon) || places["wss://late.example"] != nil {
		t.Error("one more was admitted")
	}
	places["wss://r007.example"].Looks = 3 // none was answered
	if !admit(places, "wss://late.example", noon) || places["wss://late.example"] == nil || places["wss://r007.example"] != nil {
		t.Error("a relay that never answers was kept")
	}
}

func TestRelaysOfOneHost(t *testing.T) {
	places := map[string]*place{}
	for i := range 100 {
		admit(places, fmt.Sprintf("wss://victim.example:%d/%d", 1000+i, i), noon)
	}
	if len(places) != 2 {
		t.Errorf("%d relays of one host", len(places))
	}
}

func TestSampledLooksAreSpread(t *testing.T) {
	p := &place{Tier: Sampled, Looked: noon.UnixMilli()}
	early, late := 0, 0
	for range 1000 {
		wait := p.again(noon).Sub(noon)
		switch {
		case wait < 30*time.Minute || wait >= 90*time.Minute:
			t.Fatalf("the next look is in %s", wait)
		case wait < time.Hour:
			early++
		default:
			late++
		}
	}
	if early < 350 || late < 350 {
		t.Errorf("%d within the hour, %d after it", early, late)
	}
}

func TestClockSetBack(t *testing.T) {
	p := &place{Tier: Polled, Looked: noon.UnixMilli()}
	if due := p.again(noon.Add(-24 * time.Hour)); due.After(noon.Add(-24*time.Hour + 5*time.Minute)) {
		t.Errorf("the next look is %s", due)
	}
}

func TestListsAreBounded(t *testing.T) {
	someone := []nostr.PubKey{{1}, {2}}
	if f := advice(nil, nil); f != nil {
		t.Errorf("lists of nobody: %v", f)
	}
	if f := advice(nil, someone); len(f) != 1 || f[0].Kinds[0] != 10002 || len(f[0].Authors) != 2 {
		t.Errorf("of providers: %v", f)
	}
	if f := advice(someone[:1], someone[1:]); len(f) != 2 || f[1].Kinds[0] != 31989 || len(f[1].Authors) != 1 || f[1].Authors[0] != someone[0] {
		t.Errorf("of those whom we follow: %v", f)
	}
}

func TestDecodeInvalidFile(t *testing.T) {
	good := place{URL: "wss://good.example", Tier: Polled, Looks: 4, Yield: 1.5, Stable: 0.9, Looked: noon.UnixMilli()}
	bad := []place{
		{URL: "http://x.example", Tier: Sampled}, {URL: "ws://x.example", Tier: Sampled}, {URL: "wss://X.example/", Tier: Sampled},
		{URL: "wss://x.example", Tier: 0}, {URL: "wss://x.example", Tier: 4}, {URL: "wss://x.example", Tier: Polled, Stable: 2},
		{URL: "wss://x.example", Tier: Polled, Yield: -1}, {URL: "wss://x.example", Tier: Polled, Looked: -1}, good,
	}
	b, err := json.Marshal(file{Version: 1, Relays: append([]place{good}, bad...)})
	if err != nil {
		t.Fatal(err)
	}
	got := decode(b)
	if len(got) != 1 || got[0] != good {
		t.Errorf("%+v", got)
	}
	if got := decode([]byte(`{"version":2,"relays":[{"url":"wss://a.example","tier":1}]}`)); len(got) != 0 {
		t.Errorf("another version: %+v", got)
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(`{"version":1,"relays":[{"url":"wss://a.example","tier":1,"looks":3,"yield":0.5,"stable":1,"looked":1}]}`))
	f.Add([]byte(`{"version":1,"relays":[{"url":"wss://a.example","tier":9}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var all []*place
		for _, p := range decode(b) {
			all = append(all, &p)
		}
		settle(all, noon)
		again, err := encode(all)
		if err != nil {
			t.Fatal(err)
		}
		if len(decode(again)) != len(all) {
			t.Errorf("%d relays became %d", len(all), len(decode(again)))
		}
	})
}
