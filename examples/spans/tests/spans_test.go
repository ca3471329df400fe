package spans_test

import (
	"slices"
	"testing"

	. "example.org/spans"
)

func same(t *testing.T, got []Span, want ...Span) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestMergeOfNothingIsNothing(t *testing.T) {
	same(t, Merge(nil))
	same(t, Merge([]Span{}))
}

func TestMergeSorts(t *testing.T) {
	same(t, Merge([]Span{{7, 9}, {1, 3}}), Span{1, 3}, Span{7, 9})
}

func TestMergeJoinsOverlaps(t *testing.T) {
	same(t, Merge([]Span{{1, 5}, {3, 8}}), Span{1, 8})
}

func TestMergeJoinsSpansThatTouch(t *testing.T) {
	same(t, Merge([]Span{{5, 8}, {1, 5}}), Span{1, 8})
}

func TestMergeKeepsTheLongerOfTwoThatBeginTogether(t *testing.T) {
	same(t, Merge([]Span{{1, 9}, {1, 3}, {2, 4}}), Span{1, 9})
}

func TestMergeDropsEmptySpans(t *testing.T) {
	same(t, Merge([]Span{{4, 4}, {9, 2}, {1, 2}}), Span{1, 2})
}

func TestMergeLeavesItsArgumentAlone(t *testing.T) {
	given := []Span{{7, 9}, {1, 5}, {3, 8}}
	before := slices.Clone(given)
	same(t, Merge(given), Span{1, 9})
	same(t, given, before...)
}

func TestSubtractCutsAHoleIntoASpan(t *testing.T) {
	same(t, Subtract([]Span{{0, 10}}, []Span{{3, 5}}), Span{0, 3}, Span{5, 10})
}

func TestSubtractCutsTheEnds(t *testing.T) {
	same(t, Subtract([]Span{{0, 10}}, []Span{{8, 12}, {-4, 2}}), Span{2, 8})
}

func TestSubtractCanTakeEverything(t *testing.T) {
	same(t, Subtract([]Span{{0, 10}, {20, 30}}, []Span{{0, 15}, {15, 40}}))
}

func TestSubtractOfOneHoleFromManySpans(t *testing.T) {
	same(t, Subtract([]Span{{0, 4}, {6, 9}, {12, 15}}, []Span{{2, 13}}), Span{0, 2}, Span{13, 15})
}

func TestSubtractIgnoresEmptyHoles(t *testing.T) {
	same(t, Subtract([]Span{{0, 4}}, []Span{{2, 2}, {3, 1}}), Span{0, 4})
}

func TestSubtractLeavesItsArgumentsAlone(t *testing.T) {
	given, holes := []Span{{7, 9}, {1, 5}}, []Span{{8, 9}, {2, 3}}
	beforeGiven, beforeHoles := slices.Clone(given), slices.Clone(holes)
	same(t, Subtract(given, holes), Span{1, 2}, Span{3, 5}, Span{7, 8})
	same(t, given, beforeGiven...)
	same(t, holes, beforeHoles...)
}

func TestTotalCountsEachNumberOnce(t *testing.T) {
	if n := Total([]Span{{1, 5}, {3, 8}, {10, 12}, {4, 4}}); n != 9 {
		t.Errorf("got %d, want 9", n)
	}
}

// TestAgreesWithCountingOneByOne compares with a set of the numbers themselves.
func TestAgreesWithCountingOneByOne(t *testing.T) {
	for seed := range uint64(500) {
		given, holes := draw(seed*2+1), draw(seed*2+2)
		left := map[int64]bool{}
		each(given, func(n int64) { left[n] = true })
		each(holes, func(n int64) { delete(left, n) })
		got := Subtract(given, holes)
		if int64(len(left)) != Total(got) {
			t.Fatalf("%v minus %v: %d numbers are left, want %d", given, holes, Total(got), len(left))
		}
		each(got, func(n int64) {
			if !left[n] {
				t.Fatalf("%v minus %v: %d should not be left", given, holes, n)
			}
		})
	}
}

func each(spans []Span, do func(n int64)) {
	for _, s := range spans {
		for n := s.From; n < s.To; n++ {
			do(n)
		}
	}
}

// draw makes a few short spans out of a seed, always the same ones.
func draw(seed uint64) []Span {
	var spans []Span
	for range seed % 6 {
		seed = seed*6364136223846793005 + 1442695040888963407
		from := int64(seed>>33) % 40
		spans = append(spans, Span{from, from + int64(seed>>50)%9 - 1})
	}
	return spans
}
