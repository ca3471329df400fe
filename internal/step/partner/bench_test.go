package partner

import (
	"encoding/binary"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
)

// many returns a world with decisions about n providers.
func many(b *testing.B, n int) (*world, []guild.Service) {
	w := &world{fold: newFold(), clock: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)}
	latest := registry.Latest{At: w.clock.UnixMilli(), Announced: true}
	w.Partners = New(Config{Now: w.now, Latest: func(registry.ID) registry.Latest { return latest }}, w.fold)
	all := make([]guild.Service, n)
	for i := range all {
		s := guild.Service{D: "a"}
		binary.BigEndian.PutUint64(s.PubKey[:], uint64(i)+1)
		all[i] = s
		w.write(fact.ProviderMoved{Service: s, From: guild.Seen, To: guild.Active, Cause: "score 0.90"})
	}
	w.Due(w.clock)
	b.ReportAllocs()
	return w, all
}

// BenchmarkFactAmongManyProviders measures the end of an attempt and the list of due work after it.
func BenchmarkFactAmongManyProviders(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(map[int]string{100: "hundred", 100_000: "100000"}[n], func(b *testing.B) {
			w, all := many(b, n)
			i := 0
			for b.Loop() {
				i++
				var id nostr.ID
				binary.BigEndian.PutUint64(id[:], uint64(i))
				w.write(fact.AttemptPlanned{Attempt: id, Provider: all[i%n]}, well(id))
				if due := w.Due(w.clock); len(due) > 1 {
					b.Fatal(len(due))
				}
			}
		})
	}
}

// BenchmarkSnapshot measures the time for which a snapshot delays decisions.
func BenchmarkSnapshot(b *testing.B) {
	w, _ := many(b, 100_000)
	for b.Loop() {
		_ = w.fold.Freeze()
	}
}
