package route

import (
	"encoding/binary"
	"fmt"
	"iter"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/policy"
)

// market is a source that a test can change. It counts how often it is read.
type market struct {
	*Matrix
	settings Settings
	now      time.Time
	services map[guild.Service]Facts
	reads    int
}

// newMarket starts with the given services. If told is true, the matrix relies on Touch.
func newMarket(t testing.TB, told bool, all ...Facts) *market {
	t.Helper()
	p := policy.Specification()
	hash, err := p.Hash()
	if err != nil {
		t.Fatal(err)
	}
	m := &market{settings: Settings{Routing: p.Routing, Hash: hash}, now: time.UnixMilli(1_700_000_000_000), services: map[guild.Service]Facts{}}
	for _, f := range all {
		m.services[f.Offer.Service] = f
	}
	source := Source{All: m.all, Facts: func(_ string, o guild.Offer, _ time.Time) Facts { return m.services[o.Service] }}
	if told {
		source.One = m.one
	}
	m.Matrix = New(source, []byte("salt"))
	return m
}

func (m *market) all(string, int) iter.Seq[guild.Offer] {
	return func(yield func(guild.Offer) bool) {
		for _, f := range m.services {
			if !yield(f.Offer) {
				return
			}
		}
	}
}

func (m *market) one(s guild.Service, _ string, _ int) (guild.Offer, bool) {
	m.reads++
	f, ok := m.services[s]
	return f.Offer, ok
}

// sets changes a service and reports it.
func (m *market) sets(f Facts) {
	m.services[f.Offer.Service] = f
	m.Touch(f.Offer.Service)
}

// loses removes a service and reports it.
func (m *market) loses(s guild.Service) {
	delete(m.services, s)
	m.Touch(s)
}

// scope returns the scope of a task, for unimportant work.
func (m *market) scope(task string) Scope {
	return Scope{Task: task, Kind: 5000, Settings: m.settings, Now: m.now, Low: true}
}

// asks lets the matrix decide the n-th job.
func (m *market) asks(n int, change func(*Query)) (Facts, choice, bool) {
	q := Query{Scope: m.scope("python"), Job: jobOf(n), Exclude: func(*Facts) string { return "" }, Explain: func(*Facts, string) string { return "because" }}
	if change != nil {
		change(&q)
	}
	f, c, ok := m.Choose(q)
	return f, choice(c), ok
}

func jobOf(n int) (id guild.JobID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

func service(n int) guild.Service {
	var key nostr.PubKey
	binary.BigEndian.PutUint64(key[:], uint64(n)+1)
	return guild.Service{PubKey: key, D: "python"}
}

// met returns the n-th service, with the given trust and full measurements.
func met(n int, trust guild.Trust) Facts {
	return Facts{Offer: guild.Offer{Service: service(n), Name: fmt.Sprint("service ", n), State: guild.Active, Confidence: 1, Confirmed: true, Price: 1000},
		Trust: trust, Met: true, Measured: Measured{Samples: 20, Latency: 1000, Verified: 1}}
}

// unmet returns the n-th service without any measurements.
func unmet(n int) Facts {
	return Facts{Offer: guild.Offer{Service: service(n), State: guild.Seen, Confidence: 1, Confirmed: true}}
}
