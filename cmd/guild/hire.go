package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"fiatjaf.com/nostr"
	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/journal"
	"guild/internal/judging/exam"
	"guild/internal/step/jobs"
	"guild/nip90"
	"guild/nutshell"
	"guild/nutshell/vault"
	"guild/oa"
)

type hireOptions struct {
	Source    string // directory or .nut file
	Task      string
	Providers []string // npub, hex or NIP-05 name; any when empty
	Timeout   time.Duration
	Bid       int64 // millisatoshis
	Offer     amountFlag
	Settle    string     // free, escrow, prepaid, postpaid or onchain
	Mixed     int        // per cent of the price for strong and weak tests together
	Partial   int        // per cent of the price for work that is done in part
	Weak      amountFlag // most that is paid for weak work without asking
	Judge     string     // npub or hex of the node that rules on the escrow if the provider objects
	Tries     int
	Private   bool
	Open      bool
	Compare   string
	Level     string // of criticality
	Free      bool   // nothing is bid
	Class     string // of the task
	Urgency   string
	Nudges    []string
	Target    float64  // trust that a computed bid is meant for
	Most      int64    // limit of a computed bid, in millisatoshis
	Inputs    []string // as parseInput reads them
	Type      string   // of a typed job, whose request Source is
	Output    string   // file for the result of a typed job
	Release   releaseOptions
	KeepGreen bool // of vetOptions
	Unvetted  bool // the tests are not vetted
	asJSON    bool
	ID        string // of the job; empty for a new one, or that of the same hire if its end was not seen
	projectOptions

	packed []byte          // the bundle, if Source is not one
	why    oa.Verification // the request's, where Level follows from it
}

const hireHelp = `hire has work done in a project: a git repository, or any directory of source
code. It sends the committed files with what is to be done, asks a provider,
judges the delivery by the project's own tests, and shows the progress until the
job ends. It uses the running node, or runs one until no job is open.

  guild hire . --test 'pytest -q' "make the parser accept ISO dates"

Without --test it looks for tests. pytest, node --test, jest and go test run
apart from the delivery, which makes a verdict strong; any other command is
weak, and pays nothing by itself. Changes that are not committed, untracked
files, what .nutignore names, environment files and private keys are left out.
Tests named by --hidden stay on this machine, also if git tracks them. hire
shows what is sent, to whom and for how much at most, and asks once; --yes
answers, --dry-run only writes the bundle. When the job is accepted, guild job
diff shows the work, and guild job apply commits it.

hire also takes a task bundle, a directory with a nutshell.json or a .nut file.
It says itself what is to be done and how it is judged, and nothing is asked
then.

First it vets the tests, as guild judge vet does, and sends nothing if they are
not fit to judge by. --keep-green and --unvetted say otherwise.

Tests below tests/hidden of a directory stay on this machine. The bundle has a
commitment to each, and the judge uses exactly those.

A vault is never part of the bundle. --release gives the provider credentials of
it by name, sealed for the providers of --provider, or by the node for the one
that it asks. Only providers that read encrypted requests get any.

With --criticality several providers do the job at the same time: medium asks
two and takes the first accepted delivery; high asks three, two of which must
agree; critical asks five, three of which must agree. It costs two, three or
five times as much. Remaining providers are cancelled once a quorum agrees.

A hire that was interrupted, or whose node died, is the same job if it is
repeated, until its end was shown; with --id also after that.

--open first asks everybody for an offer, without showing the bundle, and then
hires the best of those that answered.

--input gives the provider something beside the bundle: url:https://…,
event:nevent1…, job:ID (the result of an earlier job), blob:SHA256 if this node
has it, blob:https://server/SHA256 of a Blossom server, text:…, or @FILE.

With --type the file is the request of a typed job (guild oa ls), sent in the
form that other programs know. The request is checked before it is sent, and the
result when it arrives: by its schema, and for oa.sandbox_run.v1 by running the
commands again, for embeddings by computing a sample again. Its verification
says how many providers are asked, or --criticality does. The accepted result is
printed, and all else goes to standard error; or it is written to --output.
guild job result prints it again.

With --settle escrow a provider that wants money before it works gets ecash that
is locked to it and to you, and the verdict releases it: SUCCESS and strong all
of the price, mixed what --mixed-share says, weak up to --weak-cap, PARTIAL what
--partial-share says, anything else nothing. What it does not get is yours again
at once, or after the locktime (guild wallet balance). Without a mint that both
use, the provider's Lightning wallet holds your payment in place of ecash; it
gets all of it or nothing, so you decide about shares (guild wallet approve).

With --settle prepaid the provider is paid before it works, up to the bid,
whatever it delivers: your Lightning wallet (guild wallet add --help) pays its
invoice. Without such a wallet it gets ecash that is locked to it alone. With
postpaid that wallet pays an invoice in the delivery, by the same rules as
an escrow, but whole or not at all; providers that are guild ask first.

With --settle onchain your Bitcoin wallet (guild wallet add bitcoind --help)
pays before the work; blocks take their time, so --timeout must be long enough:
20 minutes for each confirmation that the provider wants.

A node that died continues its jobs when it is started again.

Exit codes:
`

