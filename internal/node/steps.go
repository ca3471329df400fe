package node

import (
	"cmp"
	"context"
	"path/filepath"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/market/registry"
	"guild/internal/policy"
	"guild/internal/step/jobs"
	"guild/internal/step/judge"
	"guild/internal/step/partner"
	"guild/internal/step/record"
	"guild/nip89"
)

// partnerPart makes the registry of announced services, which takes the events, and the step that decides the state of
// each provider.
func (n *Node) partnerPart() part {
	f, observed := partner.NewFold(n.c.Policy), partner.NewObserved()
	n.folds.partners, n.folds.observed = f, observed
	stopped := func() registry.Config {
		return registry.Config{Journal: n.journal, Now: n.c.Now, Synonyms: n.c.Hiring.Synonyms, Observed: observed}
	}
	partners := func(hears func() time.Time) *partner.Partners {
		return partner.New(partner.Config{
			Journal: n.journal, Now: n.c.Now, Latest: n.registry.Latest, Services: n.registry.Services, Hears: hears,
		}, f)
	}
	return part{
		name: "registry", folds: []fold.Fold{f, observed},
		open: func(ctx context.Context) (active, error) {
			c := stopped()
			c.Changed, c.Touched = n.offersChanged, n.touched
			c.Follow, c.Own = n.c.Hiring.Follow, n.urls
			var err error
			if n.registry, err = registry.Open(ctx, c, f); err != nil {
				return active{}, err
			}
			n.partners = partners(n.connectivity.since)
			return active{due: []due.Source{n.partners.Due}, routes: []route{
				{from: registry.Kind, take: n.registry.Observe},
				{from: registry.KindRelays, take: n.registry.Observe},
				{from: nip89.KindRecommendation, take: n.registry.Observe},
				{from: kindDeletion, only: n.registry.Deletes, take: n.registry.Observe},
			}}, nil
		},
		inspect: func(ctx context.Context, seen bool) (err error) {
			if !seen {
				return nil
			}
			if n.registry, err = registry.Open(ctx, stopped(), f); err != nil {
				return err
			}
			n.partners = partners(nil)
			return nil
		},
		show: func(s *control.Parts) {
			s.Registry, s.Partners, s.Observed, s.Providers = n.registry, n.partners, observed, f
		},
	}
}

// offersChanged wakes whatever waits for a provider.
func (n *Node) offersChanged() {
	n.meet.OffersChanged()
	n.runner.Wake()
}

// touched tells the router to read a service again. Before the router exists, nothing needs to be done: it reads all
// services on first use.
func (n *Node) touched(s guild.Service) {
	if n.jobs != nil {
		n.jobs.Touch(s)
	}
}

// jobsPart makes the customer's step.
func (n *Node) jobsPart() part {
	f := jobs.NewFold()
	n.folds.jobs = f
	return part{
		name: "jobs", folds: []fold.Fold{f}, finished: f.Finished,
		open: func(context.Context) (active, error) {
			n.jobs = jobs.New(jobs.Config{
				Journal: n.journal, Blobs: n.blobs, Keyer: n.keyer, PubKey: n.pubkey, Node: n.name(), Now: n.c.Now,
				Market: hiringMarket{n}, Network: hiringNetwork{n}, Trust: n.folds.trust.Trust,
				Upload: n.payloads.Upload, Fetch: n.payloads.Fetch, Unseal: n.vaultKey.open, SealFor: n.vaultKey.sealFor,
				Patience: n.c.Hiring.Patience, Limits: n.c.Hiring.Limits, Budgets: n.c.Learning.Budgets, Thresholds: n.c.Learning.Thresholds,
				NewHold:   func(unit string) *fact.Hold { return n.pay.NewHold(unit) },
				Locks:     func(terms string) bool { return n.pay.Locks(terms) },
				Variables: n.folds.variables, UpToDate: n.learned, OfferOf: n.registry.OfferOf,
				Policy: func() (policy.Policy, guild.Hash) { return n.c.Policy, n.folds.trust.Policy() },
			}, f)
			return active{large: []due.Large{{All: n.jobs.Due, Under: n.jobs.DueUnder}}, routes: []route{
				{from: 6000, to: 6999, take: anyRelay(n.jobs.Observe)},
				{from: kindFeedback, take: anyRelay(n.jobs.Observe)},
			}}, nil
		},
		show: func(s *control.Parts) { s.Jobs, s.Fold = n.jobs, f },
	}
}

// Kind returns the NIP-90 kind of requests for a task.
func (n *Node) Kind(task string) int { return cmp.Or(n.c.Hiring.Kinds[task], guild.KindOf(task)) }

// learned reports whether trust has processed all evidence about a task, or learns no more because another policy was
// adopted.
func (n *Node) learned(task string) bool {
	return n.folds.trust.Adopted() != n.folds.trust.Policy() || n.folds.trust.UpToDate(task)
}

// judgePart makes the step that judges deliveries. It never runs code outside a sandbox; without one, each judgement
// fails with the reason.
func (n *Node) judgePart() part {
	f, baselines := judge.NewFold(), judge.NewBaselines()
	var step *judge.Step
	return part{
		name: "judge", folds: []fold.Fold{f, baselines},
		open: func(context.Context) (active, error) {
			examine := n.c.Examine
			switch {
			case examine != nil:
			case n.unboxed != nil:
				examine = func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
					return guild.Verdict{}, nil, n.unboxed
				}
			default:
				examine = judge.On(n.runnerBox, n.caps, judge.Config{
					Cache: cmp.Or(n.c.Judging.Cache, filepath.Join(n.c.Dir, "judge")), Analysis: n.c.Judging.Analysis, Warm: true, Typed: n.checker(),
				}).Hear
			}
			step = judge.NewStep(judge.StepConfig{
				Blobs: n.blobs, Scratch: n.scratch(), Examine: examine, Opinion: n.opinion(), Baseline: baselines.Baseline, Now: n.c.Now,
			}, f)
			return active{due: []due.Source{step.Due}, limits: map[string]int{judge.Class: n.c.Judging.AtOnce}}, nil
		},
		show: func(s *control.Parts) { s.Judge, s.Judging = step, f },
	}
}

// recordPart makes the step that writes receipts and trajectories.
func (n *Node) recordPart() part {
	f := record.NewFold()
	return part{
		name: "record", folds: []fold.Fold{f},
		open: func(context.Context) (active, error) {
			c := record.Config{Blobs: n.blobs, Policy: n.folds.trust.Policy, Producer: "guild@" + n.c.Version, Signer: n.keyer}
			if n.c.Records.Publish {
				c.Publish = n.publish
			}
			return active{due: []due.Source{record.New(c, f).Due}}, nil
		},
		show: func(s *control.Parts) { s.Record = f },
	}
}

// find queries relays for stored events. Connections to relays that are not ours are temporary, and only to public
// addresses.
func (n *Node) find(ctx context.Context, f nostr.Filter, relays []string) ([]guild.Verified, error) {
	return n.pool.Query(ctx, []nostr.Filter{f}, relays...)
}
