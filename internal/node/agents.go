package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/durable"
	"guild/internal/hand/agent"
	"guild/internal/hand/blob"
	"guild/internal/hand/chat"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/market/registry"
	"guild/internal/step/agents"
	"guild/internal/step/work"
	"guild/nip90"
	"guild/nipae"
	"guild/nutshell/brief"
)

// Agents configures the agents of this node.
type Agents struct {
	Owners     []nostr.PubKey // the owner's other keys
	Allow      []nostr.PubKey // others whose lessons, comments and nudges apply
	Asked      agents.Asking  // which nudges of customers apply
	AutoAccept bool           // what an agent learned applies without the owner's consent
	Budget     int64          // tokens of a prompt; a default if zero
	Learn      string         // command that is asked for a lesson after a verdict; none if empty
}

// agentsPart makes the step of this node's agents.
func (n *Node) agentsPart() part {
	f := agents.NewFold()
	begin := func() {
		counter := sync.OnceValue(brief.NewCounter)
		n.agentKeys = &agentKeys{node: n}
		learn := n.learn
		if n.c.Agents.Learn == "" {
			learn = nil
		}
		n.agents = agents.New(agents.Config{
			Learn: learn,
			Works: func(name string) bool {
				return slices.ContainsFunc(n.c.Workers, func(w Worker) bool { return slices.Contains(w.Agents, name) })
			},
			Journal: n.journal, Owner: n.keyer, PubKey: n.pubkey, Now: n.c.Now, Keys: n.agentKeys, Relays: agentRelays{n}, Files: agentFiles{n},
			Count: func(text string) int64 {
				tokens, err := counter().Count(text)
				if err != nil { // it is not valid UTF-8, which no prompt is
					return int64(len(text))
				}
				return tokens
			},
			Owners: n.c.Agents.Owners, Allow: n.c.Agents.Allow, Asked: n.c.Agents.Asked, AutoAccept: n.c.Agents.AutoAccept, Budget: n.c.Agents.Budget, Watched: n.watchedKeys,
		}, f)
	}
	return part{
		name: "agents", folds: []fold.Fold{f},
		open: func(ctx context.Context) (active, error) {
			begin()
			if err := n.agents.Open(ctx); err != nil {
				return active{}, err
			}
			a := active{limits: map[string]int{agents.LearnClass: 1}, due: []due.Source{n.agents.Due}, run: n.followAgents, routes: []route{{from: kindDeletion, only: n.agents.Deletes, take: anyRelay(n.agents.ObserveDeletion)}}}
			for _, kind := range []nostr.Kind{nipae.KindProfile, nipae.KindComment, nipae.KindLesson, nipae.KindDefinition, nipae.KindClaims} {
				a.routes = append(a.routes, route{from: kind, take: anyRelay(n.agents.Observe)})
			}
			return a, nil
		},
		inspect: func(ctx context.Context, seen bool) error {
			if !seen {
				return nil
			}
			begin()
			return n.agents.Open(ctx)
		},
		show: func(s *control.Parts) { s.Agents = n.agents },
	}
}

// sameOwner reports whether one verified owner has both keys, as far as is known.
func (n *Node) sameOwner(a, b nostr.PubKey) bool { return n.agents != nil && n.agents.SameOwner(a, b) }

// watchedKeys returns the keys whose owners are of interest: of providers that we have dealt with, and that we follow.
func (n *Node) watchedKeys() []nostr.PubKey {
	return append(n.folds.partners.Keys(maxWatched), n.c.Hiring.Follow...)
}

// maxWatched limits the providers whose profiles and owners are read.
const maxWatched = 500

// watchAgain is the time after which the keys to watch are looked up again.
const watchAgain = 5 * time.Minute

// followAgents keeps the subscription to what concerns the agents up to date. Each set of filters has a name of its own, and
// with it no watermark, so that new filters find old events.
func (n *Node) followAgents(ctx context.Context) error {
	name, cancel := "", func() {}
	for {
		filters, changed, heard := n.agents.Filters()
		if now := "agents " + hashOf(filters); now != name {
			cancel()
			for _, url := range n.urls {
				n.pool.Forget(name, url)
			}
			name, cancel = now, n.pool.Subscribe(now, filters, n.urls...)
		}
		if untilChanged(ctx, changed, heard) != nil {
			cancel()
			return nil
		}
	}
}