func (p *program) hireCommand() *cobra.Command {
	var o hireOptions
	cmd := &cobra.Command{
		Use:   "hire DIR|FILE.nut|REQUEST.json [WHAT-IS-TO-BE-DONE]",
		Short: "Have work done in a project or for a bundle, and judge it",
		Long:  hireHelp + listExits(),
		Example: `  guild hire . --test 'pytest -q' "make the parser accept ISO dates"
  guild hire . --hidden tests/private --bid 21000 --yes "sort reports by date"
  guild hire ./fix-the-parser
  guild hire task.nut --timeout 10m --bid 21000
  guild hire ./task --provider npub1… --private --json
  guild hire ./task --bid 1000sat --settle escrow
  guild hire ./task --criticality high --compare json
  guild hire ./summary --input job:5f21ab03 --input url:https://host.example/x
  guild hire ./task --release staging-db --release api-token
  guild hire --type oa.sandbox_run.v1 request.json --output result.json`,
		Args: cli.Arity(cobra.RangeArgs(1, 2), "a directory or a .nut file, or with --type a request; and for a project what is to be done"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Source, o.asJSON = args[0], cli.AsJSON(cmd)
			if len(args) > 1 {
				o.Sentence = args[1]
			}
			if err := o.price(); err != nil {
				return cli.Usage(err)
			}
			return p.runHire(cmd.Context(), o)
		},
	}
	cli.JSONFlag(cmd, "print one JSON object per event")
	f := cmd.Flags()
	f.StringVar(&o.Task, "task", "", "task to route by (default: the bundle's)")
	f.StringArrayVar(&o.Providers, "provider", nil, "ask only this one: npub (also as lists shorten it), hex or name@domain (repeatable, in order)")
	f.DurationVar(&o.Timeout, "timeout", 0, "for the whole job (default: timeouts.job, 1h)")
	f.Var(&o.Offer, "bid", "most you would pay, with its unit, as 1000sat; a number alone is millisatoshis (default: computed from what such jobs cost)")
	f.StringVar(&o.Settle, "settle", "", "how a provider that wants money gets it: escrow, by the verdict, of ecash that is locked before; prepaid, over Lightning or in ecash before the work; postpaid, over Lightning by the verdict; onchain, by a Bitcoin transaction before the work; or free, not at all (default: escrow if the bid is play money)")
	f.IntVar(&o.Mixed, "mixed-share", 0, "by the verdict: per cent of the price for a SUCCESS of the strength mixed")
	f.IntVar(&o.Partial, "partial-share", 0, "by the verdict: per cent of the price for PARTIAL (default: you are asked)")
	f.Var(&o.Weak, "weak-cap", "by the verdict: most that is paid for a SUCCESS of the strength weak (default: you are asked)")
	f.StringVar(&o.Judge, "judge", "", "with escrow: this third node rules if the provider objects to what it gets (npub or hex; guild wallet judge)")
	f.BoolVar(&o.Free, "free", false, "bid nothing")
	f.StringVar(&o.Class, "class", "", "critical-path, financial, experimental or background (default: the task's)")
	f.StringArrayVar(&o.Nudges, "nudge", nil, "ask the provider's agent to work by this nudge: a name of the library, or a nevent (repeatable)")
	f.StringVar(&o.Urgency, "urgency", "", "normal, urgent or critical: raises a computed bid (default normal)")
	f.Float64Var(&o.Target, "target-trust", 0, "trust that a computed bid is meant for, 0.1 to 0.9")
	f.IntVar(&o.Tries, "tries", 0, "providers to ask in turn (default 3, or as many as --provider names)")
	f.BoolVar(&o.Private, "private", false, "only encrypted: skip providers who cannot")
	f.StringArrayVar(&o.Release.Names, "release", nil, "give the provider this credential of the vault; all for every one (repeatable)")
	f.BoolVar(&o.Release.Without, "without-credentials", false, "give the provider none, although the task may need some")
	f.StringArrayVarP(&o.Release.Identities, "identity", "i", nil, "file with the key that opens the vault (default: your age.key; repeatable)")
	f.BoolVar(&o.Release.AllowExpired, "allow-expired", false, "release credentials that have expired, too")
	f.BoolVar(&o.Release.Insecure, "insecure-plaintext", false, "release from a vault that is not encrypted; the provider gets it sealed")
	f.StringVar(&o.Level, "criticality", "", "low, medium, high or critical: how many do it, and how many must agree (default low)")
	f.BoolVar(&o.KeepGreen, "keep-green", false, "the work must only not break what passes now: no test needs to fail")
	f.BoolVar(&o.Unvetted, "unvetted", false, "do not vet the tests")
	f.StringVar(&o.Compare, "compare", "", "how deliveries are compared: hash, json, text, numbers:TOLERANCE or tests (default: the bundle's)")
	f.BoolVar(&o.Open, "open", false, "ask everybody for an offer first")
	f.StringArrayVar(&o.Inputs, "input", nil, "something to work on beside the bundle (repeatable)")
	f.StringVar(&o.Type, "type", "", "the job type, as oa.sandbox_run.v1: the file is its request")
	f.StringVarP(&o.Output, "output", "o", "", "with --type: file for the result that is accepted; with --dry-run: for the bundle")
	f.StringVar(&o.ID, "id", "", "of the job, 32 hex digits: hiring again with it is the same job")
	f.StringVar(&o.Test, "test", "", "of a project: the command that runs its tests (default: found)")
	f.StringArrayVar(&o.Hidden, "hidden", nil, "of a project: a file or folder of tests that stay here (repeatable)")
	f.BoolVarP(&o.Yes, "yes", "y", false, "of a project: send without asking")
	f.BoolVar(&o.DryRun, "dry-run", false, "write the bundle, and send nothing")
	cli.Exclusive(cmd, "bid", "free")
	cli.Exclusive(cmd, "keep-green", "unvetted")
	cli.Exclusive(cmd, "type", "task")
	cli.Exclusive(cmd, "type", "compare")
	_ = cmd.RegisterFlagCompletionFunc("type", p.completeJobTypes) // it is there
	cli.Choices(cmd, "class", guild.Classes()...)
	cli.Choices(cmd, "urgency", "normal", "urgent", "critical")
	cli.Choices(cmd, "criticality", "low", "medium", "high", "critical")
	cli.Choices(cmd, "compare", "hash", "json", "text", "numbers:1e-9", "tests")
	return cmd
}

