package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

// Spans that are compared with the floor's.
const (
	requestToResult = "request → result"    // the floor: from before signing until the result is verified
	hireToDelivered = "hire → delivered"    // from the call of the control API until the delivery is folded
	openToDelivered = "opened → delivered"  // from job.opened being folded
	planToDelivered = "planned → delivered" // from attempt.planned being folded, when the request event is signed
)

// hired is the time before the call of the control API. The other times have the names of the folded facts.
const hired = "hire"

// span is the time between two events of a job.
type span struct{ name, from, to string }

// compared are the spans in the main table. stages are the parts of the first of them, and the time after it.
var (
	compared = [...]span{
		{hireToDelivered, hired, "attempt.delivered"},
		{openToDelivered, "job.opened", "attempt.delivered"},
		{planToDelivered, "attempt.planned", "attempt.delivered"},
	}
	stages = [...]span{
		{"hire → opened", hired, "job.opened"},
		{"opened → planned", "job.opened", "attempt.planned"},
		{"planned → received", "attempt.planned", "request.received"},
		{"received → finished", "request.received", "request.finished"},
		{"finished → delivered", "request.finished", "attempt.delivered"},
		{"delivered → closed", "attempt.delivered", "job.closed"},
	}
)

// stopwatch records the time at which each fact of each job was folded. It receives Appended of both nodes of a pair.
type stopwatch struct {
	mu              sync.Mutex
	jobs            map[guild.JobID]*timeline
	attempts        map[nostr.ID]guild.JobID
	request, result int // bytes of content of the latest events
}

// timeline has the times of one job.
type timeline struct {
	at     map[string]time.Time // by type, when the first fact of it was folded
	ending guild.Ending
	closed chan struct{}
}

// appended records an entry of either node.
func (s *stopwatch) appended(e fact.Entry) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range e.Facts {
		if id, ok := s.jobOf(one); ok {
			t := s.job(id)
			if _, again := t.at[one.Type()]; !again {
				t.at[one.Type()] = now
			}
			if closed, ok := one.(fact.JobClosed); ok {
				t.ending = closed.Ending
				close(t.closed)
			}
		}
	}
}

// job returns the timeline of a job. It can start before the customer knows the job's id.
func (s *stopwatch) job(id guild.JobID) *timeline {
	t := s.jobs[id]
	if t == nil {
		t = &timeline{at: map[string]time.Time{}, closed: make(chan struct{})}
		s.jobs[id] = t
	}
	return t
}

// jobOf returns the job of a fact. It handles only facts at which a span begins or ends.
func (s *stopwatch) jobOf(one fact.Fact) (id guild.JobID, ok bool) {
	switch one := one.(type) {
	case fact.JobOpened:
		return one.Job, true
	case fact.AttemptPlanned:
		s.attempts[one.Attempt], s.request = one.Job, len(one.Request.Content)
		return one.Job, true
	case fact.RequestReceived:
		id, ok = s.attempts[one.Request]
	case fact.RequestFinished:
		id, ok = s.attempts[one.Request]
		for _, answer := range one.Answers {
			s.result = len(answer.Content)
		}
	case fact.AttemptDelivered:
		id, ok = s.attempts[one.Attempt]
	case fact.JobClosed:
		return one.Job, true
	}
	return id, ok
}

// lap waits until a job is closed and returns its spans.
func (s *stopwatch) lap(ctx context.Context, id guild.JobID, start time.Time) (lap, error) {
	s.mu.Lock()
	t := s.job(id)
	s.mu.Unlock()
	select {
	case <-t.closed:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, id)
	if t.ending != guild.JobAccepted {
		return nil, fmt.Errorf("job %s ended as %s", id.Short(), t.ending)
	}
	t.at[hired] = start
	l := lap{}
	for _, spans := range [][]span{compared[:], stages[:]} {
		for _, sp := range spans {
			l[sp.name] = t.at[sp.to].Sub(t.at[sp.from])
		}
	}
	return l, nil
}

// sizes returns the content sizes of a request and a result, in bytes.
func (s *stopwatch) sizes() (request, result int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.request, s.result
}
