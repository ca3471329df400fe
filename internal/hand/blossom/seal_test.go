package blossom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/iotest"

	"guild"
)

func seal(t testing.TB, plain []byte) ([]byte, Sealed) {
	t.Helper()
	var b bytes.Buffer
	s, err := Seal(bytes.NewReader(plain), &b)
	if err != nil {
		t.Fatal(err)
	}
	if s.Size != int64(b.Len()) || s.Cipher != guild.Sum(b.Bytes()) || s.Plain != guild.Sum(plain) {
		t.Errorf("%d bytes are described as %+v", b.Len(), s)
	}
	return b.Bytes(), s
}

func TestSealAndOpen(t *testing.T) {
	for _, size := range []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 3 * chunkSize, 3*chunkSize + 5} {
		plain := bytes.Repeat([]byte("p"), size)
		sealed, s := seal(t, plain)
		if size > 16 && bytes.Contains(sealed, plain[:16]) {
			t.Errorf("%d: the plaintext shows", size)
		}
		var got bytes.Buffer
		if err := OpenSealed(iotest.HalfReader(bytes.NewReader(sealed)), &got, s.Key, s.Plain, int64(size)); err != nil || !bytes.Equal(got.Bytes(), plain) {
			t.Errorf("%d: %v", size, err)
		}
		if size == 0 {
			continue
		}
		if err := OpenSealed(bytes.NewReader(sealed), io.Discard, s.Key, s.Plain, int64(size-1)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%d: over the limit: %v", size, err)
		}
	}
}

func TestChangedSeal(t *testing.T) {
	plain := bytes.Repeat([]byte("0123456789abcdef"), 3*chunkSize/16)
	sealed, s := seal(t, plain)
	head := len(sealMagic)
	chunk := func(i int) []byte { return sealed[head+i*sealedChunk : head+(i+1)*sealedChunk] }
	flipped := bytes.Clone(sealed)
	flipped[head+sealedChunk+7] ^= 1
	other, _ := seal(t, plain)
	for name, tt := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":               {nil, errNotSealed},
		"magic only":          {[]byte(sealMagic), ErrSealBroken},
		"another magic":       {append([]byte("GUILDSEAL\x00\x02\n"), sealed[head:]...), errNotSealed},
		"a flipped bit":       {flipped, ErrSealBroken},
		"without the last":    {sealed[:head+2*sealedChunk], ErrSealBroken},
		"cut within a chunk":  {sealed[:head+sealedChunk+100], ErrSealBroken},
		"one byte short":      {sealed[:len(sealed)-1], ErrSealBroken},
		"one byte more":       {append(bytes.Clone(sealed), 0), ErrSealBroken},
		"without the first":   {append([]byte(sealMagic), sealed[head+sealedChunk:]...), ErrSealBroken},
		"two in other places": {slicesOf(sealed[:head], chunk(1), chunk(0), chunk(2)), ErrSealBroken},
		"one twice":           {slicesOf(sealed[:head], chunk(0), chunk(0), chunk(1), chunk(2)), ErrSealBroken},
		"the last twice":      {slicesOf(sealed, chunk(2)), ErrSealBroken},
		"of another key":      {other, ErrSealBroken},
	} {
		if err := OpenSealed(bytes.NewReader(tt.b), io.Discard, s.Key, s.Plain, 1<<20); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if err := OpenSealed(bytes.NewReader(sealed), io.Discard, s.Key, guild.Sum(nil), 1<<20); !errors.Is(err, ErrWrongContent) {
		t.Errorf("another content announced: %v", err)
	}
	broken := iotest.TimeoutReader(iotest.OneByteReader(bytes.NewReader(sealed)))
	if err := OpenSealed(broken, io.Discard, s.Key, s.Plain, 1<<20); err == nil {
		t.Error("a stream that broke off opened")
	}
}

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestKeyCannotBePrinted(t *testing.T) {
	_, s := seal(t, []byte("x"))
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("sealed", "key", s.Key, "all", s)
	shown := log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%d", "%q", "%b"} {
		shown += fmt.Sprintf(verb+verb+verb, s.Key, s, &s)
	}
	if _, err := json.Marshal(s); err == nil {
		t.Error("a key was serialized")
	}
	for _, form := range []string{s.Key.Hex(), strings.ToUpper(s.Key.Hex()), fmt.Sprint([32]byte(s.Key)), fmt.Sprintf("%#v", [32]byte(s.Key))} {
		if strings.Contains(shown, form) {
			t.Errorf("the key shows as %.20s…", form)
		}
	}
	if back, err := ParseKey(s.Key.Hex()); err != nil || back != s.Key {
		t.Errorf("the key does not read back: %v", err)
	}
	for _, bad := range []string{"", "zz", s.Key.Hex()[1:], strings.Repeat("g", 64)} {
		if _, err := ParseKey(bad); err == nil {
			t.Errorf("%q is a key", bad)
		}
	}
}

func FuzzOpenSealed(f *testing.F) {
	for _, plain := range []string{"", "x", strings.Repeat("long ", chunkSize/4)} {
		sealed, _ := seal(f, []byte(plain))
		f.Add(sealed, uint16(3))
	}
	f.Add([]byte(sealMagic), uint16(0))
	content, opener := seal(f, bytes.Repeat([]byte("c"), chunkSize+9))
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		if err := OpenSealed(bytes.NewReader(b), io.Discard, opener.Key, opener.Plain, 1<<20); err == nil && !bytes.Equal(b, content) {
			t.Error("opened what was not sealed")
		}
		changed := slicesOf(content[:at], b, content[at:])
		if err := OpenSealed(bytes.NewReader(changed), io.Discard, opener.Key, opener.Plain, 1<<20); err == nil && len(b) > 0 {
			t.Error("opened with bytes added")
		}
		sealed, s := seal(t, b)
		var back bytes.Buffer
		if err := OpenSealed(bytes.NewReader(sealed), &back, s.Key, s.Plain, int64(len(b))); err != nil || !bytes.Equal(back.Bytes(), b) {
			t.Errorf("does not read back: %v", err)
		}
	})
}
