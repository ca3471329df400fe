package route

import (
	"slices"

	"encoding/binary"

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

// more returns the n-th further random number, of 64 bits (SplitMix64).
//
// Faces use other parts of the hash, so they are independent of these numbers.
func (d *dice) more(n uint64) uint64 {
	z := binary.BigEndian.Uint64(d.seed[24:]) + (n+1)*0x9e3779b97f4a7c15
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
