package agents

import "math"

// Sum adds up trials of several bundles.
func Sum(all []Trials) (sum Trials) {
	for _, t := range all {
		sum.Both, sum.With, sum.Without, sum.Neither = sum.Both+t.Both, sum.With+t.With, sum.Without+t.Without, sum.Neither+t.Neither
	}
	return sum
}

// Pairs returns the number of pairs.
func (t Trials) Pairs() int { return t.Both + t.With + t.Without + t.Neither }

// Gain returns how much larger the share of tries that pass is with the lesson, with its 95 % interval: the adjusted Wald
// interval for matched pairs of Agresti and Min (Statistics in Medicine 24, 2005). Without pairs it is 0 from -1 to 1.
func (t Trials) Gain() (gain, from, to float64) {
	n := float64(t.Pairs())
	if n == 0 {
		return 0, -1, 1
	}
	difference, changed := float64(t.With-t.Without), float64(t.With+t.Without+1)
	n += 2
	middle, wide := difference/n, 1.96*math.Sqrt(changed-difference*difference/n)/n
	return difference / (n - 2), max(-1, middle-wide), min(1, middle+wide)
}

// Harms reports whether so many more pairs passed only without the lesson that chance does that in less than 5 of 100
// cases, if the lesson has no effect (the one-sided sign test).
func (t Trials) Harms() bool {
	n := t.With + t.Without
	chance, ways := 0.0, 1.0
	for k := 0; k <= t.With; k++ {
		chance += ways
		ways = ways * float64(n-k) / float64(k+1)
	}
	return t.Without > t.With && chance*math.Pow(0.5, float64(n)) < 0.05
}
