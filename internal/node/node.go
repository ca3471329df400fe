// Package node connects the steps: it opens the journal with their folds and the relays, routes events to steps by
// kind, runs the effects that are due, and serves the control socket. Each step has one function here that makes its
// part (newParts lists them), and the node iterates over the parts. It makes no decisions of its own.
package node

import (
	"cmp"
	"context"
	"crypto/rand"
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
	"guild/internal/durable"
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
	"guild/internal/step/agents"
	"guild/internal/step/audit"
	"guild/internal/step/backup"
	"guild/internal/step/jobs"
	"guild/internal/step/judge"
	"guild/internal/step/meet"
	"guild/internal/step/partner"
	"guild/internal/step/pay"
	"guild/internal/step/review"
	"guild/internal/step/trust"
	"guild/internal/step/trust/exchange"
	"guild/internal/step/trust/variables"
	"guild/internal/step/work"
	"guild/internal/wallet"
	"guild/oa"
)

// Config configures a node: first the settings of every node, then those of the steps. The function that makes a step's
// part reads the latter (see newParts).
type Config struct {
	Dir      string // directory of the identity, journal, blobs and the embedded relay's data
	Socket   string // path of the control API's socket; none if empty
	Identity key.Identity
	Version  string
	Now      func() time.Time

	Name          string          // for people and for claims; the prefix of the npub if empty
	JournalDir    string          // Dir/journal if empty
	NookDir       string          // where local programs and hooks report activity (~/.nook); none if empty
	HighWater     string          // a file elsewhere that also stores how far the journal got, to detect lost entries; none if empty
	NoSync        bool            // no fsync after each fact
	Relays        []string        // relays to use
	Embed         bool            // run an embedded relay
	Addr          string          // its address; "127.0.0.1:7447" if empty
	Blossom       []string        // servers for bundles too large for an event; the embedded relay's if empty
	Policy        policy.Policy   // the parameters of all decisions; policy.Default() if it has no name
	Retry         []time.Duration // waits between tries of an effect; 5, 10 and 20 s if empty
	Grace         time.Duration   // for running work when the node stops; 10 s if zero
	SignerTimeout time.Duration   // of one request to a remote signer; 30 seconds if zero
	MintAddr      string          // loopback address of a mint of play money; none if empty
	Hearing       time.Duration   // wait for an answer of another node with our key, before offering services; 1 s if zero
	Log           *slog.Logger    // slog.Default() if nil

	Ready    func(Ready)       // called once the node can be used; may be nil
	Appended func(fact.Entry)  // called after each entry; may be nil
	Watch    func(work.Update) // called with what happens to requests to our services; must not block; may be nil
	Quit     <-chan struct{}   // once closed, the node ends as soon as no job is open and no client is connected; may be nil

	Hiring   Hiring            // how providers are found and hired
	Workers  []Worker          // services to offer
	Fetch    Fetch             // limits for fetching the inputs of requests
	Types    oa.Registry       // typed jobs; those of the OpenAgents surface if empty
	Images   map[string]string // digest → directory with that root file system, for typed jobs
	Judging  Judging           // how deliveries are judged
	Meeting  Meeting           // how providers are benchmarked
	Learning Learning          // what is learned, published and backed up
	Records  Records           // what others can check
	Agents   Agents            // agents of this node (NIP-AE)

	// Examine replaces the judge, to measure everything else.
	Examine func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error)
}

// Hiring configures how providers are found and hired.
type Hiring struct {
	Patience jobs.Patience       // zero fields have defaults
	Limits   jobs.Limits         // limits on requests to one provider; zero fields have defaults
	Kinds    map[string]int      // task → NIP-90 kind of its requests, if it is not the usual one
	Synonyms map[string][]string // task → other words for it
	Follow   []nostr.PubKey      // keys whose recommendations of providers count
}

