package review_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/blob"
	"guild/internal/hand/dm"
	"guild/internal/hand/key"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/market/registry"
	"guild/internal/policy"
	"guild/internal/step/jobs"
	"guild/internal/step/judge"
	"guild/internal/step/partner"
	"guild/internal/step/record"
	"guild/internal/step/review"
	"guild/internal/step/steptest"
	"guild/internal/step/trust"
	"guild/internal/step/work"
	"guild/nipreview"
	"guild/nutshell"
	"guild/receipt"
)

const python = "python"

// party is a node's key pair.
type party struct {
	signer *key.Signer
	key    nostr.PubKey
}

func newParty(n byte) party {
	secret := key.NewSecret(nostr.SecretKey{31: n})
	return party{key.NewSigner(secret), secret.PubKey()}
}

// court is a customer with every step that handles a verdict, and the provider that it judges. Each has its own
// journal. What one of them publishes reaches the other at once.
type court struct {
	*steptest.World    // of the customer
	customer, provider party
	service            guild.Service
	task               guild.Hash // blob: the bundle, which is its own delivery, too

	blobs    *blob.Store
	jobs     *jobs.Fold
	partners *partner.Fold
	trust    *trust.Fold
	record   *record.Fold
	mail     *review.Mail

	theirs *steptest.World // of the provider
	work   *work.Work
	heard  *work.Judgements
	scores *work.Customers

	mu       sync.Mutex
	verdicts []guild.Verdict // the verdicts that the judge will give, in order
	takes    time.Duration   // the time for one verdict
	reviews  []published
	attempts int
}

// published is a review that relays took.
type published struct {
	nipreview.Review
	at time.Time
}

