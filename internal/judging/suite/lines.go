package suite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// settings reads a small format with a separator and comments.
func settings(d *dice) exercise {
	sep, out, mark := pick(d, []string{"=", ":", "->", "|"}), pick(d, []string{"=", ": ", " is ", "/"}), pick(d, []string{"#", ";", "//", "%"})
	const first, last, joined = "the first value counts", "the last value counts", "all values count, in their order and with a comma between them"
	again, order := pick(d, []string{first, last, joined}), pick(d, []string{"ascending", "descending"})
	return exercise{
		text: fmt.Sprintf("Reads settings. A line that is empty, or that starts with `%s`, is left out. Every other line has a key, `%s`, and a value; "+
			"the first `%[2]s` of the line separates them. Spaces at both ends of a key and of a value are removed. A value may be empty; an empty key, and a line "+
			"without the separator, are not allowed. Where a key comes again, `%[3]s`. The answer has one line for each key, in `%[4]s` byte order of the keys: "+
			"the key, `%[5]s`, and its value.", mark, sep, again, order, out),
		solve: func(lines []string) ([]string, bool) {
			values := map[string]string{}
			for _, l := range lines {
				if l == "" || strings.HasPrefix(l, mark) {
					continue
				}
				key, value, ok := strings.Cut(l, sep)
				key, value = strings.Trim(key, " "), strings.Trim(value, " ")
				if !ok || key == "" {
					return nil, false
				}
				old, there := values[key]
				switch {
				case !there || again == last:
					values[key] = value
				case again == joined:
					values[key] = old + "," + value
				}
			}
			keys := slices.Sorted(maps.Keys(values))
			if order == "descending" {
				slices.Reverse(keys)
			}
			var answer []string
			for _, k := range keys {
				answer = append(answer, k+out+values[k])
			}
			return answer, true
		},
		sample: func(d *dice, n int) []string {
			lines := make([]string, n)
			for i := range lines {
				switch d.below(8) {
				case 0:
					lines[i] = mark + " " + d.word(50)
				case 1:
					lines[i] = fmt.Sprintf(" %s %s  %d ", d.word(40), sep, d.below(1000))
				default:
					lines[i] = fmt.Sprintf("%s%d%s%d", d.word(40), d.below(n/3+1), sep, d.below(1000))
				}
			}
			return lines
		},
		edges: [][]string{
			{""}, {mark}, {"a" + sep}, {sep + "1"}, {" " + sep + "1"}, {"a"}, {" "}, {"a" + sep + "1" + sep + "2"}, {" " + mark + sep + "x"}, {"a" + sep + mark},
			{"a" + sep + "1", "a" + sep + "2", "a " + sep + "3"}, {"A" + sep + "1", "a" + sep + "2", "_" + sep + "3"}, {mark + "a" + sep + "1", "", "b" + sep + "2"},
			{"a b" + sep + "c  d"},
		},
		hostile: func(token string) []string { return []string{"key" + sep + token} }, size: 6_000,
	}
}

// accounts adds up amounts by name.
func accounts(d *dice) exercise {
	sep, out := pick(d, []string{",", ";", "|", ":"}), pick(d, []string{" ", "=", ": ", "|"})
	least := d.between(-20, 60)
	const byFirst, byTotal = "the order in which the names come first", "the order of their totals, the greatest first, and in byte order of the names where those are equal"
	order := pick(d, []string{byFirst, byTotal})
	return exercise{
		text: fmt.Sprintf("Adds up accounts. Each line is a name, `%s`, and a number; the last `%[1]s` of the line separates them. A name has one or more characters. "+
			"The answer has one line for each name whose numbers add up to `%d` or more: the name, `%s`, and the sum. The lines are in `%s`.", sep, least, out, order),
		solve: func(lines []string) ([]string, bool) {
			total := map[string]int{}
			var names []string
			for _, l := range lines {
				at := strings.LastIndex(l, sep)
				if at < 1 {
					return nil, false
				}
				n, ok := number(l[at+len(sep):])
				if !ok {
					return nil, false
				}
				if _, there := total[l[:at]]; !there {
					names = append(names, l[:at])
				}
				total[l[:at]] += n
			}
			if order == byTotal {
				slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a, b)) })
			}
			var answer []string
			for _, n := range names {
				if total[n] >= least {
					answer = append(answer, fmt.Sprintf("%s%s%d", n, out, total[n]))
				}
			}
			return answer, true
		},
		sample: func(d *dice, n int) []string {
			lines := make([]string, n)
			for i := range lines {
				lines[i] = fmt.Sprintf("%s%d%s%d", d.word(40), d.below(n/8+1), sep, d.between(-40, 99))
			}
			return lines
		},
		edges: [][]string{
			{"a" + sep + "70"}, {"a" + sep + fmt.Sprint(least)}, {"a" + sep + fmt.Sprint(least-1)}, {sep + "1"}, {"a" + sep}, {"a"}, {""}, {"a" + sep + " 1"},
			{"a" + sep + "b" + sep + "80"}, {"a " + sep + "70", "a" + sep + "70"}, {"b" + sep + "99", "a" + sep + "99"}, {"a" + sep + "1.5"}, {"a" + sep + "+1"},
			{"a" + sep + "999999999", "a" + sep + "999999999"}, {"a" + sep + "90", "a" + sep + "-90"},
		},
		hostile: func(token string) []string { return []string{token + sep + "77"} }, size: 6_000,
	}
}