func (p *program) runHire(ctx context.Context, o hireOptions) error {
	if o.Type != "" {
		var err error
		if o, err = p.asTyped(ctx, o); err != nil {
			return err
		}
	}
	if err := o.check(); err != nil {
		return cli.Usage(err)
	}
	providers, err := resolveProviders(ctx, o.Providers)
	if err != nil {
		return cli.Usage(fmt.Errorf("--provider: %w", err))
	}
	o, done, err := p.asProject(ctx, o)
	if err != nil {
		return err
	}
	defer done()
	load, err := p.load(ctx, o)
	if err != nil {
		return err
	}
	if o.DryRun {
		return p.dryRun(ctx, o, load)
	}
	client, own, err := p.anyNode(ctx)
	if err != nil {
		return err
	}
	err = p.hireAt(ctx, client, own != nil, o, providers, load)
	if own == nil {
		return err
	}
	return errors.Join(err, own(rest(ctx, err)))
}

// hireAt opens the job at a node, fresh if that was started for it, and follows it to its end.
func (p *program) hireAt(ctx context.Context, client *control.Client, fresh bool, o hireOptions, providers []string, l load) error {
	providers, err := fullKeys(ctx, client, providers, fresh)
	if err != nil {
		return err
	}
	if err := o.checkProviders(providers); err != nil {
		return cli.Usage(err)
	}
	inputs, err := parseInputs(ctx, client, o.Inputs)
	if err != nil {
		return cli.Usage(fmt.Errorf("--input: %w", err))
	}
	mark, err := p.markHire(o, l.bundle)
	if err != nil {
		return err
	}
	if job, known := mark.job(ctx, client); known {
		if !o.asJSON {
			fmt.Fprintln(p.err, "guild: "+mark.repeats(job))
		}
	} else if o, err = p.prepare(ctx, client, fresh, o, l); err != nil {
		return mark.unsent(err)
	}
	job, err := p.order(ctx, client, o, mark.id, providers, inputs, l)
	if err != nil {
		return mark.refused(err)
	}
	ended, err := p.telling(o).watch(ctx, client, job, o.asJSON)
	if _, left := errors.AsType[*leftError](err); left && fresh {
		ended, err = p.telling(o).stay(ctx, client, job, o.asJSON)
	}
	if isEnded(ended) {
		mark.remove()
	}
	if err := o.explained(err, job); err != nil {
		return err
	}
	if o.Type != "" {
		return p.showResult(ctx, client, job, o.Output, o.asJSON)
	}
	return nil
}

