package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/hand/key"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/seal"
)

var bob = signer(3)

// post keeps what a step sends.
type post struct {
	arrive func(guild.Verified) // called before the sender knows that it was sent; optional

	mu   sync.Mutex
	sent []guild.Verified
}

func (p *post) send(_ context.Context, v guild.Verified, _ []string) error {
	if p.arrive != nil {
		p.arrive(v)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, v)
	return nil
}

// take returns what was sent since the last call.
func (p *post) take() []guild.Verified {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent
	p.sent = nil
	return sent
}

// party is a node with the step, and what it sends.
type party struct {
	*steptest.World
	step      *Step
	witnesses *Witnesses
	post      post
}

func newParty(w *steptest.World, as *key.Signer, served map[nostr.ID]nostr.PubKey) *party {
	w.Helper()
	p := &party{World: w, witnesses: NewWitnesses()}
	seals := NewFold()
	p.OpenJournal(seals, p.witnesses)
	p.step = New(Config{
		Journal: p.Journal, Signer: as, Now: time.Now, Publish: (&relay{}).publish, Relays: func() []string { return []string{"wss://a.example"} },
		Witness: &Witnessing{Fold: p.witnesses, Keyer: as, PubKey: pubkey(as), Send: p.post.send,
			Inbox: func(context.Context, nostr.PubKey) []string { return nil },
			Served: func(request nostr.ID) (nostr.PubKey, []string, bool) {
				customer, ok := served[request]
				return customer, []string{"wss://b.example"}, ok
			}},
	}, seals)
	p.Run(p.step.Due)
	return p
}

// records has a receipt of bob's recorded.
func (p *party) records(attempt nostr.ID) {
	p.Helper()
	p.Write(fact.Subject("job.1"), fact.AttemptRecorded{Attempt: attempt, Receipt: "r-" + attempt.Hex()[:16], Provider: pubkey(bob)})
}

// question returns the only letter to bob.
func (p *party) question() dm.Message {
	p.Helper()
	sent := p.post.take()
	if len(sent) != 1 {
		p.Fatalf("%d letters", len(sent))
	}
	return p.opened(sent[0])
}

// opened returns a letter to bob.
func (p *party) opened(letter guild.Verified) dm.Message {
	p.Helper()
	m, err := dm.OpenFrom(p.Context(), bob, pubkey(bob), letter, func(nostr.PubKey) bool { return true })
	if err != nil {
		p.Fatal(err)
	}
	return m
}

func (p *party) wantDropped(err error, want guild.Reason) {
	p.Helper()
	dropped, ok := errors.AsType[*guild.DropError](err)
	if !ok || dropped.Reason != want {
		p.Errorf("%v, want it dropped: %s", err, want)
	}
}

var jobs = map[nostr.ID]nostr.PubKey{{1}: pubkey(us), {2}: pubkey(us), {3}: pubkey(us), {9}: pubkey(mallory)}

func TestProviderCountersignsSeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		customer, provider := newParty(steptest.New(t), us, nil), newParty(steptest.New(t), bob, jobs)
		for i := range byte(3) {
			customer.records(nostr.ID{i + 1})
			end := customer.Journal.Last()
			customer.Pass(time.Hour + time.Minute)
			question := customer.question()
			ok(t, provider.step.Asked(t.Context(), question))
			provider.wantDropped(provider.step.Asked(t.Context(), question), guild.Repeated)
			provider.Pass(time.Minute)
			answers := provider.post.take()
			if len(answers) != 1 {
				t.Fatalf("%d answers", len(answers))
			}
			if i == 1 { // this answer is lost, and the next seal is countersigned all the same
				continue
			}
			ok(t, customer.step.Countersigned(t.Context(), answers[0]))
			customer.wantDropped(customer.step.Countersigned(t.Context(), answers[0]), guild.Unrequested)
			c, _ := customer.witnesses.Of(pubkey(bob))
			if c.Size < end || c.Event.ID != answers[0].Event().ID {
				t.Errorf("%d entries are countersigned, want %d", c.Size, end)
			}
			p, witness, err := customer.step.ProveTo(t.Context(), end, pubkey(bob))
			if err != nil || witness.ID != c.Event.ID || p.Checkpoint.ID != c.Checkpoint.ID || p.Proof.Check(seal.Leaf([]byte(p.Entry)), c.Root) != nil {
				t.Errorf("%+v, %v", p, err)
			}
		}
		customer.Pass(5 * time.Hour)
		if more := customer.post.take(); len(more) != 0 {
			t.Errorf("%d letters about nothing new", len(more))
		}
	})
}

func TestAnswerBeforeTheQuestionIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		customer, provider := newParty(steptest.New(t), us, nil), newParty(steptest.New(t), bob, jobs)
		customer.post.arrive = func(letter guild.Verified) {
			ok(t, provider.step.Asked(t.Context(), customer.opened(letter)))
			answer, err := guild.Verify(provider.witnesses.unsent()[0].Event)
			ok(t, err)
			ok(t, customer.step.Countersigned(t.Context(), answer))
		}
		customer.records(nostr.ID{1})
		customer.Pass(5 * time.Hour)
		if c, signed := customer.witnesses.Of(pubkey(bob)); !signed || len(customer.post.take()) != 1 {
			t.Errorf("the seal is not countersigned, or the provider was asked again: %+v", c)
		}
	})
}

func TestLostAnswerIsGivenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		customer, provider := newParty(steptest.New(t), us, nil), newParty(steptest.New(t), bob, jobs)
		customer.records(nostr.ID{1})
		for i := range maxAsks {
			customer.Pass(time.Hour + time.Minute)
			ok(t, provider.step.Asked(t.Context(), customer.question()))
			provider.Pass(time.Minute)
			answers := provider.post.take()
			if i == maxAsks-1 {
				ok(t, customer.step.Countersigned(t.Context(), answers[0]))
			}
			customer.Write(fact.Subject("job.2"), fact.JobCancelled{})
		}
		if _, signed := customer.witnesses.Of(pubkey(bob)); !signed {
			t.Error("the seal is not countersigned")
		}
	})
}

func TestCountersigningRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		customer, provider := newParty(steptest.New(t), us, nil), newParty(steptest.New(t), bob, jobs)
		var question dm.Message
		for i := range byte(2) {
			customer.records(nostr.ID{i + 1})
			_, err := customer.step.Seal(t.Context())
			ok(t, err)
			customer.Pass(time.Second)
			question = customer.question()
			if i == 0 {
				ok(t, provider.step.Asked(t.Context(), question))
				provider.Pass(time.Second)
				ok(t, customer.step.Countersigned(t.Context(), provider.post.take()[0]))
			}
		}
		provider.wantDropped(provider.step.Asked(t.Context(), question), guild.Flood)
		provider.Pass(time.Minute)
		ok(t, provider.step.Asked(t.Context(), question))
	})
}

func TestSilentProviderIsAskedThreeTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		customer := newParty(steptest.New(t), us, nil)
		customer.records(nostr.ID{1})
		letters := 0
		for range 6 {
			customer.Pass(time.Hour + time.Minute)
			letters += len(customer.post.take())
			customer.Write(fact.Subject("job.2"), fact.JobCancelled{})
		}
		if letters != maxAsks {
			t.Errorf("%d letters", letters)
		}
	})
}

func TestSecondHistoryIsNotCountersigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		honest, provider := steptest.New(t), newParty(steptest.New(t), bob, jobs)
		customer := newParty(honest, us, nil)
		customer.records(nostr.ID{1})
		customer.Pass(time.Second)
		customer.CloseJournal()
		copied := filepath.Join(t.TempDir(), "journal")
		ok(t, os.CopyFS(copied, os.DirFS(honest.Dir)))

		customer = newParty(honest, us, nil)
		customer.records(nostr.ID{2})
		customer.Pass(time.Hour + time.Minute)
		ok(t, provider.step.Asked(t.Context(), customer.question()))
		customer.CloseJournal()

		fork := newParty(&steptest.World{T: t, Dir: copied}, us, nil)
		fork.Pass(time.Second) // the copy is old enough to be sealed as it is
		fork.question()
		fork.Write(fact.Subject("job.3"), fact.JobCancelled{})
		for range 8 {
			fork.Write(fact.Subject("job.4"), fact.JobCancelled{})
		}
		fork.records(nostr.ID{3})
		fork.Pass(time.Hour + time.Minute)
		question := fork.question()
		provider.wantDropped(provider.step.Asked(t.Context(), question), guild.Inconsistent)

		// Its own proof from that size is about another root.
		w, err := dm.DecodeWitness(question.Content)
		ok(t, err)
		last, _, _ := provider.witnesses.seen(pubkey(us), fork.Journal.ID())
		g, err := fork.Journal.ProveConsistency(t.Context(), last.Size, w.Proof.Size)
		ok(t, err)
		w.Consistency = []seal.Consistency{g}
		question.Content, err = w.Encode()
		ok(t, err)
		provider.wantDropped(provider.step.Asked(t.Context(), question), guild.Inconsistent)
		provider.Pass(time.Minute)
		if sent := provider.post.take(); len(sent) != 1 {
			t.Errorf("%d countersignatures", len(sent))
		}
	})
}

func TestFalseQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		customer, provider := newParty(steptest.New(t), us, nil), newParty(steptest.New(t), bob, jobs)
		customer.records(nostr.ID{1})
		customer.Pass(time.Hour + time.Minute)
		question := customer.question()
		for name, c := range map[string]struct {
			change func(*dm.Witness, *dm.Message)
			want   guild.Reason
		}{
			"from a stranger":        {func(_ *dm.Witness, m *dm.Message) { m.From = pubkey(mallory) }, guild.Unrequested},
			"about no job of ours":   {func(w *dm.Witness, _ *dm.Message) { w.Request = nostr.ID{7} }, guild.Unrequested},
			"about another's job":    {func(w *dm.Witness, _ *dm.Message) { w.Request = nostr.ID{9} }, guild.Unrequested},
			"about another job":      {func(w *dm.Witness, _ *dm.Message) { w.Request = nostr.ID{2} }, guild.Malformed},
			"with a changed entry":   {func(w *dm.Witness, _ *dm.Message) { w.Entry = append(w.Entry, ' ') }, guild.Malformed},
			"with another proof":     {func(w *dm.Witness, _ *dm.Message) { w.Proof.Size++ }, guild.Malformed},
			"with a changed seal":    {func(w *dm.Witness, _ *dm.Message) { w.Checkpoint.CreatedAt++ }, guild.Malformed},
			"with no seal":           {func(w *dm.Witness, _ *dm.Message) { w.Checkpoint.Kind = 1 }, guild.Malformed},
			"with another's seal":    {func(w *dm.Witness, _ *dm.Message) { w.Checkpoint = resigned(t, w.Checkpoint) }, guild.Malformed},
			"with an entry of ours":  {func(w *dm.Witness, _ *dm.Message) { w.Entry = []byte("seal.journal\n{}") }, guild.Malformed},
			"with no entry":          {func(w *dm.Witness, _ *dm.Message) { w.Entry = nil }, guild.Malformed},
			"with much more than it": {func(_ *dm.Witness, m *dm.Message) { m.Content += strings.Repeat(" ", 1<<20) }, guild.TooLarge},
		} {
			w, err := dm.DecodeWitness(question.Content)
			ok(t, err)
			m := question
			c.change(&w, &m)
			if !strings.HasSuffix(m.Content, "  ") {
				m.Content, err = w.Encode()
				ok(t, err)
			}
			t.Log(name)
			provider.wantDropped(provider.step.Asked(t.Context(), m), c.want)
		}
		provider.Pass(time.Minute)
		if sent := provider.post.take(); len(sent) != 0 {
			t.Errorf("%d countersignatures", len(sent))
		}
	})
}

func resigned(t *testing.T, e nostr.Event) nostr.Event {
	v, err := guild.Sign(t.Context(), mallory, nostr.Event{Kind: e.Kind, CreatedAt: e.CreatedAt, Tags: slices.Clone(e.Tags), Content: e.Content})
	ok(t, err)
	return v.Event()
}

func TestUnaskedCountersignatures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		customer := newParty(steptest.New(t), us, nil)
		customer.records(nostr.ID{1})
		customer.Pass(time.Hour + time.Minute)
		w, err := dm.DecodeWitness(customer.question().Content)
		ok(t, err)
		v, err := guild.Verify(w.Checkpoint)
		ok(t, err)
		point, err := seal.ParseCheckpoint(v)
		ok(t, err)
		for name, c := range map[string]struct {
			by     *key.Signer
			change func(*seal.Witness)
			want   guild.Reason
			event  func(*nostr.Event)
		}{
			"with more tags":      {bob, func(*seal.Witness) {}, guild.Malformed, func(e *nostr.Event) { e.Tags = append(e.Tags, nostr.Tag{"t", "x"}) }},
			"without tags":        {bob, func(*seal.Witness) {}, guild.Malformed, func(e *nostr.Event) { e.Tags = nil }},
			"from before it":      {bob, func(*seal.Witness) {}, guild.Unrequested, func(e *nostr.Event) { e.CreatedAt = w.Checkpoint.CreatedAt - 3601 }},
			"by somebody else":    {mallory, func(*seal.Witness) {}, guild.Unrequested, nil},
			"of another root":     {bob, func(w *seal.Witness) { w.Checkpoint.Root = guild.Hash{1} }, guild.Unrequested, nil},
			"of another size":     {bob, func(w *seal.Witness) { w.Checkpoint.Size++ }, guild.Unrequested, nil},
			"of another journal":  {bob, func(w *seal.Witness) { w.Checkpoint.Journal = "x" }, guild.Misdirected, nil},
			"of another customer": {bob, func(w *seal.Witness) { w.Customer = pubkey(mallory) }, guild.Misdirected, nil},
		} {
			witness := seal.Witness{Customer: pubkey(us), Checkpoint: point}
			c.change(&witness)
			e := witness.Event(time.Now().Unix())
			if c.event != nil {
				c.event(&e)
			}
			v, err := guild.Sign(t.Context(), c.by, e)
			ok(t, err)
			t.Log(name)
			customer.wantDropped(customer.step.Countersigned(t.Context(), v), c.want)
		}
	})
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
