package main

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/gowebpki/jcs"

	"guild/canon"
)

// contestant is one implementation. do processes one document.
type contestant struct {
	name string
	do   func(text []byte) error
}

// The first contestant is guild's.
var contestants = []contestant{
	{"guild", func(text []byte) error { _, err := canon.Canonical(text); return err }},
	{"gowebpki/jcs", func(text []byte) error { _, err := jcs.Transform(text); return err }},
	{"cyberphone", func(text []byte) error { _, err := jsoncanonicalizer.Transform(text); return err }},
	{"sha256", func(text []byte) error { sha256.Sum256(text); return nil }},
}

// document is an input of the contestants.
type document struct {
	name string
	text []byte
}

const smallest = 1 << 10

// documents returns documents of up to three sizes, at most largest bytes. They are the same in every run.
func documents(largest int) (all []document) {
	for _, d := range []struct {
		name string
		size int
	}{{"1 KB", smallest}, {"100 KB", 100 << 10}, {"10 MB", 10 << 20}} {
		if d.size <= largest {
			all = append(all, document{d.name, batch(d.size)})
		}
	}
	return all
}

// batch returns a batch of code analyses as providers return them: members in the order of their schema (not sorted),
// source text with escapes, and integers and fractions.
func batch(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString(`{"schema_version":"1.0.0","job_type":"oa.code_chunk_analysis.v1","payload":[`)
	for n := 0; b.Len() < size-400; n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"summary":%q,"symbols":[{"name":"f%d","kind":"function","line":%d,"description":"naïve – ünïcode"}],`+
			`"suspected_faults":[{"line":%d,"severity":"low","description":"an index may be \"off by one\"","suggestion":null}],`+
			`"confidence":%.2f,"provenance":{"model_id":"m-%d","sampling":{"temperature":0.0,"seed":%d},"tokens":{"input":%d,"output":%d}}}`,
			words(random), n, random.IntN(5000), random.IntN(5000), random.Float64(), random.IntN(9), random.Int64N(1<<40), random.IntN(9000), random.IntN(900))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// words returns text of several lines.
func words(random *rand.Rand) string {
	all := []string{"func", "return", "the", "index", "of", "a", "slice", "err != nil", "\n", "\t", "loops", "over", "every", "entry", "once"}
	var b strings.Builder
	for range 20 {
		b.WriteString(all[random.IntN(len(all))])
		b.WriteByte(' ')
	}
	return b.String()
}
