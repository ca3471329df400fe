package nip89

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"filippo.io/age"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"guild"
)

// CanonicalD is the form of a d tag that the index uses: NFKC, case folded, runs of white space collapsed.
// Two spellings of one service are one service.
func CanonicalD(d string) string {
	if simple, ok := canonicalASCII(d); ok {
		return simple
	}
	d = cases.Fold().String(norm.NFKC.String(guild.Clean(d)))
	return strings.Join(strings.Fields(norm.NFKC.String(d)), " ")
}

// canonicalASCII is CanonicalD for printable ASCII, which nearly all d tags and words are and which Unicode has no
// further say about.
func canonicalASCII(d string) (string, bool) {
	plain := true
	for i := range len(d) {
		c := d[i]
		switch {
		case c < ' ' || c > '~':
			return "", false
		case c == ' ' || 'A' <= c && c <= 'Z':
			plain = false
		}
	}
	if plain {
		return d, true
	}
	return strings.Join(strings.Fields(strings.ToLower(d)), " "), true
}

// Word is the form in which tasks are compared: that of CanonicalD with dashes for spaces.
func Word(s string) string { return strings.ReplaceAll(CanonicalD(s), " ", "-") }

// claims are the kinds and words that one source, the tags or the content, names.
type claims struct {
	kinds []int
	words []string
}

// add reads one value: an integer, a word, or a list of them with commas between. What is over the limits is
// not looked at: an announcement could repeat itself for a long time.
func (c *claims) add(value string) {
	for part := range strings.SplitSeq(value, ",") {
		if len(c.kinds)+len(c.words) >= 2*MaxWords {
			return
		}
		part = Word(part)
		if kind, err := strconv.ParseUint(part, 10, 16); err == nil {
			c.kinds = append(c.kinds, int(kind))
		} else if part != "" && len(part) <= MaxValue {
			c.words = append(c.words, part)
		}
	}
}

// union is what any of the sources names, sorted, each once.
func union[T int | string](sources ...[]T) []T {
	all := slices.Concat(sources...)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), MaxWords)]
}

// intersection is what both sources name, sorted, each once.
func intersection(a, b []int) []int {
	return slices.DeleteFunc(union(a), func(k int) bool { return !slices.Contains(b, k) })
}

// without is what a names and b does not.
func without[T int | string](a, b []T) []T {
	return slices.DeleteFunc(union(a), func(x T) bool { return slices.Contains(b, x) })
}

// isRelayURL is the form check; whether there is a relay is found out by whoever calls it.
func isRelayURL(s string) bool {
	return len(s) <= MaxValue && (strings.HasPrefix(s, "wss://") || strings.HasPrefix(s, "ws://")) &&
		!strings.ContainsFunc(s, func(r rune) bool {
			return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
		})
}

// IsAgeRecipient reports whether s is a native recipient of age (X25519), as "age1…" in lower case.
func IsAgeRecipient(s string) bool {
	_, err := age.ParseX25519Recipient(s)
	return err == nil && s == strings.ToLower(s)
}

// addRelays adds those of urls that are relays and not there yet.
func addRelays(relays, urls []string) []string {
	for _, url := range urls {
		url = strings.TrimSpace(url)
		if isRelayURL(url) && !slices.Contains(relays, url) && len(relays) < MaxWords {
			relays = append(relays, url)
		}
	}
	return relays
}

// encryptions are the encryptions that values name, as NIP-44 or nip44 or nip44_v2.
func encryptions(values []string) (known []string) {
	for _, value := range values {
		value = strings.ReplaceAll(strings.ToLower(value), "-", "")
		for _, name := range []string{"nip04", "nip44"} {
			if strings.Contains(value, name) {
				known = append(known, name)
			}
		}
	}
	return known
}
