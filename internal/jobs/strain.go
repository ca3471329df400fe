package jobs

import (
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

// strains are those of all services that have any.
type strains struct {
	of      fold.Table[kept, strain]
	demands []demand // for payment that still hold, the oldest first; derived
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

func (s *strains) set(of guild.Service, to strain) {
	if to == (strain{}) {
		s.of.Delete(kept(of))
		return
	}
	s.of.Set(kept(of), to)
}

// demanded remembers when a demand ends to hold.
func (s *strains) demanded(of guild.Service, until int64) {
	s.demands = append(s.demands, demand{of, until})
}

// derive makes the order of the demands anew.
func (s *strains) derive() {
	for of, one := range s.of.All() {
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
func (f *Fold) strained(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.AttemptRefused:
		f.strain(one.Attempt, func(a Attempt, s *strain) {
			switch {
			case one.Later:
				if s.Refused == 0 || a.At >= s.At {
					s.Refused++
				}
				s.At = at
			case a.State == guild.Quoted:
				s.Wanted, s.Quote = at, a.Quote
				f.strains.demanded(a.Provider, s.unpaid())
			}
		})
	case fact.AttemptProgressed:
		f.strain(one.Attempt, func(a Attempt, s *strain) {
			if a.Heard == 0 && !one.Fault && one.Status != string(nip90.Other) {
				s.Refused, s.At = 0, 0
			}
		})
	case fact.AttemptDelivered:
		f.strain(one.Attempt, func(a Attempt, s *strain) {
			if s.Refused, s.At = 0, 0; a.At >= s.Wanted {
				s.Wanted, s.Quote = 0, 0
			}
		})
	}
}

// strain changes that of the service that an attempt waits for.
func (f *Fold) strain(attempt nostr.ID, by func(Attempt, *strain)) {
	job, ok := f.jobs.Get(f.attempts.Of(attempt))
	if !ok {
		return
	}
	i := job.index(attempt)
	if i < 0 || !job.Attempts[i].State.Waiting() {
		return
	}
	a := job.Attempts[i]
	was := f.strains.of.Of(kept(a.Provider))
	s := was
	if by(a, &s); s != was {
		f.strains.set(a.Provider, s)
	}
}

// strainOf is why a service is left alone.
func (f *Fold) strainOf(s guild.Service) strain {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.strains.of.Of(kept(s))
}

// forgiven lists the services whose demand to be paid holds no longer, once.
func (f *Fold) forgiven(now time.Time) (all []guild.Service) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for ; n < len(f.strains.demands) && f.strains.demands[n].until <= now.UnixMilli(); n++ {
		all = append(all, f.strains.demands[n].of)
	}
	f.strains.demands = slices.Clip(f.strains.demands[n:])
	return all
}
