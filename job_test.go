package guild_test

import (
	"testing"

	"guild"
)

func TestEndingWithQuorum(t *testing.T) {
	a, p, r, v := guild.Accepted, guild.Partially, guild.Rejected, guild.Violated
	for _, c := range []struct {
		level    guild.Criticality
		attempts []guild.State
		agreeing int
		want     guild.Ending
	}{
		{guild.Low, []guild.State{r, a}, 1, guild.JobAccepted},
		{guild.Medium, []guild.State{a, r}, 1, guild.JobAccepted},
		{guild.High, []guild.State{a, a, r}, 2, guild.JobAccepted},
		{guild.High, []guild.State{a, a, r}, 1, guild.JobDisagreed},
		{guild.High, []guild.State{a, p, r}, 1, guild.JobDisagreed},
		{guild.High, []guild.State{a, v, r}, 1, guild.JobViolated},
		{guild.High, []guild.State{a, a, v}, 2, guild.JobAccepted},
		{guild.High, []guild.State{p, r, r}, 0, guild.JobPartial},
		{guild.Critical, []guild.State{a, a, a, a}, 2, guild.JobDisagreed},
		{guild.Critical, []guild.State{a, a, a, a}, 3, guild.JobAccepted},
		{guild.Critical, nil, 0, guild.JobUnclaimed},
	} {
		var attempts []guild.Attempt
		for _, s := range c.attempts {
			attempts = append(attempts, guild.Attempt{State: s})
		}
		if got := c.level.EndingOf(attempts, c.agreeing); got != c.want {
			t.Errorf("%s %v, %d agree: %q, want %q", c.level, c.attempts, c.agreeing, got, c.want)
		}
	}
}

func TestCriticalityLevels(t *testing.T) {
	for _, c := range []struct {
		text             string
		want             guild.Criticality
		replicas, quorum int
	}{{"", guild.Low, 1, 1}, {"low", guild.Low, 1, 1}, {"medium", guild.Medium, 2, 1}, {"high", guild.High, 3, 2}, {"critical", guild.Critical, 5, 3}} {
		got, err := guild.ParseCriticality(c.text)
		if err != nil || got != c.want || got.Replicas() != c.replicas || got.Quorum() != c.quorum {
			t.Errorf("%q is %s: %d and %d, %v", c.text, got, got.Replicas(), got.Quorum(), err)
		}
	}
	for _, text := range []string{"HIGH", "vital", " "} {
		if _, err := guild.ParseCriticality(text); err == nil {
			t.Errorf("%q is a level", text)
		}
	}
}
