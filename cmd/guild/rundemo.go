package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/hand/mintd"
	"guild/internal/journal"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/sandbox/tiers"
	"guild/internal/step/jobs"
	"guild/verify"
)

// demoOptions are the flags of guild demo.
type demoOptions struct {
	asJSON   bool
	Keep     string // directory for the nodes' files; a temporary one that is removed when empty
	Examples string // directory with the bundles and the workers; looked for when empty
}

// hiring is one job of the demo: a bundle, and the providers that are asked for it in turn. With none, the node
// chooses by itself.
type hiring struct {
	bundle    string
	why       string // for people; "" if the one before it says so
	providers []string
}

// demoHirings returns the jobs of the demo, in order.
func demoHirings() []hiring {
	return []hiring{
		{"brackets", "a small task, for two strangers", []string{"cheat"}},
		{"brackets", "", []string{"able"}},
		{"valid-date", "16 tests, and whoever is accepted first", []string{"silent", "sloppy", "cheat", "able"}},
		{"close-elements", "now the node chooses whom to ask", nil},
	}
}

func demoProviders() []string { return []string{"able", "sloppy", "cheat", "silent"} }

// demo is one run: a customer node in this process, and four providers in processes of their own.
type demo struct {
	o        demoOptions
	story    *story
	dir      string
	examples string
	keys     map[string]string // provider → npub
	names    map[string]string // npub → provider
	client   *control.Client
	rows     []demoRow
}

// demoRow is one attempt, as --json prints it.
type demoRow struct {
	Provider string   `json:"provider"`
	Bundle   string   `json:"bundle"`
	Job      string   `json:"job"`
	Happened string   `json:"happened"`
	Verdict  string   `json:"verdict,omitempty"`
	Careless string   `json:"careless,omitempty"` // result of plain pytest on the same files, if that differs
	Before   *float64 `json:"trust_before"`       // BeforeMicro in decimal form, deprecated
	After    *float64 `json:"trust_after"`        // deprecated, too
	Receipt  string   `json:"receipt,omitempty"`
	Paid     int64    `json:"paid"`     // in test, which is worthless play money
	Verified bool     `json:"verified"` // the receipt was exported, and every check of it holds

	BeforeMicro *guild.Trust `json:"trust_before_micro"`
	AfterMicro  *guild.Trust `json:"trust_after_micro"`
}

// runDemo runs the whole loop on this machine and prints each step of it.
func (p *program) runDemo(ctx context.Context, o demoOptions) (err error) {
	d := &demo{o: o, keys: map[string]string{}, names: map[string]string{}, story: newStory(p, o.asJSON)}
	if err := d.prepare(); err != nil {
		return err
	}
	if o.Keep == "" {
		defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	}
	defer d.story.finish()
	d.story.say("guild demo: four strangers, and work that is judged before it is accepted")
	d.story.begin("the nodes start")
	stop, relay, err := d.startCustomer(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(d.run(ctx, relay), stop(rest(ctx, nil))); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d.story.finish()
	d.tellNext()
	if o.asJSON {
		return cli.PrintJSON(p.out, d.rows)
	}
	return nil
}

// prepare makes the directory of the demo, and a home for each node.
func (d *demo) prepare() (err error) {
	if d.examples, err = findExamples(d.o.Examples); err != nil {
		return err
	}
	if d.dir, err = demoDir(d.o.Keep); err != nil {
		return err
	}
	for _, name := range append(demoProviders(), "customer") {
		public, err := key.Create(d.home(name), nil)
		if err == nil {
			err = journal.Init(filepath.Join(d.home(name), "journal"))
		}
		if err != nil {
			return fmt.Errorf("make the home of %s: %w", name, err)
		}
		npub := nip19.EncodeNpub(public)
		d.keys[name], d.names[npub] = npub, name
	}
	return nil
}

// demoDir makes the directory of a demo: the one to keep, or a temporary one.
func demoDir(keep string) (string, error) {
	if keep == "" {
		return os.MkdirTemp("", "guild-demo-")
	}
	dir, err := filepath.Abs(keep)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

func (d *demo) home(name string) string { return filepath.Join(d.dir, name) }

// findExamples looks for the examples in the working directory, and beside the program's own directory.
func findExamples(given string) (string, error) {
	places := []string{given}
	if given == "" {
		places = []string{"examples"}
		if program, err := os.Executable(); err == nil {
			places = append(places, filepath.Join(filepath.Dir(program), "..", "examples"))
		}
	}
	for _, dir := range places {
		if _, err := os.Stat(filepath.Join(dir, "workers", "able")); err == nil {
			return filepath.Abs(dir)
		}
	}
	return "", cli.WithHint(errors.New("the examples are not here"), "run guild demo in guild's source directory, or name it: --examples DIR")
}

// startCustomer runs the customer node and the relay that everybody meets on. Its patience is counted in seconds,
// so that the demo does not wait long for the silent provider.
func (d *demo) startCustomer(ctx context.Context) (stop func(context.Context) error, relay string, err error) {
	c, err := config.Load(d.home("customer"), nil)
	if err != nil {
		return nil, "", err
	}
	c.Relay.Addr, c.Wallet.Mint = "127.0.0.1:0", "127.0.0.1:0"
	c.Timeouts.Silence, c.Timeouts.Result = 6*time.Second, 8*time.Second
	id, err := key.Load(c.Paths.Data, nil, func(string) string { return "" })
	if err != nil {
		return nil, "", err
	}
	client, stop, err := startOwnNode(ctx, c, id, nodeOptions{Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))})
	if err != nil {
		return nil, "", err
	}
	d.client = client
	status, err := control.NodeStatus.Call(ctx, client)
	return stop, status.Local, err
}

