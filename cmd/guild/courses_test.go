package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// course is one way that a job of a customer that is killed again and again can go.
type course struct {
	name   string
	silent int                                                        // of three providers, those who never deliver
	before func(t *testing.T, w *town, home string) (job string)      // done in peace
	hire   func(providers []string, before string) control.Hire       // what is asked for then
	want   map[string]int                                             // how often each fact is there in the end
	check  func(t *testing.T, all []fact.Entry, job string, r worked) // what else must be true
}

// courses are those that Meeting brings. Meetings have their own test.
func courses() []course {
	return []course{
		{
			name: "open to offers",
			hire: func([]string, string) control.Hire { return control.Hire{Open: true} },
			want: map[string]int{"job.solicited": 1, "job.offered": 3, "attempt.planned": 1, "attempt.delivered": 1,
				"attempt.judged": 1, "attempt.recorded": 1, "trust.changed": 1},
		},
		{
			name:   "done by three, compared, and the last one is cancelled",
			silent: 1,
			hire: func(providers []string, _ string) control.Hire {
				return control.Hire{Criticality: string(guild.High), Providers: providers}
			},
			want: map[string]int{"attempt.planned": 3, "attempt.delivered": 2, "attempt.judged": 2, "attempt.compared": 2,
				"attempt.cancelled": 1, "attempt.recorded": 3, "trust.changed": 2},
		},
		{
			name: "built on another job",
			before: func(t *testing.T, w *town, home string) string {
				node, customer := w.mortalUp(home, 0), w.client(home)
				defer node.kill()
				node.says(t, "ready")
				id, _ := hire(t.Context(), customer, pack(t, greeting()), "")
				job := ending(t, customer, id)
				mustBeDoneOnce(t, entries(t, customer), job)
				eventually(t, "nothing is left to be said of it", func(ctx context.Context) error {
					all, err := journalOf(ctx, customer)
					if under := underWay(all); err != nil || len(under) > 0 || told(all, id)["attempt.told"] == 0 {
						return fmt.Errorf("%v, %w", under, err)
					}
					return nil
				})
				return id
			},
			hire: func(_ []string, before string) control.Hire {
				return control.Hire{Inputs: []control.Input{{Data: before, Type: "job"}}}
			},
			want: map[string]int{"attempt.planned": 1, "attempt.delivered": 1, "attempt.judged": 1, "attempt.recorded": 1,
				"trust.changed": 1},
			check: func(t *testing.T, _ []fact.Entry, job string, r worked) {
				if !slices.Contains(r[job], "with 01.nut") {
					t.Errorf("the worker had %q, and not the delivery that it builds on", r[job])
				}
			},
		},
	}
}

// worked returns the notes of workers on their runs, by job.
type worked map[string][]string

// noting returns the beginning of a worker that notes each of its runs in a file.
func noting(file string) string {
	return fmt.Sprintf(`echo "$GUILD_JOB with $(ls "${GUILD_INPUTS:-/nowhere}" 2>/dev/null | grep ^01)" >>%s; `, file)
}

func runsIn(t *testing.T, file string) worked {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	r := worked{}
	for line := range strings.Lines(string(b)) {
		job, with, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		r[job] = append(r[job], with)
	}
	return r
}

// TestCustomerSurvivesKillOfEachFact kills the customer after each sort of fact that it writes, one death after the
// other, on every course.
func TestCustomerSurvivesKillOfEachFact(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	for _, p := range courses() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.walk(t)
		})
	}
}

