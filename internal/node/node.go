// Package node wires the steps together: the journal with their folds, the relays, the table of which step takes which kind
// of event, the runner that does what is due, and the control socket. Each step has one function here that makes its part
// (newParts lists them), and the node loops over the parts. It has no rules of its own.
package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/blob"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/internal/hand/relayd"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/judging/opinion"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/tiers"
	"guild/internal/judging/typed"
	"guild/internal/market/registry"
	"guild/internal/market/scout"
	"guild/internal/policy"
	"guild/internal/step/backup"
	"guild/internal/step/jobs"
	"guild/internal/step/judge"
	"guild/internal/step/meet"
	"guild/internal/step/partner"
	"guild/internal/step/review"
	"guild/internal/step/trust"
	"guild/internal/step/trust/exchange"
	"guild/internal/step/trust/variables"
	"guild/internal/step/work"
	"guild/oa"
)

// Config says what a node is: first what every node has, then what each step is set to. The part of a step, which is made in
// a function of its own (newParts), reads the latter.
type Config struct {
	Dir      string // identity, journal, blobs and the embedded relay's store live here
	Socket   string // of the control API; none if empty
	Identity key.Identity
	Version  string
	Now      func() time.Time

	Name       string          // for people and for claims; the start of the npub if empty
	JournalDir string          // Dir/journal if empty
	HighWater  string          // a file elsewhere that remembers how far the journal got; none if empty
	NoSync     bool            // no fsync for each fact
	Relays     []string        // to meet others on
	Embed      bool            // run a relay of our own
	Addr       string          // where; "127.0.0.1:7447" if empty
	Blossom    []string        // servers for bundles too large for an event; the embedded relay's if empty
	Policy     policy.Policy   // the numbers that are decided by; policy.Default() if it has no name
	Retry      []time.Duration // waits between tries of one effect; 5, 10 and 20 s if empty
	Grace      time.Duration   // for running work when the node is stopped; 10 s if zero
	Hearing    time.Duration   // for another node with our key to say so, before we offer anything; 1 s if zero
	Log        *slog.Logger    // slog.Default() if nil

	Ready    func(Ready)      // called once the node can be used; nil for nothing
	Appended func(fact.Entry) // called after each fact; nil for nothing
	Quit     <-chan struct{}  // once closed, the node ends as soon as no job is open and no client is connected; never if nil

	Hiring   Hiring            // how providers are found and asked
	Workers  []Worker          // services that we offer
	Fetch    Fetch             // what workers' inputs may be fetched from
	Types    oa.Registry       // of typed jobs; those of the surface if it has none
	Images   map[string]string // digest → directory with the root file system that it is, for typed jobs
	Judging  Judging           // how deliveries are judged
	Meeting  Meeting           // getting to know providers
	Learning Learning          // what is learned of providers, published of them, and backed up
	Records  Records           // what others can check

	// Examine replaces the judge, for measuring everything but it.
	Examine func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error)
}

// Hiring says how providers are found and asked.
type Hiring struct {
	Patience jobs.Patience       // zero fields have defaults
	Limits   jobs.Limits         // how much one provider is asked; zero fields have defaults
	Kinds    map[string]int      // task → NIP-90 kind of its requests, where it is not the usual one
	Synonyms map[string][]string // task → other words for it
	Follow   []nostr.PubKey      // whose recommendations of providers count
}

// Judging says how deliveries are judged.
type Judging struct {
	AtOnce   int               // deliveries judged at a time; the number of CPUs if zero
	Tier     string            // the sandbox for the judge and the workers; the best that works if empty
	Analysis bool              // whether linters read what was delivered
	Vectors  *opinion.Endpoint // where samples of embeddings are made again; nowhere if nil
	Opinion  opinion.Opinion   // chooses between results that no test decides; a person does if nil
}

// Records says how a node's records are made known.
type Records struct {
	Publish   bool          // receipts and the journal's seals are published at our relays
	SealEvery time.Duration // how long the journal may be without a seal after something was added; an hour if zero
}

