package agents

import "testing"

func TestLessonHarms(t *testing.T) {
	for _, c := range []struct {
		name          string
		with, without int
		want          bool
	}{
		{"nothing tried", 0, 0, false},
		{"four against none may be chance", 0, 4, false},
		{"five against none", 0, 5, true},
		{"eight against two may be chance", 2, 8, false},
		{"nine against two", 2, 9, true},
		{"it helps", 9, 2, false},
	} {
		if got := (Trials{Both: 3, With: c.with, Without: c.without}).Harms(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// The interval is that of Agresti and Min for their example of 1,600 ratings, and never leaves -1 to 1.
func TestGainOfLesson(t *testing.T) {
	gain, from, to := Trials{Both: 794, With: 86, Without: 150, Neither: 570}.Gain()
	if gain != -0.04 || from < -0.0590 || from > -0.0580 || to < -0.0215 || to > -0.0205 {
		t.Errorf("%.4f from %.4f to %.4f", gain, from, to)
	}
	if gain, from, to = (Trials{}).Gain(); gain != 0 || from != -1 || to != 1 {
		t.Errorf("without pairs: %v from %v to %v", gain, from, to)
	}
	if _, from, to = (Trials{With: 2}).Gain(); from < -1 || to > 1 || from >= to {
		t.Errorf("two pairs: from %v to %v", from, to)
	}
}
