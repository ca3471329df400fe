package jobs

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

// BenchmarkLookWithBids looks at one job of many, each with a request under way whose bid is reserved.
func BenchmarkLookWithBids(b *testing.B) {
	for _, open := range []int{250, 10_000} {
		b.Run(fmt.Sprint(open), func(b *testing.B) {
			f, now, seq := NewFold(), time.Now(), uint64(0)
			apply := func(subject fact.Subject, one fact.Fact) {
				seq++
				f.Apply(fact.Entry{Seq: seq, At: now.UnixMilli(), Subject: subject, Facts: []fact.Fact{one}})
			}
			for n := range open {
				var job guild.JobID
				binary.BigEndian.PutUint32(job[:], uint32(n))
				attempt := nostr.ID(guild.Sum(job[:]))
				apply(fact.JobSubject(job), fact.JobOpened{Job: job, Task: "python", Deadline: now.Add(time.Hour).UnixMilli()})
				apply(fact.BidSubject, fact.BidReserved{Job: job, Turn: 1, Task: "python", Amount: 10, At: now.UnixMilli()})
				apply(fact.JobSubject(job), fact.AttemptPlanned{Attempt: attempt, Job: job, Provider: alice.service(), Bid: 10})
			}
			market := offered(func(string, int) []guild.Offer { return nil })
			j := New(Config{Market: market, Now: time.Now, Budgets: map[string]Budget{Others: {Daily: 1 << 40}}}, f)
			j.Due(now)
			guards := []fact.Subject{fact.JobSubject(guild.JobID{})}
			b.ReportAllocs()
			for b.Loop() {
				j.DueUnder(guards, now)
			}
		})
	}
}
