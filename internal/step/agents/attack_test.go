package agents_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/hand/key"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/step/agents"
	"guild/internal/step/steptest"
	"guild/nip90"
	"guild/nipae"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// person is a key pair.
type person struct {
	*key.Signer
	key nostr.PubKey
}

func newPerson() person {
	s := key.NewSecret(nostr.Generate())
	return person{key.NewSigner(s), s.PubKey()}
}

// sign signs an event, of now if it has no date.
func (p person) sign(t *testing.T, e nostr.Event, err error) guild.Verified {
	t.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
	}
	var v guild.Verified
	if err == nil {
		v, err = guild.Sign(t.Context(), p, e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// claim signs claims of some agents at a date.
func (p person) claim(t *testing.T, at nostr.Timestamp, agents ...nostr.PubKey) guild.Verified {
	t.Helper()
	var c nipae.Claims
	for _, a := range agents {
		c = c.Add(a)
	}
	e, err := c.Event()
	e.CreatedAt = at
	return p.sign(t, e, err)
}

// profile signs the profile of an agent that executes a definition.
func (p person) profile(t *testing.T, definition nostr.ID, owners ...nostr.PubKey) guild.Verified {
	t.Helper()
	e, err := nipae.Profile{Bot: true, Definition: nipae.Reference{ID: definition}, Owners: owners}.Event()
	return p.sign(t, e, err)
}

func (p person) define(t *testing.T, d nipae.Definition) guild.Verified {
	t.Helper()
	e, err := d.Event()
	return p.sign(t, e, err)
}

// Relays of the tests. A step publishes at first and second.
const first, second, elsewhere = "wss://first.example", "wss://second.example", "wss://elsewhere.example"

// network is relays in memory. It is an agents.Relays.
type network struct {
	mu     sync.Mutex
	stored map[string]map[nostr.ID]guild.Verified // by relay
	silent string                                 // a relay that does not answer
}

// store gives events to a relay, which keeps only the newest of a replaceable kind.
func (n *network) store(url string, events ...guild.Verified) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stored[url] == nil {
		n.stored[url] = map[nostr.ID]guild.Verified{}
	}
	for _, v := range events {
		e := v.Event()
		newest := true
		for id, old := range n.stored[url] {
			o := old.Event()
			if !e.Kind.IsReplaceable() || o.Kind != e.Kind || o.PubKey != e.PubKey {
				continue
			}
			if newest = e.CreatedAt >= o.CreatedAt; newest {
				delete(n.stored[url], id)
			}
		}
		if newest {
			n.stored[url][e.ID] = v
		}
	}
}

func (n *network) silence(url string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent = url
}

func (n *network) isSilent(url string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silent == url
}

func (n *network) Publish(_ context.Context, v guild.Verified, urls []string) (took, missing []string, err error) {
	for _, url := range urls {
		if n.isSilent(url) {
			missing = append(missing, url)
			continue
		}
		n.store(url, v)
		took = append(took, url)
	}
	if len(took) == 0 {
		err = errors.New("no relay took it")
	}
	return took, missing, err
}

// Find fails if none of the relays answers, as a pool does.
func (n *network) Find(_ context.Context, f nostr.Filter, urls []string) ([]guild.Verified, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := map[nostr.ID]guild.Verified{}
	answered := false
	for _, url := range urls {
		if url == n.silent {
			continue
		}
		answered = true
		for id, v := range n.stored[url] {
			if f.Matches(v.Event()) {
				found[id] = v
			}
		}
	}
	if !answered {
		return nil, fmt.Errorf("%s: no answer", strings.Join(urls, ", "))
	}
	return slices.SortedFunc(maps.Values(found), func(a, b guild.Verified) int {
		return int(b.Event().CreatedAt - a.Event().CreatedAt)
	}), nil
}

func (*network) Ours() []string { return []string{first, second} }

func (n *network) Of(context.Context, nostr.PubKey) []string { return n.Ours() }

func (n *network) All(context.Context, nostr.PubKey) ([]string, error) { return n.Ours(), nil }

// by returns the events of a kind and a key at a relay.
func (n *network) by(p nostr.PubKey, kind nostr.Kind, url string) (all []nostr.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range n.stored[url] {
		if e := v.Event(); e.PubKey == p && e.Kind == kind {
			all = append(all, e)
		}
	}
	return all
}

// ring holds the keys of the agents. It is an agents.Keys.
type ring map[string]person

func (r ring) Make(_ context.Context, name, _ string) (nostr.PubKey, error) {
	if _, there := r[name]; !there {
		r[name] = newPerson()
	}
	return r[name].key, nil
}

func (r ring) Signer(_ context.Context, name string) (nostr.Signer, error) { return r[name], nil }

// shelf holds files by their URLs. It is an agents.Files.
type shelf map[string]string

func (s shelf) Fetch(_ context.Context, f agents.File) error {
	content := []byte(s[f.URL])
	return f.Check(guild.Sum(content), int64(len(content)))
}

func (s shelf) Upload(_ context.Context, content []byte) (string, error) {
	url := "https://files.example/" + guild.Sum(content).Hex()
	s[url] = string(content)
	return url, nil
}

// world is a step between two relays.
type world struct {
	*steptest.World
	*network
	owner person
	keys  ring
	files shelf
	step  *agents.Step
}

func inWorld(t *testing.T, do func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{World: steptest.New(t), network: &network{stored: map[string]map[nostr.ID]guild.Verified{}}, owner: newPerson(), keys: ring{}, files: shelf{}}
		w.start()
		do(t, w)
	})
}