// disguise replaces characters of every line, and reverses some lines.
func disguise(d *dice) exercise {
	by, every := d.between(2, 24), d.between(2, 5)
	const stay, flip = "stay as they are", "become 9 minus the digit"
	digits := pick(d, []string{stay, flip})
	return exercise{
		text: fmt.Sprintf("Disguises lines. The answer has one line for each line. In each, the letters A to Z and a to z move on by `%d` places in the alphabet, "+
			"after the last going on at the first, and keep their case; the digits 0 to 9 `%s`; all else stays. After that the characters of every `%d`th line, "+
			"counting from the first, are put in reverse order.", by, digits, every),
		solve: func(lines []string) ([]string, bool) {
			out := make([]string, 0, len(lines))
			for i, l := range lines {
				b := []byte(l)
				for k, c := range b {
					switch {
					case 'a' <= c && c <= 'z':
						b[k] = 'a' + (c-'a'+byte(by))%26
					case 'A' <= c && c <= 'Z':
						b[k] = 'A' + (c-'A'+byte(by))%26
					case '0' <= c && c <= '9' && digits == flip:
						b[k] = '0' + '9' - c
					}
				}
				if (i+1)%every == 0 {
					slices.Reverse(b)
				}
				out = append(out, string(b))
			}
			return out, true
		},
		sample: func(d *dice, n int) []string {
			lines := make([]string, n)
			for i := range lines {
				lines[i] = fmt.Sprintf("%s %s-%d", d.word(169), d.word(169), d.below(1000))
			}
			return lines
		},
		edges: [][]string{
			{""}, {"z"}, {"Z", "z"}, {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, {" a", " a", " a", " a"}, {"a ", "a ", "a ", "a "}, {"", "", "ab", "", "ab"},
			{"0123456789", "0123456789"}, {"@[`{", "@[`{", "@[`{", "@[`{", "@[`{"}, {"\t\\\"'", "\t\\\"'", "\t\\\"'", "\t\\\"'"}, {"azAZ09"}, {strings.Repeat("xyz ", 500)},
		},
		hostile: func(token string) []string { return []string{token, token, token, token, token} }, size: 2_500,
	}
}

// paths resolves paths without looking at any file.
func paths(d *dice) exercise {
	denied, root := pick(d, []string{"denied", "outside", "no", "!"}), pick(d, []string{"/", ".", "root", "top"})
	joiner := pick(d, []string{":", ".", ">", " "}) // not "/": a part may end in "..", see attacks
	return exercise{
		text: fmt.Sprintf("Resolves paths. Each line is a path, and no file of that name is ever looked at. Its parts have `/` between them. One begins at the root: an empty part "+
			"and the part `.` change nothing, the part `..` leads one level up, and every other part one level down into what it names. A path that leads up from the "+
			"root at any point answers `%s`, even if it comes back. Every other path answers the parts that lead from the root to where it ends, with `%s` between them, "+
			"or `%s` if it ends at the root. The answer has one line for each line.", denied, joiner, root),
		solve: func(lines []string) ([]string, bool) {
			out := make([]string, 0, len(lines))
			for _, l := range lines {
				out = append(out, resolve(l, denied, joiner, root))
			}
			return out, true
		},
		sample: func(d *dice, n int) []string {
			lines := make([]string, n)
			for i := range lines {
				var parts []string
				for range d.between(1, 6) {
					parts = append(parts, pick(d, []string{"..", "..", ".", "", "...", d.word(169), d.word(169), d.word(169), d.word(169)}))
				}
				lines[i] = strings.Join(parts, "/")
			}
			return lines
		},
		edges: [][]string{
			{""}, {"/"}, {"."}, {".."}, {"a/.."}, {"a/../.."}, {"../a"}, {"a/../../a", "b"}, {"//a//b//"}, {"./a/./b/."}, {"...", "..../a"}, {" ", " /.."}, {"a b/c"},
			{strings.Repeat("a/", 300) + strings.Repeat("../", 300)}, {strings.Repeat("a/", 300) + strings.Repeat("../", 301)},
		},
		hostile: func(token string) []string { return []string{token, "/etc/../../" + token, "/proc/self/../" + token} }, size: 2_500,
	}
}

// resolve returns the answer to one path of the exercise.
func resolve(path, denied, joiner, root string) string {
	var at []string
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case part == "" || part == ".":
		case part != "..":
			at = append(at, part)
		case len(at) == 0:
			return denied
		default:
			at = at[:len(at)-1]
		}
	}
	if len(at) == 0 {
		return root
	}
	return strings.Join(at, joiner)
}
