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

// CanonicalD returns the form of a d tag that identifies a service: NFKC, case folded, runs of white space collapsed
// to one space. Tags that differ only in spelling name the same service.
func CanonicalD(d string) string {
	if simple, ok := canonicalASCII(d); ok {
		return simple
	}
	d = cases.Fold().String(norm.NFKC.String(guild.Clean(d)))
	return strings.Join(strings.Fields(norm.NFKC.String(d)), " ")
}

// canonicalASCII is CanonicalD for printable ASCII, a fast path for nearly all d tags and words. Unicode normalisation
// does not change such text.
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

// Word returns the form in which tasks are compared: CanonicalD with dashes for spaces.
func Word(s string) string { return strings.ReplaceAll(CanonicalD(s), " ", "-") }

// claims has the kinds and words that one source, the tags or the content, names.
type claims struct {
	kinds []int
	words []string
}

// add reads one value: an integer, a word, or a list of them with commas. It ignores values beyond the limits, so that
// a long announcement costs little.
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

// union returns the elements of all sources, sorted, without duplicates, at most MaxWords.
func union[T int | string](sources ...[]T) []T {
	all := slices.Concat(sources...)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), MaxWords)]
}

// without returns the elements of a that b does not have.
func without[T int | string](a, b []T) []T {
	return slices.DeleteFunc(union(a), func(x T) bool { return slices.Contains(b, x) })
}

// isRelayURL checks the form of a relay URL. It does not connect.
func isRelayURL(s string) bool {
	return len(s) <= MaxValue && (strings.HasPrefix(s, "wss://") || strings.HasPrefix(s, "ws://")) &&
		!strings.ContainsFunc(s, func(r rune) bool {
			return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
		})
}

// IsAgeRecipient reports whether s is a native age recipient (X25519), as "age1…" in lower case.
func IsAgeRecipient(s string) bool {
	_, err := age.ParseX25519Recipient(s)
	return err == nil && s == strings.ToLower(s)
}

// isBundle reports whether a MIME type is that of a bundle, in any compression.
func isBundle(mime string) bool { return strings.HasPrefix(mime, bundleType) }

// bundleType is the MIME type of a bundle; a compression may follow it.
const bundleType = "application/x-nutshell"

// addRelays appends the valid and new relay URLs.
func addRelays(relays, urls []string) []string {
	for _, url := range urls {
		url = strings.TrimSpace(url)
		if isRelayURL(url) && !slices.Contains(relays, url) && len(relays) < MaxWords {
			relays = append(relays, url)
		}
	}
	return relays
}

// encryptions returns the encryptions that values name, for example as NIP-44, nip44 or nip44_v2.
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