// start opens the step, with other keys of its owner.
func (w *world) start(owners ...nostr.PubKey) {
	w.Helper()
	f := agents.NewFold()
	w.OpenJournal(f)
	w.step = agents.New(agents.Config{
		Journal: w.Journal, Owner: w.owner, PubKey: w.owner.key, Now: time.Now, Keys: w.keys, Relays: w.network, Owners: owners,
		Files: w.files, Count: func(text string) int64 { return int64(len(text)) },
	}, f)
	if err := w.step.Open(w.Context()); err != nil {
		w.Fatal(err)
	}
	w.Run(w.step.Due)
}

// publish gives events to all relays.
func (w *world) publish(events ...guild.Verified) {
	w.store(first, events...)
	w.store(second, events...)
}

// observe has the step hear of events.
func (w *world) observe(events ...guild.Verified) {
	w.Helper()
	for _, v := range events {
		if err := w.step.Observe(w.Context(), v); err != nil {
			w.Fatal(err)
		}
	}
}

func (w *world) install(reference string) agents.Agent {
	w.Helper()
	a, err := w.step.Install(w.Context(), reference, "", "")
	if err != nil {
		w.Fatal(err)
	}
	w.Pass(time.Second)
	return a
}

// wantClaims checks which agents the owner's newest claims name at both relays.
func (w *world) wantClaims(want ...nostr.PubKey) {
	w.Helper()
	for _, url := range w.Ours() {
		all := w.by(w.owner.key, nipae.KindClaims, url)
		if len(all) != 1 {
			w.Errorf("%d claims at %s", len(all), url)
			continue
		}
		c, err := nipae.ParseClaims(all[0])
		got := map[nostr.PubKey]bool{}
		for _, agent := range c.Agents() {
			got[agent] = true
		}
		if err != nil || len(got) != len(want) || slices.ContainsFunc(want, func(agent nostr.PubKey) bool { return !got[agent] }) {
			w.Errorf("at %s the owner claims %v, want %v (%v)", url, c.Agents(), want, err)
		}
	}
}

// wantOwner checks whether an agent's only owner is verified, and why not.
func (w *world) wantOwner(agent, owner nostr.PubKey, why error) {
	w.Helper()
	all, err := w.step.Verify(w.Context(), agent)
	if err != nil || len(all) != 1 || all[0].PubKey != owner.Hex() {
		w.Fatalf("owners %+v, %v", all, err)
	}
	if got := all[0]; got.Verified != (why == nil) || why != nil && got.Reason != why.Error() {
		w.Errorf("%+v, want %v", got, why)
	}
}

func TestForgedAndWithdrawnClaims(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		boss, bot, mallory := newPerson(), newPerson(), newPerson()
		forged := mallory.claim(t, 0, bot.key, boss.key)
		w.publish(bot.profile(t, nostr.ID{1}, boss.key), forged)
		w.observe(forged)
		w.wantOwner(bot.key, boss.key, nipae.ErrNoClaims)

		now := nostr.Timestamp(time.Now().Unix())
		w.publish(boss.claim(t, now, bot.key))
		w.wantOwner(bot.key, boss.key, nil)

		w.store(second, boss.claim(t, now+1)) // the first relay still has the claim
		w.wantOwner(bot.key, boss.key, nipae.ErrNotClaimed)
		w.silence(second)
		w.wantOwner(bot.key, boss.key, nipae.ErrNotClaimed) // what was seen is not forgotten
	})
}

