package jobs

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/fact"
	"guild/internal/fold"
	"guild/nip90"
)

const (
	longestPause = 10 * time.Minute // that a service is left alone for which had no capacity for another job
	unpaidFor    = 24 * time.Hour   // that one is left alone for which wanted to be paid first
)

// strain is why a service is left alone as long as others may be asked, whatever the job is.
type strain struct {
	Refused int        `json:"refused,omitempty"` // requests in a row, for want of capacity
	At      int64      `json:"at,omitempty"`      // Unix ms of the last of them
	Wanted  int64      `json:"wanted,omitempty"`  // Unix ms when it wanted to be paid first
	Quote   guild.Msat `json:"quote,omitempty"`   // what it wanted then
}

// serviceKey is a service as the key of a table.
type serviceKey guild.Service

// MarshalText writes the key in hex, a space and the d tag.
func (k serviceKey) MarshalText() ([]byte, error) { return []byte(k.PubKey.Hex() + " " + k.D), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *serviceKey) UnmarshalText(b []byte) (err error) {
	key, d, _ := bytes.Cut(b, []byte{' '})
	k.D = string(d)
	k.PubKey, err = nostr.PubKeyFromHexCheap(string(key))
	return err
}

type demand struct {
	of    guild.Service
	until int64 // Unix ms
}

// paused is until when the service is left alone for want of capacity, Unix ms: twice as long with each refusal.
func (s strain) paused(first time.Duration) int64 {
	if s.Refused == 0 {
		return 0
	}
	pause := first
	for n := 1; n < s.Refused && pause < longestPause; n++ {
		pause *= 2
	}
	return s.At + min(pause, max(longestPause, first)).Milliseconds()
}

// unpaid is until when the service is left alone because it wants to be paid first, Unix ms.
func (s strain) unpaid() int64 {
	if s.Wanted == 0 {
		return 0
	}
	return s.Wanted + unpaidFor.Milliseconds()
}

// demanded remembers when a demand ends to hold.
func (s *state) demanded(of guild.Service, until int64) {
	s.demands = append(s.demands, demand{of, until})
}

// deriveDemands makes the order of the demands anew.
func (s *state) deriveDemands() {
	for of, one := range s.Strains.All() {
		if until := one.unpaid(); until > 0 {
			s.demanded(guild.Service(of), until)
		}
	}
	slices.SortFunc(s.demands, func(a, b demand) int {
		return cmp.Or(cmp.Compare(a.until, b.until), slices.Compare(a.of.PubKey[:], b.of.PubKey[:]), cmp.Compare(a.of.D, b.of.D))
	})
}

// strained follows what an answer says of a service's capacity, before the fact about its attempt is applied. Who takes
// work has capacity again: its first word on a request, or a delivery, which leaves room for another. Several requests
// that were on their way at the same time are refused once.
func (s *state) strained(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.AttemptRefused:
		s.strain(one.Attempt, func(a Attempt, now *strain) {
			switch {
			case one.Later:
				if now.Refused == 0 || a.At >= now.At {
					now.Refused++
				}
				now.At = at
			case a.State == guild.Quoted:
				now.Wanted, now.Quote = at, a.Quote
				s.demanded(a.Provider, now.unpaid())
			}
		})
	case fact.AttemptProgressed:
		s.strain(one.Attempt, func(a Attempt, now *strain) {
			if a.Heard == 0 && !one.Fault && one.Status != string(nip90.Other) {
				now.Refused, now.At = 0, 0
			}
		})
	case fact.AttemptDelivered:
		s.strain(one.Attempt, func(a Attempt, now *strain) {
			now.Refused, now.At = 0, 0
			if a.At >= now.Wanted {
				now.Wanted, now.Quote = 0, 0
			}
		})
	}
}

// strain changes that of the service that an attempt waits for.
func (s *state) strain(attempt nostr.ID, by func(Attempt, *strain)) {
	job, ok := s.Jobs.Get(s.attempts.Of(attempt))
	if !ok {
		return
	}
	i := job.index(attempt)
	if i < 0 || !job.Attempts[i].State.Waiting() {
		return
	}
	of := serviceKey(job.Attempts[i].Provider)
	was := s.Strains.Of(of)
	now := was
	by(job.Attempts[i], &now)
	switch now {
	case was:
	case strain{}:
		s.Strains.Delete(of)
	default:
		s.Strains.Set(of, now)
	}
}

// strainOf is why a service is left alone.
func (f *Fold) strainOf(service guild.Service) strain {
	return fold.Read(f.State, func(s *state) strain { return s.Strains.Of(serviceKey(service)) })
}

// forgiven lists the services whose demand to be paid holds no longer, once.
func (f *Fold) forgiven(now time.Time) (all []guild.Service) {
	f.Change(func(s *state) {
		n := 0
		for ; n < len(s.demands) && s.demands[n].until <= now.UnixMilli(); n++ {
			all = append(all, s.demands[n].of)
		}
		s.demands = slices.Clip(s.demands[n:])
	})
	return all
}
