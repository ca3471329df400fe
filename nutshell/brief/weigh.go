package brief

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"

	"guild/nutshell"
)

// Bounds of the work. Files beyond them are estimated from their first bytes, and not shown.
const (
	maxShown    = 4 << 20  // bytes of a file
	maxRead     = 16 << 20 // bytes that are counted altogether, beyond what the budget takes
	sample      = 4 << 10  // bytes by which a file is estimated
	usual       = 4        // bytes in a token of code and prose
	densest     = 16       // bytes in a token at most, on average: a file with more of them than the budget has tokens cannot fit
	beginning   = 8 << 10  // bytes that tell text from other things
	secretLines = 1 << 10  // bytes that tell a private key
)

// weight is the size of a file in tokens, and its text if it can be shown.
type weight struct {
	tokens int64
	reason string // why it cannot be shown; empty if it can
	text   string // ends in a newline
}

// weigh reads a file and counts its tokens, but not many more than most.
func (w *writer) weigh(p string, most int64) (weight, error) {
	f, size, err := open(w.fsys, p)
	if err != nil {
		return weight{}, err
	}
	defer f.Close()
	most = max(most, 0)
	tooLarge := size > maxShown || size > densest*most
	tooMuch := w.read > maxRead+densest*w.budget
	length := size
	if tooLarge || tooMuch {
		length = sample
	}
	b, err := readText(w.ctx, f, length)
	if no, ok := errors.AsType[*notText](err); ok {
		return weight{reason: no.reason}, nil
	}
	switch {
	case err != nil:
		return weight{}, fmt.Errorf("%.200q: %w", p, err)
	case tooMuch:
		return weight{tokens: size / usual, reason: needs(size/usual, false, most)}, nil
	}
	text := string(b)
	n, read, err := w.count.countUpTo(text, most)
	w.read += int64(read)
	if err != nil || !tooLarge && n <= most {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return weight{tokens: n, text: text}, err
	}
	exact := !tooLarge && read == len(text)
	n = inProportion(n, int64(read), size)
	return weight{tokens: n, reason: needs(n, exact, most)}, nil
}

// needs returns the reason for a file that does not fit.
func needs(tokens int64, exact bool, left int64) string {
	about := "about "
	if exact {
		about = ""
	}
	if tokens <= left {
		return fmt.Sprintf("needs %s%d tokens, and is too large to be looked at", about, tokens)
	}
	return fmt.Sprintf("needs %s%d tokens, %d are left", about, tokens, left)
}

// inProportion returns how many tokens size bytes have if the first read bytes have n.
func inProportion(n, read, size int64) int64 {
	if read == 0 {
		return 0
	}
	return int64(float64(n) * float64(size) / float64(read))
}

func open(fsys fs.FS, p string) (fs.File, int64, error) {
	f, err := fsys.Open(p)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// notText is the error about a file whose content cannot be shown.
type notText struct{ reason string }

func (e *notText) Error() string { return e.reason }

// readText reads the first bytes of a text file, up to a whole character. It is a *notText if the file is not text, or is
// a private key.
func readText(ctx context.Context, f io.Reader, most int64) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		b = wholeRunes(b[:most])
	}
	if err := checkText(b); err != nil {
		return nil, err
	}
	return b, nil
}

// checkText returns a *notText if the first bytes of a file are not those of a text, or of a private key.
func checkText(b []byte) error {
	switch {
	case bytes.IndexByte(b[:min(len(b), beginning)], 0) >= 0:
		return &notText{"binary"}
	case !utf8.Valid(b):
		return &notText{"is not UTF-8 text"}
	case nutshell.IsPrivateKey(b[:min(len(b), secretLines)]):
		return &notText{"is a private key"}
	}
	return nil
}

// wholeRunes cuts off the beginning of a character at the end.
func wholeRunes(b []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}
