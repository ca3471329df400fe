package route

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
)

type choice fact.Choice

// naive decides by reading all services, directly from the definitions.
type naive struct {
	*market
	Query
}

// standing holds what the protocol's sections say of one service for the query.
type standing struct {
	Facts
	tier  int
	grade int
	score guild.Trust
	order uint64
}

func (n naive) all() (all []standing) {
	refs := n.references()
	for _, f := range n.services {
		tier, by := n.settings.place(&f)
		if by != "" || tier == tertiary && !n.Low {
			continue
		}
		_, score := n.settings.weigh(n.settings.terms(&f, &refs))
		s := standing{f, tier, gladly, score - unsure(&f), n.order(f.Offer.Service)}
		switch by := n.Exclude(&f); {
		case by != "" && by != ByBusy:
			continue
		case f.Unpaid > n.Now.UnixMilli():
			s.grade = unpaid
		case by == "" && f.Paused <= n.Now.UnixMilli() && f.Full():
			s.grade = full
		case by == ByBusy, f.Paused > n.Now.UnixMilli(),
			!f.Offer.Confirmed && (f.Offer.State == guild.Seen || f.Offer.State == guild.Benchmarking):
			s.grade = atLast
		case int64(f.Recent)+1 > max(1, int64(n.settings.Share)*int64(n.Total+1)/guild.Micro),
			f.Offer.State == guild.Reduced && n.skips(s.order):
			s.grade = anyway
		case f.Recent > 0 && n.Active < n.settings.Providers:
			s.grade = spread
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b standing) int { return cmp.Or(-cmp.Compare(a.score, b.score), cmp.Compare(a.order, b.order)) })
	return all
}

func (n naive) skips(order uint64) bool {
	d := throw(n.Job, n.Turn)
	return guild.Trust((d.more(0)^order*0x9e3779b97f4a7c15)>>11%guild.Micro) >= n.settings.Reduced
}

// references computes the medians by sorting.
func (n naive) references() references {
	var costs, trusted, latencies []int64
	qualified := 0
	for _, f := range n.services {
		if c := int64(f.cost()); c > 0 {
			costs = append(costs, c)
			if n.settings.Qualifies(&f) {
				trusted = append(trusted, c)
			}
		}
		if n.settings.Qualifies(&f) {
			qualified++
		}
		if f.Measured.Latency > 0 {
			latencies = append(latencies, f.Measured.Latency)
		}
	}
	if qualified < 3 {
		trusted = costs
	}
	r := references{cost: middle(trusted), latency: middle(latencies), total: least(bucket(int64(max(n.Total, 1))))}
	asked := map[int64]priced{}
	for _, f := range n.services {
		if cost := cmp.Or(int64(f.cost()), r.cost); f.Measured.Won+f.Measured.Lost > 0 {
			asked[cost] = priced{cost, asked[cost].known + 1, asked[cost].sound + count(f.Measured.Won > f.Measured.Lost)}
		}
	}
	for _, cost := range slices.Sorted(maps.Keys(asked)) {
		r.asked = append(r.asked, asked[cost])
	}
	if n.settings.Thompson > 0 {
		r.draw = drawOf(throw(n.Job, n.Turn).Faces)
	}
	return r
}

func middle(numbers []int64) int64 {
	if len(numbers) == 0 {
		return 0
	}
	slices.Sort(numbers)
	return least(bucket(numbers[(len(numbers)-1)/2]))
}

// best returns the chosen service when nothing is explored, or the zero service if none may be asked.
func (n naive) best() guild.Service {
	all := n.all()
	first := func(tier, grade int) (guild.Service, bool) {
		i := slices.IndexFunc(all, func(s standing) bool { return s.tier == tier && s.grade == grade })
		if i < 0 {
			return guild.Service{}, false
		}
		return all[i].Offer.Service, true
	}
	if n.settings.Thompson > 0 {
		slices.SortStableFunc(all, func(a, b standing) int { return cmp.Compare(a.grade, b.grade) })
		if len(all) == 0 {
			return guild.Service{}
		}
		best := all[0]
		for _, s := range all {
			if all[0].tier == tertiary && all[0].grade < full && s.tier < tertiary && s.grade == full &&
				(s.score > best.score || s.score == best.score && s.order < best.order) {
				best = s
			}
		}
		return best.Offer.Service
	}
	var there, busy [tiers]bool
	for _, s := range all {
		there[s.tier] = there[s.tier] || s.grade < full
		busy[s.tier] = true
	}
	if there == [tiers]bool{} {
		there = busy
	}
	tier := drawTier(n.settings.Routing, there, throw(n.Job, n.Turn).Faces[1])
	if tier < 0 {
		return guild.Service{}
	}
	for _, try := range order(tier) {
		if s, ok := first(try.tier, try.grade); ok {
			return s
		}
	}
	return guild.Service{}
}

