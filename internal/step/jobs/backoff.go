package jobs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/nip90"
)

// This file follows what providers say of their capacity. A provider that refuses for want of capacity is not asked again
// for that job until a pause is over, which doubles each time (again). Other jobs prefer other services for a while
// (backoff), but ask it if there are none.

const (
	maxPause  = 10 * time.Minute // longest cooldown of a service that had no capacity for another job
	unpaidFor = 24 * time.Hour   // cooldown of a service that wants to be paid first
	maxBusy   = 4                // requests to one provider for one job that it may refuse for want of capacity
)

// backoff is a reason to ask other services first, for any job.
type backoff struct {
	Refused int        `json:"refused,omitempty"` // requests in a row that it refused for want of capacity
	At      int64      `json:"at,omitempty"`      // Unix ms of the last of them
	Wanted  int64      `json:"wanted,omitempty"`  // Unix ms when it asked to be paid first
	Quote   guild.Msat `json:"quote,omitempty"`   // what it asked for then
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

// demand notes that a service wants to be paid first.
type demand struct {
	of    guild.Service
	until int64 // Unix ms: when it is forgotten
}

// paused returns the end of the cooldown for want of capacity, Unix ms. Each refusal in a row doubles it.
func (s backoff) paused(first time.Duration) int64 {
	if s.Refused == 0 {
		return 0
	}
	pause := first
	for n := 1; n < s.Refused && pause < maxPause; n++ {
		pause *= 2
	}
	return s.At + min(pause, max(maxPause, first)).Milliseconds()
}

// unpaid returns the end of the cooldown of a service that wants to be paid first, Unix ms.
func (s backoff) unpaid() int64 {
	if s.Wanted == 0 {
		return 0
	}
	return s.Wanted + unpaidFor.Milliseconds()
}

// deriveDemands computes the list of demands from the backoffs.
func (s *state) deriveDemands() {
	for of, one := range s.Backoffs.All() {
		if until := one.unpaid(); until > 0 {
			s.demands = append(s.demands, demand{guild.Service(of), until})
		}
	}
	slices.SortFunc(s.demands, func(a, b demand) int {
		return cmp.Or(cmp.Compare(a.until, b.until), slices.Compare(a.of.PubKey[:], b.of.PubKey[:]), cmp.Compare(a.of.D, b.of.D))
	})
}

// updateBackoff changes the backoff of a service by its answer. It is called before the fact is applied to the attempt. A
// service that begins a request, or delivers, has capacity again. Refusals of requests that overlapped count once.
func (s *state) updateBackoff(one fact.Fact, at int64) {
	switch one := one.(type) {
	case fact.AttemptRefused:
		s.backOff(one.Attempt, func(a Attempt, now *backoff) {
			switch {
			case one.Later:
				if now.Refused == 0 || a.At >= now.At {
					now.Refused++
				}
				now.At = at
			case a.State == guild.Quoted:
				now.Wanted, now.Quote = at, a.Quote
				s.demands = append(s.demands, demand{a.Provider, now.unpaid()})
			}
		})
	case fact.AttemptProgressed:
		s.backOff(one.Attempt, func(a Attempt, now *backoff) {
			if a.Heard == 0 && !one.Fault && one.Status != string(nip90.Other) {
				now.Refused, now.At = 0, 0
			}
		})
	case fact.AttemptDelivered:
		s.backOff(one.Attempt, func(a Attempt, now *backoff) {
			now.Refused, now.At = 0, 0
			if a.At >= now.Wanted {
				now.Wanted, now.Quote = 0, 0
			}
		})
	}
}

// backOff changes the backoff of the service that an attempt waits for.
func (s *state) backOff(attempt nostr.ID, by func(Attempt, *backoff)) {
	job, ok := s.Jobs.Get(s.attempts.Of(attempt))
	if !ok {
		return
	}
	i := job.index(attempt)
	if i < 0 || !job.Attempts[i].State.Waiting() {
		return
	}
	of := serviceKey(job.Attempts[i].Provider)
	was := s.Backoffs.Of(of)
	now := was
	by(job.Attempts[i], &now)
	switch now {
	case was:
	case backoff{}:
		s.Backoffs.Delete(of)
	default:
		s.Backoffs.Set(of, now)
	}
}

// backoffOf returns the backoff of a service.
func (f *Fold) backoffOf(service guild.Service) backoff {
	return fold.Read(f.State, func(s *state) backoff { return s.Backoffs.Of(serviceKey(service)) })
}

// endedDemands returns the services whose demand to be paid first is forgotten by now. It returns each once.
func (f *Fold) endedDemands(now time.Time) (all []guild.Service) {
	f.Change(func(s *state) {
		n := 0
		for ; n < len(s.demands) && s.demands[n].until <= now.UnixMilli(); n++ {
			all = append(all, s.demands[n].of)
		}
		s.demands = slices.Clip(s.demands[n:])
	})
	return all
}

// endDemands has the matrix read the services anew whose demand to be paid first is forgotten.
func (j *Jobs) endDemands(now time.Time) {
	for _, s := range j.fold.endedDemands(now) {
		j.matrix.Touch(s)
	}
}

// asked reports whether a provider has had its turn. A provider that only had no capacity may have another, up to maxBusy
// times.
func (j *Job) asked(p nostr.PubKey) bool {
	busy := 0
	for _, a := range j.Attempts {
		switch {
		case a.Provider.PubKey != p:
		case !a.Later:
			return true
		default:
			busy++
		}
	}
	return busy >= maxBusy
}

// again returns when a provider that had no capacity for a job may be asked for it once more: each time after twice the
// pause. busy is false for a provider that did not refuse for want of capacity.
func (j *Jobs) again(job *Job, p nostr.PubKey) (when time.Time, busy bool) {
	pause := j.c.Patience.Busy
	for _, a := range job.Attempts {
		if a.Provider.PubKey == p && a.Later {
			when, busy = time.UnixMilli(a.Over).Add(pause), true
			pause *= 2
		}
	}
	return when, busy
}

// Bounds on a provider's report of its capacity.
const (
	maxReport   = 1 << 10   // bytes
	maxReported = 1_000_000 // requests
)

// report reads a provider's report of its capacity, the content of a processing feedback: an object with both numbers,
// and perhaps a text for people. Any other content is text, and c is nil (the partnership protocol, section 5.3.3).
func report(content string) (c *fact.Capacity, text string) {
	content = strings.TrimSpace(content)
	if len(content) > maxReport || !strings.HasPrefix(content, "{") {
		return nil, ""
	}
	var read struct {
		Queue *int   `json:"queue_depth"`
		Idle  *int   `json:"idle_capacity"`
		Text  string `json:"text"`
	}
	if json.Unmarshal([]byte(content), &read) != nil || read.Queue == nil || read.Idle == nil {
		return nil, ""
	}
	for _, n := range [...]int{*read.Queue, *read.Idle} {
		if n < 0 || n > maxReported {
			return nil, ""
		}
	}
	return &fact.Capacity{Queue: *read.Queue, Idle: *read.Idle}, read.Text
}

// processing returns the text of a processing feedback, and the capacity that it reports, if it does.
func processing(f nip90.Feedback) (text string, c *fact.Capacity) {
	c, words := report(f.Content)
	if c == nil {
		return wordsOf(f), nil
	}
	return cmp.Or(f.Text, words, c.String()), c
}
