package node

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/agent"
	"guild/internal/hand/chat"
	"guild/internal/hand/fetch"
	"guild/internal/hand/mcp"
	"guild/internal/hand/model"
	"guild/internal/journal/due"
	"guild/internal/journal/fold"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/typed"
	"guild/internal/step/work"
	"guild/nip90"
	"guild/replay/session"
)

// Worker configures a service that this node offers, and the command for it.
type Worker struct {
	Task    string
	Tasks   []string // all tasks; Task alone if empty
	D       string
	Name    string
	About   string
	Kind    int
	Kinds   []int          // all kinds; Kind, or the usual ones of the tasks, if empty
	Schema  string         // schema of its inputs, as announced
	Open    bool           // accepts requests that name no provider
	Trace   session.Format // format of the command's standard output; plain text if empty
	Claims  work.Claims
	Type    string       // job type of package oa, served by Command, Model or the sandbox; "" for bundles
	Model   *typed.Model // model behind an endpoint; may be nil
	Chat    *chat.Model  // model that does bundles with tools, instead of Command; may be nil
	MCP     []mcp.Server // that give Chat more tools
	Command string       // run by /bin/sh -c
	Agent   *Agent       // the command is that of an agent; may be nil
	Env     []string     // names of environment variables that it may see
	Mounts  []string     // host directories that it may read

	Network     work.Network // NetworkNone if empty; unsandboxed commands always have full access
	Unsandboxed bool
	Trajectory  bool // deliveries have the redacted trajectory of the work
	Untried     bool // it passed no try (Try), so it is only offered if the service has delivered before
	Slots       int
	Queue       int
	Limit       time.Duration
	Price       guild.Msat
	Unit        string       // of ecash, of which Price is thousandths; sat if empty
	Rates       *nip90.Rates // of a price by usage, of which Price is the most; nil for a fixed price
	Terms       work.Terms

	Agents []string // of this node, whose behaviours do the service (NIP-AE)
	Nudges []string // of the library, which apply to each request

	// Behave replaces the behaviours of Agents.
	Behave func(ctx context.Context, r nip90.Request) (*work.Behaviour, error)

	// Do replaces the command, for workers that are part of the program.
	Do func(ctx context.Context, a work.Assignment) error
}

// Agent has what an agent needs in addition to its command.
type Agent struct {
	Name    string        // of its preset
	Model   string        // the agent's own choice if empty
	Mounts  []string      // files and directories of its program
	API     *model.API    // that it uses without having the key; nil if it has a login of its own
	Login   *work.Login   // nil without one
	Secrets []work.Secret // those of the login
}

// Fetch limits which inputs of requests may be fetched for our workers (NIP-90, i tags of type url).
type Fetch struct {
	Hosts []string      // exact names of https hosts; none if empty
	Size  int64         // bytes; 16 MiB if zero
	Time  time.Duration // per input; 30 s if zero
}

// workPart makes the provider's step.
func (n *Node) workPart() part {
	f, customers, judgements := work.NewFold(), work.NewCustomers(n.c.Policy), work.NewJudgements()
	n.folds.customers = customers
	return part{
		name: "work", folds: []fold.Fold{f, customers, judgements}, finished: f.Finished,
		open: func(ctx context.Context) (active, error) {
			services, err := n.services(ctx)
			if err != nil {
				return active{}, err
			}
			recipient := "" // without services nobody needs to send us credentials
			if len(services) > 0 {
				if recipient, err = n.vaultKey.recipient(); err != nil {
					return active{}, err
				}
			}
			n.work = work.New(work.Config{
				Journal: n.journal, Blobs: n.blobs, Keyer: n.keyer, PubKey: n.pubkey, Node: n.name(), Producer: "guild@" + n.c.Version, Now: n.c.Now,
				Services: services, Scratch: n.scratch(), Secrets: n.secrets,
				Relays: workRelays{n}, Payloads: n.payloads, Inputs: n.inputs(), Judgements: judgements, Customers: customers, Owners: n.c.Agents.Owners,
				Recipient: recipient, Unseal: n.vaultKey.open, Watch: n.c.Watch, Log: n.c.Log, Money: n.pay,
			}, f)
			if err := n.work.CheckTried(); err != nil {
				return active{}, err
			}
			if err := n.work.Recall(ctx); err != nil {
				return active{}, err
			}
			return active{
				due: []due.Source{n.work.Due}, limits: n.work.Classes(), run: n.work.Talk, drain: n.work.Drain,
				routes: []route{
					{from: 5000, to: 5999, take: n.requested},
					{from: kindDeletion, take: anyRelay(n.work.ObserveDeletion)},
				},
			}, nil
		},
		show: func(s *control.Parts) { s.Work, s.Customers, s.Judgements = n.work, customers, judgements },
	}
}

// asksOthers reports whether an event is a request that names providers and not us. The subscription to open requests returns
// these too. The relay client ignores them, because as dropped events they would be counted and stored.
func (n *Node) asksOthers(e nostr.Event) bool {
	return nip90.IsRequest(int(e.Kind)) && e.Tags.Find("p") != nil && e.Tags.FindWithValue("p", n.pubkey.Hex()) == nil
}