// Ready describes a node that can be used.
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
	metrics *metrics

	local        *relayd.Relay // nil when we use others' relays only
	urls         []string      // of all our relays
	marks        *relay.Marks
	pool         *relay.Pool
	connectivity *connectivity
	payloads     payloads
	limiter      limiter
	inbox        *inbox
	inboxRelays  inboxRelays
	presence     *presence
	scout        *scout.Scout
	runner       *due.Runner
	control      *control.Server

	parts  []part
	active []active
	routes []route

	// The steps and states that others ask. Each is set by its part.
	folds     folds
	registry  *registry.Registry
	partners  *partner.Partners
	jobs      *jobs.Jobs
	work      *work.Work
	trust     *trust.Trust
	variables *variables.Variables
	review    *review.Review
	mail      *review.Mail
	backup    *backup.Step
	meet      *meet.Meet

	vaultKey *vaultKey
	secrets  string // directory of the credentials that workers have

	images    typed.Sandbox // what commands of typed jobs run in
	runnerBox sandbox.Runner
	caps      sandbox.Caps
	unboxed   error // why there is no sandbox

	stopSigner func() // ends the connection to a remote signer; nil without one
}

// folds are the states that more than one part reads.
type folds struct {
	jobs      *jobs.Fold
	partners  *partner.Fold
	observed  *partner.Observed
	trust     *trust.Fold
	variables *variables.Fold
	exchange  *exchange.Fold
	customers *work.Customers
}

// Run runs a node until ctx ends, and then stops it in order: it takes no new work, finishes running work or leaves it for
// the next start, deletes its announcements, and seals and closes the journal.
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
	c.Judging.AtOnce = cmp.Or(c.Judging.AtOnce, runtime.NumCPU())
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

