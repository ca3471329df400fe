// Package node wires the steps together: the journal with their folds, the relays, the table that says which
// step takes which kind of event, the runner that does what is due, and the control socket. It has no rules of
// its own.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/audit"
	"guild/internal/backup"
	"guild/internal/blob"
	"guild/internal/control"
	"guild/internal/due"
	"guild/internal/fact"
	"guild/internal/fold"
	"guild/internal/jobs"
	"guild/internal/journal"
	"guild/internal/judge"
	"guild/internal/key"
	"guild/internal/meet"
	"guild/internal/opinion"
	"guild/internal/partner"
	"guild/internal/policy"
	"guild/internal/record"
	"guild/internal/registry"
	"guild/internal/relay"
	"guild/internal/relayd"
	"guild/internal/review"
	"guild/internal/sandbox"
	"guild/internal/sandbox/tiers"
	"guild/internal/scout"
	"guild/internal/trust"
	"guild/internal/trust/exchange"
	"guild/internal/trust/variables"
	"guild/internal/typed"
	"guild/internal/work"
	"guild/oa"
)

// Config says what a node is.
type Config struct {
	Dir      string // identity, journal, blobs and the embedded relay's store live here
	Socket   string // of the control API; none if empty
	Identity key.Identity
	Version  string
	Now      func() time.Time

	Name       string              // for people and for claims; the start of the npub if empty
	JournalDir string              // Dir/journal if empty
	HighWater  string              // a file elsewhere that remembers how far the journal got; none if empty
	Relays     []string            // to meet others on
	Embed      bool                // run a relay of our own
	Addr       string              // where; "127.0.0.1:7447" if empty
	Blossom    []string            // servers for bundles too large for an event; the embedded relay's if empty
	NoSync     bool                // no fsync for each fact
	Workers    []Worker            // services that we offer
	Patience   jobs.Patience       // zero fields have defaults
	Retry      []time.Duration     // waits between tries of one effect; 5, 10 and 20 s if empty
	Synonyms   map[string][]string // task → other words for it
	Kinds      map[string]int      // task → NIP-90 kind of its requests, where it is not the usual one
	Judges     int                 // deliveries judged at a time; the number of CPUs if zero
	Tier       string              // the sandbox for the judge and the workers; the best that works if empty
	Analysis   bool                // whether linters read what was delivered
	Grace      time.Duration       // for running work when the node is stopped; 10 s if zero
	Hearing    time.Duration       // for another node with our key to say so, before we offer anything; 1 s if zero
	Ready      func(Ready)         // called once the node can be used
	Appended   func(fact.Entry)    // called after each fact
	Log        *slog.Logger        // slog.Default() if nil

	Meeting  Meeting        // getting to know providers
	Follow   []nostr.PubKey // whose recommendations of providers count
	Limits   jobs.Limits    // how much one provider is asked; zero fields have defaults
	Learning Learning       // what is learned, told and kept
	Records  Records        // what others can check
	Policy   policy.Policy  // the numbers that are decided by; policy.Default() if it has no name
	Fetch    Fetch          // what workers' inputs may be fetched from

	Types   oa.Registry       // of typed jobs; those of the surface if it has none
	Images  map[string]string // digest → directory with the root file system that it is, for typed jobs
	Vectors *opinion.Endpoint // where samples of embeddings are made again; nowhere if nil
	Opinion opinion.Opinion   // chooses between results that no test decides; a person does if nil

	// Quit, once closed, ends the node as soon as no job goes on and no client is left; never if nil.
	Quit <-chan struct{}

	// Examine replaces the judge, for measuring everything but it.
	Examine func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error)
}

// Records is how a node's records are made known.
type Records struct {
	Publish   bool          // receipts and the journal's seals are published at our relays
	SealEvery time.Duration // how long the journal may be without a seal after something was added; an hour if zero
}

// Ready is what a node says once it can be used.
type Ready struct {
	PubKey nostr.PubKey
	Relays []string
}

// Node is an opened node.
type Node struct {
	c       Config
	started time.Time
	keyer   nostr.Keyer
	pubkey  nostr.PubKey

	journal *journal.Journal
	blobs   *blob.Store
	claims  *due.Claims
	folds   folds

	local   *relayd.Relay // nil when we use others' relays only
	urls    []string      // of all our relays
	marks   *relay.Marks
	pool    *relay.Pool
	parcels parcels
	gate    *gate
	ears    *ears

	presence  *presence
	registry  *registry.Registry
	partners  *partner.Partners
	jobs      *jobs.Jobs
	work      *work.Work
	judge     *judge.Step
	record    *record.Record
	trust     *trust.Trust
	variables *variables.Variables
	review    *review.Review
	mail      *review.Mail
	boxes     letterboxes
	post      *post
	backup    *backup.Step
	audit     *audit.Step
	meet      *meet.Meet
	scout     *scout.Scout
	runner    *due.Runner
	control   *control.Server

	vaultKey *vaultKey
	secrets  string // directory of the credentials that workers have

	images    typed.Sandbox // what commands of typed jobs run in
	runnerBox sandbox.Runner
	caps      sandbox.Caps
	unboxed   error // why there is no sandbox

	stopSigner func() // ends the connection to a remote signer; nil without one
}