// Judging configures how deliveries are judged.
type Judging struct {
	AtOnce   int               // concurrent judgements; the number of CPUs if zero
	Tier     string            // sandbox for the judge and the workers; the best available if empty
	Analysis bool              // run linters on deliveries
	Cache    string            // directory for what makes judging faster; may be shared by nodes; Dir/judge if empty
	Vectors  *opinion.Endpoint // endpoint that recomputes samples of embeddings; nil skips that check
	Opinion  opinion.Opinion   // chooses between results that no test decides; nil leaves it to a person
	MostPay  guild.Msat        // that a weak verdict or an opinion releases without a person; 0 for no limit
}

// Records configures the publication of a node's records.
type Records struct {
	Publish   bool          // publish receipts and seals of the journal at our relays
	SealEvery time.Duration // maximum age of an unsealed entry; an hour if zero
}

// Ready describes a node that has started.
type Ready struct {
	PubKey   nostr.PubKey
	Relays   []string
	Services []work.Status
}

// Node is an open node.
type Node struct {
	c       Config
	started time.Time
	keyer   nostr.Keyer
	pubkey  nostr.PubKey

	journal *journal.Journal
	blobs   *blob.Store
	claims  *due.Claims
	metrics *metrics

	local        *relayd.Relay // nil if the node only uses others' relays
	urls         []string      // all our relays
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

	// Steps and folds that others use. Each is set by its own part.
	folds     folds
	registry  *registry.Registry
	partners  *partner.Partners
	jobs      *jobs.Jobs
	work      *work.Work
	audit     *audit.Step
	trust     *trust.Trust
	variables *variables.Variables
	review    *review.Review
	mail      *review.Mail
	backup    *backup.Step
	meet      *meet.Meet
	agents    *agents.Step
	agentKeys *agentKeys

	wallet    *wallet.Wallet
	lightning *lightningKeeper
	bitcoin   *bitcoinKeeper
	pay       *pay.Pay

	vaultKey *vaultKey
	secrets  string // directory for the credentials of running workers

	images    typed.Sandbox // sandboxes for the commands of typed jobs
	runnerBox sandbox.Runner
	caps      sandbox.Caps
	unboxed   error // the reason why there is no sandbox

	stopSigner func() // closes the connection to a remote signer; nil without one
}

// folds holds the folds that more than one part reads.
type folds struct {
	jobs      *jobs.Fold
	partners  *partner.Fold
	observed  *partner.Observed
	trust     *trust.Fold
	variables *variables.Fold
	exchange  *exchange.Fold
	customers *work.Customers
	witnesses *audit.Witnesses
	payments  *pay.Fold
}

// Run runs a node until ctx ends, and then stops it in order: it accepts no new work, finishes running work or leaves
// it for the next start, deletes its announcements, and seals and closes the journal.
func Run(ctx context.Context, c Config) error {
	n := &Node{c: c.withDefaults()}
	n.started = n.c.Now()
	if err := n.open(ctx); err != nil {
		return errors.Join(err, n.close())
	}
	return errors.Join(n.run(ctx), n.close())
}

// withDefaults replaces zero values by the defaults.
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

// open opens everything. The journal comes first, because its lock ensures that no other process uses the directory.
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
	// A killed process may have left unpacked bundles.
	if err := os.RemoveAll(n.scratch()); err != nil {
		n.c.Log.Warn("files of an earlier run cannot be removed", "err", err)
	}
	if err := os.MkdirAll(n.scratch(), 0o700); err != nil {
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
	n.presence = &presence{
		pool: n.pool, keyer: n.keyer, pubkey: n.pubkey, urls: normalized(n.urls), log: n.c.Log, now: n.c.Now, hearing: n.c.Hearing, recheck: 30 * time.Second,
		questions: make(chan nostr.ID, 16), ask: make(chan struct{}, 1), free: make(chan struct{}, 1),
		self: process{Instance: rand.Text(), Started: n.started.UnixMilli(), Node: n.name()},
	}
	if err := n.openScout(); err != nil {
		return err
	}
	return n.openSteps(ctx)
}

func (n *Node) scratch() string { return filepath.Join(n.c.Dir, "scratch") }

// inspectionWait is the maximum wait for the journal's lock: a command that reads a stopped node holds the lock for a
// short time.
const inspectionWait = 3 * time.Second

