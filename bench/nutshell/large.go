package main

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing/fstest"
)

const (
	largeFile = 32 << 20 // bytes of each file except the small ones
	smallOnes = 5_000    // number of small files, as in a typical tree
)

// large is a tree that needs no storage: it generates the content of its large files on reading.
type large struct {
	fstest.MapFS        // the names, the manifest and the small files
	text         []byte // source of the large files
}

// newLarge returns a tree of mib MiB, plus many small files.
func newLarge(mib int) large {
	random := rand.New(rand.NewPCG(1, 2))
	l := large{MapFS: fstest.MapFS{"nutshell.json": {Data: []byte(manifest)}}, text: someText(random, 4<<20)}
	for i := range smallOnes {
		l.MapFS["files/small/"+strconv.Itoa(i%50)+"/"+strconv.Itoa(i)+".txt"] = &fstest.MapFile{Data: l.text[i*64:][:i%700]}
	}
	for i := range max(1, mib<<20/largeFile) {
		l.MapFS["files/large/"+strconv.Itoa(i)+".txt"] = &fstest.MapFile{}
	}
	return l
}

// someText returns words of a small vocabulary, which compress like source code.
func someText(random *rand.Rand, size int) []byte {
	words := make([]string, 5_000)
	for i := range words {
		words[i] = strconv.FormatUint(random.Uint64()>>random.IntN(50), 36)
	}
	var b bytes.Buffer
	for b.Len() < size {
		b.WriteString(words[int(float64(len(words))*random.Float64()*random.Float64())])
		b.WriteByte(" \n\t"[random.IntN(3)])
	}
	return b.Bytes()[:size]
}

// Open implements fs.FS.
func (l large) Open(name string) (fs.File, error) {
	f, err := l.MapFS.Open(name)
	if err != nil || !strings.HasPrefix(name, "files/large/") || !strings.HasSuffix(name, ".txt") {
		return f, err
	}
	return &madeUp{File: f, text: l.text, left: largeFile, at: len(name) * 4099 % len(l.text)}, nil
}

// madeUp is a generated large file.
type madeUp struct {
	fs.File
	text     []byte
	left, at int
	block    byte
}

func (m *madeUp) Read(p []byte) (int, error) {
	if m.left == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), m.left)], m.text[m.at:])
	if n > 0 {
		p[0] = m.block // makes each pass over the text different
		m.block++
	}
	m.at = (m.at + n) % len(m.text)
	m.left -= n
	return n, nil
}
