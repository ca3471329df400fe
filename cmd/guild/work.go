package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/config"
	"guild/internal/hand/mcp"
	"guild/internal/step/work"
	"guild/nip89"
)

type workOptions struct {
	Service service  // of every task
	Tasks   []string // a service for each
	Relays  []string
	Untried bool // announce services whose worker passed no try

	Agent      string      // that does the work, instead of a command
	AgentLogin bool        // it uses its own login
	Limits     tokenLimits // of the agent or the model

	Endpoint, Model, KeyEnv string   // of a model that does the work, or of the agent
	MCP                     []string // servers with more tools for the model

	asJSON bool
}

func (p *program) workCommand() *cobra.Command {
	var o workOptions
	cmd := &cobra.Command{
		Use:   "work --task TASK --exec 'COMMAND'",
		Short: "Offer a service that runs a command for every job; manage services",
		Long: `work announces a service and runs COMMAND (by /bin/sh -c) for each request, in
an empty directory with the unpacked bundle, in a sandbox. The command finds

  GUILD_BUNDLE    the unpacked bundle; its nutshell.json says what to do
  GUILD_DELIVERY  an empty directory: its files are delivered, and a result.json
                  there is merged into the delivery's own
  GUILD_JOB       the id of the job
  GUILD_INPUTS    the inputs beside the bundle, if any: inputs.json lists the
                  files there
  GUILD_HINTS     the customer's advice, if any: a JSON file (agent_type_hint,
                  context_budget_hint, execution_strategy, checkpoints,
                  constraints).
                  GUILD_AGENT_TYPE, GUILD_CONTEXT_BUDGET, GUILD_STRATEGY and
                  GUILD_CHECKPOINTS (1) repeat it; GUILD_CONSTRAINTS is a file
                  with a line for each constraint: a stranger's sentences,
                  and no orders of yours
  GUILD_VAULT     credentials that came with the job, if any: a JSON file in
                  memory that is gone when the command has ended
  GUILD_TRACE     the number of a descriptor that takes lines of JSON for the
                  record of its session (guild help trace)

and nothing else of this environment but what --env names. It starts in the
bundle, so relative names are the customer's files. A program with a path can be
run and sees its own directory, unless the node's files are there; --mount shows
it more. Each line that it prints goes to the customer as feedback. It fails if
it exits with another code than 0. Its output is not delivered if it contains a
secret of the credentials, or the value of a variable that --env names. The
delivery lists the names of the credentials that it was given.

With --agent the command is that of an agent, and GUILD_PROMPT has the task as a
text. It speaks to its API through a proxy outside of the sandbox
(GUILD_API_URL, GUILD_API_TOKEN), which has the key and counts tokens. A
customer's text can give an agent orders, and have it send whatever it can read:
the proxy keeps the key from it, --env and --agent-login do not. The search for
those values catches mistakes and stops no attacker (docs/WORKERS.md).

With --endpoint no command is run, but guild itself has the model work: it
reads, writes and lists files, runs commands in a sandbox without network, and
finishes (docs/WORKERS.md). The key stays in this process, and each step is
shown and recorded. --mcp gives it the tools of MCP servers, too.

--price is for a job. With --per-1k-tokens or --per-minute it is the fixed part,
and a customer locks --at-most before the work. After it, the result claims the
tokens that the worker reported (guild help trace) and its time, and a customer
who accepts it pays for them. Over Lightning --at-most is the price.

The command has no network, or all of it with --network; a list of hosts is
not offered. Conditions for customers, such as the least bid, proof of
work and rates, are in the configuration: [work] for every service,
[services.NAME] for services with their own, all of which guild up offers. The
verbs below manage the services of a running node, however it was started.

A screen shows each request as it comes, is worked on, delivered and judged by
its customer, and why it waits or is refused; without a terminal these are
lines. On Ctrl-C the service is retracted, running jobs are finished or handed
back.`,
		Example: `  guild work --task python --exec ./agent/solve.sh
  guild work --task python --agent claude-code --tokens-per-job 500000
  guild work --task go --endpoint https://h.example/v1 --model m --key-env M_KEY
  guild work --task shell --exec ./w.sh --jobs 4 --time-limit 5m --price 21000
  guild work --task go --exec ./w --per-1k-tokens 2sat --at-most 80sat
  guild work ls
  guild work pause python`,
	}
	cli.Group(cmd, p.workVerbs()...)
	unknown := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 1 && cmd.Flags().Changed("network"): // "--network full" is parsed as the flag and an argument
			return cli.Usage(fmt.Errorf("write --network=%s", args[0]))
		case len(args) > 0:
			return unknown(cmd, args)
		}
		o.asJSON = cli.AsJSON(cmd)
		return p.runWork(cmd.Context(), o, cmd.Flags().Changed)
	}
	o.flags(cmd)
	cli.JSONFlag(cmd, "print what happens as JSON, one object on each line")
	cmd.Flags().StringArrayVar(&o.Relays, "relay", nil, "relay to use instead of the configured ones (repeatable)")
	cmd.Flags().BoolVar(&o.Untried, "untried", false, "announce it although its worker passed no try (guild work try)")
	return cmd
}

