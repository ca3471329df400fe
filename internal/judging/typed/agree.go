package typed

import (
	"cmp"
	"slices"

	"guild"
	"guild/oa"
)

// Agree reports whether two results of one request agree: a sandbox run by status, exit codes and artifacts, an
// embedding by similar vectors, a ranking by its order, and any other by its canonical form without the provenance. An
// unreadable result agrees with none.
func Agree(id oa.ID, a, b []byte) bool {
	switch id.String() {
	case oa.SandboxRun:
		return agree(a, b, func(x, y oa.SandboxResult) bool { return len(x.Differences(y, false)) == 0 })
	case oa.Embedding:
		return agree(a, b, func(x, y oa.EmbeddingResult) bool {
			near := func(v, w []float32) bool { return oa.Cosine(v, w) >= oa.SameVector }
			return x.ModelID == y.ModelID && x.Dimensions == y.Dimensions && slices.EqualFunc(x.Embeddings, y.Embeddings, near)
		})
	case oa.RetrievalRerank:
		return agree(a, b, func(x, y oa.RerankResult) bool { return slices.Equal(order(x), order(y)) })
	}
	x, y := Essence(a), Essence(b)
	return !x.IsZero() && x == y
}

// agree decodes two results and compares them. It returns false if one cannot be decoded.
func agree[A oa.Payload](a, b []byte, same func(A, A) bool) bool {
	x, err := oa.Decode[A](a)
	if err != nil {
		return false
	}
	y, err := oa.Decode[A](b)
	return err == nil && same(x, y)
}

// order returns the ids of a ranking, the best first.
func order(r oa.RerankResult) (ids []string) {
	places := slices.SortedStableFunc(slices.Values(r.TopK), func(a, b oa.Ranked) int { return cmp.Compare(a.Rank, b.Rank) })
	for _, place := range places {
		ids = append(ids, place.ID)
	}
	return ids
}

// Essence returns the canonical hash of a result without its provenance; zero if the result is not an object.
func Essence(result []byte) guild.Hash {
	h, err := oa.OutputHash(result)
	if err != nil {
		return guild.Hash{}
	}
	return h
}
