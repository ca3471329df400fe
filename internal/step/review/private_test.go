package review

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/nipreview"
)

// asksFor plans an attempt of a service in a job, and returns the attempt.
func (w *world) asksFor(s guild.Service, j fact.JobOpened) nostr.ID {
	w.Helper()
	w.attempts++
	id, job := nostr.ID{0xa, byte(w.attempts)}, guild.JobID{byte(w.attempts)}
	j.Job, j.Task, j.Kind = job, python, 5000
	w.Write(fact.JobSubject(job), j)
	w.Write(fact.JobSubject(job), fact.AttemptPlanned{Attempt: id, Job: job, Provider: s, Request: nostr.Event{Kind: 5000}})
	w.Write(fact.JobSubject(job), fact.AttemptRequested{Attempt: id})
	return id
}

var secret = fact.JobOpened{Private: true}

// worksInSecret is like works, for a private job.
func (w *world) worksInSecret(s guild.Service, to guild.Trust) nostr.ID {
	w.Helper()
	id := w.asksFor(s, secret)
	w.judges(id, guild.Success, 950_000)
	w.learns(s, id, to)
	return id
}

func TestPrivateJobIsNotNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := newWorld(t, func(c *Config) { c.Mirrors = true }), alice.service()
		open := w.works(s, 600_000)
		hidden := w.worksInSecret(s, 620_000)
		w.Pass(day + time.Second)
		if said := w.wants(1, "3.48"); said.Request != open || said.Evidence.ReceiptHash != guild.Sum(open[:]) {
			t.Errorf("it names %.8s and %+v, want the job that everybody may know of", said.Request.Hex(), said.Evidence)
		}
		for _, p := range w.published {
			if strings.Contains(p.Event.String(), hidden.Hex()) {
				t.Errorf("kind %d names the private job", p.Kind)
			}
		}
	})
}

func TestOnlyPrivateJobs(t *testing.T) {
	for name, j := range map[string]fact.JobOpened{"private": secret, "with credentials": {Release: &fact.Release{}}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := 0
				w, s := newWorld(t, func(c *Config) {
					c.Mirrors = true
					c.Share = func(context.Context, guild.Hash) error { shared++; return nil }
				}), alice.service()
				id := w.asksFor(s, j)
				w.judges(id, guild.Violation, 0)
				w.worksInSecret(s, 600_000)
				w.Pass(2 * day)
				w.wants(0, "")
				if ours := w.OursOf(s, python); len(ours) != 1 || ours[0].State != Held || !strings.Contains(ours[0].Reason, "private") {
					t.Errorf("%+v", ours)
				}
				w.restart()
				w.Pass(day)
				w.wants(0, "")
				if err := w.Publish(t.Context(), s, python); err != nil {
					t.Fatal(err)
				}
				w.Pass(0)
				said := w.wants(1, "3.4")
				if said.Request != nostr.ZeroID || said.JobKind != 0 || said.Evidence.Receipt != "" || !said.Evidence.ReceiptHash.IsZero() || !said.Evidence.VerdictHash.IsZero() {
					t.Errorf("%+v", said)
				}
				if shared != 0 || len(w.sent(nipreview.KindJobReview)) != 0 {
					t.Errorf("%d receipts are shared, %d mirrors name a job", shared, len(w.sent(nipreview.KindJobReview)))
				}
				open := w.works(s, 900_000) // a public job is a reason to publish a review
				w.Pass(time.Second)
				if said := w.wants(2, "4.6"); said.Request != open {
					t.Errorf("it names %.8s", said.Request.Hex())
				}
			})
		})
	}
}

// Others must be able to verify a review, so its receipt is uploaded before the review is published. The review is
// published even if the upload fails.
func TestReceiptBeforeReview(t *testing.T) {
	for name, refused := range map[string]error{"taken": nil, "refused": errors.New("507 Insufficient Storage")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *world
				var mu sync.Mutex
				var shared []guild.Hash
				early := true
				w = newWorld(t, func(c *Config) {
					c.Share = func(_ context.Context, h guild.Hash) error {
						early = early && len(w.sent(Kind)) == 0
						mu.Lock()
						defer mu.Unlock()
						shared = append(shared, h)
						return refused
					}
				})
				id := w.works(alice.service(), 600_000)
				w.Pass(day + time.Second)
				said := w.wants(1, "3.4")
				mu.Lock()
				defer mu.Unlock()
				if len(shared) != 1 || shared[0] != guild.Sum(id[:]) || shared[0] != said.Evidence.ReceiptHash || !early {
					t.Errorf("%s were shared, before the review: %t", shared, early)
				}
			})
		})
	}
}