func newCourt(t *testing.T, verdicts ...guild.Verdict) *court {
	t.Helper()
	c := &court{World: steptest.New(t), theirs: steptest.New(t), customer: newParty(1), provider: newParty(2), verdicts: verdicts}
	c.service = guild.Service{PubKey: c.provider.key, D: "runner"}
	var b bytes.Buffer
	tree := fstest.MapFS{"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Echo"}}`)}}
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	var err error
	if c.blobs, err = blob.Open(journaltest.Dir(t)); err == nil {
		c.task, err = c.blobs.PutBytes(t.Context(), b.Bytes())
	}
	if err != nil {
		t.Fatal(err)
	}
	c.openProvider()
	c.openCustomer()
	return c
}

func (c *court) openCustomer() {
	c.Helper()
	learned, err := trust.NewFold(policy.Specification())
	if err != nil {
		c.Fatal(err)
	}
	judged, said, letters := judge.NewFold(), review.NewFold(), review.NewLetters()
	c.jobs, c.partners, c.trust, c.record = jobs.NewFold(), partner.NewFold(policy.Specification()), learned, record.NewFold()
	c.OpenJournal(judged, said, letters, c.jobs, c.partners, c.trust, c.record)
	known, err := registry.Open(c.Context(), registry.Config{Journal: c.Journal, Now: time.Now}, c.partners)
	if err != nil {
		c.Fatal(err)
	}
	providers := partner.New(partner.Config{Journal: c.Journal, Now: time.Now, Latest: known.Latest, Services: known.Services}, c.partners)
	config := review.Config{
		Journal: c.Journal, Keyer: c.customer.signer, PubKey: c.customer.key, Now: time.Now, Policy: policy.Specification, Publish: c.publish,
		Relays: func() []string { return []string{"wss://relay.example"} },
		Offer:  func(guild.Service) (guild.Offer, bool) { return guild.Offer{}, false },
	}
	reviews, err := review.Open(c.Context(), config, said)
	if err != nil {
		c.Fatal(err)
	}
	c.mail = review.NewMail(config, letters)
	c.Run(
		judge.NewStep(judge.StepConfig{Blobs: c.blobs, Scratch: journaltest.Dir(c.T), Examine: c.examine}, judged).Due,
		record.New(record.Config{Blobs: c.blobs, Policy: learned.Policy, Producer: "guild@test"}, c.record).Due,
		trust.New(trust.Config{Journal: c.Journal, Now: time.Now}, learned).Due, providers.Due, reviews.Due, c.mail.Due)
}

func (c *court) openProvider() {
	done := work.NewFold()
	c.heard, c.scores = work.NewJudgements(), work.NewCustomers(policy.Specification())
	c.theirs.OpenJournal(done, c.heard, c.scores)
	c.work = work.New(work.Config{
		Journal: c.theirs.Journal, Keyer: c.provider.signer, PubKey: c.provider.key, Node: "provider", Now: time.Now,
		Relays: providerRelays{c}, Customers: c.scores, Judgements: c.heard,
	}, done)
	c.theirs.Run(c.work.Due)
}

// examine stands in for the judge. It returns the next verdict of the test.
func (c *court) examine(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
	c.mu.Lock()
	takes := c.takes
	c.mu.Unlock()
	time.Sleep(takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.verdicts) == 0 {
		return guild.Verdict{}, nil, errors.New("nobody is to be judged now")
	}
	v := c.verdicts[0]
	c.verdicts = c.verdicts[1:]
	return v, judge.Evidence("as the test says"), nil
}

// providerRelays are the provider's work.Relays.
type providerRelays struct{ *court }

func (r providerRelays) Publish(ctx context.Context, v guild.Verified, relays []string) error {
	return r.publish(ctx, v, relays)
}

func (providerRelays) Ours() []string { return nil }

func (providerRelays) InboxOf(context.Context, nostr.PubKey) []string { return nil }

func (providerRelays) Find(context.Context, nostr.Filter, []string) ([]guild.Verified, error) {
	return nil, nil
}

// publish stands in for a relay and for the node that a gift wrap is addressed to.
func (c *court) publish(ctx context.Context, v guild.Verified, _ []string) error {
	e := v.Event()
	switch {
	case e.Kind == review.Kind:
		r, err := nipreview.Parse(e)
		c.mu.Lock()
		c.reviews = append(c.reviews, published{r, time.Now()})
		c.mu.Unlock()
		return err
	case e.Kind != nostr.KindGiftWrap:
		return nil
	case e.Tags.FindWithValue("p", c.provider.key.Hex()) != nil:
		m, err := dm.Open(ctx, c.provider.signer, c.provider.key, v)
		if err != nil {
			return err
		}
		return c.work.Judged(ctx, m)
	default:
		m, err := dm.Open(ctx, c.customer.signer, c.customer.key, v)
		if err != nil {
			return err
		}
		return c.mail.Read(ctx, m.From, m.ID, m.Reply, m.Content)
	}
}

// delivers has the provider deliver something, and returns the request.
func (c *court) delivers() nostr.ID {
	c.Helper()
	c.attempts++
	id, job := nostr.ID{0xa, byte(c.attempts)}, guild.JobID{byte(c.attempts)}
	request := nostr.Event{ID: id, Kind: 5000, PubKey: c.customer.key}
	c.theirs.Write(fact.RequestSubject(id), // at once, so that the provider does not do the work
		fact.RequestReceived{Request: id, Customer: c.customer.key, Task: python, Event: request}, fact.RequestFinished{Request: id, Ending: "delivered"})
	guard := fact.JobSubject(job)
	c.Write(guard, fact.JobOpened{Job: job, Task: python, Kind: 5000, Bundle: c.task})
	c.Write(guard, fact.AttemptPlanned{Attempt: id, Job: job, Provider: c.service, Request: request, JobHash: guild.Hash{1}})
	c.Write(guard, fact.AttemptRequested{Attempt: id, Relays: []string{"wss://relay.example"}})
	c.Write(guard, fact.AttemptDelivered{Attempt: id, Result: nostr.ID{0xb, byte(c.attempts)}, Delivery: c.task, LatencyMs: 1000})
	synctest.Wait()
	return id
}

// trusts returns the customer's trust in the provider.
func (c *court) trusts() guild.Trust {
	t, _ := c.trust.Trust(python, c.service)
	return t
}

// receipts lists the receipts of an attempt, the latest last.
func (c *court) receipts(id nostr.ID) (all []receipt.Receipt) {
	c.Helper()
	for _, s := range c.record.Of(guild.JobID{id[1]}) {
		raw, err := c.blobs.ReadAll(s.Blob, receipt.MaxSize)
		if err != nil {
			c.Fatal(err)
		}
		r, err := receipt.Decode(raw)
		if err != nil {
			c.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// public lists the reviews that relays took, the latest last.
func (c *court) public() []published {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.reviews)
}

// changes lists the changes of trust that an attempt caused.
func (c *court) changes(id nostr.ID) []fact.TrustChanged {
	c.Helper()
	return slices.DeleteFunc(steptest.Facts[fact.TrustChanged](c), func(f fact.TrustChanged) bool { return f.Attempt != id })
}

var (
	passed   = guild.Verdict{Outcome: guild.Success, Score: 850_000, Strength: guild.Strong, Tier: "none", Expected: 10, Passed: 10}
	fails    = guild.Verdict{Outcome: guild.Failure, Score: 300_000, Strength: guild.Strong, Tier: "none", Expected: 10, Passed: 3, Cause: "test_secret"}
	violates = guild.Verdict{Outcome: guild.Violation, Strength: guild.Strong, Tier: "none", Expected: 10, Breaches: []guild.Breach{{Syscall: "ptrace"}}}
)

// A first job sets trust, so a review is due a day later. An hour before that, a second job fails and the provider
// objects. The judge takes two hours, so that the review becomes due meanwhile, and then finds a success.
func TestObjectionBeforeReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t, passed, fails, passed)
		c.delivers()
		c.Pass(23 * time.Hour)
		before := c.trusts() // 0.6: a first success with a score below 0.95
		id := c.delivers()
		c.Pass(30 * time.Minute)
		if len(c.changes(id)) != 1 || c.trusts() >= before || len(c.receipts(id)) != 1 {
			t.Fatalf("trust went from %s to %s, %d receipts", before, c.trusts(), len(c.receipts(id)))
		}
		told := c.heard.Latest()
		if len(told) != 2 || told[0].Request != id || told[0].Outcome != guild.Failure {
			t.Fatalf("the provider was told %+v", told)
		}

		c.mu.Lock()
		c.takes = 2 * time.Hour
		c.mu.Unlock()
		if err := c.work.Object(t.Context(), id, "the test wants Python 2"); err != nil {
			t.Fatal(err)
		}
		c.Pass(time.Minute)
		if a, _, _ := c.jobs.Attempt(id); a.State != guild.Disputed {
			t.Errorf("the attempt is %s", a.State)
		}
		c.Pass(2*time.Hour - 2*time.Minute)
		if len(c.public()) != 0 {
			t.Error("something is said in public while a verdict is disputed")
		}
		c.Pass(10 * time.Minute)
		c.isCorrected(id, before)
	})
}

// isCorrected checks that the second verdict has replaced the first one in every step.
func (c *court) isCorrected(id nostr.ID, before guild.Trust) {
	c.Helper()
	if a, _, _ := c.jobs.Attempt(id); a.State != guild.Recorded || a.Ended != guild.Accepted {
		c.Errorf("the attempt is %s, from %s", a.State, a.Ended)
	}
	both := c.receipts(id)
	if len(both) != 2 || both[1].Supersedes != both[0].ID || both[1].Outcome != guild.Success || both[0].Outcome != guild.Failure {
		c.Fatalf("%+v", both)
	}
	changes := c.changes(id)
	if len(changes) != 2 || changes[1].Rule != fact.RuleRejudged || c.trusts() <= before {
		c.Errorf("trust is %s after %s, by %+v", c.trusts(), before, changes)
	}
	if told := c.heard.Latest(); told[0].Outcome != guild.Success || told[0].Before != guild.Failure || told[0].Until != 0 || !told[0].Sent {
		c.Errorf("the provider was told %+v", told[0])
	}
	if seen := c.scores.Of(c.customer.key); seen.Accepted != 2 || seen.Declined != 1 || seen.Disputed != 1 {
		c.Errorf("the customer is known for %+v", seen)
	}
	if all := c.public(); len(all) != 1 || all[0].Stars != nipreview.StarsOf(c.trusts()) {
		c.Errorf("%d reviews, and trust is %s", len(all), c.trusts())
	}
	if err := c.work.Object(c.Context(), id, "still"); !errors.Is(err, work.ErrObjected) {
		c.Error(err)
	}
}

func TestCorrectedRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t, passed, violates, passed)
		c.delivers()
		c.Pass(time.Hour)
		id := c.delivers()
		c.Pass(time.Hour)
		if p := c.partners.Provider(c.service); p.State != guild.Removed {
			t.Fatalf("it is %s", p.State)
		}
		if err := c.work.Object(t.Context(), id, "ptrace is what the task asks for"); err != nil {
			t.Fatal(err)
		}
		c.Pass(10 * time.Minute)
		if p := c.partners.Provider(c.service); p.State == guild.Removed {
			t.Error("it is still removed")
		}
		if changes := c.changes(id); len(changes) != 2 || changes[1].Rule != fact.RuleRejudged {
			t.Errorf("%+v", changes)
		}
		all := c.public()
		if len(all) != 2 || len(all[0].Weaknesses) != 1 {
			t.Fatalf("%d reviews", len(all))
		}
		if last := all[1]; len(last.Weaknesses) != 0 || last.Stars != nipreview.StarsOf(c.trusts()) {
			t.Errorf("the last word is %+v", last.Review)
		}
	})
}

func TestVerdictStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourt(t, passed, fails)
		c.delivers()
		c.Pass(23 * time.Hour)
		id := c.delivers()
		c.Pass(time.Minute)
		fallen := c.trusts()
		if err := c.work.Object(t.Context(), id, "no"); err != nil { // the judge has no verdict left
			t.Fatal(err)
		}
		c.Pass(3 * time.Hour)
		if told := c.heard.Latest(); len(told) != 2 || told[0].Outcome != guild.Failure || told[0].Before != guild.Failure {
			t.Errorf("the provider was told %+v", told)
		}
		if len(c.changes(id)) != 1 || c.trusts() != fallen || len(c.public()) != 1 {
			t.Errorf("trust is %s after %s, %d reviews", c.trusts(), fallen, len(c.public()))
		}
	})
}