func TestClaimsOfEachRelaySurvive(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b, c, mallory := newPerson().key, newPerson().key, newPerson().key, newPerson()
		w.store(first, w.owner.claim(t, 10, a), mallory.claim(t, 30, mallory.key))
		w.store(second, w.owner.claim(t, 20, b))

		w.silence(first)
		_, err := w.step.Claim(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), first) {
			t.Errorf("claimed without an answer of %s: %v", first, err)
		}
		if _, err := w.step.Disown(t.Context(), b); err == nil || !strings.Contains(err.Error(), first) {
			t.Errorf("disowned without an answer of %s: %v", first, err)
		}
		w.Pass(time.Minute)
		if all := w.FactTypes(""); len(all) > 0 {
			t.Errorf("%q are recorded", all)
		}

		w.silence("")
		if changed, err := w.step.Claim(t.Context(), c); err != nil || !changed {
			t.Fatal(changed, err)
		}
		w.Pass(time.Second)
		w.wantClaims(a, b, c)
		if changed, err := w.step.Claim(t.Context(), a); err != nil || changed {
			t.Errorf("claimed again: %v, %v", changed, err)
		}
		if changed, err := w.step.Disown(t.Context(), b); err != nil || !changed {
			t.Fatal(changed, err)
		}
		w.Pass(time.Second)
		w.wantClaims(a, c)
	})
}

func TestFullClaimsAreNotTruncated(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var all []nostr.PubKey
		for i := range nipae.MaxTags {
			all = append(all, nostr.PubKey(guild.Sum(fmt.Append(nil, i))))
		}
		w.publish(w.owner.claim(t, 10, all...))
		if _, err := w.step.Claim(t.Context(), newPerson().key); !errors.Is(err, nipae.ErrTooBig) {
			t.Errorf("%v, want %v", err, nipae.ErrTooBig)
		}
		w.Pass(time.Minute)
		w.wantClaims(all...)
	})
}

// A list that another program made too long for us is never replaced by a short one.
func TestTooLongClaimsAreNotReplaced(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		long := nostr.Event{Kind: nipae.KindClaims, CreatedAt: 10}
		for i := range nipae.MaxTags + 500 {
			long.Tags = append(long.Tags, nostr.Tag{"p", guild.Sum(fmt.Append(nil, i)).Hex()})
		}
		w.publish(w.owner.sign(t, long, nil))
		if _, err := w.step.Claim(t.Context(), newPerson().key); !errors.Is(err, nipae.ErrTooBig) || !strings.Contains(err.Error(), first) {
			t.Errorf("%v, want %v at %s", err, nipae.ErrTooBig, first)
		}
		w.Pass(time.Minute)
		if all := w.by(w.owner.key, nipae.KindClaims, first); len(all) != 1 || len(all[0].Tags) != len(long.Tags) {
			t.Errorf("%d lists", len(all))
		}
	})
}