// requested passes on requests. While another process with our key offers our services, that process takes them.
func (n *Node) requested(ctx context.Context, from string, v guild.Verified) error {
	if n.presence.yielding() != "" {
		return nil
	}
	return n.work.Observe(ctx, from, v)
}

// inputs returns the client that downloads the inputs of customers' requests.
func (n *Node) inputs() fetch.Client {
	f := n.c.Fetch
	return fetch.Client{Hosts: f.Hosts, Size: f.Size, Time: f.Time, Blobs: n.payloads.client, Servers: n.payloads.home}
}

// workRelays is a work.Relays.
type workRelays struct{ *Node }

// Publish leaves out deletions of announcements that another process with our key needs.
func (n workRelays) Publish(ctx context.Context, e guild.Verified, relays []string) error {
	if n.presence.keepsAnnouncements() && deletesAnnouncement(e.Event()) {
		return nil
	}
	return n.publish(ctx, e, relays)
}

func (n workRelays) Ours() []string { return n.relays() }

func (n workRelays) Find(ctx context.Context, f nostr.Filter, relays []string) ([]guild.Verified, error) {
	return n.find(ctx, f, relays)
}

func (n workRelays) InboxOf(ctx context.Context, p nostr.PubKey) []string {
	return n.inboxRelaysOf(ctx, p)
}

// services converts the workers to services. Without a sandbox, only Unsandboxed ones are accepted.
func (n *Node) services(ctx context.Context) ([]work.Service, error) {
	var services []work.Service
	for _, w := range n.c.Workers {
		if w.Type != "" {
			s, err := n.typedService(ctx, w)
			if err != nil {
				return nil, fmt.Errorf("the service %q: %w", cmp.Or(w.D, w.Task), err)
			}
			services = append(services, s)
			continue
		}
		do, mounts, err := n.worker(ctx, w)
		if err != nil {
			return nil, fmt.Errorf("the service %q: %w", cmp.Or(w.D, w.Task), err)
		}
		s := n.service(w, do)
		s.Secrets = append(s.Secrets, work.SecretsInDirs(mounts)...)
		services = append(services, s)
	}
	return services, nil
}

// keyOf lists the key of an API as a secret. No worker is given it, and deliveries are searched for it all the same.
func keyOf(api *model.API) []work.Secret {
	if api == nil || api.Key.IsZero() {
		return nil
	}
	return []work.Secret{{What: "the key of the model's API", Text: api.Key, Owner: true}}
}

// worker returns the function that does the requests to a service for bundles, and the files and directories of this machine
// that the sandbox mounts for it.
func (n *Node) worker(ctx context.Context, w Worker) (do func(context.Context, work.Assignment) error, mounts []string, err error) {
	switch {
	case w.Do != nil:
		return w.Do, nil, nil
	case w.Chat != nil:
		return n.chatWorker(ctx, w)
	}
	command, err := n.command(w)
	if err != nil {
		return nil, nil, err
	}
	return command.Do, command.Mounts, checkProgram(ctx, w.Command, command)
}

// service returns the service of a worker. The service lists the values of the worker's variables as secrets, so that
// deliveries can be searched for them.
func (n *Node) service(w Worker, do func(context.Context, work.Assignment) error) work.Service {
	s := work.Service{
		Task: w.Task, Tasks: w.Tasks, D: w.D, Name: w.Name, About: w.About, Kind: w.Kind, Kinds: w.Kinds, Schema: w.Schema, Open: w.Open, Trajectory: w.Trajectory, Claims: w.Claims,
		Slots: w.Slots, Queue: w.Queue, Limit: w.Limit, Price: w.Price, Unit: w.Unit, Rates: w.Rates, Terms: w.Terms, Network: w.Network, Walls: n.caps.Tier, Do: do, Untried: w.Untried,
		Behave: w.Behave, NoCredentials: w.Chat != nil,
		Secrets: work.SecretsIn(pick(w.Env)),
	}
	if len(w.Agents) > 0 && w.Behave == nil {
		s.Behave, s.Learned = n.behave(w), n.learnedBy(s.Task)
	}
	if w.Agent != nil {
		s.Secrets = slices.Concat(s.Secrets, w.Agent.Secrets, keyOf(w.Agent.API))
	}
	if w.Chat != nil {
		s.Secrets = slices.Concat(s.Secrets, keyOf(&w.Chat.API), queriesOf(w.MCP))
	}
	if len(s.Tasks) == 0 {
		s.Tasks = []string{w.Task}
	}
	if w.Kind == 0 && len(w.Kinds) == 0 {
		for _, task := range s.Tasks {
			s.Kinds = append(s.Kinds, n.Kind(task))
		}
	}
	if w.Unsandboxed {
		s.Network, s.Walls = work.NetworkFull, "none"
	}
	return s
}

// checkProgram returns a *MissingError if the program of a command will not be found where it runs.
func checkProgram(ctx context.Context, command string, x work.Exec) error {
	found, err := x.Find(ctx)
	if err != nil {
		return fmt.Errorf("look for the program of the command %.200q: %w", command, err)
	}
	if !found {
		return &MissingError{command}
	}
	return nil
}