// prepare vets the tests, and asks whether to send a project. It returns the options with the price that was agreed to.
func (p *program) prepare(ctx context.Context, client *control.Client, fresh bool, o hireOptions, l load) (hireOptions, error) {
	var vetted exam.Vetting
	if o.packed == nil && !o.Unvetted {
		var err error
		if vetted, err = p.vetBundle(ctx, o, l.bundle); err != nil {
			return o, err
		}
	}
	if o.made == nil {
		return o, nil
	}
	return p.agree(ctx, client, fresh, o, l, vetted)
}

// load holds the files that go with a job.
type load struct {
	bundle, hidden []byte
	skipped        []nutshell.Skipped // files that were left out of the bundle
	credentials    *vault.Vault       // nil without any
}

func (p *program) load(ctx context.Context, o hireOptions) (l load, err error) {
	if o.packed != nil {
		return load{bundle: o.packed}, nil
	}
	if err := refuseEncrypted(o.Source); err != nil {
		return load{}, err
	}
	if l.credentials, err = p.credentials(ctx, o.Source, o.Release); err != nil {
		return load{}, err
	}
	random := rand.Reader
	if o.made != nil && len(o.made.Hidden) > 0 {
		if random, err = p.salts(o.made.Secret); err != nil {
			return load{}, err
		}
	}
	commitments, hidden, err := hiddenTests(ctx, o.Source, random)
	if err != nil {
		return load{}, err
	}
	l.hidden = hidden
	l.bundle, l.skipped, err = packBundle(ctx, o.Source, commitments)
	return l, err
}