// run starts the providers, hires them, and verifies the last receipt.
func (d *demo) run(ctx context.Context, relay string) error {
	// The kernel tells the providers to end when the thread ends that started them, so it is kept.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, name := range demoProviders() {
		p, err := d.startProvider(ctx, name, relay)
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		defer stopProvider(p)
	}
	if err := errors.Join(d.meet(ctx), d.share(ctx)); err != nil {
		return err
	}
	for _, h := range demoHirings() {
		if err := d.hire(ctx, h); err != nil {
			return fmt.Errorf("hire for %s: %w", h.bundle, err)
		}
	}
	return errors.Join(d.verifyReceipt(ctx), d.tellLedger(ctx))
}

// Terms of the demo, in play money: the price of each provider, the most that is locked, and the share for PARTIAL.
const (
	demoPrice   = 100
	demoMost    = 200
	demoPartial = 40 // per cent
)

// share adds the customer's mint of play money to the wallet of each provider.
func (d *demo) share(ctx context.Context) error {
	money, err := d.money(ctx, func(m control.Money) bool { return len(m.Assets) > 0 && m.Assets[0].Free > 0 })
	if err != nil {
		return err
	}
	for _, name := range demoProviders() {
		c, err := config.Load(d.home(name), nil)
		if err != nil {
			return err
		}
		named := control.MintNamed{Mint: money.Assets[0].Mint, Unit: money.Assets[0].Unit}
		if _, err := control.AddMint.Call(ctx, control.Dial(c.Socket()), named); err != nil {
			return fmt.Errorf("give %s the mint: %w", name, err)
		}
	}
	return nil
}

// money returns the customer's wallet once it is as wanted.
func (d *demo) money(ctx context.Context, wanted func(control.Money) bool) (m control.Money, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for tick := time.Tick(50 * time.Millisecond); ; {
		if m, err = control.Wallet.Call(ctx, d.client); err != nil || wanted(m) {
			return m, err
		}
		select {
		case <-ctx.Done():
			return m, fmt.Errorf("the wallet is not as expected: %+v: %w", m, ctx.Err())
		case <-tick:
		}
	}
}

// tellLedger prints what was paid, once all that was locked has come to its end.
func (d *demo) tellLedger(ctx context.Context) error {
	m, err := d.money(ctx, func(m control.Money) bool { return len(m.Assets) > 0 && m.Assets[0].Held == 0 })
	if err != nil {
		return err
	}
	a := m.Assets[0]
	d.story.say(fmt.Sprintf("  ledger    %d test (worthless play money) paid by the verdicts, %d are left", a.Paid, a.Free))
	return nil
}

