package replay

import (
	"cmp"
	"slices"
	"time"

	"guild/canon"
)

// Session is a whole trajectory: its calls with their results, its steps, its checks and its end. Compare compares two
// of them. The zero value is an empty session.
type Session struct {
	Start  SessionStart
	Calls  []Call
	Steps  []StepComplete
	Checks []Verification
	End    SessionEnd
	Others map[string]int // unknown events by name
}

// Call is a tool call with its result. Result is nil if there is none.
type Call struct {
	ToolCall
	Result *ToolResult
}

// Collect makes a session from the events that Read returned.
func Collect(events []Event) Session {
	s := Session{Others: map[string]int{}}
	open := map[string][]int{} // calls without a result, by id
	for _, e := range events {
		switch e := e.(type) {
		case SessionStart:
			s.Start = e
		case ToolCall:
			if h, err := canon.Hash(e.Params); err == nil {
				e.ParamsHash = h.String() // hash the params themselves: the recorded hash can be wrong
			}
			open[e.ID] = append(open[e.ID], len(s.Calls))
			s.Calls = append(s.Calls, Call{ToolCall: e})
		case ToolResult:
			if at := open[e.ID]; len(at) > 0 {
				s.Calls[at[0]].Result = &e
				open[e.ID] = at[1:]
			} else {
				s.Calls = append(s.Calls, Call{ToolCall{ID: e.ID}, &e})
			}
		case StepComplete:
			s.Steps = append(s.Steps, e)
		case Verification:
			s.Checks = append(s.Checks, e)
		case SessionEnd:
			s.End = e
		case Unknown:
			s.Others[e.Name]++
		}
	}
	return s
}

// Latency returns the sum of the latencies of all calls, in ms. Each is limited to MaxMs in both directions.
func (s Session) Latency() (sum int64) {
	for _, c := range s.Calls {
		if c.Result != nil {
			sum += min(max(c.Result.LatencyMs, -MaxMs), MaxMs)
		}
	}
	return sum
}

// Duration returns the time from start to end, or 0 if one of them has no valid time.
func (s Session) Duration() time.Duration {
	from, err1 := time.Parse(time.RFC3339Nano, s.Start.T)
	to, err2 := time.Parse(time.RFC3339Nano, s.End.T)
	if err1 != nil || err2 != nil {
		return 0
	}
	return max(0, to.Sub(from))
}

// Relation tells how a call of one session corresponds to a call of the other.
type Relation string

// The relations.
const (
	Same        Relation = "same"         // the same call with the same output
	OtherOutput Relation = "other output" // the same call with another output or exit code
	OtherParams Relation = "other params" // the same tool, called differently
	OnlyA       Relation = "only A"
	OnlyB       Relation = "only B"
)

// Pair is a call of one session and its counterpart in the other. At most one of A and B is nil.
type Pair struct {
	Relation Relation
	A, B     *Call
}

// Difference is the result of Compare.
type Difference struct {
	Pairs  []Pair // in the order of both
	Steps  bool   // the steps ended differently
	Checks bool   // other commands or exit codes
	Status bool   // the sessions ended differently
}

// Same reports whether the sessions are equal except for times, ids and policies.
func (d Difference) Same() bool {
	return !d.Steps && !d.Checks && !d.Status && !slices.ContainsFunc(d.Pairs, func(p Pair) bool { return p.Relation != Same })
}

// Compare aligns the calls of two sessions in three passes. The first finds the longest common sequence of calls with
// equal tool, params and output. The second aligns the calls between those by tool and params, the third aligns the
// rest by tool. Of very long sessions, a pass aligns only calls that occur once in each. Compare ignores times and
// latencies, because they differ between any two runs.
func Compare(a, b Session) Difference {
	return Difference{
		Pairs: align(a.Calls, b.Calls, byOutput, byParams, byTool),
		Steps: !slices.EqualFunc(a.Steps, b.Steps, func(x, y StepComplete) bool { return x.StepID == y.StepID && x.Status == y.Status }),
		Checks: !slices.EqualFunc(a.Checks, b.Checks, func(x, y Verification) bool {
			return slices.Equal(x.Commands, y.Commands) && slices.Equal(x.ExitCodes, y.ExitCodes)
		}),
		Status: a.End.Status != b.End.Status,
	}
}

// key returns the values by which two calls count as equal: the tool, with or without params and output.
type key func(Call) [3]string

func byTool(c Call) [3]string   { return [3]string{c.Tool} }
func byParams(c Call) [3]string { return [3]string{c.Tool, c.ParamsHash} }

func byOutput(c Call) [3]string {
	if c.Result == nil {
		return byParams(c)
	}
	return [3]string{c.Tool, c.ParamsHash, c.Result.OutputHash}
}