func (p course) walk(t *testing.T) {
	w := newTown(t)
	file, home := filepath.Join(w.dir, "runs"), w.settle("customer")
	homes, npubs := w.three(p.silent, file)
	customer, before := w.client(home), ""
	w.adopts(home)
	if p.before != nil {
		before = p.before(t, w, home)
	}
	jobs := 1
	if before != "" {
		jobs++
	}
	first := 1 + 2*p.silent // of those who are asked at once
	node := w.mortalFresh(home, first)
	node.says(t, "ready")
	_, _ = customer.Hire(t.Context(), strings.NewReader(string(pack(t, greeting()))), p.hire(npubs, before)) // it may die before it answers
	deaths := w.dieUntil(home, node, first, func(ctx context.Context) error { return atRest(ctx, customer, jobs) })

	job := newest(t, customer, before)
	eventually(t, "every attempt is recorded", func(ctx context.Context) error { // a cancelled one may be so after all else
		all, err := journalOf(ctx, customer)
		if n := told(all, job.ID)["attempt.recorded"]; err != nil || n < p.want["attempt.recorded"] {
			return fmt.Errorf("%d are, %w", n, err)
		}
		return nil
	})
	all := entries(t, customer)
	if job.Ending != guild.JobAccepted {
		t.Errorf("%s (%s): %+v", job.Ending, job.Reason, job.Attempts)
	}
	counts, want := told(all, job.ID), map[string]int{"job.opened": 1, "job.closed": 1}
	maps.Copy(want, p.want)
	for name, n := range want {
		if counts[name] != n {
			t.Errorf("%d times %s, want %d", counts[name], name, n)
		}
	}
	if counts["attempt.expired"]+counts["attempt.refused"]+counts["attempt.parked"] > 0 {
		t.Errorf("%v", counts)
	}
	mustHoldWhatWasNoted(t, customer, home)
	ran := runsIn(t, file)
	if got := len(ran[job.ID]); got != p.want["attempt.planned"] {
		t.Errorf("workers ran %d times: %q", got, ran[job.ID])
	}
	for _, provider := range homes {
		eventually(t, "its provider knows the end", func(ctx context.Context) error { return askedOnce(ctx, w.client(provider), job.ID) })
	}
	const atOnce = 3 // end, receipt and trust follow from the verdict together: the first to be noted is the death of all
	if least := len(want) - (atOnce - 1); deaths < least {
		t.Errorf("it died %d times only", deaths)
	}
	if p.check != nil {
		p.check(t, all, job.ID, ran)
	}
	if status, err := control.NodeStatus.Call(t.Context(), customer); err != nil || len(status.Parked) != 0 {
		t.Errorf("parked %v, %v", status.Parked, err)
	}
	t.Logf("it died %d times", deaths)
}

// three runs three providers of greetings, the last of which, so many, never deliver.
func (w *town) three(silent int, file string) (homes, npubs []string) {
	w.t.Helper()
	for i := range 3 {
		home, command := w.settle(fmt.Sprintf("provider%d", i)), noting(file)+hello
		if i >= 3-silent {
			command = noting(file) + waitFor(filepath.Join(w.dir, "gate")) // that nobody opens
		}
		w.mortalWork(home, "greeting", command, 0, "-unsandboxed").says(w.t, "ready")
		s, err := control.NodeStatus.Call(w.t.Context(), w.client(home))
		if err != nil {
			w.t.Fatal(err)
		}
		homes, npubs = append(homes, home), append(npubs, s.Npub)
	}
	return homes, npubs
}

// dieUntil starts a mortal node again each time that it has died, until a condition holds. Then it starts one
// that is not killed.
func (w *town) dieUntil(home string, node *process, first int, over func(context.Context) error) (deaths int) {
	w.t.Helper()
	for isOver := false; ; deaths++ {
		eventually(w.t, fmt.Sprintf("its death number %d, or the end", deaths+1), func(ctx context.Context) error {
			select {
			case <-node.ended:
				return nil
			default:
			}
			err := over(ctx)
			isOver = err == nil
			return err
		})
		if isOver {
			node.kill() // whatever it is at
			w.up(home)
			return deaths
		}
		const most = 100
		if deaths == most {
			w.t.Fatal("it never ends")
		}
		node = w.mortalFresh(home, first)
	}
}

// atRest returns what a customer of so many jobs still has to do.
func atRest(ctx context.Context, c *control.Client, jobs int) error {
	all, err := control.Jobs.Call(ctx, c)
	if err != nil {
		return err
	}
	if len(all) != jobs {
		return fmt.Errorf("%d jobs", len(all))
	}
	for _, job := range all {
		for _, a := range job.Attempts {
			if job.Closed == 0 || a.Receipt == "" && a.State != string(guild.Cancelled) || a.Verdict != nil && a.TrustTo == nil {
				return fmt.Errorf("%s %q (%s), attempt %s", short(job.ID), job.Ending, job.Reason, a.State)
			}
		}
		if len(job.Attempts) == 0 {
			return fmt.Errorf("%s: nobody was asked", short(job.ID))
		}
	}
	return nil
}

// underWay lists the effects that were claimed and are not settled.
func underWay(all []fact.Entry) []string {
	begun := map[string]bool{}
	for _, e := range all {
		for _, f := range e.Facts {
			switch f := f.(type) {
			case fact.EffectClaimed:
				begun[f.Effect] = true
			case fact.EffectSettled:
				delete(begun, f.Effect)
			case fact.EffectParked:
				delete(begun, f.Effect)
			}
		}
	}
	return slices.Sorted(maps.Keys(begun))
}

