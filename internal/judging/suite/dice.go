package suite

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// dice draws everything that differs between benchmarks. The same seed gives the same values.
type dice struct{ source *rand.ChaCha8 }

// newDice returns dice for a purpose.
func newDice(seed [32]byte, purpose string) *dice {
	return &dice{rand.NewChaCha8(sha256.Sum256(append(seed[:], purpose...)))}
}

// roll draws 64 bits.
func (d *dice) roll() uint64 { return d.source.Uint64() }

// below draws a number from 0 to n-1. n is so small that the bias of the remainder does not matter.
func (d *dice) below(n int) int { return int(d.roll() % uint64(n)) }

// between draws a number from least to most.
func (d *dice) between(least, most int) int { return least + d.below(most-least+1) }

// pick draws one element.
func pick[T any](d *dice, from []T) T { return from[d.below(len(from))] }

// shuffle puts n things in random order.
func (d *dice) shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, d.below(i+1))
	}
}

// Read fills b with random bytes. It implements io.Reader.
func (d *dice) Read(b []byte) (int, error) {
	for i := 0; i < len(b); i += 8 {
		var eight [8]byte
		binary.LittleEndian.PutUint64(eight[:], d.roll())
		copy(b[i:], eight[:])
	}
	return len(b), nil
}

// Parts of names.
var (
	verbs = []string{"fold", "weigh", "trace", "sift", "braid", "chart", "gauge", "knit", "mend", "plot", "rank", "sort_out", "spin", "stack", "tune", "wind"}
	nouns = []string{"marsh", "ember", "harbor", "lattice", "meadow", "orchid", "pebble", "quarry", "ridge", "saddle", "thicket", "vessel", "willow", "yarrow", "zephyr", "anchor"}
)

// name draws the name of an exercise.
func (d *dice) name() string { return pick(d, verbs) + "_" + pick(d, nouns) }

// syllables are combined to the words of inputs.
var syllables = []string{"ka", "lo", "mi", "ne", "pu", "ra", "si", "to", "vu", "ze", "Ba", "Do", "Fi"}

// word draws one of a number of words, at most 169.
func (d *dice) word(of int) string {
	n := d.below(of)
	return syllables[n%len(syllables)] + syllables[n/len(syllables)%len(syllables)]
}