// order opens the job with the node.
func (p *program) order(ctx context.Context, client *control.Client, o hireOptions, id guild.JobID, providers []string, inputs []control.Input, l load) (job control.Job, err error) {
	hire := control.Hire{
		ID:   id.String(),
		Task: o.Task, Providers: providers, Timeout: o.Timeout.Milliseconds(),
		Bid: o.Bid, Tries: o.Tries, Private: o.Private,
		Criticality: o.Level, Compare: o.Compare, Open: o.Open,
		Free: o.Free, Class: o.Class, Urgency: o.Urgency, Target: o.Target, Most: o.Most, Inputs: inputs, Nudges: o.Nudges,
		Settle: o.settlement(),
	}
	if l.credentials != nil {
		if hire.Release, err = p.release(ctx, client, l.credentials, providers, o.Release); err != nil {
			return control.Job{}, err
		}
	}
	if l.hidden != nil {
		kept, err := control.KeepHidden.Call(ctx, client, bytes.NewReader(l.hidden))
		if err != nil {
			return control.Job{}, err
		}
		hire.Hidden = kept.Hash
	}
	return client.Hire(ctx, bytes.NewReader(l.bundle), hire)
}

// check checks the flags, before anything is packed or vetted. What depends on the bundle is for the node to say.
func (o hireOptions) check() error {
	if o.Timeout > 0 && o.Timeout < time.Second {
		return fmt.Errorf("--timeout %v is less than a second", o.Timeout)
	}
	if o.ID != "" {
		if _, err := guild.ParseJobID(o.ID); err != nil {
			return fmt.Errorf("--id: %w", err)
		}
	}
	if o.Output != "" && o.Type == "" && !o.DryRun {
		return errors.New("--output is for the result of a typed job, or for the bundle of --dry-run")
	}
	if err := checkTerms(o.terms()); err != nil {
		return err
	}
	return o.Release.check()
}

// price takes the bid apart: what is bid in bitcoin, and how providers are paid.
func (o *hireOptions) price() (err error) {
	if o.Offer.inBitcoin() {
		o.Bid, err = o.Offer.thousandths()
	} else if o.Settle == "" {
		o.Settle = jobs.Escrow
	}
	if o.Judge != "" {
		if _, err := config.Keys([]string{o.Judge}); err != nil {
			return fmt.Errorf("--judge: %w", err)
		}
	}
	switch {
	case err != nil:
		return err
	case !slices.Contains([]string{"", "free", jobs.Escrow, jobs.Prepaid, jobs.Postpaid, jobs.Onchain}, o.Settle):
		return fmt.Errorf("--settle %.40q: want escrow, prepaid, postpaid, onchain or free", o.Settle)
	case o.pays() && o.Offer.amount == 0:
		return fmt.Errorf("--settle %s needs a bid with a unit, such as --bid 1000sat: it is the most that one provider gets", o.Settle)
	case o.pays() && o.Offer.alone:
		return fmt.Errorf("--settle %s needs a bid with a unit: write --bid %dsat, or --bid %dmsat", o.Settle, o.Offer.amount, o.Offer.amount)
	case o.Settle != jobs.Escrow && o.Settle != jobs.Prepaid && !o.Offer.inBitcoin():
		return fmt.Errorf("--bid %s is paid by escrow or prepaid only", &o.Offer)
	case o.Settle != jobs.Escrow && o.Settle != jobs.Postpaid && (o.Mixed != 0 || o.Partial != 0 || o.Weak.amount != 0):
		return errors.New("--mixed-share, --partial-share and --weak-cap are for --settle escrow or postpaid")
	case o.Judge != "" && o.Settle != jobs.Escrow:
		return errors.New("--judge is for --settle escrow")
	case o.Weak.unit != "" && o.Weak.unit != o.Offer.unit:
		return fmt.Errorf("--weak-cap %s has another unit than --bid %s", &o.Weak, &o.Offer)
	}
	return nil
}

// pays reports whether providers that want money get it.
func (o hireOptions) pays() bool { return o.Settle != "" && o.Settle != "free" }

// settlement returns how providers are paid, or nil.
func (o hireOptions) settlement() *control.Settlement {
	if !o.pays() {
		return nil
	}
	s := &control.Settlement{How: o.Settle, Unit: o.Offer.unit, Most: o.Offer.amount, Mixed: o.Mixed, Partial: o.Partial, Weak: o.Weak.amount}
	if keys, err := config.Keys([]string{o.Judge}); o.Judge != "" && err == nil { // it was checked by price
		s.Arbiter = &nip90.Arbiter{PubKey: keys[0]}
	}
	return s
}

