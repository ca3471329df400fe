package verify

import (
	"errors"
	"fmt"

	"guild"
	"guild/receipt"
)

// strengths are the counts of a verdict. Verdicts from before tests had strengths have none.
type strengths guild.Strengths

// excused reports whether a test did not pass by no fault of the delivery. It counts in neither outcome nor score.
func (t test) excused() bool {
	return t.State != guild.TestPassed && t.Blame != "" && t.Blame != guild.BlameDelivery
}

// beside reports whether a test does not decide while there are others.
func (t test) beside() bool {
	return t.Layer == guild.LayerEdge || t.Layer == guild.LayerSecurity || t.Layer == guild.LayerPerformance
}

// deciding returns the functional tests, or all if there are none.
func deciding(tests []test) []test {
	var list []test
	for _, t := range tests {
		if !t.beside() {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return tests
	}
	return list
}

// checkStrength checks that strength, exposure and blame have values of their lists, that the counts are those of the
// tests, and that the strength is possible with the counts. sameTests compares it with the findings.
func (v verdict) checkStrength() error {
	for _, t := range v.Tests {
		if err := t.check(); err != nil {
			return err
		}
	}
	if v.Strengths == nil {
		if v.Strength != guild.Strong && v.Strength != guild.Weak {
			return fmt.Errorf("a strength of %.40q without counts", v.Strength)
		}
		return nil
	}
	var n strengths
	all := true
	for _, t := range deciding(v.Tests) {
		if t.State != guild.TestPassed {
			all = false
			continue
		}
		switch t.Strength {
		case guild.Strong:
			n.Strong++
		case guild.Mixed:
			n.Mixed++
		case guild.Weak:
			n.Weak++
		}
		switch t.Exposure {
		case guild.Visible:
			n.Visible++
		case guild.Hidden:
			n.Hidden++
		case guild.Drawn:
			n.Drawn++
		}
	}
	if n != *v.Strengths {
		return fmt.Errorf("its counts of strengths are %+v, and of its tests they would be %+v", *v.Strengths, n)
	}
	possible := false
	switch v.Strength {
	case guild.Strong:
		possible = all && n.Strong > 0
	case guild.Mixed:
		possible = n.Strong+n.Mixed > 0
	case guild.Weak:
		possible = true
	case guild.Unverified:
		possible = v.Opinion != nil || n.Strong+n.Mixed+n.Weak == 0
	}
	if !possible || v.Opinion != nil && v.Strength != guild.Unverified {
		return fmt.Errorf("a strength of %.40q with %d strong, %d mixed and %d weak tests", v.Strength, n.Strong, n.Mixed, n.Weak)
	}
	return nil
}

// sameInReceipt checks that the receipt states the score and the strength of the verdict, if it states any. Receipts
// from before tests had strengths do not.
func (v verdict) sameInReceipt(r receipt.Receipt) error {
	if r.Strengths == nil {
		return nil
	}
	if v.Strengths == nil || r.Score == nil || strengths(*r.Strengths) != *v.Strengths || r.Strength != v.Strength || *r.Score != v.Score {
		return errors.New("its score, strength or counts are not those of the receipt")
	}
	return nil
}

// check checks the fields that tell what a test is worth.
func (t test) check() error {
	switch t.Strength {
	case "", guild.Strong, guild.Mixed, guild.Weak, guild.Unverified:
	default:
		return fmt.Errorf("a test with the strength %.40q", t.Strength)
	}
	switch t.Exposure {
	case "", guild.Visible, guild.Hidden, guild.Drawn:
	default:
		return fmt.Errorf("a test with the exposure %.40q", t.Exposure)
	}
	switch t.Blame {
	case "", guild.BlameDelivery, guild.BlameTests, guild.BlameJudge, guild.BlameMachine:
	default:
		return fmt.Errorf("a test with the blame %.40q", t.Blame)
	}
	if t.Strength != "" && t.State != guild.TestPassed || t.Blame != "" && t.State == guild.TestPassed {
		return errors.New("a test that did not pass with a strength, or one that passed with a blame")
	}
	return nil
}

// strengthOf returns the strength of a verdict on findings: strong if every functional test passed and each functional
// criterion is strong, mixed if some are strong or mixed, weak otherwise, and unverified if no criterion was tried.
func strengthOf(list []finding) guild.Strength {
	var tests []test
	tried := false
	for _, f := range list {
		tests = append(tests, f.Tests...)
		tried = tried || len(f.Runs) > 0 || f.Fault != "" || len(f.Breaches) > 0
		for _, t := range f.Tests {
			tried = tried || t.State == guild.TestFailed
		}
	}
	if !tried {
		return guild.Unverified
	}
	decide := deciding(tests)
	every := len(decide) > 0 && decide[0].beside() // tests of every layer decide
	strong, some := passed(decide) == len(decide), false
	for _, f := range list {
		own := []test(f.Tests)
		if !every {
			own = nil
			for _, t := range f.Tests {
				if !t.beside() {
					own = append(own, t)
				}
			}
		}
		if len(own) == 0 && len(f.Tests) > 0 {
			continue
		}
		got := passed(own) > 0
		strong = strong && got && f.Strength == guild.Strong
		some = some || got && (f.Strength == guild.Strong || f.Strength == guild.Mixed)
	}
	switch {
	case strong:
		return guild.Strong
	case some:
		return guild.Mixed
	}
	return guild.Weak
}

// weakest returns the strength of a verdict without counts: that of its weakest finding.
func weakest(list []finding) guild.Strength {
	for _, f := range list {
		if f.Strength != guild.Strong {
			return guild.Weak
		}
	}
	if len(list) == 0 {
		return guild.Weak
	}
	return guild.Strong
}

func passed(tests []test) (n int) {
	for _, t := range tests {
		if t.State == guild.TestPassed {
			n++
		}
	}
	return n
}
