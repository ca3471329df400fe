package guild_test

import (
	"testing"

	"guild"
)

// TestReleasedAfterAFailure checks that an attempt whose provider gets money by an arbiter's ruling has failed all the same.
func TestReleasedAfterAFailure(t *testing.T) {
	for _, state := range []guild.State{guild.Rejected, guild.Violated, guild.Expired, guild.Refused, guild.Cancelled, guild.Parked} {
		a := guild.Attempt{State: state}
		if err := a.Move(guild.Released); err != nil || a.Outcome() != state || guild.EndingOf([]guild.Attempt{a}) == guild.JobAccepted {
			t.Errorf("%s: %v, %s", state, err, a.Outcome())
		}
	}
}
