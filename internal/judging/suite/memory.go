package suite

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// sampleWords draws lines that are words, many of them repeated.
func sampleWords(d *dice, n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = d.word(min(169, n/2+2))
	}
	return lines
}

// cache keeps the values of a few keys.
func cache(d *dice) exercise {
	room, miss := d.between(3, 7), pick(d, []string{"miss", "none", "absent", "?"})
	const byUse, byAge = "that was named by a put or a get longest ago", "that came into the cache longest ago, whatever was done with it since"
	rule := pick(d, []string{byUse, byAge})
	return exercise{
		text: fmt.Sprintf("Keeps a cache. The cache has room for `%d` keys and is empty at first. Each line is `put KEY VALUE` or `get KEY`, "+
			"with one space between the words; a KEY and a VALUE are one or more characters other than spaces. `put` gives a key a value, in place of the one that "+
			"it may have. Before it adds a new key to a full cache, the key leaves `%s`. "+
			"The answer has one line for each `get`: the value of the key, or `%s` if it is not in the cache.", room, rule, miss),
		solve: func(lines []string) ([]string, bool) {
			values := map[string]string{}
			var order, out []string // order: the first key is dropped first
			touch := func(key string) {
				if i := slices.Index(order, key); i >= 0 && rule == byUse {
					order = append(slices.Delete(order, i, i+1), key)
				}
			}
			for _, l := range lines {
				f := strings.Split(l, " ")
				if slices.Contains(f, "") || !(len(f) == 3 && f[0] == "put" || len(f) == 2 && f[0] == "get") {
					return nil, false
				}
				value, there := values[f[1]]
				touch(f[1])
				switch {
				case f[0] == "get" && there:
					out = append(out, value)
					continue
				case f[0] == "get":
					out = append(out, miss)
					continue
				case !there && len(order) == room:
					delete(values, order[0])
					order = order[1:]
				}
				if !there {
					order = append(order, f[1])
				}
				values[f[1]] = f[2]
			}
			return out, true
		},
		sample: func(d *dice, n int) []string {
			lines := make([]string, n)
			for i := range lines {
				lines[i] = "get " + d.word(2*room)
				if d.below(2) == 0 {
					lines[i] = fmt.Sprintf("put %s %d", d.word(2*room), d.below(100))
				}
			}
			return lines
		},
		edges: [][]string{
			{"get a"}, {"put a 1", "get a"}, {"put a 1", "put a 2", "get a", "get A"}, {"put a"}, {"get a b"}, {"get"}, {"put a b c"}, {"get  a"},
			{"Get a"}, {"put a 1", ""}, {"delete a"}, {"put get put", "get get"}, {"put a ", "get a"}, {" get a"},
		},
		hostile: func(token string) []string { return []string{"put " + token + " " + token, "get " + token} }, size: 8_000,
	}
}

// words ranks words by frequency. Counting each one separately takes too long.
func words(d *dice) exercise {
	most := d.between(3, 8)
	form := pick(d, []string{"COUNT:WORD", "WORD:COUNT", "COUNT WORD", "WORD=COUNT", "COUNT*WORD"})
	const byFirst, byBytes, byBytesDown = "the one that comes first in the input", "the smaller one in byte order", "the greater one in byte order"
	tie := pick(d, []string{byFirst, byBytes, byBytesDown})
	return exercise{
		text: fmt.Sprintf("Ranks words. Each line is a word, whatever characters it has; empty lines are left out. The answer lists the `%d` words "+
			"that come most often, or all if there are fewer, the most frequent one first, and of equally frequent ones first `%s`. "+
			"Each line of it is `%s`, with the number of times and the word.", most, tie, form),
		solve: func(lines []string) ([]string, bool) {
			count := map[string]int{}
			place := map[string]int{}
			var all []string
			for i, l := range lines {
				if l == "" {
					continue
				}
				count[l]++
				if count[l] == 1 {
					all = append(all, l)
					place[l] = i
				}
			}
			slices.SortFunc(all, func(a, b string) int {
				ties := map[string]int{byFirst: cmp.Compare(place[a], place[b]), byBytes: cmp.Compare(a, b), byBytesDown: cmp.Compare(b, a)}
				return cmp.Or(cmp.Compare(count[b], count[a]), ties[tie])
			})
			var out []string
			for _, w := range all[:min(most, len(all))] {
				// The word is inserted last, because it may contain anything.
				out = append(out, strings.Replace(strings.Replace(form, "COUNT", fmt.Sprint(count[w]), 1), "WORD", w, 1))
			}
			return out, true
		},
		sample: sampleWords,
		edges: [][]string{
			{""}, {"a"}, {"a", "A", "a "}, {"", "", "b", ""}, {" ", " "}, {"b", "a"}, {"a", "b"}, {"WORD", "COUNT"}, {"b", "a", "c", "a", "b", "c"},
			{"z", "y", "x", "w", "v", "u", "t", "s", "r", "q"}, {"-1", "1", "+1"}, {"a:b", "a=b", "a*b"},
		},
		hostile: func(token string) []string { return []string{token, token, token} }, size: 12_000,
	}
}

// returns measures the distance to the previous occurrence of each line. Searching back for each line takes too long.
func returns(d *dice) exercise {
	plus, never := d.between(1, 50), pick(d, []string{"new", "never", "first", "!"})
	const exactly, folded = "exactly", "without regard to the case of the letters A to Z"
	how := pick(d, []string{exactly, folded})
	return exercise{
		text: fmt.Sprintf("Measures returns. The answer has one line for each line: how many lines ago the same line came last (1 for the line just "+
			"before), plus `%d`; or `%s` if it did not come before. Empty lines are lines like others. Lines are compared `%s`.", plus, never, how),
		solve: func(lines []string) ([]string, bool) {
			last := map[string]int{}
			var out []string
			for i, l := range lines {
				if how == folded {
					l = strings.ToLower(l)
				}
				if at, ok := last[l]; ok {
					out = append(out, fmt.Sprint(i-at+plus))
				} else {
					out = append(out, never)
				}
				last[l] = i
			}
			return out, true
		},
		sample: sampleWords,
		edges: [][]string{
			{"a"}, {"", ""}, {"a", "a", "a"}, {"a", "A", "a"}, {"a", "a ", " a"}, {"a", "b", "c", "a"}, {"", "x", ""}, {"new", "never", "new"},
			{"\t", " ", "\t"}, {"1", "01", "1"}, {"aZ", "Az", "AZ", "az"}, {"[", "{", "["},
		},
		hostile: func(token string) []string { return []string{token, "x", token} }, size: 10_000,
	}
}
