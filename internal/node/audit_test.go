package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
)

// ledger records the history of some jobs from all sides: the facts of the customer and of the providers, the workers,
// and the judge.
type ledger struct {
	mu        sync.Mutex
	asked     int                           // jobs that are opened in total
	opened    []guild.JobID                 // by job.opened
	closed    map[guild.JobID][]closing     // by job.closed
	over      map[guild.JobID]chan struct{} // closed by the first entry of closed
	attempts  map[nostr.ID]guild.JobID      // by attempt.planned
	providers map[nostr.ID]nostr.PubKey     // by attempt.planned
	count     map[nostr.ID]map[string]int   // request event → fact, on either side → times
	runs      map[run1]int                  // number of starts of a worker
	delivered map[string]int                // input of a job → the provider whose delivery was accepted
	jobs      map[guild.JobID]control.Job   // final state of the jobs at the customer
	inputs    map[guild.JobID]string
	keys      []nostr.PubKey // of the providers, by number
	busy      []string       // work that is still running at the end
}

// run1 identifies a request at a worker: a provider is asked at most once for a job.
type run1 struct {
	provider int
	job      string
}

type closing struct {
	ending guild.Ending
	reason string
}

func newLedger(asked int) *ledger {
	return &ledger{
		asked: asked, closed: map[guild.JobID][]closing{}, over: map[guild.JobID]chan struct{}{}, attempts: map[nostr.ID]guild.JobID{},
		providers: map[nostr.ID]nostr.PubKey{}, count: map[nostr.ID]map[string]int{}, runs: map[run1]int{},
		delivered: map[string]int{}, jobs: map[guild.JobID]control.Job{}, inputs: map[guild.JobID]string{},
	}
}

// enter records an entry of the customer's or a provider's journal.
func (l *ledger) enter(e fact.Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range e.Facts {
		switch f := f.(type) {
		case fact.JobOpened:
			l.opened = append(l.opened, f.Job)
		case fact.JobClosed:
			if l.closed[f.Job] = append(l.closed[f.Job], closing{f.Ending, f.Reason}); len(l.closed[f.Job]) == 1 {
				close(l.end(f.Job))
			}
		case fact.AttemptPlanned:
			l.attempts[f.Attempt], l.providers[f.Attempt] = f.Job, f.Provider.PubKey
			l.add(f.Attempt, f)
		case fact.AttemptRequested:
			l.add(f.Attempt, f)
		case fact.AttemptDelivered:
			l.add(f.Attempt, f)
		case fact.AttemptJudged:
			l.add(f.Attempt, f)
		case fact.AttemptRecorded:
			l.add(f.Attempt, f)
		case fact.RequestReceived:
			l.add(f.Request, f)
		case fact.RequestFinished:
			l.add(f.Request, f)
		}
	}
}

func (l *ledger) add(request nostr.ID, f fact.Fact) {
	if l.count[request] == nil {
		l.count[request] = map[string]int{}
	}
	l.count[request][f.Type()]++
}

// end returns a channel that is closed when a job is. The lock must be held.
func (l *ledger) end(job guild.JobID) chan struct{} {
	if l.over[job] == nil {
		l.over[job] = make(chan struct{})
	}
	return l.over[job]
}

// follow waits for the end of a job, and records its input.
func (l *ledger) follow(ctx context.Context, job guild.JobID, input string) error {
	l.mu.Lock()
	l.inputs[job] = input
	over := l.end(job)
	l.mu.Unlock()
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("job %s: %w", job.Short(), ctx.Err())
	}
}

// ran records that a worker was started.
func (l *ledger) ran(provider int, job string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run1{provider, job}]++
}

// judged records the provider of an accepted delivery.
func (l *ledger) judged(input string, provider int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delivered[input] = provider
}

