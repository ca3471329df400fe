package nip90

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"fiatjaf.com/nostr"

	"guild"
)

// wire has the parts of an event: the clear tags, the encrypted tags, and the content.
type wire struct {
	outer, inner nostr.Tags
	content      string
	encrypted    string // "", NIP44 or NIP04
}

// unwrap checks the size of e and decrypts its content if it has the encrypted tag. The content is then the plaintext.
func unwrap(e nostr.Event, open Opener) (wire, error) {
	if err := checkSize(e); err != nil {
		return wire{}, err
	}
	w := wire{outer: e.Tags, content: e.Content}
	if !e.Tags.Has("encrypted") {
		return w, nil
	}
	if open == nil {
		return wire{}, ErrEncrypted
	}
	w.encrypted = NIP44
	if strings.Contains(e.Content, "?iv=") {
		w.encrypted = NIP04
	}
	plaintext, err := open(e.PubKey, e.Content)
	if err != nil {
		return wire{}, fmt.Errorf("decrypt: %w", err)
	}
	if len(plaintext) > MaxText {
		return wire{}, fmt.Errorf("plaintext of %d bytes: %w", len(plaintext), ErrTooBig)
	}
	w.content = plaintext
	return w, nil
}

// checkSize enforces the limits before anything is parsed or decrypted, because anyone can send an event.
func checkSize(e nostr.Event) error {
	if len(e.Tags) > MaxTags {
		return fmt.Errorf("%d tags: %w", len(e.Tags), ErrTooBig)
	}
	size := len(e.Content)
	for _, tag := range e.Tags {
		for _, value := range tag {
			size += len(value) + 1
		}
	}
	if size > MaxText {
		return fmt.Errorf("%d bytes: %w", size, ErrTooBig)
	}
	return nil
}

// takeInner sets the inner tags. A content tag among them sets the content: nostrdvm and guild put the content of a
// request and of feedback there.
func (w *wire) takeInner(tags nostr.Tags) {
	w.content = ""
	for _, tag := range tags {
		if len(tag) >= 2 && tag[0] == "content" {
			w.content = tag[1]
			continue
		}
		w.inner = append(w.inner, tag)
	}
}

// decodeTags parses a JSON array of tags. It reads values that are not strings as their JSON text.
func decodeTags(text string) (nostr.Tags, error) {
	var raw [][]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("encrypted tags: %w: %w", ErrMalformed, err)
	}
	if len(raw) > MaxTags {
		return nil, fmt.Errorf("%d encrypted tags: %w", len(raw), ErrTooBig)
	}
	tags := make(nostr.Tags, 0, len(raw))
	for _, values := range raw {
		tag := make(nostr.Tag, len(values))
		for i, value := range values {
			tag[i] = textOf(value)
		}
		if len(tag) > 0 {
			tags = append(tags, tag)
		}
	}
	return tags, nil
}

func textOf(value json.RawMessage) string {
	var s string
	if err := json.Unmarshal(value, &s); err != nil {
		return string(value)
	}
	return s
}

// encodeTags returns tags as the plaintext of an encrypted event.
func encodeTags(tags nostr.Tags) string {
	b, _ := json.Marshal(tags) // cannot fail for strings
	return string(b)
}

// unsigned returns an event without the characters that change ids in other programs.
func unsigned(kind int, tags nostr.Tags, content string) nostr.Event {
	return nostr.Event{Kind: nostr.Kind(kind), Tags: cleanTags(tags), Content: guild.Clean(content)}
}

func cleanTags(tags nostr.Tags) nostr.Tags {
	out := make(nostr.Tags, len(tags))
	for i, tag := range tags {
		out[i] = make(nostr.Tag, len(tag))
		for j, value := range tag {
			out[i][j] = guild.Clean(value)
		}
	}
	return out
}

// value returns the nth value of a tag, where the name is 0, or "".
func value(tag nostr.Tag, n int) string {
	if n < len(tag) {
		return tag[n]
	}
	return ""
}

func parsePubKey(s string) (nostr.PubKey, bool) {
	b, ok := parseHex32(s)
	return nostr.PubKey(b), ok
}

func parseID(s string) (nostr.ID, bool) {
	b, ok := parseHex32(s)
	return nostr.ID(b), ok
}

func parseHex32(s string) (b [32]byte, ok bool) {
	if len(s) != hex.EncodedLen(len(b)) {
		return b, false
	}
	_, err := hex.Decode(b[:], []byte(s))
	return b, err == nil
}

// parseMsat parses an amount. Anything but a plain number is an error: amounts of money are never guessed.
func parseMsat(s string) (guild.Msat, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not an amount: %w", s, ErrMalformed)
	}
	return guild.Msat(n), nil
}

// parseAmount reads an amount tag: millisatoshis and optionally a bolt11 invoice.
func parseAmount(tag nostr.Tag) (amount guild.Msat, invoice string, err error) {
	amount, err = parseMsat(value(tag, 1))
	if err != nil {
		err = fmt.Errorf("amount tag: %w", err)
	}
	return amount, value(tag, 2), err
}

func amountTag(amount guild.Msat, invoice string) nostr.Tags {
	if amount <= 0 && invoice == "" {
		return nil
	}
	tag := nostr.Tag{"amount", strconv.FormatInt(int64(max(amount, 0)), 10)}
	if invoice != "" {
		tag = append(tag, invoice)
	}
	return nostr.Tags{tag}
}

func isRelayURL(s string) bool {
	return len(s) <= MaxURL && (strings.HasPrefix(s, "wss://") || strings.HasPrefix(s, "ws://")) && isOneWord(s)
}

func isHTTPURL(s string) bool {
	return len(s) <= MaxURL && (strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://")) && isOneWord(s)
}

func isOneWord(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || r == unicode.ReplacementChar
	})
}
