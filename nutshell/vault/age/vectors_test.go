package age

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	agetest "c2sp.org/CCTV/age"

	"guild/nutshell/vault"
)

// vector is one of age's published test vectors: what to do with a file, and the file.
type vector struct {
	expect, payload string
	identities      []Identity
	ui              UI
	file            []byte
}

func parseVector(t *testing.T, raw []byte) vector {
	v := vector{file: raw}
	compressed := false
	for {
		line, rest, ok := bytes.Cut(v.file, []byte("\n"))
		if !ok {
			t.Fatal("the vector has no file")
		}
		if v.file = rest; len(line) == 0 {
			break
		}
		key, value, _ := strings.Cut(string(line), ": ")
		switch key {
		case "expect":
			v.expect = value
		case "payload":
			v.payload = value
		case "identity":
			v.identities = append(v.identities, Identity{Name: "vector", Text: vault.NewSecret([]byte(value))})
		case "passphrase":
			v.ui = says(value)
		case "compressed":
			compressed = true
		case "file key", "comment", "armored":
		default:
			t.Fatalf("a header that is not known: %q", key)
		}
	}
	if compressed {
		v.file = inflate(t, v.file)
	}
	return v
}

func inflate(t *testing.T, b []byte) []byte {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPublishedVectors(t *testing.T) {
	files, err := fs.ReadDir(agetest.Vectors, ".")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 140 {
		t.Fatalf("only %d vectors", len(files))
	}
	for _, f := range files {
		t.Run(f.Name(), func(t *testing.T) {
			t.Parallel()
			raw, err := fs.ReadFile(agetest.Vectors, f.Name())
			if err != nil {
				t.Fatal(err)
			}
			parseVector(t, raw).check(t)
		})
	}
}

func (v vector) check(t *testing.T) {
	s := sealer(t, Config{Identities: v.identities, UI: v.ui})
	document, err := s.open(t.Context(), v.file, 64<<20)
	if v.expect == "success" {
		sum := sha256.Sum256(document.Reveal())
		if err != nil || hex.EncodeToString(sum[:]) != v.payload {
			t.Errorf("got %d bytes, %v", len(document.Reveal()), err)
		}
		return
	}
	want, known := map[string][]error{
		"no match":        {vault.ErrNotFor},
		"HMAC failure":    {vault.ErrTampered},
		"payload failure": {vault.ErrTampered},
		"header failure":  {vault.ErrTampered, vault.ErrNotSealed},
		"armor failure":   {vault.ErrTampered, vault.ErrNotSealed},
	}[v.expect]
	if !known {
		t.Fatalf("expects %q", v.expect)
	}
	if !document.IsZero() {
		t.Error("a document beside the error")
	}
	for _, e := range want {
		if errors.Is(err, e) {
			return
		}
	}
	t.Errorf("expected %s, got %v", v.expect, err)
}
