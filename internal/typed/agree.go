package typed

import (
	"cmp"
	"slices"

	"guild"
	"guild/oa"
)

// Agree reports whether two results of one request say the same, whoever made them: a sandbox run by its status, exit
// codes and artifacts, an embedding by vectors that are near, a ranking by its order, and what else there is by its
// canonical form without the provenance. What cannot be read agrees with nothing.
func Agree(id oa.ID, a, b []byte) bool {
	switch id.String() {
	case oa.SandboxRun:
		return agree(a, b, func(x, y oa.SandboxResult) bool { return len(x.Differences(y, false)) == 0 })
	case oa.Embedding:
		return agree(a, b, sameVectors)
	case oa.RetrievalRerank:
		return agree(a, b, func(x, y oa.RerankResult) bool { return slices.Equal(order(x), order(y)) })
	}
	x, y := Essence(a), Essence(b)
	return !x.IsZero() && x == y
}

func agree[A oa.Payload](a, b []byte, same func(A, A) bool) bool {
	x, err := oa.Decode[A](a)
	if err != nil {
		return false
	}
	y, err := oa.Decode[A](b)
	return err == nil && same(x, y)
}

func sameVectors(a, b oa.EmbeddingResult) bool {
	near := func(x, y []float32) bool { return oa.Cosine(x, y) >= oa.SameVector }
	return a.ModelID == b.ModelID && a.Dimensions == b.Dimensions && slices.EqualFunc(a.Embeddings, b.Embeddings, near)
}

// order is the ids of a ranking, the best first.
func order(r oa.RerankResult) (ids []string) {
	places := slices.SortedStableFunc(slices.Values(r.TopK), func(a, b oa.Ranked) int { return cmp.Compare(a.Rank, b.Rank) })
	for _, place := range places {
		ids = append(ids, place.ID)
	}
	return ids
}

// Essence is the canonical hash of a result without its provenance; zero for what is no object.
func Essence(result []byte) guild.Hash {
	h, err := oa.OutputHash(result)
	if err != nil {
		return guild.Hash{}
	}
	return h
}
