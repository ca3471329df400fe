package route

import (
	"testing"

	"guild"
)

// BenchmarkADecisionAmong100000 decides among 100,000 services of all tiers. The best fifth is excluded in turn. Each
// decision also updates the chosen service, which has one more request, and the one chosen a hundred decisions before,
// which has one less.
func BenchmarkADecisionAmong100000(b *testing.B) {
	b.Run("tiers", func(b *testing.B) { decides(b, func(*market) {}) })
	b.Run("Thompson", func(b *testing.B) { decides(b, sampling) })
}

func decides(b *testing.B, by func(*market)) {
	var all []Facts
	for n := range 100_000 {
		f := unmet(n)
		if n%4 == 0 {
			f = withRecord(met(n, guild.Trust(300_000+n%600*1000)), n%40, n%3)
		}
		f.Offer.Price, f.Measured.Latency = guild.Msat(500+n%1000), int64(100+n%900)
		f.Offer.Slots, f.Offer.Encrypts = 1+n%8, n%3 != 0
		all = append(all, f)
	}
	m := newMarket(b, true, all...)
	by(m)
	explain := func(*Facts, string) string { return "it does not read encrypted requests" }
	var late []guild.Service
	n := 0
	decide := func() {
		n++
		f, _, ok := m.asks(n, func(q *Query) {
			q.Decided, q.Total, q.Active, q.Explain = n, min(n, 100), 50, explain
			q.Exclude = func(f *Facts) string {
				if n%5 == 0 && !f.Offer.Encrypts || f.Offer.Price > 1400 {
					return "encryption"
				}
				return ""
			}
		})
		if !ok {
			b.Fatal("nobody")
		}
		late = append(late, f.Offer.Service)
		f.Waiting, f.Given = f.Waiting+1, f.Given+1
		f.Recent++
		m.sets(f)
		if len(late) > 100 {
			g := m.services[late[0]]
			late = late[1:]
			g.Waiting, g.Given = g.Waiting-1, g.Given-1
			g.Recent--
			m.sets(g)
		}
	}
	decide()
	b.ReportAllocs()
	for b.Loop() {
		decide()
	}
}