// What waits for the owner goes with the agent, and files of one name are refused before anything is published.
func TestDraftsAndFilesOfAgents(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		style, err := w.step.Attach(t.Context(), "style.md", "text/plain", []byte("short"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := w.step.Attach(t.Context(), "style.md", "text/plain", []byte("short"))
		if err != nil || again.ID != style.ID {
			t.Errorf("the same file again is %v, %v", again, err)
		}
		other, err := w.step.Attach(t.Context(), "STYLE.md", "text/plain", []byte("long"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.step.Publish(t.Context(), nipae.Definition{D: "fixer", Files: []nipae.Reference{style, other}}); !errors.Is(err, nipae.ErrInvalid) {
			t.Errorf("two files of one name: %v", err)
		}
		v, err := w.step.Publish(t.Context(), nipae.Definition{D: "fixer", Files: []nipae.Reference{style}})
		if err != nil || v.Ver != 1 {
			t.Fatalf("%+v, %v", v, err)
		}
		w.Pass(time.Second)
		a := w.install(v.ID.Hex())
		if _, err := w.step.Draft(t.Context(), a.Name, "python", "count twice", "worker", nostr.ID{1}); err != nil {
			t.Fatal(err)
		}
		if err := w.step.Remove(t.Context(), a.Name); err != nil {
			t.Fatal(err)
		}
		back := w.install(v.ID.Hex())
		if back.Drafts != 1 || back.PubKey != a.PubKey {
			t.Errorf("%+v, want its draft and the key %v", back, a.PubKey)
		}
		mine, err := w.step.Publish(t.Context(), nipae.Definition{D: "other"})
		if err != nil {
			t.Fatal(err)
		}
		w.Pass(time.Second)
		if err := w.step.Remove(t.Context(), a.Name); err != nil {
			t.Fatal(err)
		}
		if b, err := w.step.Install(t.Context(), mine.ID.Hex(), a.Name, ""); err != nil || b.PubKey == a.PubKey {
			t.Errorf("an agent of another definition has the key %v, %v", b.PubKey, err)
		}
	})
}

// file returns the metadata of a file, by whoever signs it.
func file(t *testing.T, by person, url, content string) guild.Verified {
	t.Helper()
	e := nip90.File{URL: url, Hash: guild.Sum([]byte(content)), Size: int64(len(content))}.Event()
	return by.sign(t, e, nil)
}

// wantNothing checks that an installation failed with the word, and left nothing.
func (w *world) wantNothing(err error, word string) {
	w.Helper()
	if err == nil || !strings.Contains(err.Error(), word) {
		w.Errorf("installed, or refused for another reason: %v, want %q", err, word)
	}
	w.Pass(time.Minute)
	all, err := w.step.Agents()
	if err != nil || len(all) > 0 || len(w.FactTypes("")) > 0 || len(w.keys) > 0 || len(w.by(w.owner.key, nipae.KindClaims, first)) > 0 {
		w.Errorf("left: %+v, %q, keys %d, %v", all, w.FactTypes(""), len(w.keys), err)
	}
}

func TestInstallNeedsEachFile(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		publisher, other := newPerson(), newPerson()
		const right, wrong = "https://files.example/right.sh", "https://files.example/wrong.sh"
		w.files[right], w.files[wrong] = "echo right", "echo WRONG"
		good, bad := file(t, publisher, right, "echo right"), file(t, other, wrong, "echo wrong")
		d := publisher.define(t, nipae.Definition{D: "coder", Files: []nipae.Reference{{ID: good.Event().ID}, {ID: bad.Event().ID}}})
		w.publish(d, good)

		_, err := w.step.Install(t.Context(), d.Event().ID.Hex(), "", "")
		w.wantNothing(err, bad.Event().ID.Hex()[:8])
		w.publish(bad)
		_, err = w.step.Install(t.Context(), d.Event().ID.Hex(), "", "")
		w.wantNothing(err, "has the hash")

		// The definition names metadata by its id, so that its author does not matter.
		w.files[wrong] = "echo wrong"
		w.publish(file(t, other, right, "echo mallory"))
		w.install(d.Event().ID.Hex())
		w.wantFiles("right.sh", "wrong.sh")
		installed := steptest.Facts[fact.AgentInstalled](w)
		if len(installed) != 1 || len(installed[0].Files) != 2 || installed[0].Files[0].ID != good.Event().ID || installed[0].Files[1].ID != bad.Event().ID {
			t.Errorf("%+v", installed)
		}
	})
}