// newest returns the customer's job that was not there before.
func newest(t *testing.T, c *control.Client, before string) control.Job {
	t.Helper()
	all, err := control.Jobs.Call(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(j control.Job) bool { return j.ID == before })
	if len(all) != 1 {
		t.Fatalf("%d jobs", len(all))
	}
	return all[0]
}

// askedOnce says what is wrong unless a provider has received at most one request of a job, and ended it once: by an
// answer, or because the customer took it back.
func askedOnce(ctx context.Context, c *control.Client, job string) error {
	all, err := journalOf(ctx, c)
	if err != nil {
		return err
	}
	var mine []nostr.ID
	ends := map[nostr.ID]int{}
	for _, e := range all {
		for _, f := range e.Facts {
			switch f := f.(type) {
			case fact.RequestReceived:
				if f.Job == job {
					mine = append(mine, f.Request)
				}
			case fact.RequestFinished:
				ends[f.Request]++
			case fact.RequestCancelled:
				ends[f.Request]++
			}
		}
	}
	switch {
	case len(mine) > 1:
		return fmt.Errorf("job %s: it received %d requests", short(job), len(mine))
	case len(mine) == 1 && ends[mine[0]] != 1:
		return fmt.Errorf("job %s: its request ended %d times", short(job), ends[mine[0]])
	}
	return nil
}

// person is a customer that knows NIP-90 and nothing of guild.
type person struct {
	key    *key.Signer
	pubkey nostr.PubKey
	pool   *relay.Pool
}

func (w *town) person() person {
	secret := key.NewSecret(nostr.Generate())
	p := person{key.NewSigner(secret), secret.PubKey(), relay.New(relay.Config{
		URLs: []string{w.relay}, Now: time.Now, Log: slog.New(slog.DiscardHandler), Receive: func(context.Context, string, guild.Verified) {},
	})}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.pool.Run(ctx) }()
	w.t.Cleanup(func() { stop(); <-done })
	return p
}

// asks has a relay take a request.
func (p person) asks(t *testing.T, r nostr.Event) nostr.ID {
	t.Helper()
	r.CreatedAt = nostr.Now()
	v, err := guild.Sign(t.Context(), p.key, r)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	if _, err := p.pool.Publish(ctx, v); err != nil {
		t.Fatal(err)
	}
	return v.Event().ID
}

// answers returns the events of a kind that a relay has about a request.
func (p person) answers(ctx context.Context, request nostr.ID, kind nostr.Kind) ([]guild.Verified, error) {
	return p.pool.Query(ctx, []nostr.Filter{{Kinds: []nostr.Kind{kind}, Tags: nostr.TagMap{"e": {request.Hex()}}}})
}

func TestPlainProviderSurvivesKills(t *testing.T) {
	t.Parallel()
	w := newTown(t)
	customer := w.person()
	for n := 1; n <= 3; n++ { // received, finished, the answer is with a relay
		t.Run(fmt.Sprintf("entry %d", n), func(t *testing.T) {
			t.Parallel()
			w := &town{t, w.dir, w.relay}
			home, runs := w.settle(fmt.Sprintf("provider%d", n)), filepath.Join(w.dir, fmt.Sprintf("runs%d", n))
			command := noting(runs) + `echo hello >"$GUILD_DELIVERY/output.txt"`
			w.adopts(home)
			node := w.mortalWork(home, "oa.greeting.v1", command, n, "-unsandboxed")
			node.says(t, "ready")
			provider := w.client(home)
			id := customer.asks(t, nostr.Event{Kind: 5050, Tags: nostr.Tags{{"p", keyOf(t, provider)}, {"i", "say hello", "text"}}})
			node.wait(t)

			w.work(home, "oa.greeting.v1", command, "--unsandboxed")
			eventually(t, "the answer is with a relay, and nothing is under way", func(ctx context.Context) error {
				got, err := customer.answers(ctx, id, 6050)
				if err != nil || len(got) == 0 {
					return fmt.Errorf("%d answers, %w", len(got), err)
				}
				all, err := journalOf(ctx, provider)
				if under := underWay(all); err != nil || len(under) > 0 {
					return fmt.Errorf("under way: %v, %w", under, err)
				}
				return nil
			})
			got, err := customer.answers(t.Context(), id, 6050)
			if err != nil || len(got) != 1 || got[0].Event().Content != "hello\n" {
				t.Errorf("%d answers, %v: %+v", len(got), err, got)
			}
			failed, err := customer.answers(t.Context(), id, nip90.KindFeedback)
			for _, v := range failed {
				if f, err := nip90.ParseFeedback(v.Event(), nil); err != nil || f.Status != nip90.Processing {
					t.Errorf("%+v, %v", f, err)
				}
			}
			if err != nil || len(failed) > 1 {
				t.Errorf("%d times feedback, %v", len(failed), err)
			}
			if ran := runsIn(t, runs); len(ran) != 1 {
				t.Errorf("its worker ran for %v", ran)
			} else if all := slices.Concat(slices.Collect(maps.Values(ran))...); len(all) != 1 {
				t.Errorf("its worker ran %d times", len(all))
			}
			mustHoldWhatWasNoted(t, provider, home)
		})
	}
}