// align pairs calls with equal values of the first key, and aligns the calls between those pairs by the remaining
// keys.
func align(a, b []Call, keys ...key) (pairs []Pair) {
	if len(keys) == 0 {
		for i := range a {
			pairs = append(pairs, Pair{OnlyA, &a[i], nil})
		}
		for j := range b {
			pairs = append(pairs, Pair{OnlyB, nil, &b[j]})
		}
		return pairs
	}
	i, j := 0, 0
	for _, m := range common(numbered(a, b, keys[0])) {
		pairs = append(pairs, align(a[i:m[0]], b[j:m[1]], keys[1:]...)...)
		pairs = append(pairs, beside(&a[m[0]], &b[m[1]]))
		i, j = m[0]+1, m[1]+1
	}
	return append(pairs, align(a[i:], b[j:], keys[1:]...)...)
}

func beside(a, b *Call) Pair {
	x, y := a.Result, b.Result
	switch {
	case byParams(*a) != byParams(*b):
		return Pair{OtherParams, a, b}
	case x == nil && y == nil:
		return Pair{Same, a, b}
	case x == nil || y == nil || x.OutputHash != y.OutputHash:
		return Pair{OtherOutput, a, b}
	case (x.ExitCode == nil) != (y.ExitCode == nil) || x.ExitCode != nil && *x.ExitCode != *y.ExitCode:
		return Pair{OtherOutput, a, b}
	}
	return Pair{Same, a, b}
}

// numbered replaces each call by a number. Calls with equal keys get equal numbers.
func numbered(a, b []Call, by key) (x, y []int) {
	numbers := map[[3]string]int{}
	number := func(calls []Call) (all []int) {
		for _, c := range calls {
			n, known := numbers[by(c)]
			if !known {
				n = len(numbers)
				numbers[by(c)] = n
			}
			all = append(all, n)
		}
		return all
	}
	return number(a), number(b)
}

// maxTable limits the number of cells in the table of longest: 2,000 calls by 2,000.
const maxTable = 4_000_000

// common returns the index pairs of the longest common sequence, in order. It removes the equal beginning and end
// first, which keeps the table of longest small for similar sessions.
func common(a, b []int) (places [][2]int) {
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		places = append(places, [2]int{start, start})
		start++
	}
	endA, endB := len(a), len(b)
	var tail [][2]int
	for endA > start && endB > start && a[endA-1] == b[endB-1] {
		endA, endB = endA-1, endB-1
		tail = append(tail, [2]int{endA, endB})
	}
	slices.Reverse(tail)
	middle := longest
	if (endA-start)*(endB-start) > maxTable {
		middle = long
	}
	for _, p := range middle(a[start:endA], b[start:endB]) {
		places = append(places, [2]int{start + p[0], start + p[1]})
	}
	return append(places, tail...)
}

// longest computes the longest common sequence by dynamic programming, from the end.
func longest(a, b []int) (places [][2]int) {
	width := len(b) + 1
	table := make([]int32, (len(a)+1)*width)
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				table[i*width+j] = table[(i+1)*width+j+1] + 1
			} else {
				table[i*width+j] = max(table[(i+1)*width+j], table[i*width+j+1])
			}
		}
	}
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch {
		case a[i] == b[j]:
			places = append(places, [2]int{i, j})
			i, j = i+1, j+1
		case table[(i+1)*width+j] >= table[i*width+j+1]:
			i++
		default:
			j++
		}
	}
	return places
}

// long returns the longest common sequence of the numbers that occur once in each of a and b, in O(n log n). It
// replaces longest for sessions whose table would be too large.
func long(a, b []int) (places [][2]int) {
	inA, inB := once(a), once(b)
	type link struct {
		a, b int
		back *link
	}
	var ends []*link // ends[n] is the end of a sequence of length n+1; of all such, the one with the smallest b
	for i, n := range a {
		j, found := inB[n]
		if !found || j < 0 || inA[n] < 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(ends, j, func(l *link, j int) int { return cmp.Compare(l.b, j) })
		l := &link{a: i, b: j}
		if at > 0 {
			l.back = ends[at-1]
		}
		if at == len(ends) {
			ends = append(ends, l)
		}
		ends[at] = l
	}
	if len(ends) == 0 {
		return nil
	}
	for l := ends[len(ends)-1]; l != nil; l = l.back {
		places = append(places, [2]int{l.a, l.b})
	}
	slices.Reverse(places)
	return places
}

// once maps each number that occurs once to its index, and each other number to -1.
func once(numbers []int) map[int]int {
	at := map[int]int{}
	for i, n := range numbers {
		if _, twice := at[n]; twice {
			i = -1
		}
		at[n] = i
	}
	return at
}
