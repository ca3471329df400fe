package suite

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// number parses a number as the requirements define it: an optional minus and one to nine digits.
func number(s string) (int, bool) {
	digits := s
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) < 1 || len(digits) > 9 {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, false
		}
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}

// numbers parses lines that must all be numbers.
func numbers(lines []string) ([]int, bool) {
	all := make([]int, len(lines))
	for i, l := range lines {
		n, ok := number(l)
		if !ok {
			return nil, false
		}
		all[i] = n
	}
	return all, true
}

// remainder returns n modulo by; it is never negative.
func remainder(n, by int) int { return ((n % by) + by) % by }

// sampleNumbers draws lines that are numbers.
func sampleNumbers(d *dice, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = strconv.Itoa(d.between(-49, 99))
	}
	return lines
}

// badNumbers returns inputs that must be refused, and some that must be accepted.
func badNumbers() [][]string {
	return [][]string{
		{"7"}, {"-0", "0"}, {"999999999", "-999999999", "999999999"}, {"007", "7"}, {"1", "", "2"}, {"1", "+2"},
		{" 1", "2"}, {"1 ", "2"}, {"1", "1000000000"}, {"1", "2.0"}, {"-", "1"}, {"--1", "1"}, {"1", "two"}, {"0", "0", "0", "0"},
	}
}

func itself(token string) []string { return []string{token} }

// pairs counts pairs of lines by the remainder of their sum. Trying every pair takes too long.
func pairs(d *dice) exercise {
	by := d.between(3, 11)
	rest, times, plus := d.below(by), d.between(2, 9), d.between(1, 99)
	return exercise{
		text: fmt.Sprintf("Counts pairs. Each line is a number. Count the pairs of two different lines whose sum, divided by `%d`, "+
			"leaves the remainder `%d` (a remainder is never negative; lines with the same number are still different lines). "+
			"The answer is one line: that count times `%d`, plus `%d`.", by, rest, times, plus),
		solve: func(lines []string) ([]string, bool) {
			all, ok := numbers(lines)
			seen := make([]int, by)
			count := 0
			for _, n := range all {
				count += seen[remainder(rest-n, by)]
				seen[remainder(n, by)]++
			}
			return []string{strconv.Itoa(count*times + plus)}, ok
		},
		sample: sampleNumbers, edges: badNumbers(), hostile: itself, size: 30_000,
	}
}

// stretch finds the longest run of lines with a divisible sum. Trying every run takes too long.
func stretch(d *dice) exercise {
	by, base := d.between(5, 23), d.below(2)
	which, none := pick(d, []string{"first", "last"}), pick(d, []string{"none", "nothing", "-", "0"})
	sep := pick(d, []string{" ", ":", "+", "/"})
	return exercise{
		text: fmt.Sprintf("Finds a stretch. Each line is a number. Among all stretches of one or more neighbouring lines whose sum is "+
			"divisible by `%d` find the longest; of several equally long ones, the `%s`. The answer is one line: the number of the "+
			"stretch's first line, counting lines from `%d`, then `%s`, then how many lines it has. If there is no such stretch, "+
			"the answer is `%s`.", by, which, base, sep, none),
		solve: func(lines []string) ([]string, bool) {
			all, ok := numbers(lines)
			first := map[int]int{0: 0}
			sum, start, long := 0, 0, 0
			for i, n := range all {
				sum = remainder(sum+n, by)
				at, seen := first[sum]
				if !seen {
					first[sum] = i + 1
				} else if l := i + 1 - at; l > long || l == long && which == "last" {
					start, long = at, l
				}
			}
			if long == 0 {
				return []string{none}, ok
			}
			return []string{fmt.Sprintf("%d%s%d", start+base, sep, long)}, ok
		},
		sample: sampleNumbers, edges: badNumbers(), hostile: itself, size: 30_000,
	}
}

// ranges joins ranges that are close to each other. Comparing each with each takes too long.
func ranges(d *dice) exercise {
	gap := d.between(1, 9)
	sep := pick(d, []string{"..", "-", " ", "~"})
	const byStart, byLength = "their start", "their length, the longest first, and by their start where that is equal"
	order := pick(d, []string{byStart, byLength})
	return exercise{
		text: fmt.Sprintf("Joins ranges. Each line is two numbers with one space between them: where a range starts, and how long it is, "+
			"which is 1 or more. A range ends at its start plus its length. Ranges that overlap or touch, and ranges with at most `%d` "+
			"between the end of the one and the start of the other, are joined into one, again and again. The answer is one line for each "+
			"range that is left: its start, `%s`, and its end. They are ordered by `%s`.", gap, sep, order),
		solve: func(lines []string) ([]string, bool) {
			var all [][2]int
			for _, l := range lines {
				a, b, ok := strings.Cut(l, " ")
				start, ok1 := number(a)
				long, ok2 := number(b)
				if !ok || !ok1 || !ok2 || long < 1 {
					return nil, false
				}
				all = append(all, [2]int{start, start + long})
			}
			left := join(all, gap)
			if order == byLength {
				slices.SortStableFunc(left, func(a, b [2]int) int { return cmp.Compare(b[1]-b[0], a[1]-a[0]) })
			}
			var out []string
			for _, r := range left {
				out = append(out, fmt.Sprintf("%d%s%d", r[0], sep, r[1]))
			}
			return out, true
		},
		sample: func(d *dice, n int) []string {
			lines := make([]string, n)
			for i := range lines {
				lines[i] = fmt.Sprintf("%d %d", d.between(-9, 20*n), d.between(1, 15))
			}
			return lines
		},
		edges: [][]string{
			{"5 1"}, {"5 0"}, {"5 -1"}, {"5"}, {"5  1"}, {" 5 1"}, {"5 1 2"}, {"5\t1"}, {"a 1"}, {"0 10", "3 2", "5 1"}, {"7 2", "7 2"},
			{fmt.Sprint(10+gap, " 3"), "0 10"}, {fmt.Sprint(11+gap, " 3"), "0 10"}, {"999999999 999999999", "-999999999 1"}, {"1 1", ""},
			{"0 2", "100 2", "50 2"},
		},
		hostile: func(token string) []string { return []string{token + " 1"} }, size: 8_000,
	}
}

// join joins ranges and returns them by their start.
func join(all [][2]int, gap int) [][2]int {
	slices.SortFunc(all, func(a, b [2]int) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	var left [][2]int
	for _, r := range all {
		if n := len(left); n > 0 && r[0] <= left[n-1][1]+gap {
			left[n-1][1] = max(left[n-1][1], r[1])
		} else {
			left = append(left, r)
		}
	}
	return left
}
