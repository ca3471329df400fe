package brief_test

import (
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
	"pgregory.net/rapid"

	"guild/nutshell/brief"
)

func count(t testing.TB, c *brief.Counter, text string) int64 {
	t.Helper()
	n, err := c.Count(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The numbers are those that OpenAI publishes with its tokenizer and in its cookbook.
func TestPublishedTokenCounts(t *testing.T) {
	for _, c := range []struct {
		text string
		want int64
	}{
		{"", 0},
		{"hello world", 2},
		{"tiktoken is great!", 6},
		{"antidisestablishmentarianism", 6},
		{"2 + 2 = 4", 7},
		{"お誕生日おめでとう", 8},
		{"<|endoftext|>", 7}, // as ordinary text
	} {
		if n := count(t, brief.NewCounter(), c.text); n != c.want {
			t.Errorf("%q has %d tokens, want %d", c.text, n, c.want)
		}
	}
}

// Texts are made of these words. The characters between them decide where a token may begin.
var words = []string{
	"a", "The", "word", "HTTPServer", "it's", "I'LL", "é", "漢字", "e\u0301", "1", "12345", ".", "…", "://", "//", "/", "=", "===", "\t", " ", "  ", "\u00a0",
	"\u3000", "\n", "\r\n", "\n\n", " \n", "\n ", "\n/", ";\n", ";\n\n/", "🎉", "_", "\x00", "\u200d", "ʰ", "ǅ",
}

func TestChunksKeepTokenCount(t *testing.T) {
	whole, err := tokenizer.Get(brief.Encoding)
	if err != nil {
		t.Fatal(err)
	}
	c := brief.NewCounter()
	rapid.Check(t, func(r *rapid.T) {
		part := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 60).Draw(r, "words"), "")
		end := rapid.SampledFrom([]string{"x y", "\nx", "}\nfunc"}).Draw(r, "end") // else there might be no good place
		text := strings.Repeat(part+end, 1+20_000/len(part+end))
		ids, _, err := whole.Encode(text)
		if err != nil {
			r.Fatal(err)
		}
		if n := count(t, c, text); n != int64(len(ids)) {
			r.Errorf("%d tokens, the library counts %d at once", n, len(ids))
		}
		if back, err := whole.Decode(ids); err != nil || back != text {
			r.Errorf("decoded to something else: %v", err)
		}
	})
}

// The library's time for some of these grows with the square of their length. The test proves that texts are cut before,
// because it ends soon. Each cut adds at most one token.
func TestCountIsLinear(t *testing.T) {
	c := brief.NewCounter()
	for _, unit := range []string{"a", "Aa", " ", "\n", " \n", "\r ", "\t\n ", "\u3000\n", "=", "\x00", "\u0301", "9", "'s", "ʰ"} {
		const small, large = 4 << 10, 64 << 10
		a, b := count(t, c, strings.Repeat(unit, small/len(unit))), count(t, c, strings.Repeat(unit, large/len(unit)))
		if b < a*large/small*9/10 || b > a*large/small*11/10+16 {
			t.Errorf("%q: %d tokens in %d bytes, %d in %d", unit, a, small, b, large)
		}
	}
}

func BenchmarkCount(b *testing.B) {
	c := brief.NewCounter()
	text := strings.Repeat("func (w *writer) add(c candidate) error { // shows a file if it fits\n\treturn nil\n}\n", 10_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		count(b, c, text)
	}
}
