package meet

import (
	"encoding/binary"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

func TestNextNewcomer(t *testing.T) {
	of := func(n byte, change func(*newcomer)) newcomer {
		one := newcomer{Offer: seen(n, 1), since: int64(n), rating: guild.Micro / 2}
		change(&one)
		return one
	}
	plain := func(*newcomer) {}
	chance := func(s guild.Service) (h guild.Hash) {
		if s == service(2) {
			h[0] = 2
		}
		return h
	}
	work := func(bits int) func(*newcomer) { return func(n *newcomer) { n.Work = bits } }
	for _, c := range []struct {
		name string
		all  []newcomer
		turn int
		want byte
	}{
		{"recommended before plain", []newcomer{of(1, plain), of(2, func(n *newcomer) { n.Recommended = 1 })}, 0, 2},
		{"followed", []newcomer{of(1, plain), of(2, func(n *newcomer) { n.Followed = true })}, 0, 2},
		{"well reviewed", []newcomer{of(1, plain), of(2, func(n *newcomer) { n.rating++ })}, 0, 2},
		{"badly reviewed is not recommended", []newcomer{of(1, plain), of(2, func(n *newcomer) { n.rating-- })}, 0, 1},
		{"the surest of two recommended", []newcomer{of(1, func(n *newcomer) { n.Recommended, n.Confidence = 3, 0.8 }),
			of(2, func(n *newcomer) { n.Recommended = 1 })}, 0, 2},
		{"more work first", []newcomer{of(1, work(20)), of(2, work(21))}, 2, 2},
		{"too little work", []newcomer{of(1, plain), of(2, work(19))}, 2, 1},
		{"a share for those without work", []newcomer{of(1, plain), of(2, work(40))}, 1, 1},
		{"the longest wait", []newcomer{of(2, plain), of(1, func(n *newcomer) { n.since = 9 })}, 1, 2},
		{"by chance", []newcomer{of(2, plain), of(1, func(n *newcomer) { n.since = 9 })}, 3, 1},
		{"by chance the surest", []newcomer{of(1, func(n *newcomer) { n.Confidence = 0.6 }), of(2, plain)}, 3, 2},
		{"by chance never met before", []newcomer{of(1, func(n *newcomer) { n.met = true }), of(2, plain)}, 3, 2},
		{"the turn begins again", []newcomer{of(1, plain), of(2, func(n *newcomer) { n.Recommended = 1 })}, 4, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := next(c.all, c.turn, chance); got == nil || got.Service != service(c.want) {
				t.Errorf("got %v, want %d", got, c.want)
			}
		})
	}
	if next(nil, 0, chance) != nil {
		t.Error("a newcomer of none")
	}
}

// flood is a market of keys that never answer, and one honest newcomer. It needs no journal, because meet decides by
// its fold and the offers only.
type flood struct {
	*Meet
	now    time.Time
	entry  uint64
	offers []guild.Offer
}

const aDay = 24 * time.Hour

// newFlood returns a market in which a number of keys were seen before the honest newcomer, and count meetings a day.
func newFlood(keys, count int, secret byte, honest guild.Offer) *flood {
	f := &flood{now: time.Unix(1_790_000_000, 0).UTC().Truncate(aDay)}
	for n := range keys {
		var key nostr.PubKey
		binary.BigEndian.PutUint64(key[:], uint64(n+1))
		f.offers = append(f.offers, guild.Offer{Service: guild.Service{PubKey: key}, State: guild.Seen, Confidence: 1,
			First: f.now.Add(-aDay).UnixMilli() + int64(n)})
	}
	honest.First += f.now.UnixMilli()
	f.offers = append(f.offers, honest)
	f.Meet = New(Config{Count: count, Auto: true, Secret: []byte{secret}, Self: self, Kind: guild.KindOf, Offers: func(task string, _ int) iter.Seq[guild.Offer] {
		if task == "shell" {
			return slices.Values(f.offers)
		}
		return slices.Values[[]guild.Offer](nil)
	}}, NewFold())
	return f
}

// silent writes a meeting in which nobody answers.
func (f *flood) silent(began fact.MeetingBegan) {
	job := jobOf(began.Meeting, 1)
	f.write(began, fact.JobOpened{Job: job, Meeting: &fact.Benchmark{Meeting: began.Meeting, Run: 1}})
	f.write(silence(job)...)
	g, _ := f.fold.Meeting(began.Meeting)
	c, over := conclude(g, usual)
	if !over {
		panic("a silent meeting goes on")
	}
	f.write(fact.MeetingEnded{Meeting: began.Meeting, Service: began.Service, To: c.To, Runs: 1, Cause: c.Cause})
}

func (f *flood) write(facts ...fact.Fact) {
	f.entry++
	f.fold.Apply(fact.Entry{Seq: f.entry, At: f.now.UnixMilli(), Facts: facts})
}

// days returns the number of days until a service is met.
func (f *flood) days(s guild.Service) int {
	for day := 1; ; day++ {
		for {
			began, ok := f.candidate(f.now)
			if !ok {
				break
			}
			if began.Service == s {
				return day
			}
			f.silent(began)
			f.now = f.now.Add(time.Second)
		}
		f.now = f.now.Truncate(aDay).Add(aDay)
	}
}

// The list in docs/TRUST.md has the days until an honest newcomer is met, when silent keys came the day before it.
func TestSybilFlood(t *testing.T) {
	page, err := os.ReadFile("../../../docs/TRUST.md")
	if err != nil {
		t.Fatal(err)
	}
	one := seen(1, 1)
	for _, c := range []struct {
		name   string
		count  int
		change func(*guild.Offer)
	}{
		{"recommended by a followed key", 2, func(o *guild.Offer) { o.Recommended = 1 }},
		{"has the most proof of work", 2, func(o *guild.Offer) { o.Work = least }},
		{"was seen before the flood", 2, func(o *guild.Offer) { o.First = -2 * aDay.Milliseconds() }},
		{"nothing of that", 2, func(*guild.Offer) {}},
		{"nothing of that, with `count = 20`", 20, func(*guild.Offer) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			honest := one
			c.change(&honest)
			row, before := "- "+c.name, ": "
			for _, keys := range []int{60, 600, 6000} {
				if keys == 6000 && strings.HasPrefix(c.name, "nothing") && os.Getenv("GUILD_SOAK") == "" {
					break // it takes minutes
				}
				var all []int
				for secret := range byte(3) {
					all = append(all, newFlood(keys, c.count, secret, honest).days(honest.Service))
				}
				row += before + spread(all)
				before = ", "
			}
			if !strings.Contains(string(page), row) {
				t.Errorf("docs/TRUST.md has no row\n%s", row)
			}
		})
	}
}

// spread returns the least and the greatest of some numbers.
func spread(all []int) string {
	if least, most := slices.Min(all), slices.Max(all); least < most {
		return fmt.Sprintf("%d to %d", least, most)
	}
	return fmt.Sprint(all[0])
}
