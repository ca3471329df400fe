package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

// workVerbs look after the services of a running node.
func (p *program) workVerbs() []*cobra.Command {
	ls := call(p, p.running, control.Services, &cobra.Command{
		Use:   "ls",
		Short: "List the services that the running node offers",
		Long: `ls lists the services that the running node offers. OK is the share of finished
requests that were delivered, TIME the average time from the request to the
result.`,
		Example: "  guild work ls\n  guild work ls --json",
	}, p.showServices)
	return []*cobra.Command{
		p.workTryCommand(), ls, p.workShowCommand(),
		p.workCustomersCommand(), p.workJudgedCommand(), p.workObjectCommand(),
		p.turnCommand("pause", "Refuse new requests, and hold waiting ones until resume", `New requests are refused as busy, and the announcement is retracted. Running
ones are finished; waiting ones are done after guild work resume, or refused
when their deadline has passed.`, control.PauseService),
		p.turnCommand("resume", "Take requests again after pause or drain", `Waiting requests go on, and the service is announced again.`,
			control.ResumeService),
		p.turnCommand("drain", "Refuse new requests, and finish waiting ones", `New requests are refused as busy, and the announcement is retracted. Running and
waiting ones are done. The node goes on: stop it when guild work ls shows
nothing under way.`, control.DrainService),
	}
}

type workShowOptions struct {
	Replay   bool // REPLAY.jsonl of a request's session
	Receipt  bool // its RECEIPT.json
	Delivery bool // the delivery, packed
}

func (p *program) workShowCommand() *cobra.Command {
	var o workShowOptions
	cmd := p.local(&cobra.Command{
		Use:   "show SERVICE|REQUEST",
		Short: "Show a service, or a request and the record of its worker",
		Long: `show shows a service: its settings, its customers and its requests so far.
SERVICE is its name in the configuration or the d of its announcement: its task,
unless --d says otherwise.

For a request it shows the result, and the hashes of the documents: the bundle,
the delivery, and the record of the worker's session (REPLAY.jsonl and
RECEIPT.json). REQUEST is the first 8 digits of a request's id, or more; a
service with such a name comes first.`,
		Example: "  guild work show python\n  guild work show 5f21c9aa\n  guild work show 5f21c9aa --replay > REPLAY.jsonl\n" +
			"  guild work show 5f21c9aa --receipt | jq .trajectory_hash\n  guild work show 5f21c9aa --delivery > delivery.nut",
		Args:              cli.OneArg("one service or request"),
		ValidArgsFunction: p.completeServices,
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		ctx := cmd.Context()
		switch {
		case o.Receipt:
			return nil, p.printDocument(ctx, control.RequestSession, args[0])
		case o.Replay:
			return nil, p.printDocument(ctx, control.RequestReplay, args[0])
		case o.Delivery:
			return nil, p.printDocument(ctx, control.RequestDelivery, args[0])
		case isRequest(args[0]) && !p.isService(ctx, args[0]):
			return answerOf(ctx, p.reading, control.OneRequest, p.showRequest, args[0])
		}
		return answerOf(ctx, p.running, control.OneService, p.showService, args[0])
	})
	cmd.Flags().BoolVar(&o.Replay, "replay", false, "print the REPLAY.jsonl of a request's session as it is stored")
	cmd.Flags().BoolVar(&o.Receipt, "receipt", false, "print the RECEIPT.json of a request's session as it is stored")
	cmd.Flags().BoolVar(&o.Delivery, "delivery", false, "print what was delivered for a request, a .nut file")
	cli.Exclusive(cmd, "replay", "receipt", "delivery", "json")
	return cmd
}

// isService reports whether the running node has a service of that name.
func (p *program) isService(ctx context.Context, name string) bool {
	client, err := p.client()
	if err == nil {
		_, err = control.OneService.Call(ctx, client, name)
	}
	return err == nil
}

// turnCommand makes a verb that takes one service, or all of them.
func (p *program) turnCommand(name, about, more string, turn control.Resource[control.Service]) *cobra.Command {
	return p.local(&cobra.Command{
		Use:               name + " [SERVICE]",
		Short:             about,
		Long:              about + ".\n\n" + more + "\nIt holds through any restart. Without SERVICE it applies to all.",
		Example:           fmt.Sprintf("  guild work %s python\n  guild work %s --json", name, name),
		Args:              cli.Arity(cobra.MaximumNArgs(1), "one service, or none for all"),
		ValidArgsFunction: p.completeServices,
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		return p.runTurn(cmd.Context(), args, turn)
	})
}

func (p *program) runTurn(ctx context.Context, args []string, turn control.Resource[control.Service]) (*cli.Result, error) {
	client, err := p.client()
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		all, err := control.Services.Call(ctx, client)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return nil, p.offersNothing()
		}
		for _, s := range all {
			args = append(args, s.D)
		}
	}
	turned := []control.Service{}
	for _, d := range args {
		s, err := turn.Call(ctx, client, d)
		if err != nil {
			return nil, err
		}
		turned = append(turned, s)
	}
	return &cli.Result{JSON: turned, Show: func() error {
		for _, s := range turned {
			fmt.Fprintf(p.out, "%s: %s, %d running, %d queued\n", cli.Cut(cli.Clean(s.D), 40), s.State, s.Running, s.Queued)
		}
		return nil
	}}, nil
}

