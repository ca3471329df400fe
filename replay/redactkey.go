package replay

import (
	"regexp"
	"strings"

	"github.com/btcsuite/btcd/btcutil/base58"
)

// redactRawKeys replaces private keys without a form of their own: Bitcoin's WIF, and 32 bytes in hex. A hash, an id and a
// public key are 32 bytes in hex, too, so hex counts as a key only where the text before it announces one.
func redactRawKeys(text string) string {
	var out strings.Builder
	at := 0 // text before it is written
	for start := 0; start < len(text); {
		if !isAlnum(text[start]) {
			start++
			continue
		}
		end := start + 1
		for end < len(text) && isAlnum(text[end]) {
			end++
		}
		if isWIF(text[start:end]) || isRawHex(text[start:end]) && announced(text[max(0, start-announcement):start], end-start > 64) {
			out.WriteString(text[at:start])
			out.WriteString(mark(kindKey))
			at = end
		}
		start = end
	}
	if at == 0 {
		return text
	}
	out.WriteString(text[at:])
	return out.String()
}

// isRawHex reports whether a word is 32 bytes in hex, with or without 0x.
func isRawHex(word string) bool {
	digits := strings.TrimPrefix(word, "0x")
	return len(digits) == 64 && strings.Trim(digits, "0123456789abcdefABCDEF") == ""
}

// announcement limits how far before a key the words that announce it may be, in bytes.
const announcement = 48

var (
	keyWords = regexp.MustCompile(`(?i)(?:priv(?:ate)?|sec(?:ret)?|master)[ _-]?keys?(?:[^a-z]|hex|from|to)|from_?key\(|\bwallet\(|\b(?:secret|privkey|seckey)\b`)
	anyKey   = regexp.MustCompile(`(?i)\bkeys?\b`)
	public   = regexp.MustCompile(`(?i)pub(?:lic|key)?`)
	// notKeys are words after which the hex is public, and the ends of a sentence.
	notKeys = regexp.MustCompile(`(?i)pub(?:lic|key)?|hash|sha-?(?:2|3|256|512)|digest|checksum|event|\bids?\b|_id\b|tx|trans|commit|root|sign(?:ed|ature)|address|npub|\bnote|leaf|blob|[.;!?]\s|\n`)
)

// announced reports whether the text before 32 bytes in hex announces a private key. With 0x, which a Nostr key never
// has, any key is private.
func announced(before string, prefixed bool) bool {
	last, not := -1, public
	for _, at := range keyWords.FindAllStringIndex(before, -1) {
		last = max(last, at[0])
	}
	if prefixed {
		for _, at := range anyKey.FindAllStringIndex(before, -1) {
			if at[0] > last {
				last, not = at[0], notKeys
			}
		}
	}
	if last < 0 {
		return false
	}
	// "the public key" announces a public one, and in "private key of event <id>" something else follows.
	from := max(0, last-len("public "))
	if end := strings.LastIndexAny(before[from:last], ".;!?\n"); end >= 0 { // of the sentence before
		from += end + 1
	}
	return !not.MatchString(before[from:last]) && !notKeys.MatchString(before[last:])
}

// isWIF reports whether a word is a private key in Bitcoin's wallet import format, of the main or a test network. The
// checksum in it leaves no doubt.
func isWIF(word string) bool {
	if len(word) != 51 && len(word) != 52 || strings.IndexByte("59KLc", word[0]) < 0 {
		return false
	}
	key, version, err := base58.CheckDecode(word)
	if err != nil || version != 0x80 && version != 0xef {
		return false
	}
	return len(key) == 32 || len(key) == 33 && key[32] == 1 // 1 for a compressed public key
}