// audit returns violations of what must hold whatever the relays do. An honest ending other than success is not a
// violation.
func (l *ledger) audit() (wrong []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if len(l.opened) != l.asked {
		say("%d jobs were opened, want %d", len(l.opened), l.asked)
	}
	for _, id := range l.opened {
		wrong = append(wrong, l.auditJob(id)...)
	}
	for request, count := range l.count {
		for f, n := range count {
			if n > 1 {
				say("request %.8s: %s %d times", request.Hex(), f, n)
			}
		}
		if _, ours := l.attempts[request]; !ours {
			say("request %.8s was taken, and never asked", request.Hex())
		}
		if count["attempt.delivered"] > count["request.finished"] {
			say("request %.8s: a delivery that its provider did not make", request.Hex())
		}
	}
	for r, n := range l.runs {
		if n > 1 {
			say("provider %d was started %d times on job %.8s", r.provider, n, r.job)
		}
	}
	for _, what := range l.busy {
		say("still going on: %s", what)
	}
	slices.Sort(wrong)
	return wrong
}

func (l *ledger) auditJob(id guild.JobID) (wrong []string) {
	say := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("job %s: ", id.Short())+fmt.Sprintf(format, args...))
	}
	ends := l.closed[id]
	if len(ends) != 1 {
		say("closed %d times: %v", len(ends), ends)
		return wrong
	}
	job, accepted := l.jobs[id], 0
	for _, a := range job.Attempts {
		if !slices.Contains([]guild.State{guild.Accepted, guild.Refused, guild.Expired, guild.Cancelled, guild.Parked}, guild.State(a.State)) {
			say("attempt %.8s is %s", a.ID, a.State)
		}
		if a.State == string(guild.Accepted) {
			accepted++
			if by, ok := l.delivered[l.inputs[id]]; !ok || l.keys[by].Hex() != a.Provider {
				say("accepted of %.8s, who did not deliver it", a.Provider)
			}
		}
	}
	switch ending := ends[0].ending; {
	case ending == guild.JobAccepted && accepted != 1:
		say("accepted, with %d accepted attempts", accepted)
	case ending != guild.JobAccepted && accepted != 0:
		say("%s, with %d accepted attempts", ending, accepted)
	case ending != guild.JobAccepted && ending != guild.JobTimedOut && ending != guild.JobUnclaimed:
		say("ended %s: %s", ending, ends[0].reason)
	case ending != guild.JobAccepted && ends[0].reason == "":
		say("%s, and nobody says why", ending)
	}
	return wrong
}

// endings counts the jobs by ending.
func (l *ledger) endings() map[guild.Ending]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[guild.Ending]int{}
	for _, ends := range l.closed {
		for _, c := range ends {
			all[c.ending]++
		}
	}
	return all
}

// sound returns a ledger without violations, of two jobs: provider 0 did one, and no provider answered the other.
func sound() *ledger {
	l := newLedger(2)
	done, silent := guild.JobID{1}, guild.JobID{2}
	first, second := nostr.ID{1}, nostr.ID{2}
	bob := guild.Service{PubKey: nostr.PubKey{7}, D: "echo"}
	l.keys = []nostr.PubKey{bob.PubKey}
	l.inputs[done], l.inputs[silent] = "one", "two"
	for _, f := range []fact.Fact{
		fact.JobOpened{Job: done}, fact.AttemptPlanned{Attempt: first, Job: done, Provider: bob}, fact.AttemptRequested{Attempt: first},
		fact.RequestReceived{Request: first}, fact.RequestFinished{Request: first},
		fact.AttemptDelivered{Attempt: first}, fact.AttemptJudged{Attempt: first}, fact.AttemptRecorded{Attempt: first},
		fact.JobClosed{Job: done, Ending: guild.JobAccepted},
		fact.JobOpened{Job: silent}, fact.AttemptPlanned{Attempt: second, Job: silent, Provider: bob}, fact.AttemptRequested{Attempt: second},
		fact.AttemptRecorded{Attempt: second}, fact.JobClosed{Job: silent, Ending: guild.JobTimedOut, Reason: "no answer"},
	} {
		l.enter(fact.Entry{Facts: []fact.Fact{f}})
	}
	l.ran(0, done.String())
	l.judged("one", 0)
	l.jobs[done] = control.Job{Attempts: []control.Attempt{{ID: first.Hex(), Provider: bob.PubKey.Hex(), State: string(guild.Accepted)}}}
	l.jobs[silent] = control.Job{Attempts: []control.Attempt{{ID: second.Hex(), Provider: bob.PubKey.Hex(), State: string(guild.Expired)}}}
	return l
}