// offersNothing returns the error of a verb that needs a service.
func (p *program) offersNothing() error {
	return cli.WithHint(errors.New("the node offers no service"),
		"guild work --task python --exec ./agent/solve.sh, or [services.NAME] in "+p.configPath()+" and guild up")
}

// configPath returns the path of the configuration file, which need not exist.
func (p *program) configPath() string {
	c, err := p.config()
	if err != nil {
		return "config.toml"
	}
	return c.Paths.Config
}

func (p *program) showServices(all []control.Service) error {
	if len(all) == 0 {
		return p.offersNothing()
	}
	return table(p, "", "SERVICE,STATE,RUNNING,QUEUED,DONE,FAILED,OK,TIME", func(s control.Service) []string {
		return []string{cli.Cut(cli.Clean(s.D), 20), s.State, fmt.Sprintf("%d/%d", s.Running, s.Slots), fmt.Sprintf("%d/%d", s.Queued, s.Settings.Queue),
			fmt.Sprint(s.Done), fmt.Sprint(s.Failed), successOf(s), latencyOf(s)}
	})(all)
}

func successOf(s control.Service) string {
	if s.Success == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100**s.Success)
}

func latencyOf(s control.Service) string {
	if s.Done == 0 {
		return "-"
	}
	return (time.Duration(s.LatencyMs) * time.Millisecond).String()
}

func (p *program) showService(s control.Service) error {
	p.showSettings(s, *s.Settings)
	line := p.line
	line("running", "%d of %d", s.Running, s.Slots)
	line("queued", "%d of %d, %d of one customer with those running", s.Queued, s.Settings.Queue, s.Settings.Each)
	if s.Unpaid > 0 {
		line("unpaid", "%d wait for their price to be locked or paid", s.Unpaid)
	}
	line("done", "%d, %d failed, %s delivered", s.Done, s.Failed, successOf(s))
	line("latency", "%s on average, from request to result", latencyOf(s))
	for i, c := range s.Customers {
		line(first(i, "serves"), "%s  %d running, %d queued", cli.ShortNpub(c.Npub), c.Running, c.Queued)
	}
	return nil
}

// line prints a label and its value, in at most 80 columns.
func (p *program) line(label, format string, args ...any) {
	fmt.Fprintf(p.out, "%-9s %s\n", label, cli.Cut(cli.Clean(fmt.Sprintf(format, args...)), 70))
}

func (p *program) showSettings(s control.Service, set control.ServiceSettings) {
	line := p.line
	line("service", "%s", s.D)
	line("state", "%s", s.State)
	line("tasks", "%s", strings.Join(set.Tasks, ", "))
	line("kinds", "%s", strings.Trim(fmt.Sprint(set.Kinds), "[]"))
	if set.Name != "" {
		line("name", "%s", set.Name)
	}
	if set.About != "" {
		line("about", "%s", set.About)
	}
	if set.Schema != "" {
		line("schema", "%s", set.Schema)
	}
	line("command", "in the sandbox %s, network %s, at most %s", s.Walls, s.Network, time.Duration(set.TimeLimit)*time.Millisecond)
	price := fmt.Sprintf("%d msat", set.Price)
	if set.Unit != "sat" && set.Unit != "msat" {
		price = fmt.Sprintf("%d %s", set.Price/1000, unitName(set.Unit))
	}
	if set.PriceText != "" {
		line("price", "%s", set.PriceText)
		line("least bid", "%d msat", set.MinBid)
	} else {
		line("price", "%s, least bid %d msat", price, set.MinBid)
	}
	line("asks", "%d bits of work, %s", set.PoW, paceOf(set))
	customers := "everybody"
	if n := len(set.Allow); n > 0 {
		customers = cli.Count(n, "listed customer", "listed customers")
	}
	if set.Prepaid > 0 {
		customers += fmt.Sprintf("; below a score of %s they pay ahead", set.Prepaid)
	}
	if n := len(set.Judges); n > 0 {
		customers += "; " + cli.Count(n, "judge", "judges") + " of their escrow may rule"
	}
	if set.Open {
		customers += "; requests that name nobody, too"
	}
	line("for", "%s", customers)
}

func paceOf(set control.ServiceSettings) string {
	if set.PerMinute == 0 {
		return "any number of requests in a minute"
	}
	return cli.Count(set.PerMinute, "request", "requests") + " of one customer in a minute"
}

// completeServices offers the services of the running node.
func (p *program) completeServices(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return complete(p, control.Services, func(s control.Service) string {
		return s.D + "\t" + cli.Cut(cli.Clean(s.State+", "+strings.Join(s.Settings.Tasks, ",")), 40)
	})(cmd, args, begun)
}
