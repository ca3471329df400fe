package partner

import (
	"slices"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

// at returns the time of an hour of a day in UTC, in Unix ms.
func at(day, hour int) int64 {
	return time.Date(2026, 3, 1+day, hour, 0, 0, 0, time.UTC).UnixMilli()
}

// attempted applies one request that ended at a time with the given facts.
func attempted(o *Observed, n int, s guild.Service, ended int64, ends ...fact.Fact) {
	id := nostr.ID{byte(n), byte(n >> 8), 7}
	facts := []fact.Fact{fact.AttemptPlanned{Attempt: id, Provider: s}, fact.AttemptRequested{Attempt: id, Relays: []string{"wss://one.example"}}}
	for _, f := range ends {
		switch f := f.(type) {
		case fact.AttemptDelivered:
			f.Attempt = id
			facts = append(facts, f)
		case fact.AttemptJudged:
			f.Attempt = id
			facts = append(facts, f)
		case fact.AttemptQuoted:
			f.Attempt = id
			facts = append(facts, f)
		}
	}
	o.Apply(fact.Entry{Seq: uint64(n), At: ended, Facts: facts})
}

// A provider is fast at night and slow at noon. The mean of an hour counts as much as its runs, the median of all hours
// as three.
func TestPredictedLatency(t *testing.T) {
	o, alice := NewObserved(), newProvider(1).service("a")
	if got := o.Routing(alice, time.UnixMilli(at(0, 12))); got.Latency != 0 || got.Hourly || got.Rated {
		t.Errorf("%+v of a service that was never asked", got)
	}
	n := 0
	for day := range 6 {
		for hour, latency := range map[int]int64{3: 1000, 12: 9000} {
			n++
			attempted(o, n, alice, at(day, hour)+latency, fact.AttemptDelivered{LatencyMs: latency})
		}
	}
	for _, c := range []struct {
		hour int
		want int64
	}{
		{3, 1000},  // (1000·6 + 1000·3) / 9: the median of all twelve, the lower of those in the middle, is 1000 too
		{12, 6333}, // (9000·6 + 1000·3) / 9
		{5, 1000},  // nothing was measured at five: the median
	} {
		if got := o.Routing(alice, time.UnixMilli(at(9, c.hour)+59*60_000)); got.Latency != c.want || !got.Hourly {
			t.Errorf("at %d: %+v, want %d ms", c.hour, got, c.want)
		}
	}
	attempted(o, 99, alice, at(7, 12)+19_000, fact.AttemptDelivered{LatencyMs: 19_000}) // 9000 + 0.3·10000 = 12000
	if got := o.Routing(alice, time.UnixMilli(at(9, 12))).Latency; got != (12_000*7+9000*3)/10 {
		t.Errorf("after a slow delivery: %d", got)
	}
}

// A request that takes longer than its hour counts for the hour in which it was made.
func TestLatencyHour(t *testing.T) {
	hours := addHour(nil, at(0, 23), 2*time.Hour.Milliseconds())
	if hours[23].Runs != 1 || slices.ContainsFunc(hours[:23], func(h hour) bool { return h.Runs > 0 }) {
		t.Errorf("%+v", hours)
	}
}

func TestMedianCost(t *testing.T) {
	o, alice := NewObserved(), newProvider(1).service("a")
	for n, price := range []guild.Msat{900, 100, 300, 200} {
		attempted(o, n+1, alice, at(0, 1), fact.AttemptQuoted{Amount: price})
	}
	if got := o.Routing(alice, time.UnixMilli(at(0, 2))).Cost; got != 200 {
		t.Errorf("%d", got)
	}
	for n := range 3 * maxQuotes {
		attempted(o, 100+n, alice, at(0, 1), fact.AttemptQuoted{Amount: 700})
	}
	if got := o.Routing(alice, time.UnixMilli(at(0, 2))).Cost; got != 700 {
		t.Errorf("prices of long ago still count: %d", got)
	}
}

func TestSuccessRateWindow(t *testing.T) {
	o, alice := NewObserved(), newProvider(1).service("a")
	verdict := func(outcome guild.Outcome) fact.AttemptJudged {
		return fact.AttemptJudged{Verdict: guild.Verdict{Outcome: outcome}}
	}
	attempted(o, 1, alice, at(0, 1), verdict(guild.Failure))
	attempted(o, 2, alice, at(1, 1), verdict(guild.Success))
	attempted(o, 3, alice, at(1, 2), verdict(guild.Success))
	attempted(o, 4, alice, at(29, 1), verdict(guild.Failure))
	for _, c := range []struct {
		day  int
		want guild.Trust
		ok   bool
	}{
		{29, 500_000, true}, // two of four
		{30, 666_666, true}, // the first is thirty days ago
		{31, 0, true},       // only the last one is left
		{59, 0, false},
	} {
		got := o.Routing(alice, time.UnixMilli(at(c.day, 5)))
		if got.Rate != c.want || got.Rated != c.ok || got.Samples != 4 || got.Verified != at(29, 1) {
			t.Errorf("on day %d: %+v", c.day, got)
		}
	}
}
