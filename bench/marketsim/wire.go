package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/judging/suite"
	"guild/internal/market/registry"
	"guild/internal/market/route"
	"guild/internal/policy"
	"guild/internal/step/jobs"
	"guild/internal/step/meet"
	"guild/internal/step/partner"
	"guild/internal/step/trust"
	"guild/internal/step/trust/variables"
)

// folds has the states that decide about providers.
type folds struct {
	claims    *due.Claims
	jobs      *jobs.Fold
	partners  *partner.Fold
	observed  *partner.Observed
	trust     *trust.Fold
	variables *variables.Fold
	meet      *meet.Fold
}

// open wires the steps as internal/node does.
func (n *node) open(dir string) error {
	trusted, err := trust.NewFold(n.policy)
	if err != nil {
		return err
	}
	f := folds{claims: due.NewClaims(), jobs: jobs.NewFold(), partners: partner.NewFold(n.policy), observed: partner.NewObserved(), trust: trusted, variables: variables.NewFold(n.policy), meet: meet.NewFold()}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	where := filepath.Join(dir, "journal")
	if err := journal.Init(where); err != nil {
		return err
	}
	n.journal, err = journal.Open(n.ctx, journal.Options{
		Dir: where, Node: name, Now: time.Now, NoSync: true, SnapshotEvery: 1000 * day, Log: log, Appended: func(e fact.Entry) { n.appended <- e }, // read by judge
		Folds: []fold.Fold{f.claims, f.jobs, f.partners, f.trust, f.variables, f.observed, f.meet},
	})
	if err != nil {
		return err
	}
	if err := n.openSteps(f, dir, log); err != nil {
		return errors.Join(err, n.journal.Close())
	}
	return nil
}

const name = "marketsim" // name of the node

func (n *node) openSteps(f folds, dir string, log *slog.Logger) (err error) {
	hears := func() time.Time { return n.began }
	n.registry, err = registry.Open(n.ctx, registry.Config{Journal: n.journal, Now: time.Now, Observed: f.observed,
		Changed: n.offersChanged, Touched: n.touched}, f.partners)
	if err != nil {
		return err
	}
	n.partners = partner.New(partner.Config{Journal: n.journal, Now: time.Now, Latest: n.registry.Latest, Services: n.registry.Services, Hears: hears}, f.partners)
	if n.jobs, err = n.openJobs(f, dir); err != nil {
		return err
	}
	n.meet = meet.New(meet.Config{
		Journal: n.journal, Self: n.pubkey, Now: time.Now, Secret: make([]byte, 32), Offers: n.registry.Offers,
		Kind: func(string) int { return kind }, Run: n.benchmark, Make: benchmarkOf, Checkups: n.partners.Checkups,
		Auto: true, Newcomers: n.policy.Lifecycle.Newcomers, Enough: n.policy.Lifecycle.Enough, Count: n.policy.Lifecycle.Meetings, Daily: 5_000 * guild.Msat(n.policy.Lifecycle.Meetings),
	}, f.meet)
	variables, err := variables.New(variables.Config{Journal: n.journal}, f.variables)
	if err != nil {
		return err
	}
	learning := trust.New(trust.Config{Journal: n.journal, Now: time.Now}, f.trust)
	n.runner = &due.Runner{Journal: n.journal, Claims: f.claims, Node: name, Now: time.Now, Log: log,
		Sources: []due.Source{n.jobs.Due, learning.Due, variables.Due, n.partners.Due, n.meet.Due}}
	return nil
}

// openJobs opens the step jobs. Upload and Fetch fail, because all bundles of the simulation are small enough to be
// inside the events.
func (n *node) openJobs(f folds, dir string) (*jobs.Jobs, error) {
	blobs, err := blob.Open(filepath.Join(dir, "blob"))
	if err != nil {
		return nil, err
	}
	blobs.NoSync = true
	hash, err := n.policy.Hash()
	if err != nil {
		return nil, err
	}
	return jobs.New(jobs.Config{
		Journal: n.journal, Blobs: blobs, Keyer: n.signer, PubKey: n.pubkey, Node: name, Now: time.Now,
		Market: hiringMarket{n.registry, f}, Network: hiringNetwork{n}, Trust: f.trust.Trust, Variables: f.variables,
		Upload: func(context.Context, []byte, bool) (string, *[32]byte, error) { return "", nil, errAway },
		Fetch:  func(context.Context, fact.Place, guild.Hash, int64) (io.ReadCloser, error) { return nil, errAway },
		Policy: func() (policy.Policy, guild.Hash) { return n.policy, hash }, OfferOf: n.registry.OfferOf,
	}, f.jobs), nil
}

// hiringMarket gives jobs the node's knowledge of the providers.
type hiringMarket struct {
	*registry.Registry
	folds folds
}

func (m hiringMarket) Provider(s guild.Service) guild.Provider { return m.folds.partners.Provider(s) }

func (m hiringMarket) Measured(s guild.Service, now time.Time) route.Measured {
	return m.folds.observed.Routing(s, now)
}

// hiringNetwork is the only relay of the simulation. It loses nothing.
type hiringNetwork struct{ *node }

func (n hiringNetwork) Publish(ctx context.Context, e guild.Verified, relays []string) error {
	return n.publish(ctx, e, relays)
}

func (hiringNetwork) Relays() []string { return []string{relay} }

func (hiringNetwork) Rank(relays []string) []string { return relays }

func (n hiringNetwork) Hears() time.Time { return n.began }

func (hiringNetwork) Look(context.Context, nostr.PubKey, nostr.ID, nostr.Kind, []string) ([]guild.Verified, error) {
	return nil, nil
}

var errAway = errors.New("everything is inside of the events")

// offersChanged wakes everything that waits for providers.
func (n *node) offersChanged() {
	if n.meet != nil {
		n.meet.OffersChanged()
		n.runner.Wake()
	}
}

// touched tells the router that a service's announcement changed.
func (n *node) touched(s guild.Service) {
	if n.jobs != nil {
		n.jobs.Touch(s)
	}
}

// benchmarkOf returns a benchmark without content, because the market does not use the content.
func benchmarkOf(s suite.Spec) (suite.Made, error) {
	return suite.Made{Name: suite.Name(s.Task), Title: "Benchmark", Bundle: bundle}, nil
}