// flags gives cmd the flags that describe a service.
func (o *workOptions) flags(cmd *cobra.Command) {
	f, s := cmd.Flags(), &o.Service
	f.StringArrayVar(&o.Tasks, "task", nil, "task to offer (required, repeatable)")
	f.StringVar(&s.Exec, "exec", "", "command to run for each job (this, --agent or --endpoint is required)")
	f.StringVar(&o.Endpoint, "endpoint", "", "OpenAI-compatible API of a model that does each job with tools, as https://host/v1; with --agent, the agent's API")
	f.StringVar(&o.Model, "model", "", "model of --endpoint, or for --agent")
	f.StringVar(&o.KeyEnv, "key-env", "", "variable with the key of the API, which no worker sees")
	f.StringArrayVar(&o.MCP, "mcp", nil, "MCP server with more tools for --endpoint: a command, or a URL (repeatable)")
	f.StringVar(&s.Name, "name", "", "name to be known by")
	f.StringVar(&s.D, "d", "", "tells several services of one key apart (default: the task)")
	f.StringArrayVar(&s.Env, "env", nil, "environment variable that the command may see; its value is looked for in all that leaves (repeatable)")
	f.StringArrayVar(&s.Mounts, "mount", nil, "directory that the command may read, beside the system's (repeatable)")
	f.BoolVar(&s.Trajectory, "trajectory", false, "deliver the record of the work, too: the command and what it reported, without secrets")
	f.StringVar(&s.Network, "network", "none", "what the command may reach: none, or full, which --network alone means")
	f.Lookup("network").NoOptDefVal = "full"
	f.BoolVar(&s.Unsandboxed, "unsandboxed", false, "run the command without a sandbox: strangers' bundles can read your files")
	f.IntVar(&s.Jobs, "jobs", 0, "jobs at the same time (default: work.jobs, 2)")
	f.IntVar(&s.Queue, "queue", 0, "jobs that may wait beyond those (default: work.queue, 16)")
	f.DurationVar(&s.TimeLimit, "time-limit", 0, "longest run of the command (default: work.time_limit, 10m)")
	s.priced.flags(f)
	f.StringArrayVar(&s.As, "as", nil, "agent of this node whose definition, lessons and tools do the work (guild agent; repeatable)")
	f.StringArrayVar(&s.Nudges, "nudge", nil, "nudge of the library that applies to each job (repeatable)")
	o.agentFlags(cmd)
}

func (p *program) runWork(ctx context.Context, o workOptions, given func(flag string) bool) error {
	c, err := p.config()
	if err != nil {
		return err
	}
	services, err := o.services(c, given)
	if err != nil {
		return cli.Usage(err)
	}
	return p.serve(ctx, serveOptions{Relays: o.Relays, Untried: o.Untried, JSON: o.asJSON}, services)
}

// services makes one service of each task.
func (o workOptions) services(c config.Config, given func(flag string) bool) ([]service, error) {
	if len(o.Tasks) == 0 {
		o.Tasks = []string{""} // for check to complain about
	}
	if o.Service.D != "" && len(o.Tasks) > 1 {
		return nil, errors.New("--d names one service, and there are several tasks")
	}
	if err := o.checkAgent(); err != nil {
		return nil, err
	}
	if o.Endpoint != "" && o.Agent == "" {
		var err error
		if o.Service.Chat, err = chatOf(c, o.Endpoint, o.Model, o.KeyEnv, o.Limits); err != nil {
			return nil, fmt.Errorf("--endpoint: %w", err)
		}
		o.Service.Claims.Models = []string{o.Model}
		if o.Service.MCP, err = mcp.Parse(o.MCP); err != nil {
			return nil, fmt.Errorf("--mcp: %w", err)
		}
	}
	var services []service
	for _, task := range o.Tasks {
		s := o.Service
		s.Tasks = []string{task}
		s, err := s.withDefaults(c.Work, given)
		if err == nil {
			err = s.useAgent(c, agentOptions{
				Name: o.Agent, Login: o.AgentLogin, URL: o.Endpoint, Model: o.Model, KeyEnv: o.KeyEnv, Limits: o.Limits,
			})
		}
		if err == nil {
			err = errors.Join(s.check(), s.resolveMounts())
		}
		if err != nil {
			return nil, err
		}
		services = append(services, s)
	}
	return services, nil
}