type folds struct {
	jobs     *jobs.Fold
	work     *work.Fold
	judge    *judge.Fold
	partners *partner.Fold
	trust    *trust.Fold
	record   *record.Fold
	observed *partner.Observed
	meet     *meet.Fold

	baselines *judge.Baselines
	customers *work.Customers
	variables *variables.Fold
	exchange  *exchange.Fold
	review    *review.Fold
	backup    *backup.Fold
	audit     *audit.Fold
	letters   *review.Letters
	said      *work.Judgements
}

// Run runs a node until ctx ends, and then stops it in order: no new work, what runs is finished or handed
// back, what was offered is taken back, and everything is on disk.
func Run(ctx context.Context, c Config) error {
	n := &Node{c: c.withDefaults()}
	n.started = n.c.Now()
	if err := n.open(ctx); err != nil {
		return errors.Join(err, n.close())
	}
	return errors.Join(n.run(ctx), n.close())
}

func (c Config) withDefaults() Config {
	c.JournalDir = cmp.Or(c.JournalDir, filepath.Join(c.Dir, "journal"))
	c.Addr = cmp.Or(c.Addr, "127.0.0.1:7447")
	c.Judges = cmp.Or(c.Judges, runtime.NumCPU())
	c.Grace = cmp.Or(c.Grace, 10*time.Second)
	c.Hearing = cmp.Or(c.Hearing, time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	if len(c.Types.Schemas()) == 0 {
		c.Types = oa.Known()
	}
	if c.Policy.Name == "" {
		c.Policy = policy.Default()
	}
	return c
}

// open opens everything from the journal up. The journal comes first: its lock says that we are alone.
func (n *Node) open(ctx context.Context) (err error) {
	if err := n.openJournal(ctx, readAgain(n.c)); err != nil {
		return err
	}
	if held := len(n.journal.Quarantined()); held > 0 {
		n.c.Log.Warn("nothing is done for what lost entries when the journal was repaired; guild status lists it", "guards", held)
	}
	if n.blobs, err = blob.Open(filepath.Join(n.c.Dir, "blob")); err != nil {
		return fmt.Errorf("open the blobs: %w", err)
	}
	n.blobs.NoSync = n.c.NoSync
	if err := n.emptyScratch(); err != nil {
		return err
	}
	if n.secrets, err = n.secretsDir(); err != nil {
		return err
	}
	if err := n.openRelays(ctx); err != nil {
		return err
	}
	n.openEars()
	n.openPresence()
	if err := n.openScout(); err != nil {
		return err
	}
	return n.openSteps(ctx)
}

func (n *Node) scratch() string { return filepath.Join(n.c.Dir, "scratch") }

// emptyScratch removes the unpacked bundles of a process that was killed.
func (n *Node) emptyScratch() error {
	if err := os.RemoveAll(n.scratch()); err != nil {
		n.c.Log.Warn("what an earlier run left cannot be removed", "err", err)
	}
	return os.MkdirAll(n.scratch(), 0o700)
}

// glance is how long somebody who only looks at a stopped node's journal may keep others from opening it.
const glance = 3 * time.Second

// openJournal opens the journal with all folds. renew is as in journal.Options.
func (n *Node) openJournal(ctx context.Context, renew func(stream string) error) error {
	o, err := n.journalOptions()
	if err != nil {
		return err
	}
	o.Renew = renew
	n.journal, err = journal.Open(ctx, o)
	return err
}

// journalOptions makes the folds, and says how the journal is opened with them.
func (n *Node) journalOptions() (journal.Options, error) {
	n.claims = due.NewClaims()
	rules := n.c.Policy
	learned, err := trust.NewFold(rules)
	if err != nil {
		return journal.Options{}, err
	}
	n.folds = folds{jobs.NewFold(), work.NewFold(), judge.NewFold(), partner.NewFold(rules), learned, record.NewFold(),
		partner.NewObserved(), meet.NewFold(), judge.NewBaselines(), work.NewCustomers(rules),
		variables.NewFold(rules), exchange.NewFold(rules), review.NewFold(), backup.NewFold(rules.Backup), audit.NewFold(), review.NewLetters(), work.NewJudgements()}
	return journal.Options{
		Dir: n.c.JournalDir, Node: n.name(), Now: n.c.Now,
		Folds: []fold.Fold{n.claims, n.folds.jobs, n.folds.work, n.folds.judge, n.folds.partners, n.folds.trust, n.folds.record, n.folds.baselines,
			n.folds.observed, n.folds.meet, n.folds.customers, n.folds.variables, n.folds.exchange, n.folds.review, n.folds.backup, n.folds.audit, n.folds.letters, n.folds.said},
		Finished:  func(guard fact.Subject) bool { return n.folds.jobs.Finished(guard) || n.folds.work.Finished(guard) },
		HighWater: n.c.HighWater, Wait: glance, NoSync: n.c.NoSync, Appended: n.c.Appended, Log: n.c.Log,
	}, nil
}

// name is how the node calls itself in claims and announcements.
func (n *Node) name() string {
	if n.c.Name != "" {
		return n.c.Name
	}
	if n.c.Identity.Signer != nil {
		return "guild-" + n.c.Identity.PubKey.Hex()[:8]
	}
	return "guild"
}

func (n *Node) openSteps(ctx context.Context) (err error) {
	n.registry, err = registry.Open(ctx, registry.Config{
		Journal: n.journal, Now: n.c.Now, Synonyms: n.c.Synonyms, Changed: n.offersChanged,
		Observed: n.folds.observed, Follow: n.c.Follow, Own: n.urls,
		Touched: n.touched,
	}, n.folds.partners)
	if err != nil {
		return err
	}
	n.partners = partner.New(partner.Config{
		Journal: n.journal, Now: n.c.Now, Latest: n.registry.Latest, Services: n.registry.Services, Hears: n.ears.hears,
	}, n.folds.partners)
	n.runnerBox, n.caps, n.unboxed = tiers.Pick(ctx, n.c.Tier)
	if err := n.openImages(ctx); err != nil {
		return err
	}
	n.vaultKey = &vaultKey{path: filepath.Join(n.c.Dir, vaultKeyFile), now: n.c.Now}
	n.jobs = jobs.New(jobs.Config{
		Journal: n.journal, Blobs: n.blobs, Keyer: n.keyer, PubKey: n.pubkey, Node: n.name(), Now: n.c.Now,
		Market: hiringMarket{n}, Network: hiringNetwork{n}, Trust: n.folds.trust.Trust,
		Upload: n.parcels.upload, Fetch: n.parcels.fetch, Unseal: n.vaultKey.open, SealFor: n.vaultKey.sealFor,
		Patience: n.c.Patience, Limits: n.c.Limits, Budgets: n.c.Learning.Budgets, Thresholds: n.c.Learning.Thresholds,
		Variables: n.folds.variables, UpToDate: n.learned, OfferOf: n.registry.OfferOf,
		Policy: func() (policy.Policy, guild.Hash) { return n.c.Policy, n.folds.trust.Policy() },
	}, n.folds.jobs)
	services, err := n.services(ctx)
	if err != nil {
		return err
	}
	recipient := "" // who offers nothing is sent nothing
	if len(services) > 0 {
		if recipient, err = n.vaultKey.recipient(); err != nil {
			return err
		}
	}
	n.work = work.New(work.Config{
		Journal: n.journal, Blobs: n.blobs, Keyer: n.keyer, PubKey: n.pubkey, Node: n.name(), Producer: "guild@" + n.c.Version, Now: n.c.Now,
		Services: services, Scratch: n.scratch(), Publish: n.publishAsProvider, Relays: n.relays,
		Upload: n.parcels.upload, Fetch: n.parcels.fetch, Log: n.c.Log,
		Secrets: n.secrets, Recipient: recipient, Unseal: n.vaultKey.open,
		Inputs: n.inputs(), Find: n.find, Published: n.published, Customers: n.folds.customers,
		Judgements: n.folds.said, Letterbox: n.letterbox,
	}, n.folds.work)
	if err := n.openMeeting(); err != nil {
		return err
	}
	n.judge = judge.NewStep(judge.StepConfig{
		Blobs: n.blobs, Scratch: n.scratch(), Examine: n.examine(), Opinion: n.opinion(), Baseline: n.folds.baselines.Baseline,
	}, n.folds.judge)
	records := record.Config{Blobs: n.blobs, Policy: n.folds.trust.Policy, Producer: "guild@" + n.c.Version, Signer: n.keyer}
	if n.c.Records.Publish {
		records.Publish = n.publish
	}
	n.record = record.New(records, n.folds.record)
	if err := n.openLearning(ctx); err != nil {
		return err
	}
	n.openAudit()
	n.openRunner()
	n.openControl()
	return nil
}

func (n *Node) openRunner() {
	limits := n.work.Classes()
	limits[judge.Class] = n.c.Judges
	n.runner = &due.Runner{
		Journal: n.journal, Claims: n.claims, Node: n.name(), Now: n.c.Now, Log: n.c.Log, Limits: limits, Waits: n.c.Retry,
		Sources: []due.Source{n.jobs.Due, n.work.Due, n.judge.Due, n.record.Due, n.trust.Due, n.partners.Due, n.meet.Due,
			n.variables.Due, n.review.Due, n.mail.Due, n.backup.Due, n.audit.Due},
	}
}

// examine is the judge in earnest, unless the configuration replaces it. Nothing is ever judged unsandboxed.
func (n *Node) examine() func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
	if n.c.Examine != nil {
		return n.c.Examine
	}
	if n.unboxed != nil {
		return func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
			return guild.Verdict{}, nil, n.unboxed
		}
	}
	return judge.On(n.runnerBox, n.caps, judge.Config{Cache: filepath.Join(n.c.Dir, "judge"), Analysis: n.c.Analysis, Typed: n.checker()}).Hear
}

