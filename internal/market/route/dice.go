package route

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"guild"
	"guild/internal/policy"
)

// Epsilon returns the share of decisions that explore, after a number of decisions for the task. It is halved after
// each r.EpsilonHalf decisions, falls linearly in between, and never falls below the floor (section 4.1.1).
func Epsilon(r policy.Routing, decided int) guild.Trust {
	e := r.Epsilon
	if half := r.EpsilonHalf; half > 0 && decided > 0 {
		e >>= min(decided/half, 62)
		e -= guild.Trust(int64(e) * int64(decided%half) / int64(2*half))
	}
	return max(e, min(r.EpsilonFloor, r.Epsilon))
}

// dice holds the random numbers of a decision. They are a hash of the job and the turn, so that a decision can be
// repeated from the same state.
type dice struct {
	seed  guild.Hash
	Faces [3]guild.Trust // for whether to explore, for the tier, and for the service
}

func throw(job guild.JobID, turn int) dice {
	d := dice{seed: guild.Sum(binary.BigEndian.AppendUint64(job[:len(job):len(job)], uint64(turn)))}
	for i := range d.Faces {
		d.Faces[i] = guild.Trust(binary.BigEndian.Uint64(d.seed[8*i:]) % guild.Micro)
	}
	return d
}

// more returns the n-th further random number.
//
// Faces use other parts of the hash, so they are independent of these numbers.
func (d *dice) more(n uint64) uint64 { return nth(binary.BigEndian.Uint64(d.seed[24:]), n) }

// drawOf returns the start of the random numbers of Thompson sampling. It depends on the recorded faces only.
func drawOf(faces [3]guild.Trust) uint64 {
	return uint64((faces[0]*guild.Micro+faces[1])*guild.Micro + faces[2])
}

// sample draws a share of accepted deliveries from the distribution Beta(1+won, 1+lost). At most limit deliveries count. The
// (1+won)-th smallest of 1+won+lost uniform numbers has that distribution. So the draw needs no floating point, and is the same
// on every machine.
func sample(draw uint64, of guild.Service, won, lost, limit int) guild.Trust {
	if n := won + lost; n > limit {
		won = (won*limit + n/2) / n
		lost = limit - won
	}
	start := nth(draw, binary.BigEndian.Uint64(of.PubKey[:8]))
	for _, b := range []byte(of.D) {
		start = nth(start, uint64(b))
	}
	var numbers [Recent + 1]uint64
	uniform := numbers[:1+won+lost]
	for n := range uniform {
		uniform[n] = nth(start, uint64(n))
	}
	slices.Sort(uniform)
	hi, _ := bits.Mul64(uniform[won], guild.Micro)
	return guild.Trust(hi)
}

// nth returns the n-th random number after a start, of 64 bits (SplitMix64).
func nth(start, n uint64) uint64 {
	z := start + (n+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// drawTier draws a tier by the shares, or returns -1 if there is none. The share of a missing tier goes to the next
// better tier, or to the best present one: a lack of proven providers is no reason to give more work to unproven ones.
// If none of the present tiers has a share, the best is chosen.
func drawTier(r policy.Routing, there [tiers]bool, face guild.Trust) int {
	best := slices.Index(there[:], true)
	if best < 0 {
		return -1
	}
	var shares [tiers]guild.Trust
	total, heir := guild.Trust(0), best
	for t, is := range there {
		if is {
			heir = t
		}
		shares[heir] += r.Tiers[t].Share
		total += r.Tiers[t].Share
	}
	ticket := guild.Trust(int64(face) * int64(total) / guild.Micro)
	for t, share := range shares {
		if ticket < share {
			return t
		}
		ticket -= share
	}
	return best
}