// terms returns the order that the flags alone make. What depends on the bundle is left out.
func (o hireOptions) terms() jobs.Order {
	terms := jobs.Order{
		Kind: 5000, // the node chooses it by the task
		Task: o.Task, Timeout: o.Timeout, Tries: o.Tries, Open: o.Open, Private: o.Private, Criticality: guild.Criticality(o.Level),
		Bid: guild.Msat(o.Bid), Free: o.Free, Class: o.Class, Urgency: o.Urgency, Target: guild.Trust(o.Target * guild.Micro),
		Settle: o.settlement(),
	}
	if o.Task != "" || !oa.Adjudication(o.Compare).Together() {
		terms.Compare = o.Compare
	}
	return terms
}

func checkTerms(terms jobs.Order) error {
	if faults := terms.Check(); len(faults) > 0 {
		return cli.WithHint(errors.New(faults.Naming(flagOf)), control.HintFor(faults))
	}
	return nil
}

// checkProviders checks whether enough providers are named.
func (o hireOptions) checkProviders(providers []string) error {
	terms := o.terms()
	for _, text := range providers {
		key, err := nostr.PubKeyFromHex(text)
		if err != nil {
			return fmt.Errorf("--provider: %w", err)
		}
		terms.Providers = append(terms.Providers, key)
	}
	return checkTerms(terms)
}

// flagOf returns the flag for a field of an order.
func flagOf(field string) string {
	if field == "target" {
		return "--target-trust"
	}
	return "--" + field
}

// anyNode returns a client of the running node, or of one that it starts in this process. Then own waits until no
// job is open there and no other client is left, and ends it.
func (p *program) anyNode(ctx context.Context) (client *control.Client, own func(context.Context) error, err error) {
	c, err := p.config()
	if err != nil {
		return nil, nil, err
	}
	client = control.Dial(c.Socket())
	_, err = control.NodeStatus.Call(ctx, client)
	if !errors.Is(err, control.ErrNotRunning) {
		return client, nil, err
	}
	id, err := p.identity(c)
	if err != nil {
		return nil, nil, err
	}
	start := func() (*control.Client, func(context.Context) error, error) {
		return startOwnNode(ctx, c, id, nodeOptions{Log: p.logger(p.err)})
	}
	client, stop, err := start()
	if errors.Is(err, journal.ErrLocked) {
		defer time.AfterFunc(2*time.Second, func() {
			fmt.Fprintln(p.err, "guild: another process has the journal; waiting up to half a minute for its answer")
		}).Stop()
		client, stop, err = awaitNode(ctx, control.Dial(c.Socket()), start, err)
	}
	if err != nil || stop == nil {
		return client, nil, err
	}
	own = func(ctx context.Context) error {
		if ctx.Err() == nil {
			defer time.AfterFunc(2*time.Second, func() {
				fmt.Fprintln(p.err, "guild: this process is the node, and stays while other jobs are open; Ctrl-C ends it, guild up goes on with them")
			}).Stop()
		}
		return stop(ctx)
	}
	return client, own, nil
}

// awaitNode waits while another process, which has the journal, starts its node or ends it: for the answer of that node, or for
// one that start starts. It returns locked if neither comes in a time that is enough on a busy machine.
func awaitNode(
	ctx context.Context, other *control.Client, start func() (*control.Client, func(context.Context) error, error), locked error,
) (client *control.Client, stop func(context.Context) error, err error) {
	late := time.After(30 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-late:
			return nil, nil, locked
		case <-tick.C:
		}
		if _, err := control.NodeStatus.Call(ctx, other); err == nil {
			return other, nil, nil
		}
		client, stop, err = start()
		if !errors.Is(err, journal.ErrLocked) {
			return client, stop, err
		}
	}
}

// rest returns the context for the rest of a node that a verb has started for itself. After a Ctrl-C that only ended what the
// verb did, the node goes on, and the next one kills.
func rest(ctx context.Context, err error) context.Context {
	if _, left := errors.AsType[*leftError](err); left || ctx.Err() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}