// withDefaults fills in the options that were not given.
func (s service) withDefaults(w config.Work, given func(flag string) bool) (service, error) {
	if !given("jobs") {
		s.Jobs = w.Jobs
	}
	if !given("queue") {
		s.Queue = w.Queue
	}
	if !given("time-limit") {
		s.TimeLimit = w.TimeLimit
	}
	if err := s.setPrice(w); err != nil {
		return s, err
	}
	if s.D == "" {
		s.D = s.Tasks[0]
	}
	if s.Name == "" {
		s.Name = s.Tasks[0]
	}
	var err error
	s.Terms, err = terms(w)
	return s, err
}

// resolveMounts makes the directories absolute, and refuses anything else.
func (s service) resolveMounts() error {
	for i, dir := range s.Mounts {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return fmt.Errorf("--mount %s: %w", dir, err)
		}
		if info, err := os.Stat(abs); err != nil || !info.IsDir() {
			return fmt.Errorf("--mount %s is not a directory", dir)
		}
		s.Mounts[i] = abs
	}
	return nil
}

// maxTask is the longest name of a task, in bytes.
const maxTask = 100

// isWord reports whether a task is in the normal form in which tasks are compared. A customer who asks for a task in another form
// would not find it.
func isWord(task string) bool {
	return task == nip89.Word(task) && len(task) <= maxTask && !strings.ContainsAny(task, "*, ")
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (s service) check() error {
	switch {
	case s.Tasks[0] == "":
		return cli.WithHint(errors.New("--task is missing"), "guild work --task python --exec ./agent/solve.sh")
	case !isWord(s.Tasks[0]):
		return cli.WithHint(fmt.Errorf("--task %.80q is not the name of a task", s.Tasks[0]), "customers ask for one word in small letters, as python or code-review")
	case s.Exec == "" && s.Chat == nil:
		return cli.WithHint(errors.New("--exec is missing"), "guild work --task python --exec ./agent/solve.sh")
	case s.Network != "" && s.Network != string(work.NetworkNone) && s.Network != string(work.NetworkFull):
		return fmt.Errorf("--network=%s: want none or full", s.Network)
	case s.Jobs < 1:
		return fmt.Errorf("--jobs %d: want 1 or more", s.Jobs)
	case s.Queue < 0:
		return fmt.Errorf("--queue %d: want 0 or more", s.Queue)
	case s.TimeLimit < time.Second:
		return fmt.Errorf("--time-limit %v: want a second or more", s.TimeLimit)
	case s.PriceMsat < 0:
		return fmt.Errorf("--price %d: want 0 or more", s.PriceMsat)
	}
	if len(s.Nudges) > 0 && len(s.As) == 0 {
		return errors.New("--nudge is for --as")
	}
	if s.Chat != nil {
		switch {
		case s.Exec != "":
			return errors.New("--exec and --endpoint: one of them does the work")
		case s.Unsandboxed || s.Network == string(work.NetworkFull):
			return errors.New("--endpoint: the commands of a model run in a sandbox without network")
		}
	}
	return checkEnvNames(s.Env)
}

// checkEnvNames refuses invalid names of variables, those of our own secrets, and those that are not set.
func checkEnvNames(names []string) error {
	for _, name := range names {
		if !envName.MatchString(name) {
			return cli.WithHint(fmt.Errorf("--env %q is not the name of a variable", name), "give the name only: its value comes from this environment")
		}
		if name == "NOSTR_SECRET_KEY" || name == "GUILD_PASSPHRASE" {
			return fmt.Errorf("--env %s: a worker never sees the node's secrets", name)
		}
		if _, set := os.LookupEnv(name); !set {
			return cli.WithHint(fmt.Errorf("--env %s: it is not set", name), "export "+name+"=…, or leave it out")
		}
	}
	return nil
}