func (d *demo) startProvider(ctx context.Context, name, relay string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	worker := filepath.Join(d.examples, "workers", name)
	if name == "cheat" {
		worker += " nut-example-brackets" // that task it does properly
	}
	args := []string{"work", "--untried", "--home", d.home(name), "--relay", relay, "--name", name, "--task", "python", "--exec", worker,
		"--price", fmt.Sprintf("%dtest", demoPrice)}
	cmd := exec.Command(self, args...)
	cmd.SysProcAttr = new(syscall.SysProcAttr)
	sandbox.EndWithParent(cmd.SysProcAttr, syscall.SIGTERM)
	log, err := os.Create(filepath.Join(d.home(name), "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	return cmd, cmd.Start()
}

func stopProvider(p *exec.Cmd) {
	p.Process.Signal(os.Interrupt)
	hard := time.AfterFunc(15*time.Second, func() { p.Process.Kill() })
	defer hard.Stop()
	p.Wait() // it was told to stop; its exit status does not matter
}

// meet waits until the customer has seen everybody's announcements.
func (d *demo) meet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	want := len(demoProviders())
	for tick := time.Tick(100 * time.Millisecond); ; {
		known, err := control.Providers.Call(ctx, d.client)
		if err != nil {
			return err
		}
		if len(known) >= want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d services were announced: see %s", len(known), want, filepath.Join(d.dir, "*", "log"))
		case <-tick:
		}
	}
}

// hire has one task done, and prints how each attempt ended.
func (d *demo) hire(ctx context.Context, h hiring) error {
	bundle, _, err := packBundle(ctx, filepath.Join(d.examples, h.bundle), nil)
	if err != nil {
		return err
	}
	order := control.Hire{
		Timeout: (5 * time.Minute).Milliseconds(),
		Settle:  &control.Settlement{How: jobs.Escrow, Unit: mintd.Unit, Most: demoMost, Partial: demoPartial},
	}
	for _, name := range h.providers {
		order.Providers = append(order.Providers, d.keys[name])
	}
	job, err := d.client.Hire(ctx, bytes.NewReader(bundle), order)
	if err != nil {
		return err
	}
	d.story.finish()
	if h.why != "" {
		d.story.say("")
		d.story.say(fmt.Sprintf("  %s: %s", h.bundle, h.why))
	}
	asked := "" // id of the running attempt
	_, err = writeUpdates(d.client.Watch(ctx, job.ID), func(u control.Update) error {
		over := u.Ended != nil || u.Attempt != "" && u.Attempt != asked && u.Event == "attempt.planned"
		if over && asked != "" {
			if err := d.tell(ctx, h.bundle, job.ID, asked, u.At); err != nil {
				return err
			}
		}
		if over {
			asked = u.Attempt
		}
		if asked != "" && u.Ended == nil {
			d.story.begin(fmt.Sprintf("%-9s %s", cmp.Or(d.names[u.Provider], "judge"), cli.Clean(u.Text)))
		}
		return nil
	})
	return err
}

// tell prints how an attempt ended and adds its row. at is when it ended, in Unix ms.
func (d *demo) tell(ctx context.Context, bundle, id, attempt string, at int64) error {
	a, err := d.settled(ctx, id, attempt)
	if err != nil {
		return err
	}
	r := demoRow{
		Provider: d.names[a.Npub], Bundle: bundle, Job: id, Happened: a.State, Before: a.TrustFrom, After: a.TrustTo, BeforeMicro: a.TrustFromMicro, AfterMicro: a.TrustToMicro, Receipt: a.Receipt,
	}
	text := "took the task and said nothing"
	v := a.Verdict
	switch {
	case v != nil:
		r.Verdict = fmt.Sprintf("%s %d/%d", v.Outcome, v.Passed, v.Expected)
		text = fmt.Sprintf("%s: %d of %d passed%s%s", a.State, v.Passed, v.Expected, moneyMoved(a), trustMoved(a))
		r.Paid = amountPaid(a)
	case a.Reason != "":
		r.Happened += ": " + guild.Cut(a.Reason, 24)
	}
	d.story.end(a.State == string(guild.Accepted), r.Provider, text, time.Duration(at-a.Planned)*time.Millisecond)
	told := slices.ContainsFunc(d.rows, func(r demoRow) bool { return r.Careless != "" })
	if r.Provider == "cheat" && a.State != string(guild.Accepted) && !told {
		if r.Careless, err = d.judgeCarelessly(ctx, bundle, id, attempt); err != nil {
			return err
		}
		d.story.say("            plain pytest says of the same files: " + r.Careless)
		d.story.say("            (conftest.py among them has it report every test as passed;")
		d.story.say("            guild's tests run where no delivered file is)")
	}
	d.rows = append(d.rows, r)
	return nil
}

