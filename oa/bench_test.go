package oa_test

import (
	"strings"
	"testing"

	"guild/oa"
)

func BenchmarkDecodeRerankOf100(b *testing.B) {
	r := oa.RerankRequest{UserTask: "find"}
	for i := range 100 {
		r.Candidates = append(r.Candidates, oa.Candidate{ID: strings.Repeat("x", i+1), Content: strings.Repeat("a line of code\n", 20), OriginalScore: "0.5"})
	}
	payload, err := oa.Encode(r)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := oa.Decode[oa.RerankRequest](payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckEmbeddingsOf16(b *testing.B) {
	r := oa.EmbeddingResult{ModelID: "m", Dimensions: 1536}
	for i := range 16 {
		vector := make([]float32, r.Dimensions)
		for j := range vector {
			vector[j] = 1 / float32(i+j+3)
		}
		r.Embeddings = append(r.Embeddings, vector)
	}
	payload, err := oa.Encode(r)
	if err != nil {
		b.Fatal(err)
	}
	s := must[oa.Schema](b)(oa.Known().Schema(id(b, oa.Embedding)))
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Check(oa.Outputs, payload); err != nil {
			b.Fatal(err)
		}
	}
}
