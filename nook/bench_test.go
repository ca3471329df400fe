package nook_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"guild/internal/cputest"
	"guild/nook"
)

// foldEvents is the number of events of BenchmarkFold. Issue 19 asks for 10,000,000:
//
//	go test ./nook -run - -bench Fold -benchtime 1x -fold 10000000
var foldEvents = flag.Int("fold", 200_000, "events of BenchmarkFold")

// stream returns the i-th event of a stream with one event in each gap, in ms: one of 50 agents starts a work unit, and completes it
// five events later.
func stream(i int, gap int64, ids, agents, units []string) nook.Recorded {
	at := 1_700_000_000_000 + int64(i)*gap
	unit := i / 2
	if i%2 == 1 {
		unit = max(0, unit-2)
	}
	e := nook.Event{ID: ids[i%len(ids)], AgentID: agents[unit%len(agents)], WorkUnitID: units[unit%len(units)], Timestamp: at}
	e.Type = nook.TypeStarted
	if i%2 == 1 {
		e.Type, e.Tokens = nook.TypeCompleted, int64(i%997)
	}
	return nook.Recorded{Event: e, Arrived: at + 20}
}

func names(format string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return all
}

func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkFold folds a stream of decoded events. It prints what the account takes for each event of its last 48 hours and for each
// event of the history, the time for each of the first and of the last tenth, and how long a start from a snapshot takes.
func BenchmarkFold(b *testing.B) {
	b.Run("every-second", func(b *testing.B) { benchmarkFold(b, 1000) })
	b.Run("every-10-seconds", func(b *testing.B) { benchmarkFold(b, 10_000) })
}

func benchmarkFold(b *testing.B, gap int64) {
	n := *foldEvents
	ids, agents, units := names("%064x", 200_000), names("agent-%d", 50), names("issue-%d", 70_000)
	for b.Loop() {
		before := live()
		a := nook.New("root")
		var tenth [10]time.Duration
		for k := range tenth {
			tenth[k] = cputest.Spent(b, func() {
				for i := k * n / 10; i < (k+1)*n/10; i++ {
					if a.Add(stream(i, gap, ids, agents, units)) != nook.Accepted {
						b.Fatal("refused")
					}
				}
			})
		}
		total := time.Duration(0)
		for _, t := range tenth {
			total += t
		}
		size := live() - before
		snapshot, err := json.Marshal(a)
		if err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		var again nook.Account
		if err := json.Unmarshal(snapshot, &again); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(begun).Microseconds())/1000, "restart-ms")
		b.ReportMetric(float64(n)/total.Seconds(), "events/s")
		b.ReportMetric(float64(tenth[0].Nanoseconds())/float64(n/10), "ns/event-first")
		b.ReportMetric(float64(tenth[9].Nanoseconds())/float64(n/10), "ns/event-last")
		b.ReportMetric(float64(size)/float64(min(n, int(2*oracleDay/gap))), "B/event-kept")
		b.ReportMetric(float64(size)/float64(n), "B/event")
		b.ReportMetric(float64(len(snapshot))/1e6, "snapshot-MB")
		runtime.KeepAlive(a)
	}
}

// BenchmarkOutOfOrder adds events whose arrival is shuffled by up to an hour, and reads after each hundred.
func BenchmarkOutOfOrder(b *testing.B) {
	ids, agents, units := names("%064x", 200_000), names("agent-%d", 50), names("issue-%d", 70_000)
	const n = 20_000
	var events []nook.Recorded
	for i := range n {
		r := stream(i, 1000, ids, agents, units)
		r.Arrived += int64(i*7919%3600) * 1000
		events = append(events, r)
	}
	slices.SortFunc(events, func(x, y nook.Recorded) int { return int(x.Arrived - y.Arrived) })
	b.ResetTimer()
	for b.Loop() {
		a := nook.New("root")
		for i, r := range events {
			a.Add(r)
			if i%100 == 0 {
				a.Sparks()
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
}

func BenchmarkRaw(b *testing.B) {
	i := 0
	for b.Loop() {
		nook.Raw(int64(i%100_000), i%300)
		i++
	}
}
