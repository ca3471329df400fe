package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/hand/relay"
	"guild/internal/hand/relay/faulttest"
	"guild/internal/journal"
	"guild/nip89"
)

// notes records the log of a node from level warning on.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(b)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func (n *notes) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(n, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// identity returns a key that several nodes may share.
func identity() key.Identity {
	secret := key.NewSecret(nostr.Generate())
	return key.Identity{Signer: key.NewSigner(secret), PubKey: secret.PubKey()}
}

// notStarted runs a node that must fail to start.
func notStarted(t *testing.T, relay string, change func(*Config)) error {
	t.Helper()
	c := Config{Dir: t.TempDir(), NoSync: true, Relays: []string{relay}, Log: slog.New(slog.DiscardHandler),
		Hearing: 5 * time.Second, // the other node may answer slowly
		Ready:   func(Ready) { t.Error("it is ready") }}
	change(&c)
	if err := journal.Init(c.Dir + "/journal"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), ample)
	defer cancel()
	return Run(ctx, c)
}

func TestSecondNodeOfKeyFails(t *testing.T) {
	t.Parallel()
	url, id, first := startRelay(t), identity(), newCrew()
	close(first.may)
	start(t, url, func(c *Config) {
		c.Identity, c.Name, c.Workers = id, "the first", []Worker{{Task: "echo", Do: first.do}}
	})
	err := notStarted(t, url, func(c *Config) { c.Identity, c.Workers = id, []Worker{{Task: "echo", Do: echo}} })
	another, ok := errors.AsType[*AnotherError](err)
	if !ok || another.Node != "the first" || another.PubKey != id.PubKey || cli.HintOf(err) == "" {
		t.Fatalf("it ended with %v", err)
	}
	customer, _ := start(t, url, func(*Config) {})
	awaitProviders(t, customer, 1) // the second node must not have deleted the offer of the first
	if job := hire(t, customer, control.Hire{}); job.Ending != guild.JobAccepted || first.called(job.ID) != 1 {
		t.Errorf("%s after %d calls: %s", job.Ending, first.called(job.ID), job.Reason)
	}
}

// TestSimultaneousStart lets both nodes ask while the other one starts. The younger one must end; or pause, if it
// started to listen so early that it found no other.
func TestSimultaneousStart(t *testing.T) {
	t.Parallel()
	url, id := startRelay(t), identity()
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(t.Context())
	var both []*control.Client
	for _, name := range []string{"one", "two"} {
		c := Config{Dir: t.TempDir(), Socket: socket(t), NoSync: true, Relays: []string{url}, Log: slog.New(slog.DiscardHandler), Name: name, Identity: id,
			Workers: []Worker{{Task: "echo", Do: echo}}}
		if err := journal.Init(c.Dir + "/journal"); err != nil {
			t.Fatal(err)
		}
		both = append(both, control.Dial(c.Socket))
		go func() { ended <- Run(ctx, c) }()
	}
	left := 2
	eventually(t, "one of the two gives way to the other", func() bool {
		select {
		case err := <-ended:
			if _, ok := errors.AsType[*AnotherError](err); !ok {
				t.Fatal(err)
			}
			left--
		default:
		}
		return left == 1 || paused(t, both[0]) || paused(t, both[1])
	})
	if paused(t, both[0]) && paused(t, both[1]) {
		t.Error("both gave way")
	}
	cancel()
	for range left {
		if err := <-ended; err != nil {
			t.Errorf("the one that stayed ended with %v", err)
		}
	}
}

// paused reports whether a node says that another one has its key.
func paused(t *testing.T, c *control.Client) bool {
	t.Helper()
	s, err := control.NodeStatus.Call(t.Context(), c)
	return err == nil && s.Yields != ""
}

func TestOlderProcess(t *testing.T) {
	tests := []struct {
		name string
		a, b process
		want bool
	}{
		{"the earlier start", process{Instance: "z", Started: 1}, process{Instance: "a", Started: 2}, true},
		{"the later start", process{Instance: "a", Started: 2}, process{Instance: "z", Started: 1}, false},
		{"at the same time the lower instance", process{Instance: "a", Started: 1}, process{Instance: "b", Started: 1}, true},
		{"at the same time the higher instance", process{Instance: "b", Started: 1}, process{Instance: "a", Started: 1}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.a.older(test.b) != test.want || test.b.older(test.a) == test.want {
				t.Error("both are the older one, or none is")
			}
		})
	}
}