// In TestTurnedServiceSurvivesKill one job is at work and one waits when the service is told to pause or to drain. The
// node is killed after it wrote that, and again after it wrote that it resumed. The waiting job is done once; a new
// customer waits until the service is offered again, and one that asks all the same is refused for now.
func TestTurnedServiceSurvivesKill(t *testing.T) {
	needSandbox(t)
	t.Parallel()
	tests := []struct {
		state string
		turn  control.Resource[control.Service]
	}{
		{"paused", control.PauseService},
		{"draining", control.DrainService},
	}
	for _, test := range tests {
		t.Run(test.state, func(t *testing.T) {
			t.Parallel()
			w := newTown(t)
			gate, home := filepath.Join(w.dir, "gate"), w.settle("provider")
			if err := os.Mkdir(gate, 0o755); err != nil {
				t.Fatal(err)
			}
			work := func(last string) *process {
				p := w.mortalWork(home, "greeting", waitFor(gate)+hello, 0, "-jobs", "1", "-mount", gate, "-last", last)
				p.says(t, "ready")
				return p
			}
			node, provider := work("service.paused"), w.client(home)
			mine := w.settle("customer")
			w.bySpecification(mine) // it asks a provider that is at work, too
			w.mortalUp(mine, 0).says(t, "ready")
			customer, bundle := w.client(mine), pack(t, greeting())
			meet(t, customer, "greeting")
			first, _ := hire(t.Context(), customer, bundle, "")
			second, _ := hire(t.Context(), customer, bundle, "")
			is(t, provider, "open", 1, 1)

			_, _ = test.turn.Call(t.Context(), provider, "greeting") // it dies before it answers
			node.wait(t)
			node = work("service.resumed")
			running, queued := 0, 2 // paused: whose worker died waits, too
			if test.state == "draining" {
				running, queued = 1, 1
			}
			is(t, provider, test.state, running, queued)
			third, _ := hire(t.Context(), customer, bundle, "")
			stranger := w.person()
			request := stranger.asks(t, nostr.Event{Kind: 5000, Tags: nostr.Tags{{"p", keyOf(t, provider)}, {"param", "job_type", "greeting"}}})
			eventually(t, "who asks all the same is told to come again", func(ctx context.Context) error {
				got, err := stranger.answers(ctx, request, nip90.KindFeedback)
				if err != nil || len(got) != 1 {
					return fmt.Errorf("%d times feedback, %w", len(got), err)
				}
				f, err := nip90.ParseFeedback(got[0].Event(), nil)
				if err != nil || !f.Busy() {
					return fmt.Errorf("%+v, %w", f, err)
				}
				return nil
			})
			is(t, provider, test.state, running, queued)

			_, _ = control.ResumeService.Call(t.Context(), provider, "greeting")
			node.wait(t)
			w.work(home, "greeting", waitFor(gate)+hello, "--jobs", "1", "--mount", gate)
			open(t, gate)
			for _, id := range []string{first, second, third} {
				job := ending(t, customer, id)
				if job.Ending != guild.JobAccepted || len(job.Attempts) != 1 {
					t.Errorf("%s (%s) after %d attempts", job.Ending, job.Reason, len(job.Attempts))
				}
				if err := askedOnce(t.Context(), provider, id); err != nil {
					t.Error(err)
				}
			}
			mustHoldWhatWasNoted(t, provider, home)
		})
	}
}

// is waits until the only service of a provider is in a state, with so many requests running and queued.
func is(t *testing.T, provider *control.Client, state string, running, queued int) {
	t.Helper()
	eventually(t, fmt.Sprintf("it is %s, with %d at work and %d waiting", state, running, queued), func(ctx context.Context) error {
		all, err := control.Services.Call(ctx, provider)
		if err == nil && (len(all) != 1 || all[0].State != state || all[0].Running != running || all[0].Queued != queued) {
			err = fmt.Errorf("%+v", all)
		}
		return err
	})
}

// keyOf returns the public key of a node, in hex.
func keyOf(t *testing.T, node *control.Client) string {
	t.Helper()
	s, err := control.NodeStatus.Call(t.Context(), node)
	if err != nil {
		t.Fatal(err)
	}
	return s.PubKey
}