// TestLedgerAudit breaks a sound ledger in every way that audit must detect.
func TestLedgerAudit(t *testing.T) {
	if wrong := sound().audit(); len(wrong) != 0 {
		t.Fatalf("in a sound ledger: %q", wrong)
	}
	done, silent, first := guild.JobID{1}, guild.JobID{2}, nostr.ID{1}
	enter := func(f fact.Fact) func(*ledger) { return func(l *ledger) { l.enter(fact.Entry{Facts: []fact.Fact{f}}) } }
	for _, c := range []struct {
		name  string
		spoil func(*ledger)
		want  string
	}{
		{"a job is lost before it is opened", func(l *ledger) { l.asked++ }, "2 jobs were opened, want 3"},
		{"a job is never closed", func(l *ledger) { delete(l.closed, silent) }, "closed 0 times"},
		{"a job is closed twice", enter(fact.JobClosed{Job: done, Ending: guild.JobAccepted}), "closed 2 times"},
		{"a worker runs twice", func(l *ledger) { l.ran(0, done.String()) }, "started 2 times"},
		{"a request is taken twice", enter(fact.RequestReceived{Request: first}), "request.received 2 times"},
		{"a request is answered twice", enter(fact.RequestFinished{Request: first}), "request.finished 2 times"},
		{"an attempt is delivered twice", enter(fact.AttemptDelivered{Attempt: first}), "attempt.delivered 2 times"},
		{"an attempt is judged twice", enter(fact.AttemptJudged{Attempt: first}), "attempt.judged 2 times"},
		{"a request is made up", enter(fact.RequestReceived{Request: nostr.ID{9}}), "never asked"},
		{"a delivery is made up", func(l *ledger) { delete(l.count[first], "request.finished") }, "a delivery that its provider did not make"},
		{"somebody else's delivery is accepted", func(l *ledger) { l.keys[0] = nostr.PubKey{8} }, "who did not deliver it"},
		{"two attempts are accepted", func(l *ledger) {
			j := l.jobs[done]
			j.Attempts = append(j.Attempts, j.Attempts[0])
			l.jobs[done] = j
		}, "with 2 accepted attempts"},
		{"an attempt never ends", func(l *ledger) { l.jobs[silent].Attempts[0].State = string(guild.Requested) }, "is requested"},
		{"a good delivery is thrown away", func(l *ledger) { l.jobs[silent].Attempts[0].State = string(guild.Accepted) }, "with 1 accepted attempts"},
		{"nobody says why", func(l *ledger) { l.closed[silent][0].reason = "" }, "nobody says why"},
		{"a person is needed", func(l *ledger) { l.closed[silent][0].ending = guild.JobParked }, "ended parked"},
		{"a worker hangs", func(l *ledger) { l.busy = []string{"provider 0 works"} }, "still going on"},
	} {
		l := sound()
		c.spoil(l)
		if wrong := l.audit(); !strings.Contains(strings.Join(wrong, "\n"), c.want) {
			t.Errorf("%s: the audit says %q, want %q", c.name, wrong, c.want)
		}
	}
}

// counts formats counts for a table, the largest first.
func counts[K ~string](of map[K]int) string {
	keys := slices.SortedFunc(maps.Keys(of), func(a, b K) int {
		if of[a] != of[b] {
			return of[b] - of[a]
		}
		return strings.Compare(string(a), string(b))
	})
	var parts []string
	for _, k := range keys {
		if of[k] != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, of[k]))
		}
	}
	return strings.Join(parts, ", ")
}