// run runs every part until ctx ends.
func (n *Node) run(ctx context.Context) error {
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	parts, alive := errgroup.WithContext(base)
	if n.local != nil {
		parts.Go(func() error { return n.local.Run(base) })
	}
	parts.Go(func() error { return n.pool.Run(base) })
	parts.Go(func() error { return n.ears.run(base) })
	parts.Go(func() error { return n.runner.Run(base) })
	parts.Go(func() error { return n.work.Talk(base) })
	parts.Go(func() error { return n.post.run(base) })
	parts.Go(func() error { return n.scout.Run(base) })
	if err := n.serveControl(base, parts); err != nil {
		stop()
		return errors.Join(err, parts.Wait())
	}
	open, closeDoors := context.WithCancel(ctx)
	defer closeDoors()
	if err := n.beAlone(open, parts); err != nil {
		stop()
		return errors.Join(err, parts.Wait())
	}
	n.subscribe()
	n.subscribeLetters()
	retracted := make(chan struct{})
	go func() {
		defer close(retracted)
		n.announce(open)
	}()
	select {
	case <-ctx.Done():
	case <-alive.Done():
	case <-n.idle(alive):
	}
	closeDoors()
	n.drain()
	<-retracted
	stop()
	err := parts.Wait()
	n.sealLast()
	return err
}