// settled returns an attempt once its money has moved: that follows the verdict within moments, and the next attempt does not
// wait for it.
func (d *demo) settled(ctx context.Context, id, attempt string) (control.Attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for tick := time.Tick(50 * time.Millisecond); ; {
		job, err := control.OneJob.Call(ctx, d.client, id)
		if err != nil {
			return control.Attempt{}, err
		}
		i := slices.IndexFunc(job.Attempts, func(a control.Attempt) bool { return a.ID == attempt })
		if i < 0 {
			return control.Attempt{}, fmt.Errorf("job %s has no attempt %s", short(id), short(attempt))
		}
		a := job.Attempts[i]
		if a.Verdict == nil || a.Money == nil || a.Money.State != "held" {
			return a, nil
		}
		select {
		case <-ctx.Done():
			return a, fmt.Errorf("the money for attempt %s did not move: %w", short(attempt), ctx.Err())
		case <-tick:
		}
	}
}

// amountPaid returns what the provider of an attempt got, in test.
func amountPaid(a control.Attempt) int64 {
	if a.Money == nil {
		return 0
	}
	return a.Money.Paid / 1000
}

// moneyMoved says what became of the money for an attempt.
func moneyMoved(a control.Attempt) string {
	paid := amountPaid(a)
	switch {
	case a.Money == nil:
		return ""
	case paid > 0:
		return fmt.Sprintf("; paid %d", paid)
	}
	return "; refunded"
}

// trustMoved says how the trust in an attempt's service has moved.
func trustMoved(a control.Attempt) string {
	switch {
	case a.TrustTo == nil:
		return "; it earns no trust"
	case a.TrustFrom == nil:
		return fmt.Sprintf("; trust %.2f", *a.TrustTo)
	}
	return fmt.Sprintf("; trust %.2f → %.2f", *a.TrustFrom, *a.TrustTo)
}

// judgeCarelessly returns what pytest says of a delivery if the customer's tests simply run beside it. It runs in a
// sandbox all the same.
func (d *demo) judgeCarelessly(ctx context.Context, bundle, job, attempt string) (string, error) {
	packed, err := control.Delivery.Call(ctx, d.client, job, attempt)
	if err != nil {
		return "", err
	}
	delivered := fetched{Attempt: attempt, Dir: filepath.Join(d.dir, "careless")}
	if err := delivered.write(ctx, packed); err != nil {
		return "", err
	}
	runner, _, err := tiers.Pick(ctx, "")
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	_, err = runner.Run(ctx, sandbox.Spec{
		Argv: []string{"/usr/bin/python3", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"},
		Env:  []string{"PATH=/usr/bin:/bin", "LANG=C.UTF-8", "HOME=" + sandbox.Home},
		Copies: []sandbox.Copy{
			{Host: delivered.Dir, Inside: sandbox.Workspace},
			{Host: filepath.Join(d.examples, bundle, "tests"), Inside: sandbox.Workspace + "/tests"},
		},
	}, sandbox.IO{Stdout: &said, Stderr: io.Discard})
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	summary, _, _ := strings.Cut(lines[len(lines)-1], " in ")
	return summary, err
}

// verifyReceipt exports the last receipt, and verifies it as guild verify does.
func (d *demo) verifyReceipt(ctx context.Context) error {
	last := &d.rows[len(d.rows)-1]
	packed, err := control.ReceiptExport.Call(ctx, d.client, last.Receipt, "false")
	if err != nil {
		return err
	}
	report, err := verify.Archive(packed)
	if err != nil {
		return err
	}
	last.Verified = report.OK()
	passed := 0
	for _, c := range report.Checks {
		if c.State == verify.Passed {
			passed++
		}
	}
	if !last.Verified {
		return fmt.Errorf("receipt %s does not hold", last.Receipt)
	}
	d.story.say("")
	d.story.say(fmt.Sprintf("  receipt   %s holds: %s passed offline, as for anybody", last.Receipt, cli.Count(passed, "check", "checks")))
	return nil
}

// tellNext names two commands to go on with, as this program was called.
func (d *demo) tellNext() {
	self := os.Args[0]
	next := [2][2]string{
		{self + " demo --keep demo", "the same, and keeps the nodes to look at"},
		{self + " judge doctor", "attacks this machine's sandbox"},
	}
	if d.o.Keep != "" {
		job, home := short(d.rows[len(d.rows)-2].Job), self+" --home "+filepath.Join(d.o.Keep, "customer")
		next = [2][2]string{{home + " judge explain " + job, ""}, {home + " job diff " + job, ""}}
	}
	d.story.say("")
	d.story.say("go on with")
	for _, n := range next {
		line(d.story.out, "%s", strings.TrimRight(fmt.Sprintf("  %-28s %s", n[0], n[1]), " ")) // uncut, to be copied
	}
}
