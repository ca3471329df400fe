package trust

import (
	"slices"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/journal/fact"
)

// told is a fold to which a test applies changes of trust, hour by hour.
type told struct {
	*Fold
	t   *testing.T
	seq uint64
}

const someday = 20_000 * dayMs

func (f *told) change(at time.Duration, task string, n byte, from, to guild.Trust, pattern string, sure guild.Trust) {
	f.seq++
	f.Apply(fact.Entry{Seq: f.seq, At: someday + at.Milliseconds(), Facts: []fact.Fact{fact.TrustChanged{Task: task, Service: service(n),
		From: from, To: to, EMA: to, First: from == 0, Pattern: pattern, Confidence: sure}}})
}

// wants compares the alerts with want, in order, each as "rule task".
func (f *told) wants(what string, at time.Duration, want ...string) {
	f.t.Helper()
	var got []string
	for _, a := range f.Alerts(time.UnixMilli(someday + at.Milliseconds())) {
		got = append(got, strings.TrimSpace(a.Rule+" "+a.Task))
		if a.Text == "" || a.Means == "" || a.Advice == "" {
			f.t.Errorf("%s: %+v", what, a)
		}
	}
	if !slices.Equal(got, want) {
		f.t.Errorf("%s: %q, want %q", what, got, want)
	}
}

const week = 7 * 24 * time.Hour

// The subtests are the rows of section 5.5.4.
func TestAlerts(t *testing.T) {
	fresh := func(t *testing.T) *told { return &told{Fold: newFold(t), t: t} }
	t.Run("more than ten changes of a task in an hour", func(t *testing.T) {
		f := fresh(t)
		for n := range byte(10) {
			f.change(time.Duration(n)*time.Minute, "python", n+1, 0, 600_000, success, 900_000)
			f.change(time.Duration(n)*time.Minute, "go", n+1, 0, 600_000, success, 900_000)
		}
		f.wants("ten", 10*time.Minute)
		f.change(10*time.Minute, "python", 1, 600_000, 600_000, success, 900_000)
		f.wants("what moved nothing is no change", 10*time.Minute)
		f.change(10*time.Minute, "python", 1, 600_000, 610_000, success, 900_000)
		f.wants("eleven", 59*time.Minute, AlertFrequency+" python")
		f.wants("an hour after the first", time.Hour)
	})
	t.Run("three reversals in ten changes", func(t *testing.T) {
		f := fresh(t)
		f.change(0, "python", 1, 0, 600_000, success, 900_000)
		for n := range 3 {
			f.change(time.Duration(2*n+1)*time.Hour, "python", 1, 600_000, 550_000, failed, 900_000)
			if n == 1 {
				f.wants("two", 5*time.Hour)
			}
			f.change(time.Duration(2*n+2)*time.Hour, "python", 1, 550_000, 600_000, success, 900_000)
		}
		f.wants("five", 9*time.Hour, AlertOscillation+" python")
		f.seq++
		f.Apply(fact.Entry{Seq: f.seq, At: someday, Facts: []fact.Fact{fact.TrustChanged{Task: "python", Service: service(1), From: 600_000, To: 500_000, Rule: fact.RuleOwner}}})
		f.wants("the owner began anew", 9*time.Hour)
	})
	t.Run("more than half of the entries at a bound", func(t *testing.T) {
		f := fresh(t)
		f.change(0, "python", 1, 0, 900_000, success, 900_000)
		f.change(0, "go", 2, 0, 100_000, success, 900_000)
		f.change(0, "python", 3, 0, 600_000, success, 900_000)
		f.change(0, "python", 4, 0, 600_000, success, 900_000)
		f.wants("two of four", time.Hour)
		f.change(0, "python", 5, 0, 900_000, success, 900_000)
		f.wants("three of five", time.Hour, AlertSaturation)
	})
	t.Run("a week without a change although verdicts come", func(t *testing.T) {
		f := fresh(t)
		f.change(0, "python", 1, 0, 600_000, success, 900_000)
		f.change(0, "go", 2, 0, 900_000, success, 900_000)
		f.change(0, "rust", 3, 0, 600_000, success, 900_000)
		f.change(week-time.Hour, "python", 1, 600_000, 600_000, success, 900_000)
		f.change(week-time.Hour, "go", 2, 900_000, 900_000, success, 900_000)
		f.wants("just before", week-time.Minute)
		f.wants("who is at a bound cannot move, and of whom nothing is heard need not", week, AlertSuppression+" python")
		f.change(week+time.Hour, "python", 1, 600_000, 610_000, success, 900_000)
		f.wants("it moved", week+2*time.Hour)
	})
	t.Run("a median confidence below a half within a day", func(t *testing.T) {
		f := fresh(t)
		f.change(0, "python", 1, 0, 600_000, success, 499_999)
		f.change(0, "python", 1, 600_000, 610_000, success, 500_000)
		f.change(time.Hour, "python", 1, 610_000, 620_000, success, 500_000)
		f.wants("the middle one is a half", 2*time.Hour)
		f.change(2*time.Hour, "python", 1, 620_000, 630_000, success, 250_000)
		f.wants("the lower of the middle two is not", 3*time.Hour, AlertConfidence)
		f.wants("a day after that", 27*time.Hour)
	})
}
