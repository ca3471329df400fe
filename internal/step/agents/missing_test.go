package agents

import (
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/journal/fact"
)

func TestRelayThatNeverComesBack(t *testing.T) {
	f := NewFold()
	e := nostr.Event{ID: nostr.ID{1}}
	apply := func(one fact.Fact) { f.Apply(fact.Entry{Subject: fact.AgentsSubject, Facts: []fact.Fact{one}}) }
	apply(fact.AgentSigned{Event: e})
	now := time.UnixMilli(0)
	for {
		apply(fact.AgentPublished{Event: e.ID, Missing: []string{"wss://gone.example"}, At: now.UnixMilli()})
		st := f.Copy()
		m, ok := st.Missing.Get(e.ID.Hex())
		if !ok {
			break
		}
		if !m.ready().After(now) {
			t.Fatalf("sent again at %v, after %v", m.ready(), now)
		}
		now = m.ready()
	}
	if days := int(now.Sub(time.UnixMilli(0)).Hours() / 24); days != 10 {
		t.Errorf("sent for %d days", days)
	}
}