func anyFacts(t *rapid.T, n int) Facts {
	f := Facts{Offer: guild.Offer{
		Service:    service(n),
		State:      rapid.SampledFrom([]guild.ProviderState{guild.Seen, guild.Active, guild.Active, guild.Reduced, guild.Warned, guild.Conditional, guild.Suspended, guild.Benchmarking}).Draw(t, "state"),
		Confidence: rapid.SampledFrom([]float64{1, 0.8, 0.6}).Draw(t, "confidence"),
		Confirmed:  rapid.Bool().Draw(t, "confirmed"),
		Price:      guild.Msat(rapid.Int64Range(0, 40).Draw(t, "price")),
		Slots:      rapid.IntRange(0, 4).Draw(t, "slots"),
	}, Met: rapid.Bool().Draw(t, "met"), Waiting: rapid.IntRange(0, 5).Draw(t, "waiting"), Queue: rapid.IntRange(0, 2).Draw(t, "queue"),
		Recent: rapid.IntRange(0, 3).Draw(t, "recent"), Given: rapid.IntRange(0, 5).Draw(t, "given"),
		Measured: Measured{Latency: rapid.Int64Range(0, 30).Draw(t, "latency"), Samples: rapid.IntRange(0, 15).Draw(t, "samples"),
			Won: rapid.IntRange(0, 12).Draw(t, "won"), Lost: rapid.IntRange(0, 12).Draw(t, "lost")}}
	soon := time.UnixMilli(1_700_000_000_000)
	switch minutes := time.Duration(rapid.Int64Range(0, 60).Draw(t, "minutes")) * time.Minute; rapid.IntRange(0, 5).Draw(t, "pause") {
	case 0:
		f.Paused = soon.Add(minutes).UnixMilli()
	case 1:
		f.Unpaid, f.Quoted = soon.Add(minutes).UnixMilli(), guild.Msat(rapid.Int64Range(0, 90).Draw(t, "quoted"))
	}
	if f.Met {
		f.Trust = guild.Trust(rapid.Int64Range(1, 9).Draw(t, "trust")) * 100_000
	}
	return f
}

// After any history, and whether the matrix is told of changes or compares everything itself, it must choose the same
// service as a full scan.
func TestMatrixAgreesWithFullScan(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint("told ", told), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { followsTheModel(t, told) })
		})
	}
}

func followsTheModel(t *rapid.T, told bool) {
	m := newMarket(quiet{}, told)
	m.settings.Epsilon, m.settings.Thompson = 0, rapid.SampledFrom([]int{0, 0, 5, Recent}).Draw(t, "sampled")
	for n := range rapid.IntRange(0, 20).Draw(t, "services") {
		m.services[service(n)] = anyFacts(t, n)
	}
	for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
		n := rapid.IntRange(0, 24).Draw(t, "service")
		switch rapid.IntRange(0, 9).Draw(t, "what") {
		case 0:
			m.loses(service(n))
		case 1:
			m.settings.Threshold = guild.Trust(rapid.IntRange(3, 9).Draw(t, "threshold")) * 100_000
		case 2:
			m.now = m.now.Add(20 * time.Minute)
		case 3:
			m.Forget()
		case 4, 5, 6:
			if f, ok := m.services[service(n)]; ok {
				f.Given = rapid.IntRange(0, 5).Draw(t, "now given")
				f.Waiting, f.Measured.Samples = rapid.IntRange(0, 9).Draw(t, "now waiting"), rapid.IntRange(0, 15).Draw(t, "now samples")
				m.sets(f)
			}
		default:
			m.sets(anyFacts(t, n))
		}
		for turn := range 3 {
			decidesAlike(t, m, step, turn)
		}
	}
}

func decidesAlike(t *rapid.T, m *market, step, turn int) {
	shut, busy := service(rapid.IntRange(0, 30).Draw(t, "excluded")), service(rapid.IntRange(0, 30).Draw(t, "busy"))
	var asked Query
	got, c, ok := m.asks(step, func(q *Query) {
		q.Turn, q.Low = turn, rapid.Bool().Draw(t, "low")
		q.Total, q.Active = rapid.IntRange(0, 12).Draw(t, "total"), rapid.IntRange(0, 4).Draw(t, "active")
		q.Exclude = func(f *Facts) string {
			switch f.Offer.Service {
			case shut:
				return "shut"
			case busy:
				return ByBusy
			}
			return ""
		}
		asked = *q
	})
	want := naive{m, asked}.best()
	if got.Offer.Service != want || ok != (want != guild.Service{}) {
		t.Fatalf("chose %v by %+v, want %v", got.Offer.Service, c, want)
	}
	if ok && !slices.ContainsFunc(c.Candidates, func(of fact.Candidate) bool { return of.Service == want }) {
		t.Fatalf("the choice does not name %v", want)
	}
	if len(c.Candidates) > 16 || len(c.Excluded) > 16 {
		t.Fatalf("%d candidates and %d exclusions", len(c.Candidates), len(c.Excluded))
	}
}

// quiet is a testing.TB that ignores failures, for code that cannot fail.
type quiet struct{ testing.TB }

func (quiet) Helper() {}