// open opens everything. The journal comes first: its lock makes sure that no other process uses the directory.
func (n *Node) open(ctx context.Context) (err error) {
	if err := n.openJournal(ctx, readAgain(n.c)); err != nil {
		return err
	}
	if held := len(n.journal.Quarantined()); held > 0 {
		n.c.Log.Warn("nothing is done for guards that lost entries when the journal was repaired; guild status lists them", "guards", held)
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
	n.connectivity = &connectivity{pool: n.pool, urls: normalized(n.urls), now: n.c.Now, wake: func() { n.runner.Wake() }}
	n.inbox = &inbox{read: n.readMessage, done: n.taken, log: n.c.Log, added: make(chan struct{}, 1)}
	n.openPresence()
	if err := n.openScout(); err != nil {
		return err
	}
	return n.openSteps(ctx)
}

func (n *Node) scratch() string { return filepath.Join(n.c.Dir, "scratch") }

// emptyScratch removes the unpacked bundles that a killed process left.
func (n *Node) emptyScratch() error {
	if err := os.RemoveAll(n.scratch()); err != nil {
		n.c.Log.Warn("files of an earlier run cannot be removed", "err", err)
	}
	return os.MkdirAll(n.scratch(), 0o700)
}

// inspectionWait is how long the journal's lock is waited for: a verb that only looks at a stopped node holds it that long.
const inspectionWait = 3 * time.Second

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

// journalOptions makes the parts, and returns how the journal is opened with their folds.
func (n *Node) journalOptions() (journal.Options, error) {
	var err error
	if n.parts, err = n.newParts(); err != nil {
		return journal.Options{}, err
	}
	n.claims = due.NewClaims()
	folds := []fold.Fold{n.claims}
	for _, p := range n.parts {
		folds = append(folds, p.folds...)
	}
	return journal.Options{
		Dir: n.c.JournalDir, Node: n.name(), Now: n.c.Now, Folds: folds,
		Finished: func(guard fact.Subject) bool {
			return slices.ContainsFunc(n.parts, func(p part) bool { return p.finished != nil && p.finished(guard) })
		},
		HighWater: n.c.HighWater, Wait: inspectionWait, NoSync: n.c.NoSync, Appended: n.c.Appended, Log: n.c.Log,
	}, nil
}

// name is the node's name in claims and announcements.
func (n *Node) name() string {
	if n.c.Name != "" {
		return n.c.Name
	}
	if n.c.Identity.Signer != nil {
		return "guild-" + n.c.Identity.PubKey.Hex()[:8]
	}
	return "guild"
}

// openSteps opens the parts one after the other, and what acts on them: the routes, the runner and the control API.
func (n *Node) openSteps(ctx context.Context) error {
	n.runnerBox, n.caps, n.unboxed = tiers.Pick(ctx, n.c.Judging.Tier)
	if err := n.openImages(ctx); err != nil {
		return err
	}
	n.vaultKey = &vaultKey{path: filepath.Join(n.c.Dir, vaultKeyFile), now: n.c.Now}
	n.runner = &due.Runner{
		Journal: n.journal, Claims: n.claims, Node: n.name(), Now: n.c.Now, Log: n.c.Log, Limits: map[string]int{}, Waits: n.c.Retry,
	}
	for _, p := range n.parts {
		a, err := p.open(ctx)
		if err != nil {
			return err
		}
		n.active = append(n.active, a)
		n.runner.Sources = append(n.runner.Sources, a.due...)
		maps.Copy(n.runner.Limits, a.limits)
	}
	n.setRoutes()
	n.openControl()
	return nil
}

// run runs everything until ctx ends.
func (n *Node) run(ctx context.Context) error {
	base, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	tasks, alive := errgroup.WithContext(base)
	if n.local != nil {
		tasks.Go(func() error { return n.local.Run(base) })
	}
	for _, run := range []func(context.Context) error{n.pool.Run, n.connectivity.run, n.runner.Run, n.inbox.run, n.scout.Run} {
		tasks.Go(func() error { return run(base) })
	}
	for _, a := range n.active {
		if a.run != nil {
			tasks.Go(func() error { return a.run(base) })
		}
	}
	if err := n.serveControl(base, tasks); err != nil {
		stop()
		return errors.Join(err, tasks.Wait())
	}
	offering, stopOffering := context.WithCancel(ctx)
	defer stopOffering()
	if err := n.claimServices(offering, tasks); err != nil {
		stop()
		return errors.Join(err, tasks.Wait())
	}
	n.subscribe()
	retracted := make(chan struct{})
	go func() {
		defer close(retracted)
		n.announce(offering)
	}()
	select {
	case <-ctx.Done():
	case <-alive.Done():
	case <-n.idle(alive):
	}
	stopOffering()
	n.finish("work is left for the next start", func(a active) func(context.Context) error { return a.drain })
	<-retracted
	stop()
	err := tasks.Wait()
	n.finish("the node did not end in order", func(a active) func(context.Context) error { return a.last })
	return err
}

// finish calls a function of each part that has it, all within Grace, and logs errors.
func (n *Node) finish(failed string, of func(active) func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), n.c.Grace)
	defer cancel()
	for _, a := range n.active {
		f := of(a)
		if f == nil {
			continue
		}
		if err := f(ctx); err != nil {
			n.c.Log.Warn(failed, "err", err)
		}
	}
}

// idle returns a channel that is closed once Quit is closed, no job is open and no client is connected.
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

// claimServices returns an *AnotherError if we offer services and an older process with our key does.
func (n *Node) claimServices(ctx context.Context, tasks *errgroup.Group) error {
	if len(n.c.Workers) == 0 {
		return nil
	}
	leave, err := n.presence.begin(ctx)
	if err != nil {
		return err
	}
	tasks.Go(func() error {
		<-ctx.Done()
		leave()
		return nil
	})
	return nil
}

// announce announces our services until ctx ends, except while they are left to another process with our key. It calls Ready
// after the first try, whether or not a relay took the announcement, which is tried again.
func (n *Node) announce(ctx context.Context) {
	ready := false
	announced := func(err error) {
		if err != nil {
			n.c.Log.Warn("not announced yet", "err", err)
		}
		if !ready && n.c.Ready != nil {
			n.c.Ready(Ready{PubKey: n.pubkey, Relays: n.relays()})
		}
		ready = true
	}
	for {
		turn, end := n.presence.turn(ctx)
		err := n.work.Announce(turn, announced)
		end()
		if err != nil {
			n.c.Log.Warn("the announcement could not be taken back", "err", err)
		}
		if ctx.Err() != nil {
			return
		}
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
