package brief

import (
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tiktoken-go/tokenizer/codec"
)

// Encoding names the encoding of text as tokens in which everything is counted: that of OpenAI's models since 2024. A second
// vocabulary would be megabytes of every program for a difference of a few percent.
const Encoding = "o200k_base"

// Counter counts the tokens of texts. It can be used by many goroutines.
type Counter struct{ codec *codec.Codec }

// NewCounter returns a counter. The first one unpacks the vocabulary, which takes some hundredths of a second and ten
// megabytes.
func NewCounter() *Counter {
	return &Counter{codec.NewO200kBase()} // tokenizer.Get would link the vocabularies of all models
}

// Count returns the number of tokens of a text. Control tokens of a model are counted as text. The time is proportional
// to the length of the text: a word or white space of kilobytes is cut, and may count as one more token for each cut.
func (c *Counter) Count(text string) (int64, error) {
	n, _, err := c.countUpTo(text, -1)
	return n, err
}

// countUpTo counts tokens until there are more than most, or to the end if most is negative. It returns the tokens and
// the bytes that were counted.
func (c *Counter) countUpTo(text string, most int64) (n int64, read int, err error) {
	for chunk := range chunks(text) {
		some, err := c.codec.Count(chunk)
		if err != nil {
			return 0, 0, fmt.Errorf("count tokens: %w", err)
		}
		n, read = n+int64(some), read+len(chunk)
		if most >= 0 && n > most {
			break
		}
	}
	return n, read, nil
}

// Limits of the text that is counted at once. The library's time for one word grows faster than its length.
const (
	maxChunk = 16 << 10 // bytes
	maxSpace = 512      // bytes of white space in one stretch; a multiple of the longest token
)

// chunks cuts a text into pieces whose tokens add up to those of the whole.
func chunks(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := cut(text)
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// cut returns where the first chunk of a text ends: at the last place before maxChunk where every encoding begins a
// new token, if there is one.
func cut(text string) int {
	last, space := 0, 0 // the last good place, and where the white space began
	for i, r := range text {
		isSpace := unicode.IsSpace(r)
		switch {
		case i >= maxChunk && last > 0:
			return last
		case i >= maxChunk || isSpace && i-space >= maxSpace:
			return i
		case !isSpace:
			space = i + utf8.RuneLen(r)
		}
		if i > 0 && beginsToken(text, i, r) {
			last = i
		}
	}
	return len(text)
}

// beginsToken reports whether a token begins with the rune r at i whatever is around: after the end of a line, unless
// white space or a slash goes on there, and with a space between two letters.
func beginsToken(text string, i int, r rune) bool {
	before := text[i-1]
	if r == ' ' {
		return isLetter(before) && i+1 < len(text) && isLetter(text[i+1])
	}
	return before == '\n' && r != '/' && !unicode.IsSpace(r)
}

func isLetter(c byte) bool { return strings.IndexByte(letters, c) >= 0 }

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