// openJournal opens the journal with all folds. renew is passed on as journal.Options.Renew.
func (n *Node) openJournal(ctx context.Context, renew func(stream string) error) error {
	o, err := n.journalOptions()
	if err != nil {
		return err
	}
	o.Renew = renew
	n.journal, err = journal.Open(ctx, o)
	if err == nil {
		durable.Sweep(n.c.Dir, filepath.Join(n.c.Dir, "agents"), n.c.NookDir)
	}
	return err
}

// journalOptions makes the parts, and returns the options to open the journal with their folds.
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

// name returns the node's name in claims and announcements.
func (n *Node) name() string {
	if n.c.Name != "" {
		return n.c.Name
	}
	if n.c.Identity.Signer != nil || n.c.Identity.PubKey != (nostr.PubKey{}) {
		return "guild-" + n.c.Identity.PubKey.Hex()[:8]
	}
	return "guild"
}

// openSteps opens the parts in order, and then the things that use them: the routes, the runner and the control API.
//
// Parts open in the order of newParts, because a step may use those opened before it: jobs use the registry, and the
// backup uses trust.
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
		n.runner.Large = append(n.runner.Large, a.large...)
		maps.Copy(n.runner.Limits, a.limits)
	}
	n.setRoutes()
	n.openControl()
	return nil
}

// run runs everything until ctx ends. The error is an *AnotherError if we offer services and an older process with our
// key offers them too.
//
// It stops in an order: first the services are withdrawn and running work drains, while relays and the runner still
// work, since both need to publish. Only then base ends. Functions in last run when nothing else does, because the
// final seal must cover every entry. That is why base does not inherit the cancellation of ctx.
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
	if n.c.Socket != "" {
		l, err := control.Listen(n.c.Socket)
		if err != nil {
			stop()
			return errors.Join(err, tasks.Wait())
		}
		tasks.Go(func() error { return n.control.Serve(base, l) })
	}
	offering, stopOffering := context.WithCancel(ctx)
	defer stopOffering()
	if len(n.c.Workers) > 0 {
		leave, err := n.presence.begin(offering)
		if err != nil {
			stop()
			return errors.Join(err, tasks.Wait())
		}
		tasks.Go(func() error {
			<-offering.Done()
			leave()
			return nil
		})
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

// finish calls the selected function of each part, all together within Grace, and logs errors.
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

// telling limits how long a node that is not needed any more stays to tell providers their verdicts. The next start tells
// the rest.
const telling = 3 * time.Second

// idle returns a channel that is closed as soon as Quit is closed, no job is open, no client is connected, and the
// providers were told their verdicts and sent what they have earned.
func (n *Node) idle(ctx context.Context) <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-n.c.Quit:
		}
		// Jobs in quarantine do not end by themselves, so they do not count as open.
		for tick := time.Tick(50 * time.Millisecond); n.control.Clients() > 0 || n.folds.jobs.OpenUnless(n.journal.Held) > 0; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
		}
		ctx, cancel := context.WithTimeout(ctx, telling)
		defer cancel()
		for tick := time.Tick(50 * time.Millisecond); ctx.Err() == nil && (len(n.mail.Due(n.c.Now())) > 0 || !n.pay.Idle()); {
			select {
			case <-ctx.Done():
			case <-tick:
			}
		}
		close(idle)
	}()
	return idle
}

// announce announces our services until ctx ends, except while another process with our key offers them. It calls Ready
// after the first try even if that failed, because a failed announcement is retried.
func (n *Node) announce(ctx context.Context) {
	ready := false
	announced := func(err error) {
		if err != nil {
			n.c.Log.Warn("not announced yet", "err", err)
		}
		if !ready {
			n.connectivity.warnUnconnected(ctx, n.c.Log)
		}
		if !ready && n.c.Ready != nil {
			n.c.Ready(Ready{n.pubkey, n.relays(), n.work.Services()})
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

// close closes what is open, after everything has stopped. The journal is last: its lock protects the directory from
// other processes.
func (n *Node) close() error {
	var errs []error
	if n.agentKeys != nil {
		n.agentKeys.stop()
	}
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