// MissingError reports that the program of a command is not found where it runs.
type MissingError struct{ Command string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("the program of the command %.200q is not found where the command runs", e.Command)
}

// Hint returns what to do instead.
func (*MissingError) Hint() string {
	return "the command sees the system's programs only: name yours by its path, as --exec ./agent/solve.sh, or --mount its directory"
}

// command returns the command of a worker with its sandbox. Without a sandbox it returns an error, unless the worker is
// Unsandboxed: a command never runs unprotected because of a missing sandbox.
func (n *Node) command(w Worker) (work.Exec, error) {
	command, program := w.Command, ""
	if w.Agent != nil {
		w.Mounts = slices.Concat(w.Agent.Mounts, w.Mounts)
	} else {
		var err error
		if command, program, err = work.Resolve(w.Command); err != nil {
			return work.Exec{}, err
		}
	}
	mounts, err := n.mounts(program, w)
	if err != nil {
		return work.Exec{}, err
	}
	x := work.Exec{
		Command: command, Env: pick(w.Env), Mounts: mounts, Network: w.Network == work.NetworkFull, Runner: n.runnerBox,
		Limits: workerLimits, Log: n.c.Log, Trace: w.Trace,
	}
	switch {
	case w.Unsandboxed:
		x.Runner = work.Bare{}
	case n.unboxed != nil:
		return work.Exec{}, n.unboxed
	}
	if w.Agent != nil {
		preset, err := agent.Named(w.Agent.Name, w.Agent.Model)
		if err != nil {
			return work.Exec{}, err
		}
		x.Prompt, x.Model, x.API, x.Login, x.Narrow = true, w.Agent.Model, w.Agent.API, w.Agent.Login, preset.Narrow
	}
	if x.API != nil && !w.Unsandboxed && !x.Network && !n.caps.Has(sandbox.ServesInside) {
		return work.Exec{}, &NoProxyError{n.caps.Tier}
	}
	return x, nil
}

// NoProxyError reports a sandbox from which an agent cannot reach its API without the key.
type NoProxyError struct{ Tier string }

func (e *NoProxyError) Error() string {
	return fmt.Sprintf("the sandbox of this machine (%s) cannot pass an agent's requests to its API", e.Tier)
}

// Hint returns what to do instead.
func (*NoProxyError) Hint() string {
	return "guild judge doctor says what a better one needs; with --network the agent reaches the proxy, and everything else, too"
}

// mounts returns the host paths that a worker can read: the configured directories, and that of its program. If the
// node's own files are in the program's directory, it is the program alone.
func (n *Node) mounts(program string, w Worker) ([]string, error) {
	for _, dir := range w.Mounts {
		if err := n.mayShow(dir); err != nil && !w.Unsandboxed {
			return nil, err
		}
	}
	if program == "" {
		return places(slices.Clone(w.Mounts)), nil
	}
	dir := filepath.Dir(program)
	if n.mayShow(dir) != nil {
		dir = program
	}
	return places(append([]string{dir}, w.Mounts...)), nil
}

// places returns where directories are that the system links into /usr, as it does with /bin: a sandbox has the same link,
// and nothing can be mounted over a link.
func places(dirs []string) []string {
	for i, dir := range dirs {
		real, err := filepath.EvalSymlinks(dir)
		if err == nil && filepath.Dir(filepath.Clean(dir)) == "/" && holds("/usr", real) {
			dirs[i] = real
		}
	}
	return dirs
}

// MountError reports that a worker must not see a directory.
type MountError struct{ Dir, Secret string }

func (e *MountError) Error() string {
	return fmt.Sprintf("a worker in %s would see this node's own files in %s", e.Dir, e.Secret)
}

// Hint returns what to do instead.
func (*MountError) Hint() string {
	return "name a directory apart from the home of the node"
}

// mayShow returns an error for a directory that contains, or is inside, one of the node's own directories. These hold
// its keys, and a worker runs a stranger's input.
func (n *Node) mayShow(dir string) error {
	shown, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("the directory %s for a worker: %w", dir, err)
	}
	for _, own := range []string{n.c.Dir, n.c.JournalDir, filepath.Dir(n.c.HighWater), filepath.Dir(n.c.Socket), cmp.Or(n.secrets, ".")} {
		if own == "." {
			continue // not set
		}
		if real, err := filepath.EvalSymlinks(own); err == nil {
			own = real
		}
		if holds(shown, own) || holds(own, shown) {
			return &MountError{dir, own}
		}
	}
	return nil
}

// holds reports whether above equals below or is a parent of it.
func holds(above, below string) bool {
	rel, err := filepath.Rel(above, below)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// workerLimits are larger than the judge's, because an agent needs more than a test.
var workerLimits = sandbox.Limits{CPU: time.Hour, Memory: 8 << 30, Disk: 1 << 30, Output: 4 << 20, Pids: 500}

// pick returns the named environment variables that are set, as "name=value".
func pick(names []string) []string {
	var env []string
	for _, name := range names {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
