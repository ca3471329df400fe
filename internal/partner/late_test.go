package partner

import (
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/policy"
	"guild/internal/registry"
)

// The end of a meeting and the move that begins it stand under different guards: one may be recorded while the other is
// being decided.
func TestAMoveThatBeginsAMeetingTooLateDoesNotSwallowWhatTheMeetingCameTo(t *testing.T) {
	f, s := NewFold(policy.Default()), guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 3}), D: "d"}
	for i, one := range []fact.Fact{
		fact.ProviderMoved{Service: s, From: guild.Seen, To: guild.Active},
		fact.ProviderMoved{Service: s, From: guild.Active, To: guild.Suspended, Signal: fact.SignalTimeouts},
		fact.MeetingBegan{Meeting: "m", Service: s, Task: "python", Asked: true},
		fact.MeetingEnded{Meeting: "m", Service: s, Task: "python", To: guild.Active, Runs: 3},
		fact.ProviderMoved{Service: s, From: guild.Suspended, To: guild.Benchmarking, Meeting: "m"},
	} {
		f.Apply(fact.Entry{Seq: uint64(i + 1), At: int64(i + 1), Facts: []fact.Fact{one}})
	}
	f.View(func(st *state) {
		r := st.Services.Of(registry.IDOf(s))
		next, ok := locked{f, st}.next(r, sight{}, 10)
		if !ok || next.From != guild.Benchmarking || next.To != guild.Active {
			t.Errorf("from %s next comes %+v", r.state(), next)
		}
	})
}
