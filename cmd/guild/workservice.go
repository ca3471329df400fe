package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"guild"
	"guild/internal/config"
	"guild/internal/hand/chat"
	"guild/internal/hand/mcp"
	"guild/internal/judging/opinion"
	"guild/internal/judging/typed"
	"guild/internal/node"
	"guild/internal/step/work"
	"guild/nip89"
	"guild/nip90"
	"guild/replay/session"
)

// service is one service that "guild work" or "guild up" offers.
type service struct {
	Tasks       []string
	Kinds       []int         // of its requests; the usual ones of its tasks if empty
	Name        string        // as it calls itself
	About       string        // its announced description
	D           string        // tells services of one key apart
	Exec        string        // run by /bin/sh -c
	As          []string      // agents of this node, whose behaviours do the work (NIP-AE)
	Nudges      []string      // of the library
	Agent       *node.Agent   // Exec is its command; nil if it is the owner's own
	Type        string        // the job type, of a service for a typed job
	Model       *typed.Model  // does it instead of a command; nil without one
	Chat        *chat.Model   // does bundles with tools, instead of a command; nil without one
	MCP         []mcp.Server  // that give Chat more tools
	Env         []string      // names of variables that pass through
	Mounts      []string      // host directories that the command may read
	Network     string        // of the command: none or full; none if empty
	Unsandboxed bool          // the command runs without a sandbox
	Untried     bool          // its worker never passed a try, or failed its latest
	Schema      string        // of its inputs: an id, or a JSON schema
	Open        bool          // works on requests that name nobody
	Trajectory  bool          // deliveries have the trajectory of the work
	Trace       string        // form of the lines on the command's standard output; for people if empty
	Claims      work.Claims   // also announced
	Jobs        int           // at the same time
	Queue       int           // waiting beyond those
	TimeLimit   time.Duration // of one command
	PriceMsat   int64
	Unit        string       // of which PriceMsat is thousandths, if it is not sat
	Rates       *nip90.Rates // of a price by usage, of which PriceMsat is the most; nil for a fixed price
	priced      priceFlags
	Terms       work.Terms
}

func (s service) worker() node.Worker {
	return node.Worker{
		Task: s.Tasks[0], Tasks: s.Tasks, Kinds: s.Kinds, D: s.D, Name: s.Name, About: s.About, Command: s.Exec, Env: s.Env,
		Mounts: s.Mounts, Network: work.Network(s.Network), Unsandboxed: s.Unsandboxed, Untried: s.Untried, Schema: s.Schema, Open: s.Open, Trajectory: s.Trajectory, Claims: s.Claims, Slots: s.Jobs,
		Queue: s.Queue, Limit: s.TimeLimit, Price: guild.Msat(s.PriceMsat), Unit: s.Unit, Rates: s.Rates, Terms: s.Terms, Trace: session.Format(s.Trace),
		Type: s.Type, Model: s.Model, Chat: s.Chat, MCP: s.MCP, Agent: s.Agent, Agents: s.As, Nudges: s.Nudges,
	}
}

// terms returns the conditions that the configuration sets.
func terms(w config.Work) (work.Terms, error) {
	allow, err := config.Keys(w.Allow)
	if err != nil {
		return work.Terms{}, fmt.Errorf("work.allow: %w", err)
	}
	judges, err := config.Keys(w.Judges)
	if err != nil {
		return work.Terms{}, fmt.Errorf("work.judges: %w", err)
	}
	return work.Terms{Allow: allow, Judges: judges, MinBid: w.MinBid, PoW: w.PoW, PerMinute: w.PerMinute, Prepaid: guild.Trust(w.Prepaid*guild.Micro + 0.5)}, nil
}

// configured lists the services of the configuration.
func configured(c config.Config) ([]service, error) {
	var services []service
	for _, d := range slices.Sorted(maps.Keys(c.Services)) {
		s, err := fromConfig(c, d)
		if err == nil {
			err = s.resolveMounts()
		}
		if err != nil {
			return nil, fmt.Errorf("services.%s: %w", d, err)
		}
		services = append(services, s)
	}
	return services, nil
}

func fromConfig(c config.Config, d string) (service, error) {
	set := c.Services[d]
	w := set.Under(c.Work)
	allowed, err := terms(w)
	if err != nil {
		return service{}, err
	}
	schema, err := config.ReadSchema(set.Schema)
	if err != nil {
		return service{}, err
	}
	model, talks, err := modelsOf(c, set)
	if err != nil {
		return service{}, err
	}
	servers, err := mcp.Parse(set.MCP)
	if err != nil {
		return service{}, fmt.Errorf("mcp: %w", err)
	}
	if talks != nil && len(set.Models) == 0 {
		set.Models = []string{talks.Name}
	}
	if model != nil && len(set.Models) == 0 && model.Name != opinion.Auto {
		set.Models = []string{model.Name}
	}
	rates, price := w.Rates()
	s := service{
		Tasks: set.Tasks(d), Kinds: set.Kind, Name: cmp.Or(set.Name, d), About: set.About, D: d, Exec: set.Exec, Env: set.Env,
		Mounts: slices.Clone(set.Mounts), Network: set.Network, Unsandboxed: set.Unsandboxed, Schema: schema, Open: set.Open, Trace: set.Trace, Trajectory: set.Trajectory,
		As: set.As, Nudges: set.Nudges, Type: set.Type, Model: model, Chat: talks, MCP: servers, Jobs: w.Jobs, Queue: w.Queue, TimeLimit: w.TimeLimit, PriceMsat: int64(price), Unit: w.PriceUnit, Rates: rates, Terms: allowed,
		Claims: work.Claims{
			SupplyClass: set.SupplyClass, Models: set.Models, MaxContext: set.MaxContext,
			Hardware: nip89.Hardware{MemoryGB: set.MemoryGB, GPU: set.GPU, VRAMGB: set.VRAMGB},
		},
	}
	if err := checkEnvNames(set.Env); err != nil {
		return service{}, err
	}
	return s, s.useAgent(c, agentOptions{
		Name: set.Agent, Login: set.AgentLogin, URL: set.URL, Model: set.Model, KeyEnv: set.KeyEnv,
		Limits: tokenLimits{set.TokensPerJob, set.TokensPerDay},
	})
}