// untilChanged waits until the filters of the agents are to be looked at again: at once after what the owner did, but at
// most once a minute after what others wrote, and in any case after watchAgain. It returns the error of ctx.
func untilChanged(ctx context.Context, changed, heard <-chan struct{}) error {
	pause, again := time.After(time.Minute), time.After(watchAgain)
	var others <-chan struct{} // heard, once the minute has passed
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-pause:
			others = heard
		case <-changed:
			return nil
		case <-others:
			return nil
		case <-again:
			return nil
		}
	}
}

// hashOf returns a short hash of filters. JSON would not do: the order of a filter's tags in it is not fixed.
func hashOf(filters []nostr.Filter) string {
	type plain nostr.Filter
	var text []byte
	for _, f := range filters {
		text = fmt.Appendf(text, "%v\n", plain(f))
	}
	return guild.Sum(text).Hex()[:16]
}

// agentRelays is an agents.Relays.
type agentRelays struct{ *Node }

func (n agentRelays) Publish(ctx context.Context, v guild.Verified, relays []string) (took, missing []string, err error) {
	acks, err := n.pool.Publish(ctx, v, relays...)
	if err != nil && n.connectivity.offline() {
		err = fmt.Errorf("%w: %w", due.ErrLater, err)
	}
	for _, a := range acks {
		switch {
		case a.OK:
			took = append(took, a.URL)
		case a.Unreachable():
			missing = append(missing, a.URL)
		}
	}
	return took, missing, err
}

func (n agentRelays) Find(ctx context.Context, f nostr.Filter, relays []string) ([]guild.Verified, error) {
	return n.find(ctx, f, relays)
}

func (n agentRelays) Ours() []string { return n.urls }

func (n agentRelays) Of(ctx context.Context, p nostr.PubKey) []string {
	all, err := n.All(ctx, p)
	if err != nil {
		return slices.Clone(n.urls)
	}
	return all[:min(len(all), len(n.urls)+maxOthers)]
}

func (n agentRelays) All(ctx context.Context, p nostr.PubKey) ([]string, error) {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all := slices.Clone(n.urls)
	found, err := n.find(ctx, nostr.Filter{Kinds: []nostr.Kind{registry.KindRelays}, Authors: []nostr.PubKey{p}}, n.urls)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 { // sorted, the newest first
		return all, nil
	}
	for tag := range found[0].Event().Tags.FindAll("r") {
		url, err := relay.Normalize(tag[1])
		if writes := len(tag) < 3 || tag[2] == "write"; err == nil && writes && !slices.Contains(all, url) {
			all = append(all, url)
		}
	}
	return all, nil
}

// maxOthers limits the relays of another key that are asked beside ours; all of the owner's are.
const maxOthers = 8

// agentFiles is an agents.Files.
type agentFiles struct{ *Node }

func (n agentFiles) Upload(ctx context.Context, content []byte) (string, error) {
	url, _, err := n.payloads.Upload(ctx, content, false)
	return url, err
}

func (n agentFiles) Fetch(ctx context.Context, f agents.File) error {
	if n.blobs.Has(f.Hash) {
		return nil
	}
	if f.Size > agents.MaxFile {
		return fmt.Errorf("%s has %d bytes: at most %d", f.URL, f.Size, agents.MaxFile)
	}
	content, err := n.payloads.Fetch(ctx, fact.Place{URL: f.URL}, f.Hash, agents.MaxFile)
	if err != nil {
		return err
	}
	defer content.Close()
	_, size, err := n.blobs.Put(ctx, content)
	if err == nil {
		err = f.Check(f.Hash, size)
	}
	return err
}