// TestCustomerSharesProviderKey hires with the key of a node that works for others. Each of them receives the events
// for the other too.
func TestCustomerSharesProviderKey(t *testing.T) {
	t.Parallel()
	url, id := startRelay(t), identity()
	var log, hirers notes
	both, _ := start(t, url, func(c *Config) {
		c.Identity, c.Log, c.Workers = id, log.logger(), []Worker{{Task: "echo", Do: echo}}
	})
	_, other := start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, url, func(c *Config) { c.Identity, c.Log = id, hirers.logger() })
	awaitProviders(t, customer, 2)
	for range 3 {
		if job := hire(t, customer, control.Hire{Providers: []string{other.Hex()}}); job.Ending != guild.JobAccepted {
			t.Errorf("%s: %s", job.Ending, job.Reason)
		}
	}
	for who, said := range map[string]string{"provider": log.String(), "customer": hirers.String()} {
		for line := range strings.Lines(said) {
			if !strings.Contains(line, "no relay can be reached yet") { // it may be slow
				t.Errorf("the %s logs: %s", who, line)
			}
		}
	}
	if s, err := control.NodeStatus.Call(t.Context(), both); err != nil || s.Yields != "" || len(s.Jobs) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestNodesOfOneKeyMeetLater starts both while no relay is reachable.
func TestNodesOfOneKeyMeetLater(t *testing.T) {
	t.Parallel()
	dir, id := t.TempDir(), identity()
	url, stop := startRelayAt(t, dir, keptAddress(t))
	stop()
	older, younger := newCrew(), newCrew()
	close(older.may)
	close(younger.may)
	var log notes
	first, _ := start(t, url, func(c *Config) {
		c.Identity, c.Name, c.Workers = id, "the older", []Worker{{Task: "echo", Do: older.do}}
	})
	second, _ := start(t, url, func(c *Config) {
		c.Identity, c.Name, c.Log, c.Workers = id, "the younger", log.logger(), []Worker{{Task: "echo", Do: younger.do}}
	})
	startRelayAt(t, dir, strings.TrimPrefix(url, "ws://"))
	eventually(t, "the younger one is paused", func() bool {
		s, err := control.NodeStatus.Call(t.Context(), second)
		return err == nil && strings.Contains(s.Yields, "the older")
	})
	if !strings.Contains(log.String(), "our services are paused") {
		t.Errorf("it says:\n%s", log.String())
	}
	if s, err := control.NodeStatus.Call(t.Context(), first); err != nil || s.Yields != "" {
		t.Errorf("the older one: %q, %v", s.Yields, err)
	}
	p := newPeer(t, url)
	eventually(t, "the older one's announcement is the one that counts", func() bool {
		cards, _ := p.stored(nip89.Kind)
		return len(cards) == 1 && strings.Contains(cards[0].Content, "the older")
	})
	customer, _ := start(t, url, func(*Config) {})
	awaitProviders(t, customer, 1)
	for range 3 {
		job := hire(t, customer, control.Hire{})
		if job.Ending != guild.JobAccepted || len(job.Attempts) != 1 || older.called(job.ID) != 1 || younger.called(job.ID) != 0 {
			t.Errorf("%s after %d attempts: the older was called %d times, the younger %d: %s",
				job.Ending, len(job.Attempts), older.called(job.ID), younger.called(job.ID), job.Reason)
		}
	}
	if got := facts(t, second, "request."); len(got) != 0 {
		t.Errorf("the paused one took %q", got)
	}
}

func TestPausedNodeKeepsAnnouncements(t *testing.T) {
	n := &Node{presence: &presence{free: make(chan struct{}, 1), log: slog.New(slog.DiscardHandler)}}
	deletion := nostr.Event{Kind: 5, Tags: nostr.Tags{{"a", "31990:x:echo"}, {"k", "31990"}}}
	request := nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", "00"}, {"k", "5000"}}}
	if !deletesAnnouncement(deletion) || deletesAnnouncement(request) || deletesAnnouncement(nostr.Event{Kind: 1, Tags: deletion.Tags}) {
		t.Error("a deletion of an announcement is not told from others")
	}
	if n.presence.keepsAnnouncements() {
		t.Error("a node that is alone does not take its offer back")
	}
	turn, end := n.presence.turn(t.Context())
	defer end()
	n.presence.settle(&process{Node: "the older"}, 0)
	if turn.Err() == nil || !n.presence.keepsAnnouncements() {
		t.Error("a node that is paused goes on announcing, or takes back what is the other's")
	}
	n.presence.settle(nil, 1)
	if n.presence.yielding() == "" {
		t.Error("one question without an answer is enough to come back")
	}
	n.presence.settle(nil, 2)
	again, end := n.presence.turn(t.Context())
	defer end()
	if n.presence.yielding() != "" || n.presence.keepsAnnouncements() || again.Err() != nil {
		t.Error("it does not come back")
	}
}

