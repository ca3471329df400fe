package jobs

import (
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Section 5.3.2 of the partnership protocol: the patience with a silent provider is the configured one times the factor of
// the variable, up to the job's deadline.
func TestPatienceFollowsTheVariable(t *testing.T) {
	for _, c := range []struct {
		what    string
		factor  guild.Trust
		timeout time.Duration
		want    time.Duration
	}{
		{"as configured", 0, time.Hour, 300 * time.Second},
		{"as configured", 1_000_000, time.Hour, 300 * time.Second},
		{"a fifth less", 800_000, time.Hour, 240 * time.Second},
		{"30 % more", 1_300_000, time.Hour, 390 * time.Second},
		{"half as much again", 1_500_000, time.Hour, 450 * time.Second},
		{"never beyond the deadline", 4_000_000, 10 * time.Minute, 10 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0))
			w.configures = func(into *Config) {
				into.Variables = variables{timeout: map[string]guild.Trust{"python": c.factor}}
			}
			w.restart()
			id := w.opens(Order{Timeout: c.timeout})
			if a := w.attempt(id); time.Duration(a.Silence-a.Asked)*time.Millisecond != c.want {
				t.Errorf("%s: %d ms", c.what, a.Silence-a.Asked)
			}
			w.pass(c.want - time.Second)
			w.wants(id, guild.Requested)
			w.pass(time.Second)
			w.wants(id, guild.Expired)
		})
	}
}

// Section 5.3.3: limits on the requests at once, of one provider and of all.
func TestParallelismFollowsTheVariable(t *testing.T) {
	says := func(n int) func(nostr.PubKey) (int, bool) {
		return func(p nostr.PubKey) (int, bool) { return n, p == alice.key }
	}
	all := func(n int) func() (int, bool) { return func() (int, bool) { return n, true } }
	for _, c := range []struct {
		what       string
		configured int
		atOnce     func(nostr.PubKey) (int, bool)
		all        func() (int, bool)
		want       int // of 30 requests to two providers
	}{
		{"as configured", 4, nil, nil, 8},
		{"it says nothing", 4, func(nostr.PubKey) (int, bool) { return 9, false }, func() (int, bool) { return 1, false }, 8},
		{"less of one", 4, says(3), nil, 7},
		{"never none", 4, says(0), nil, 5},
		{"more of one", 4, says(9), nil, 13},
		{"one less of many", 12, says(11), nil, 23},
		{"all together", 4, nil, all(5), 5},
		{"all together never none", 4, nil, all(0), 1},
		{"both", 4, says(1), all(100), 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, alice.offers(0), bob.offers(0))
			w.limits = Limits{AtOnce: c.configured, PerMinute: 1000}
			w.configures = func(into *Config) { into.Variables = variables{atOnce: c.atOnce, all: c.all} }
			w.restart()
			for range 30 {
				w.opens(Order{Timeout: time.Minute})
			}
			if n := w.fold.unanswered(); n != c.want {
				t.Errorf("%s: %d at once, want %d", c.what, n, c.want)
			}
			w.restart()
			if n := w.fold.unanswered(); n != c.want {
				t.Errorf("%s: %d after a restart", c.what, n)
			}
		})
	}
}

// variables are Variables that a test sets.
type variables struct {
	budget  map[string]guild.Msat
	timeout map[string]guild.Trust
	atOnce  func(nostr.PubKey) (int, bool)
	all     func() (int, bool)
}

func (v variables) Budget(task string) guild.Msat { return v.budget[task] }

func (v variables) Timeout(task string) guild.Trust { return v.timeout[task] }

func (v variables) Parallelism(p nostr.PubKey) (int, bool) {
	if v.atOnce == nil {
		return 0, false
	}
	return v.atOnce(p)
}

func (v variables) AtOnce() (int, bool) {
	if v.all == nil {
		return 0, false
	}
	return v.all()
}