// behave returns the func that composes the behaviour for each request to a service.
func (n *Node) behave(w Worker) func(context.Context, nip90.Request) (*work.Behaviour, error) {
	return func(ctx context.Context, r nip90.Request) (*work.Behaviour, error) {
		d, err := n.agents.Behave(ctx, agents.Roster{Agents: w.Agents, Nudges: w.Nudges}, agents.Job{
			Task: cmp.Or(r.Get(nip90.ParamJobType), w.Task), Words: textOf(r), Asked: r.Nudges(), Tools: w.Tools(),
		})
		if err != nil {
			return nil, err
		}
		b := &work.Behaviour{ID: d.ID, Agent: d.PubKey, Prompt: d.Behaviour.Prompt, Tools: d.Behaviour.Tools}
		for _, from := range d.Behaviour.Sources {
			b.Sources = append(b.Sources, from.Event)
		}
		b.Files, err = LayOut(n.blobs, d.Files, filepath.Join(n.scratch(), "agents"))
		return b, err
	}
}

// Tools returns the tools of a worker in common words; nil if they are not known. It leaves out those of MCP servers, which are
// known only while a job runs: a nudge that changes the tools of an agent whose definition names none leaves those that it allows.
func (w Worker) Tools() []string {
	switch {
	case w.Chat != nil:
		return chat.Tools()
	case w.Agent != nil:
		return agent.Tools()
	}
	return nil
}

// textOf returns the text of a request: the customer's title, and texts to work on.
func textOf(r nip90.Request) string {
	const most = 16 << 10
	text := r.Content
	for _, in := range r.Inputs {
		if in.Type == "text" && len(text) < most {
			text += " " + in.Data
		}
	}
	return guild.Cut(text, most)
}

// learnedBy returns the func that records what an agent left as lessons. An agent that is gone learns nothing.
func (n *Node) learnedBy(task string) func(context.Context, nostr.ID, nostr.PubKey, []work.Lesson) {
	return func(ctx context.Context, request nostr.ID, agent nostr.PubKey, lessons []work.Lesson) {
		for _, l := range lessons {
			if err := n.agents.DraftBy(ctx, agent, task, l.Text, "worker", request); err != nil {
				n.c.Log.Warn("what an agent learned is not kept", "request", request.Hex(), "file", l.File, "err", err)
			}
		}
	}
}

// learn asks the owner's command what an agent learned from a judged request. The command runs as a worker does, with the
// verdict and the trajectory in its bundle, and leaves lesson.md.
func (n *Node) learn(ctx context.Context, j agents.Judged) (string, error) {
	const patience = 10 * time.Minute
	dir, err := os.MkdirTemp(n.scratch(), "learn-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	a := work.Assignment{
		Bundle: filepath.Join(dir, "bundle"), Delivery: filepath.Join(dir, "delivery"), Job: j.Request.Hex(), Limit: patience, Say: func(string) {},
	}
	for _, made := range []string{a.Bundle, a.Delivery} {
		if err := os.Mkdir(made, 0o755); err != nil {
			return "", err
		}
	}
	const largest = 16 << 20
	replay, err := n.blobs.ReadAll(j.Replay, largest)
	if err != nil && !j.Replay.IsZero() {
		return "", fmt.Errorf("the trajectory of %.8s: %w", j.Request.Hex(), err)
	}
	verdict, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{"verdict.json": verdict, "REPLAY.jsonl": replay} {
		if err := os.WriteFile(filepath.Join(a.Bundle, name), content, 0o644); err != nil {
			return "", err
		}
	}
	do, err := n.learner(ctx, j.Service)
	if err == nil {
		err = do(ctx, a)
	}
	if err != nil {
		return "", err
	}
	root, err := os.OpenRoot(a.Delivery)
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, err := work.ReadLesson(root, "lesson.md")
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return text, err
}