// newProcess runs the presence of one process, without a node.
func newProcess(t *testing.T, url string, id key.Identity, instance string, started int64, recheck time.Duration) (*presence, func()) {
	t.Helper()
	pool := relay.New(relay.Config{URLs: []string{url}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	stopPool := run(t, pool.Run)
	p := &presence{
		pool: pool, keyer: id.Signer, pubkey: id.PubKey, urls: []string{url}, log: slog.New(slog.DiscardHandler), now: time.Now,
		hearing: time.Second, recheck: recheck,
		questions: make(chan nostr.ID, 16), ask: make(chan struct{}, 1), free: make(chan struct{}, 1),
		self: process{Instance: instance, Started: started, Node: instance},
	}
	stop, err := p.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	both := sync.OnceFunc(func() { stop(); stopPool() })
	t.Cleanup(both)
	return p, both
}

func TestPausedNodeResumes(t *testing.T) {
	t.Parallel()
	url, id := startRelay(t), identity()
	younger, _ := newProcess(t, url, id, "younger", 2, time.Second)
	turn, end := younger.turn(t.Context())
	defer end()
	_, stop := newProcess(t, url, id, "older", 1, time.Second) // started elsewhere, and connected only now
	eventually(t, "the younger one is paused", func() bool { return younger.yielding() != "" })
	<-turn.Done()
	stop()
	again, end := younger.turn(t.Context()) // blocks until the older process stops
	defer end()
	if younger.yielding() != "" || again.Err() != nil {
		t.Error("it does not come back")
	}
}

func TestLostQuestionIsAskedAgain(t *testing.T) {
	for _, fault := range []faulttest.Fault{faulttest.Drop, faulttest.Pretend} {
		t.Run(string(fault), func(t *testing.T) {
			t.Parallel()
			url, id := startRelay(t), identity()
			newProcess(t, url, id, "older", 1, time.Second)
			lossy := faulttest.Start(t, url, 1)
			lossy.Set(faulttest.Mix{fault: 1})
			younger, _ := newProcess(t, lossy.URL(), id, "younger", 2, time.Second)
			lossy.Heal()
			eventually(t, "the younger one is paused", func() bool { return younger.yielding() != "" })
		})
	}
}

func TestLateAnswerCounts(t *testing.T) {
	t.Parallel()
	url, id := startRelay(t), identity()
	p, _ := newProcess(t, url, id, "younger", 2, time.Hour)
	asked := answering(p)
	hear(t, p, process{Instance: "older", Started: 1}, asked)
	eventually(t, "it is paused", func() bool { return p.yielding() != "" })
}

func TestOlderProcessAnnouncesAgain(t *testing.T) {
	t.Parallel()
	url, id := startRelay(t), identity()
	older, _ := newProcess(t, url, id, "older", 1, time.Second)
	turn, end := older.turn(t.Context())
	defer end()
	hear(t, older, process{Instance: "younger", Started: 2}, nil)
	if turn.Err() != nil {
		t.Error("it announces again after one that has announced nothing")
	}
	hear(t, older, process{Instance: "younger", Started: 2, Offers: true}, nil)
	if turn.Err() == nil || !older.keepsAnnouncements() {
		t.Error("it leaves the younger one's announcement in the place of its own")
	}
}

// answering returns the tags of an answer to the latest question of a process.
func answering(p *presence) nostr.Tags {
	p.mu.Lock()
	defer p.mu.Unlock()
	return nostr.Tags{{"e", p.asked.Hex()}}
}

// hear passes an event of another process with the key to a process.
func hear(t *testing.T, p *presence, w process, tags nostr.Tags) {
	t.Helper()
	content, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	v, err := guild.Sign(t.Context(), p.keyer, nostr.Event{Kind: kindPresence, CreatedAt: nostr.Now(), Content: string(content), Tags: tags})
	if err != nil {
		t.Fatal(err)
	}
	p.receive(t.Context(), "", v)
}

func TestRepeatedPresenceEvents(t *testing.T) {
	t.Parallel()
	url, id := startRelay(t), identity()
	p, _ := newProcess(t, url, id, "now", 2, time.Second)
	asked := answering(p)
	gone := process{Instance: "gone", Started: 1, Offers: true}
	hear(t, p, gone, nil)                                  // its old question
	hear(t, p, gone, nostr.Tags{{"e", nostr.ID{1}.Hex()}}) // its answer to an old question
	hear(t, p, process{}, asked)                           // not a process
	hear(t, p, process{Instance: "now"}, asked)            // this process itself
	if elder, err := p.askOthers(t.Context()); elder != nil || err != nil {
		t.Errorf("%+v, %v", elder, err)
	}
	if p.yielding() != "" {
		t.Error("it is paused")
	}
}