// Names of files are from URLs that strangers chose, and all files of a definition are laid into one directory.
func TestNamesOfFiles(t *testing.T) {
	hash := func(content string) string { return guild.Sum([]byte(content)).Hex() }
	for name, c := range map[string]struct {
		urls map[string]string // content of each
		want []string          // names; nil if it must be refused
	}{
		"two of a name":  {map[string]string{"https://files.example/a/run.sh": "a", "https://files.example/b/RUN.sh": "b"}, nil},
		"one file twice": {map[string]string{"https://files.example/run.sh": "a", "https://mirror.example/run.sh": "a"}, []string{"run.sh"}},
		"a query":        {map[string]string{"https://files.example/run.sh?x=/../y": "a"}, []string{"run.sh"}},
		"not a name": {map[string]string{
			"https://files.example/..": "a", "https://files.example": "b", "https://files.example/%00": "c", "https://files.example/" + strings.Repeat("x", 256): "d",
		}, []string{hash("a"), hash("b"), hash("c"), hash("d")}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				publisher := newPerson()
				d := nipae.Definition{D: "coder"}
				for url, content := range c.urls {
					w.files[url] = content
					v := file(t, publisher, url, content)
					w.publish(v)
					d.Files = append(d.Files, nipae.Reference{ID: v.Event().ID})
				}
				v := publisher.define(t, d)
				w.publish(v)
				if c.want == nil {
					_, err := w.step.Install(t.Context(), v.Event().ID.Hex(), "", "")
					if all, _ := w.step.Agents(); len(all) > 0 || len(w.keys) > 0 || err == nil || !strings.Contains(err.Error(), "another file of it is named") {
						t.Errorf("installed %+v, %v", all, err)
					}
					return
				}
				w.install(v.Event().ID.Hex())
				w.wantFiles(c.want...)
			})
		})
	}
}

// wantFiles checks the names of the agent's files.
func (w *world) wantFiles(want ...string) {
	w.Helper()
	doing, err := w.step.Behave(w.Context(), agents.Roster{Agents: []string{"coder"}}, agents.Job{})
	var got []string
	for _, f := range doing.Files {
		got = append(got, f.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		w.Errorf("%q, want %q (%v)", got, want, err)
	}
}

func TestInstallFromARelayThatIsNotOurs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		publisher := newPerson()
		d := publisher.define(t, nipae.Definition{D: "coder"})
		w.store(elsewhere, d)
		if _, err := w.step.Install(t.Context(), d.Event().ID.Hex(), "", ""); !errors.Is(err, agents.ErrNotFound) {
			t.Errorf("%v, want it not found without a hint", err)
		}
		w.install(nip19.EncodeNevent(d.Event().ID, []string{elsewhere}, publisher.key))
		w.install(nip19.EncodeNaddr(publisher.key, nipae.KindDefinition, "coder", []string{elsewhere}))
		if got := steptest.Facts[fact.AgentInstalled](w); len(got) != 1 || got[0].Definition.ID != d.Event().ID {
			t.Errorf("%+v", got)
		}
	})
}

func TestDeletions(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		publisher, student, mallory := newPerson(), newPerson(), newPerson()
		d := publisher.define(t, nipae.Definition{D: "coder"})
		w.publish(d)
		w.install(d.Event().ID.Hex())
		e, err := nipae.Lesson{Title: "x", Content: "y", Definition: nipae.Reference{ID: d.Event().ID}}.Event()
		lesson := student.sign(t, e, err)
		w.observe(student.profile(t, d.Event().ID), lesson)
		draft, err := w.step.Draft(t.Context(), "coder", "", "ours", "owner", nostr.ID{})
		if err != nil {
			t.Fatal(err)
		}
		ours, err := w.step.Accept(t.Context(), draft)
		if err != nil {
			t.Fatal(err)
		}
		known := func() int {
			t.Helper()
			all, err := w.step.Lessons("coder")
			if err != nil {
				t.Fatal(err)
			}
			return len(all)
		}
		deletion := func(by person, ids ...nostr.ID) guild.Verified {
			e := nostr.Event{Kind: 5}
			for _, id := range ids {
				e.Tags = append(e.Tags, nostr.Tag{"e", id.Hex()})
			}
			return by.sign(t, e, nil)
		}
		all := []nostr.ID{lesson.Event().ID, ours, d.Event().ID}
		for _, by := range []person{mallory, publisher} { // the publisher of what is installed cannot take it away
			v := deletion(by, all...)
			if w.step.Deletes(v.Event()) {
				t.Error("a deletion by another key counts")
			}
			if err := w.step.ObserveDeletion(t.Context(), v); err != nil || known() != 2 {
				t.Errorf("%d lessons are left, %v", known(), err)
			}
		}
		v := deletion(student, all...)
		if err := w.step.ObserveDeletion(t.Context(), v); err != nil || known() != 1 {
			t.Errorf("%d lessons are left, %v", known(), err)
		}
		if _, err := w.step.Behave(t.Context(), agents.Roster{Agents: []string{"coder"}}, agents.Job{}); err != nil {
			t.Error(err)
		}
	})
}