// idle is closed once the node was asked to quit when idle, and is.
func (n *Node) idle(ctx context.Context) <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-n.c.Quit:
		}
		for tick := time.Tick(50 * time.Millisecond); n.control.Clients() > 0 || n.folds.jobs.OpenUnless(n.journal.InQuarantine) > 0; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
		}
		close(idle)
	}()
	return idle
}

func (n *Node) drain() {
	grace, cancel := context.WithTimeout(context.Background(), n.c.Grace)
	defer cancel()
	if err := n.work.Drain(grace); err != nil {
		n.c.Log.Warn("requests are left for the next start", "err", err)
	}
}

// beAlone makes sure that no older process with our key offers services, if we do.
func (n *Node) beAlone(ctx context.Context, parts *errgroup.Group) error {
	if len(n.c.Workers) == 0 {
		return nil
	}
	leave, err := n.presence.begin(ctx)
	if err != nil {
		return err
	}
	parts.Go(func() error {
		<-ctx.Done()
		leave()
		return nil
	})
	return nil
}

// announce offers our services until ctx ends, except while they are left to another process with our key.
func (n *Node) announce(ctx context.Context) {
	told := n.announced()
	for {
		turn, end := n.presence.turn(ctx)
		err := n.work.Announce(turn, told)
		end()
		if err != nil {
			n.c.Log.Warn("the announcement could not be taken back", "err", err)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// announced calls Ready after the first announcement, whether or not a relay took it: it is tried again.
func (n *Node) announced() func(error) {
	told := false
	return func(err error) {
		if err != nil {
			n.c.Log.Warn("not announced yet", "err", err)
		}
		if !told && n.c.Ready != nil {
			n.c.Ready(Ready{n.pubkey, n.relays()})
		}
		told = true
	}
}

func (n *Node) close() error {
	var errs []error
	if n.stopSigner != nil {
		n.stopSigner()
	}
	if warm, ok := n.runnerBox.(io.Closer); ok {
		errs = append(errs, warm.Close())
	}
	if n.marks != nil {
		errs = append(errs, n.marks.Close())
	}
	if n.secrets != "" && n.secrets != n.scratch() {
		errs = append(errs, os.RemoveAll(n.secrets))
	}
	if n.journal != nil {
		errs = append(errs, n.journal.Close())
	}
	return errors.Join(errs...)
}
