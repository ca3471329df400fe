package relay_test

import (
	"testing"

	"fiatjaf.com/nostr"

	"guild"
)

// BenchmarkReceive reads distinct events through one connection: parsed, verified, delivered in order.
func BenchmarkReceive(b *testing.B) {
	const batch = 1000
	all := signed(b, batch)
	frames := make([]string, batch)
	for i, e := range all {
		frames[i] = e.Event().String()
	}
	for b.Loop() {
		url := hostile(b, func(p peer) {
			sub := p.await("REQ")
			for _, f := range frames {
				p.say(`["EVENT","` + sub + `",` + f + `]`)
			}
			p.drain()
		})
		box := newInbox()
		p, stop := run(b, config(box, url))
		p.Subscribe("notes", notes())
		box.take(b, batch)
		stop()
	}
	b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkVerify measures the least time of BenchmarkReceive on one processor.
func BenchmarkVerify(b *testing.B) {
	e := sign(b, 1, nostr.Now(), "hello").Event()
	for b.Loop() {
		if _, err := guild.Verify(e); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPublish measures the time from Publish to the OK of a real relay on this machine, which verifies too.
func BenchmarkPublish(b *testing.B) {
	url := honest(b)
	p, _ := run(b, config(newInbox(), url))
	all := signed(b, 1)
	for i := 0; b.Loop(); i++ {
		if i == len(all) {
			b.StopTimer()
			all = append(all, sign(b, 1, nostr.Now()-nostr.Timestamp(i), "hello"))
			b.StartTimer()
		}
		if _, err := p.Publish(b.Context(), all[i], url); err != nil {
			b.Fatal(err)
		}
	}
}