// LayOut writes the files of a definition to a directory below dir, unless they are there, and returns it; "" without files.
// All definitions with the same files share it.
func LayOut(blobs *blob.Store, files []agents.File, dir string) (string, error) {
	if len(files) == 0 {
		return "", nil
	}
	var list strings.Builder
	for _, f := range files {
		fmt.Fprintln(&list, f.Hash, f.Name)
	}
	to := filepath.Join(dir, guild.Sum([]byte(list.String())).Hex())
	if _, err := os.Stat(to); err == nil {
		return to, nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	made, err := os.MkdirTemp(filepath.Dir(to), "files-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(made)
	root, err := os.OpenRoot(made)
	if err != nil {
		return "", err
	}
	defer root.Close()
	for _, f := range files {
		if err := copyBlob(blobs, root, f); err != nil {
			return "", fmt.Errorf("the definition's file %s: %w", f.Name, err)
		}
	}
	if err := os.Rename(made, to); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return to, nil
}

func copyBlob(blobs *blob.Store, to *os.Root, f agents.File) error {
	from, _, err := blobs.Open(f.Hash)
	if err != nil {
		return err
	}
	defer from.Close()
	out, err := to.OpenFile(f.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}

// agentKeys holds a directory for each agent, with its encrypted key (NIP-49) or the address of its remote signer. The
// passphrase of the keys is in a file that only the node's identity can decrypt, so that no person is asked for it.
type agentKeys struct {
	node *Node

	mu      sync.Mutex
	signers map[string]nostr.Signer
	stops   []func()
}

func (k *agentKeys) dir(name string) string {
	return filepath.Join(k.node.c.Dir, "agents", "keys", name)
}

// Make implements agents.Keys. A key that is there already is the agent's: it was removed and is installed again.
func (k *agentKeys) Make(ctx context.Context, name, bunker string) (nostr.PubKey, error) {
	passphrase, err := k.passphrase(ctx)
	if err != nil {
		return nostr.PubKey{}, err
	}
	dir := k.dir(name)
	_, err = key.Form(dir)
	if err == nil && bunker != "" {
		return nostr.PubKey{}, fmt.Errorf("%s: %w", dir, key.ErrExists)
	}
	if errors.Is(err, key.ErrNone) {
		if bunker == "" {
			_, err = key.Create(dir, passphrase)
		} else {
			_, err = key.Import(dir, bunker, passphrase)
		}
		if err != nil {
			return nostr.PubKey{}, err
		}
	}
	signer, err := k.Signer(ctx, name)
	if err != nil {
		return nostr.PubKey{}, err
	}
	return signer.GetPublicKey(ctx)
}

// Signer implements agents.Keys.
func (k *agentKeys) Signer(ctx context.Context, name string) (nostr.Signer, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if signer := k.signers[name]; signer != nil {
		return signer, nil
	}
	id, err := key.Load(k.dir(name), func() ([]byte, error) { return k.passphrase(ctx) }, func(string) string { return "" })
	if err != nil {
		return nil, err
	}
	var signer nostr.Signer = id.Signer
	if id.Signer == nil {
		c := k.node.c
		c.Dir, c.Identity = k.dir(name), id
		remote, stop, err := openSigner(ctx, c)
		if err != nil {
			if stop != nil {
				stop()
			}
			return nil, err
		}
		k.stops = append(k.stops, stop)
		signer = remote
	}
	if k.signers == nil {
		k.signers = map[string]nostr.Signer{}
	}
	k.signers[name] = signer
	return signer, nil
}

// passphrase returns the passphrase of all agents' keys. The first call makes it.
func (k *agentKeys) passphrase(ctx context.Context) ([]byte, error) {
	path := filepath.Join(k.node.c.Dir, "agents", "passphrase")
	sealed, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		passphrase := rand.Text()
		text, err := k.node.keyer.Encrypt(ctx, passphrase, k.node.pubkey)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = durable.Create(path, []byte(text+"\n"))
		}
		if err != nil {
			return nil, fmt.Errorf("the passphrase of the agents' keys: %w", err)
		}
		return []byte(passphrase), nil
	}
	if err == nil {
		var text string
		if text, err = k.node.keyer.Decrypt(ctx, string(sealed[:max(0, len(sealed)-1)]), k.node.pubkey); err == nil {
			return []byte(text), nil
		}
	}
	return nil, fmt.Errorf("the passphrase of the agents' keys: %w", err)
}

// stop closes the connections to remote signers.
func (k *agentKeys) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, stop := range k.stops {
		stop()
	}
	k.stops, k.signers = nil, nil
}
