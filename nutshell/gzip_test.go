package nutshell

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/flate"
)

func TestReusedGzipWriter(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rounds := 100
	if testing.Short() {
		rounds = 15
	}
	for _, level := range []Level{Fast, Default, Best} {
		for i := range rounds {
			content := someText(random)
			var first, second bytes.Buffer
			d := deflatersOf(map[Level]int{Fast: 2, Default: 6, Best: 9}[level]).Get().(*flate.Writer)
			d.Reset(&first)
			compress(t, d, content)
			compress(t, newGzipWriter(&second, level), content)
			if got := second.Bytes(); !bytes.Equal(first.Bytes(), got[10:len(got)-8]) {
				t.Fatalf("level %q gave other bytes for the text %d of %d bytes", level, i, len(content))
			}
		}
	}
}

func TestLateReadOfEntry(t *testing.T) {
	request := packed(t, "first")
	b, err := Open(bytes.NewReader(request), int64(len(request)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	var late io.Reader
	if err := b.Walk(func(_ Entry, r io.Reader) error { late = r; return nil }); err != nil {
		t.Fatal(err)
	}
	next := packed(t, "second")
	err = archive{bytes.NewReader(next), int64(len(next)), Limits{}.OrDefault()}.scan(func(Entry, io.Reader) error {
		if got, _ := io.ReadAll(late); len(got) > 0 {
			t.Errorf("read %q", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func packed(t *testing.T, content string) []byte {
	t.Helper()
	tree := fstest.MapFS{
		ManifestFile:   {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"t"}}`)},
		"files/in.txt": {Data: []byte(content)},
	}
	var b bytes.Buffer
	if _, err := Pack(t.Context(), tree, &b, Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// someText is up to 400 KB of lines that repeat each other and earlier texts.
func someText(random *rand.Rand) []byte {
	var b bytes.Buffer
	for range random.IntN(1 << random.IntN(15)) {
		fmt.Fprintf(&b, "line %d of %d\n", random.IntN(500), random.IntN(20))
	}
	return b.Bytes()
}

func compress(t *testing.T, w io.WriteCloser, content []byte) {
	t.Helper()
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
