package jobs

import (
	"encoding/binary"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

// busy returns the fold of a node after so many jobs of ten facts each, with two hundred providers.
func busy(jobs int) *Fold {
	f := NewFold()
	seq := uint64(0)
	people := make([]nostr.PubKey, 200)
	for i := range people {
		people[i] = newPerson(byte(i + 1)).key
	}
	for n := range jobs {
		var job guild.JobID
		var attempt nostr.ID
		provider := guild.Service{PubKey: people[n%len(people)], D: "python"}
		binary.BigEndian.PutUint64(job[:], uint64(n+1))
		binary.BigEndian.PutUint64(attempt[:], uint64(n+1))
		request := nostr.Event{ID: attempt, Kind: 5000, PubKey: customer.key, Content: string(make([]byte, 500)), Tags: nostr.Tags{{"p", alice.key.Hex()}}}
		at := int64(n) * 1000
		for _, one := range []fact.Fact{
			fact.JobOpened{Job: job, Task: "python", Title: "Write a function that adds two numbers", Bundle: guild.Hash{1}, Size: 1000,
				Kind: 5000, Bid: 1000, Deadline: at + time.Hour.Milliseconds(), Tries: 3},
			fact.AttemptPlanned{Attempt: attempt, Job: job, Provider: provider, Request: request, Relays: []string{"wss://relay.example"}},
			fact.AttemptRequested{Attempt: attempt, Relays: []string{"wss://relay.example"}, Silence: at + 300_000},
			fact.AttemptProgressed{Attempt: attempt, Event: attempt, Status: "processing", Silence: at + 300_000},
			fact.AttemptDelivered{Attempt: attempt, Result: attempt, Delivery: guild.Hash{2}, Size: 2000, Answer: &request},
			fact.AttemptJudged{Attempt: attempt, Verdict: guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Passed: 10, Expected: 10}, Stored: guild.Hash{3}},
			fact.AttemptRecorded{Attempt: attempt, Receipt: "rcpt_0123456789abcdef0123456789abcdef"},
			fact.EffectClaimed{Effect: "judge"}, fact.EffectSettled{Effect: "judge"},
			fact.JobClosed{Job: job, Ending: guild.JobAccepted, Chosen: attempt},
		} {
			seq++
			f.Apply(fact.Entry{Seq: seq, At: at, Subject: fact.JobSubject(job), Facts: []fact.Fact{one}})
		}
	}
	return f
}

// BenchmarkRestore reads the snapshot of a million facts.
func BenchmarkRestore(b *testing.B) {
	encoded, err := busy(100_000).Freeze()()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := NewFold().Restore(encoded); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(encoded))/100_000, "B/job")
}

// BenchmarkFreeze takes the copy that every decision waits for.
func BenchmarkFreeze(b *testing.B) {
	f := busy(100_000)
	for b.Loop() {
		f.Freeze()
	}
}
