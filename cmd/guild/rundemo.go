package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
)

// demoOptions are the flags of guild demo.
type demoOptions struct {
	asJSON   bool
	Keep     string // directory for the nodes' files; a new temporary one when empty
	Examples string // directory with the bundles and the workers; looked for when empty
}

// hiring is one job of the demo: a bundle, and the providers that are asked for it in turn. With none, the node
// chooses by itself.
type hiring struct {
	bundle    string
	providers []string
}

// demoHirings returns the jobs of the demo. Each provider gets some before the node chooses by experience.
func demoHirings() []hiring {
	return []hiring{
		{"brackets", []string{"able"}},
		{"close-elements", []string{"sloppy", "able"}},
		{"valid-date", []string{"cheat", "able"}},
		{"ledger", []string{"silent", "able"}},
		{"top-words", []string{"sloppy", "cheat", "able"}},
		{"spans", []string{"cheat", "able"}},
		{"brackets", nil},
	}
}

func demoProviders() []string { return []string{"able", "sloppy", "cheat", "silent"} }

func demoTasks() []string { return []string{"python", "shell", "go"} }

// demo is one run: a customer node in this process, and four providers in processes of their own.
type demo struct {
	o        demoOptions
	out      io.Writer
	dir      string
	examples string
	keys     map[string]string // provider → npub
	names    map[string]string // npub → provider
	client   *control.Client
}

// demoRow is one attempt in the closing table.
type demoRow struct {
	Provider string   `json:"provider"`
	Bundle   string   `json:"bundle"`
	Job      string   `json:"job"`
	Happened string   `json:"happened"`
	Verdict  string   `json:"verdict,omitempty"`
	Before   *float64 `json:"trust_before"`
	After    *float64 `json:"trust_after"`
	Receipt  string   `json:"receipt,omitempty"`
}

// runDemo runs the whole loop on this machine and prints the results.
func runDemo(ctx context.Context, o demoOptions, out io.Writer) error {
	d := &demo{o: o, out: out, keys: map[string]string{}, names: map[string]string{}}
	if err := d.prepare(); err != nil {
		return err
	}
	stop, relay, err := d.startCustomer(ctx)
	if err != nil {
		return err
	}
	rows, err := d.run(ctx, relay)
	err = errors.Join(err, stop())
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return d.report(rows)
}

func (d *demo) prepare() (err error) {
	if d.examples, err = findExamples(d.o.Examples); err != nil {
		return err
	}
	if d.dir = d.o.Keep; d.dir == "" {
		d.dir, err = os.MkdirTemp("", "guild-demo-")
	} else {
		err = os.MkdirAll(d.dir, 0o700)
	}
	if err != nil {
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
func (d *demo) startCustomer(ctx context.Context) (stop func() error, relay string, err error) {
	c, err := config.Load(d.home("customer"), nil)
	if err != nil {
		return nil, "", err
	}
	c.Relay.Addr = "127.0.0.1:0"
	c.Timeouts.Silence, c.Timeouts.Result = 8*time.Second, 15*time.Second
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

func (d *demo) run(ctx context.Context, relay string) (rows []demoRow, err error) {
	fmt.Fprintf(d.progress(), "one relay at %s, one customer, four providers\n", relay)
	// The kernel tells the providers to end when the thread ends that started them, so it is kept.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, name := range demoProviders() {
		p, err := d.startProvider(ctx, name, relay)
		if err != nil {
			return nil, fmt.Errorf("start %s: %w", name, err)
		}
		defer stopProvider(p)
	}
	if err := d.meet(ctx); err != nil {
		return nil, err
	}
	for _, h := range demoHirings() {
		job, err := d.hire(ctx, h)
		if err != nil {
			return nil, fmt.Errorf("hire for %s: %w", h.bundle, err)
		}
		for _, a := range job.Attempts {
			rows = append(rows, d.row(h.bundle, job, a))
		}
	}
	return rows, nil
}

// progress returns the writer for progress: with --json standard error, so that only the table is on standard output.
func (d *demo) progress() io.Writer {
	if d.o.asJSON {
		return os.Stderr
	}
	return d.out
}

func (d *demo) startProvider(ctx context.Context, name, relay string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"work", "--untried", "--home", d.home(name), "--relay", relay, "--name", name, "--exec", filepath.Join(d.examples, "workers", name)}
	for _, task := range demoTasks() {
		args = append(args, "--task", task)
	}
	cmd := exec.Command(self, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
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
	want := len(demoProviders()) * len(demoTasks())
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

func (d *demo) hire(ctx context.Context, h hiring) (control.Job, error) {
	bundle, _, err := packBundle(ctx, filepath.Join(d.examples, h.bundle), nil)
	if err != nil {
		return control.Job{}, err
	}
	order := control.Hire{Timeout: (5 * time.Minute).Milliseconds()}
	for _, name := range h.providers {
		order.Providers = append(order.Providers, d.keys[name])
	}
	job, err := d.client.Hire(ctx, bytes.NewReader(bundle), order)
	if err != nil {
		return control.Job{}, err
	}
	whom := "whoever the node chooses"
	if len(h.providers) > 0 {
		whom = strings.Join(h.providers, ", then ")
	}
	fmt.Fprintf(d.progress(), "\n%s: %s asked for %s\n", short(job.ID), h.bundle, whom)
	return writeUpdates(d.client.Watch(ctx, job.ID), printEvents(d.progress(), "  "))
}

func (d *demo) row(bundle string, job control.Job, a control.Attempt) demoRow {
	r := demoRow{
		Provider: d.names[a.Npub], Bundle: bundle, Job: job.ID, Happened: a.State, Before: a.TrustFrom, After: a.TrustTo,
		Receipt: a.Receipt,
	}
	if a.Verdict != nil {
		r.Verdict = fmt.Sprintf("%s %d/%d", a.Verdict.Outcome, a.Verdict.Passed, a.Verdict.Expected)
	} else if a.Reason != "" {
		r.Happened += ": " + guild.Cut(a.Reason, 24)
	}
	return r
}

func (d *demo) report(rows []demoRow) error {
	if d.o.asJSON {
		return cli.PrintJSON(d.out, rows)
	}
	fmt.Fprintf(d.out, "\n%-8s %-15s %-20s %-14s %-12s %s\n", "PROVIDER", "BUNDLE", "WHAT HAPPENED", "VERDICT", "TRUST", "RECEIPT")
	for _, r := range rows {
		fmt.Fprintf(d.out, "%-8s %-15s %-20s %-14s %-12s %s\n", r.Provider, r.Bundle, r.Happened, dash(r.Verdict),
			trustText(r.Before)+" → "+trustText(r.After), dash(r.Receipt))
	}
	last := rows[len(rows)-1]
	home := d.home("customer")
	_, err := fmt.Fprintf(d.out, `
look further:
  guild --home %[1]s job show %[2]s
  guild --home %[1]s receipt show %[3]s
  guild --home %[1]s replay show %[2]s
  guild --home %[1]s journal ls
  guild --home %[1]s market ls
  guild --home %[1]s market why %[2]s
  guild --home %[1]s trust history %[4]s
`, home, short(last.Job), last.Receipt, cli.ShortNpub(d.keys["cheat"]))
	return err
}

func trustText(t *float64) string {
	if t == nil {
		return "–"
	}
	return fmt.Sprintf("%.2f", *t)
}

func dash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}
