package variables

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
	"guild/internal/policy"
	"guild/internal/step/steptest"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

// service returns the service of provider n.
func service(n byte) guild.Service {
	return guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: n}), D: "python"}
}

// inside returns the state itself. Nothing may be applied while it is used.
func (f *Fold) inside() (now *folded) {
	f.View(func(s *folded) { now = s })
	return now
}

// market is a journal with attempts and a running step.
type market struct {
	*steptest.World
	*Fold
	step     *Variables
	attempts int
}

func newMarket(t *testing.T, c Config) *market {
	t.Helper()
	m := &market{World: steptest.New(t), Fold: NewFold(policy.Specification())}
	m.OpenJournal(m.Fold)
	c.Journal = m.Journal
	step, err := New(c, m.Fold)
	if err != nil {
		t.Fatal(err)
	}
	m.step = step
	m.Run(step.Due)
	return m
}

func (m *market) append(facts ...fact.Fact) {
	m.Helper()
	m.Write(fact.JobSubject(guild.JobID{}), facts...)
}

// limit is the time that a provider has for its first answer in these tests.
const limit = 100 * time.Second

// newcomer is the number of a provider that was never met.
const newcomer = 99

// asks opens a job and sends its request. The provider has limit times the factor in force.
func (m *market) asks(n byte, job fact.JobOpened) nostr.ID {
	m.Helper()
	m.attempts++
	id := nostr.ID{byte(m.attempts), byte(m.attempts >> 8), 1}
	job.Job = guild.JobID{byte(m.attempts), byte(m.attempts >> 8), 1}
	if job.Task == "" {
		job.Task = "python"
	}
	m.append(job, fact.AttemptPlanned{Attempt: id, Job: job.Job, Provider: service(n), Bid: job.Bid,
		Choice: &fact.Choice{Candidates: []fact.Candidate{{Service: service(n), Met: n != newcomer}}}})
	silence := time.Now().Add(limit * time.Duration(m.Timeout(job.Task)) / guild.Micro)
	m.append(fact.AttemptRequested{Attempt: id, Silence: silence.UnixMilli()})
	return id
}

// answers has a provider deliver after a time, and judges the result.
func (m *market) answers(n byte, after time.Duration, score guild.Score) {
	m.Helper()
	id := m.asks(n, fact.JobOpened{Bid: 1000})
	time.Sleep(after)
	m.append(fact.AttemptDelivered{Attempt: id}, fact.AttemptJudged{Attempt: id, Verdict: guild.Verdict{Outcome: guild.Success, Score: score}})
}

// isSilent has a provider let the time pass.
func (m *market) isSilent(n byte, job fact.JobOpened) {
	m.Helper()
	id := m.asks(n, job)
	time.Sleep(limit * time.Duration(m.Timeout("python")) / guild.Micro)
	m.append(fact.AttemptExpired{Attempt: id, Silent: true})
}

// settle waits until every variable has been considered.
func (m *market) settle() {
	time.Sleep(2 * pause)
	synctest.Wait()
}

// changes lists the facts about one variable.
func (m *market) changes(name string) (all []fact.VariableChanged) {
	m.Helper()
	for _, e := range m.Entries() {
		for _, f := range e.Facts {
			if c, ok := f.(fact.VariableChanged); ok && c.Name == name {
				all = append(all, c)
				if e.Subject != fact.VariableSubject(name) || c.Rule == "" || c.Rationale == "" || c.Policy.IsZero() {
					m.Errorf("%s: %+v", e.Subject, c)
				}
			}
		}
	}
	return all
}

// TestTimeoutTable checks section 5.3.2 of the partnership protocol.
func TestTimeoutTable(t *testing.T) {
	answers := func(shares ...guild.Trust) (all []timing) {
		for _, s := range shares {
			all = append(all, timing{Share: s})
		}
		return all
	}
	mute := func(n int) []timing { return slices.Repeat([]timing{{Mute: true}}, n) }
	many := func(n int, share guild.Trust) []timing { return answers(slices.Repeat([]guild.Trust{share}, n)...) }
	for _, c := range []struct {
		name string
		now  guild.Trust
		seen []timing
		want guild.Trust
		rule string
	}{
		{"nothing", 1_000_000, nil, 1_000_000, ""},
		{"9 early completions", 1_000_000, many(9, 100_000), 1_000_000, ""},
		{"10 early completions: -20 %", 1_000_000, many(10, 499_999), 800_000, ruleEarly},
		{"10 at 50 %: not below", 1_000_000, many(10, 500_000), 1_000_000, ""},
		{"not consistent", 1_000_000, slices.Concat(many(9, 100_000), many(1, 600_000), many(9, 100_000)), 1_000_000, ""},
		{"-20 % of what is in force", 800_000, many(10, 100_000), 640_000, ruleEarly},
		{"4 near timeouts", 1_000_000, many(4, 900_000), 1_000_000, ""},
		{"5 near timeouts: +30 %", 1_000_000, slices.Concat(many(4, 800_000), many(3, 600_000), many(1, 1_000_000)), 1_300_000, ruleNear},
		{"5 at just below 80 %", 1_000_000, many(5, 799_999), 1_000_000, ""},
		{"2 timeouts without feedback", 1_000_000, mute(2), 1_000_000, ""},
		{"3 timeouts without feedback: +50 %", 1_000_000, slices.Concat(mute(1), many(2, 100_000), mute(2)), 1_500_000, ruleMute},
		{"two rows at once: the longer patience", 1_000_000, slices.Concat(many(5, 900_000), many(10, 100_000), mute(3)), 1_500_000, ruleMute},
		{"never below a quarter", 262_144, many(10, 0), 250_000, ruleEarly},
		{"not below a quarter again", 250_000, many(10, 0), 250_000, ""},
		{"never above four times", 3_000_000, mute(3), 4_000_000, ruleMute},
		{"at four times an early row still counts", 4_000_000, slices.Concat(mute(3), many(10, 0)), 3_200_000, ruleEarly},
	} {
		if to, rule := adjustTimeout(policy.Specification().Variables, c.now, c.seen); to != c.want || rule != c.rule {
			t.Errorf("%s: %s to %s by %q, want %s by %q", c.name, c.now, to, rule, c.want, c.rule)
		}
	}
}

func TestTimeoutAdapts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, Config{})
		for range 10 {
			m.answers(1, 30*time.Second, 800_000) // 30 % of 100 s
		}
		m.settle()
		if got := m.Timeout("python"); got != 800_000 {
			t.Fatalf("%s, want 0.80 after ten early answers", got)
		}
		if m.Timeout("go") != guild.Micro {
			t.Error("another task is as configured")
		}
		m.answers(1, 30*time.Second, 800_000)
		m.settle()
		if got := m.changes(fact.TimeoutConfig); len(got) != 1 {
			t.Fatalf("an observation counts once: %+v", got)
		}
		for range 5 {
			m.answers(1, 70*time.Second, 800_000) // 87 % of 80 s
		}
		m.settle()
		if got := m.Timeout("python"); got != 1_040_000 { // 0.8 · 1.3
			t.Fatalf("%s, want 1.04 after five answers near the timeout", got)
		}
		if len(m.Alerts()) != 0 {
			t.Errorf("%+v", m.Alerts())
		}
		for range 3 {
			m.isSilent(1, fact.JobOpened{})
		}
		m.settle()
		if got := m.Timeout("python"); got != 1_560_000 { // 1.04 · 1.5
			t.Fatalf("%s, want 1.56 after three timeouts without feedback", got)
		}
		if got := m.Alerts(); len(got) != 1 || got[0].Rule != ruleMute || got[0].Key != "python" || got[0].Name != fact.TimeoutConfig {
			t.Errorf("%+v", got)
		}
	})
}

func TestEarlierTimeoutIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, Config{})
		var early []nostr.ID
		for range 20 {
			early = append(early, m.asks(1, fact.JobOpened{}))
		}
		for _, id := range early[:10] {
			m.append(fact.AttemptDelivered{Attempt: id})
		}
		m.settle()
		for _, id := range early[10:] {
			m.append(fact.AttemptDelivered{Attempt: id})
		}
		m.settle()
		if got := m.Timeout("python"); got != 800_000 || m.inside().Timing.Len() != 0 {
			t.Errorf("%s, want 0.80: the other ten had another limit", got)
		}
	})
}

func TestNoTimeoutEvidence(t *testing.T) {
	for name, life := range map[string]func(m *market){
		"silence of a stranger":  func(m *market) { m.isSilent(newcomer, fact.JobOpened{}) },
		"silence in a benchmark": func(m *market) { m.isSilent(1, fact.JobOpened{Meeting: &fact.Benchmark{}}) },
		"a stranger's quick words in a benchmark": func(m *market) {
			id := m.asks(1, fact.JobOpened{Meeting: &fact.Benchmark{}})
			m.append(fact.AttemptProgressed{Attempt: id, Capacity: &fact.Capacity{}}, fact.AttemptDelivered{Attempt: id},
				fact.AttemptRefused{Attempt: id, Event: nostr.ID{1}})
		},
		"a job's deadline": func(m *market) {
			id := m.asks(1, fact.JobOpened{})
			m.append(fact.AttemptExpired{Attempt: id, Silent: true})
		},
		"an expiry while we heard nothing": func(m *market) {
			id := m.asks(1, fact.JobOpened{})
			time.Sleep(limit)
			m.append(fact.AttemptExpired{Attempt: id})
		},
		"our own cancellation":       func(m *market) { m.append(fact.AttemptCancelled{Attempt: m.asks(1, fact.JobOpened{})}) },
		"a refusal without an event": func(m *market) { m.append(fact.AttemptRefused{Attempt: m.asks(1, fact.JobOpened{})}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMarket(t, Config{})
				for range 12 {
					life(m)
				}
				m.settle()
				if seen := m.inside().Timing.Of("python"); len(seen) != 0 || m.Timeout("python") != guild.Micro {
					t.Errorf("%+v", seen)
				}
				if m.inside().Asked.Len() != 0 || m.inside().Waiting.Len() != 0 || m.inside().Load != (busyness{}) {
					t.Errorf("something is still waited for: %+v", m.inside().Load)
				}
			})
		})
	}
}

func TestTimeoutOfFirstAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		word fact.Fact
		want guild.Trust
	}{
		"processing":          {fact.AttemptProgressed{}, 250_000},
		"a price":             {fact.AttemptQuoted{}, 250_000},
		"a refusal by a word": {fact.AttemptRefused{Event: nostr.ID{1}}, 250_000},
		"the result":          {fact.AttemptDelivered{}, 250_000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMarket(t, Config{})
				id := m.asks(1, fact.JobOpened{})
				time.Sleep(limit / 4)
				m.append(toAttempt(id, c.word))
				time.Sleep(limit)
				m.append(fact.AttemptDelivered{Attempt: id})
				if seen := m.inside().Timing.Of("python"); len(seen) != 1 || seen[0].Share != c.want || seen[0].Limit != limit.Milliseconds() {
					t.Errorf("%+v", seen)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // a relay may confirm a request after the provider has answered it
		m := newMarket(t, Config{})
		m.append(fact.JobOpened{Job: guild.JobID{1}, Task: "go"}, fact.AttemptPlanned{Attempt: nostr.ID{1}, Job: guild.JobID{1}, Provider: service(1)},
			fact.AttemptProgressed{Attempt: nostr.ID{1}}, fact.AttemptRequested{Attempt: nostr.ID{1}}, fact.AttemptDelivered{Attempt: nostr.ID{1}})
		if seen := m.inside().Timing.Of("go"); len(seen) != 1 || seen[0].Share != 0 {
			t.Errorf("%+v", seen)
		}
	})
}

func toAttempt(id nostr.ID, f fact.Fact) fact.Fact {
	v := reflect.New(reflect.TypeOf(f)).Elem()
	v.Set(reflect.ValueOf(f))
	v.FieldByName("Attempt").Set(reflect.ValueOf(id))
	return v.Interface().(fact.Fact)
}

// TestParallelismTable checks section 5.3.3 of the partnership protocol.
func TestParallelismTable(t *testing.T) {
	for _, c := range []struct {
		name string
		now  int
		said fact.Capacity
		want int
		rule string
	}{
		{"a queue of 10 is not above 10", 8, fact.Capacity{Queue: 10}, 8, ""},
		{"a queue of 11: one less", 8, fact.Capacity{Queue: 11}, 7, ruleQueue},
		{"never below one", 1, fact.Capacity{Queue: 99}, 1, ruleQueue},
		{"idle capacity: one more", 8, fact.Capacity{Idle: 1}, 9, ruleIdle},
		{"never above ten", 10, fact.Capacity{Idle: 99}, 10, ruleIdle},
		{"more than ten is configured", 20, fact.Capacity{Idle: 99}, 20, ruleIdle},
		{"a queue and idle capacity", 8, fact.Capacity{Queue: 11, Idle: 5}, 7, ruleQueue},
		{"no queue and nothing idle", 8, fact.Capacity{}, 8, ""},
	} {
		if to, rule := adjustParallelism(policy.Specification().Variables, c.now, c.said); to != c.want || rule != c.rule {
			t.Errorf("%s: %d by %q, want %d by %q", c.name, to, rule, c.want, c.rule)
		}
	}
}

func TestReportedCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, Config{AtOnce: 8})
		says := func(n byte, c *fact.Capacity) {
			id := m.asks(n, fact.JobOpened{})
			m.append(fact.AttemptProgressed{Attempt: id, Capacity: c}, fact.AttemptDelivered{Attempt: id})
		}
		says(1, &fact.Capacity{Queue: 12})
		says(2, &fact.Capacity{Idle: 3})
		says(3, nil)
		m.settle()
		for n, want := range map[byte]int{1: 7, 2: 9} {
			if got, ok := m.Parallelism(service(n).PubKey); got != want || !ok {
				t.Errorf("provider %d: %d, want %d", n, got, want)
			}
		}
		if got, ok := m.Parallelism(service(3).PubKey); ok {
			t.Errorf("nothing said, nothing adjusted: %d", got)
		}
		m.settle()
		if got := m.changes(fact.Parallelism); len(got) != 2 || m.inside().Reports.Len() != 0 {
			t.Fatalf("what was said counts once: %+v", got)
		}
		first, second := m.asks(1, fact.JobOpened{}), m.asks(1, fact.JobOpened{})
		m.append(fact.AttemptProgressed{Attempt: first, Capacity: &fact.Capacity{Queue: 12}}, fact.AttemptDelivered{Attempt: first},
			fact.AttemptProgressed{Attempt: second, Capacity: &fact.Capacity{Queue: 12}}, fact.AttemptDelivered{Attempt: second}) // the latest report counts
		m.settle()
		if got, _ := m.Parallelism(service(1).PubKey); got != 6 {
			t.Errorf("%d, want 6", got)
		}
	})
}

func TestTimeoutCascade(t *testing.T) {
	for _, c := range []struct {
		name  string
		c     Config
		at    []time.Duration // the times at which the providers time out
		same  bool            // it is one provider each time
		want  int
		found bool
	}{
		{"two", Config{Total: 20}, []time.Duration{0, 0}, false, 0, false},
		{"three within a minute", Config{Total: 20}, []time.Duration{0, 30 * time.Second, 59 * time.Second}, false, 10, true},
		{"three, but not within a minute", Config{Total: 20}, []time.Duration{0, 30 * time.Second, 61 * time.Second}, false, 0, false},
		{"one provider, three times", Config{Total: 20}, []time.Duration{0, 1, 2}, true, 0, false},
		{"never below one", Config{Total: 1}, []time.Duration{0, 0, 0}, false, 0, false},
		{"without a limit: half of what was asked", Config{}, []time.Duration{0, 0, 0}, false, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMarket(t, c.c)
				var ids []nostr.ID
				for i := range c.at {
					if c.same {
						i = 0
					}
					ids = append(ids, m.asks(byte(i+1), fact.JobOpened{Task: fmt.Sprint("task ", i)}))
				}
				time.Sleep(limit)
				start := time.Now()
				for i, at := range c.at {
					time.Sleep(at - time.Since(start))
					m.append(fact.AttemptExpired{Attempt: ids[i], Silent: true})
				}
				synctest.Wait() // an emergency does not wait a minute
				if got, ok := m.AtOnce(); got != c.want || ok != c.found {
					t.Fatalf("%d %v, want %d %v", got, ok, c.want, c.found)
				}
				m.settle()
				m.asks(9, fact.JobOpened{}) // later observations must not make the same timeouts count again
				m.settle()
				if got := m.changes(fact.Parallelism); (len(got) == 1) != c.found || c.found && (got[0].Rule != ruleCascade || !got[0].Alert) {
					t.Errorf("%+v", got)
				}
				alerts := slices.DeleteFunc(m.Alerts(), func(a Alert) bool { return a.Name != fact.Parallelism })
				if (len(alerts) == 1) != c.found {
					t.Errorf("%+v", alerts)
				}
			})
		})
	}
}

func TestLowUtilization(t *testing.T) {
	for _, c := range []struct {
		name      string
		total     int
		providers int
		each      int // concurrent requests to each
		want      int
	}{
		{"two of 32 places are used at a time: one more", 4, 4, 1, 5},
		{"nothing is limited", 0, 4, 1, 0},
		{"half of the places is not below half", 4, 1, 8, 0},
		{"the limit is as high as all providers' together", 32, 4, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := NewFold(policy.Specification())
			step, err := New(Config{AtOnce: 8, Total: c.total}, v)
			if err != nil {
				t.Fatal(err)
			}
			apply := func(f fact.Fact) { v.Apply(fact.Entry{Seq: v.inside().Seq + 1, At: 1, Facts: []fact.Fact{f}}) }
			for round := range byte(5) {
				var ids []nostr.ID
				for n := range c.providers * c.each {
					ids = append(ids, nostr.ID{round, byte(n)})
					apply(fact.AttemptPlanned{Attempt: ids[n], Provider: service(byte(n%c.providers + 1))})
					apply(fact.AttemptRequested{Attempt: ids[n]})
				}
				for _, id := range ids {
					apply(fact.AttemptDelivered{Attempt: id})
				}
			}
			for range 2 { // observations count once
				for _, change := range step.parallelism(v.inside()) {
					change.Name, change.Through = fact.Parallelism, v.inside().Seq
					apply(change)
				}
			}
			if got, ok := v.AtOnce(); got != c.want || ok != (c.want != 0) {
				t.Errorf("%d %v, want %d", got, ok, c.want)
			}
		})
	}
}

// TestModelTable checks section 5.3.1 of the partnership protocol.
func TestModelTable(t *testing.T) {
	models := map[byte]string{1: "gpt-4-class", 2: "code-davinci", 3: "anthropic/claude-3-opus", 4: "claude-2", 5: ""}
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, Config{Model: func(s guild.Service) string {
			for n, model := range models {
				if service(n) == s {
					return model
				}
			}
			return ""
		}})
		for range 9 {
			m.answers(1, 0, 900_000)
		}
		m.settle()
		if got := m.Models("python"); len(got) != 0 {
			t.Fatalf("nine verdicts say nothing: %q", got)
		}
		m.answers(1, 0, 900_000)
		m.settle()
		if got := m.Models("python"); !slices.Equal(got, []string{"gpt-4-class"}) {
			t.Fatalf("%q, want the model that does well", got)
		}
		if got := m.Models("go"); len(got) != 0 {
			t.Errorf("for another use: %q", got)
		}
		for range 10 {
			m.answers(2, 0, 960_000)
			m.answers(3, 0, 920_000)
			m.answers(4, 0, 950_000)
			m.answers(5, 0, 1_000_000) // of an unknown model
		}
		m.settle()
		want := []string{"code-davinci", "claude-2", "anthropic/claude-3-opus", "gpt-4-class"}
		if got := m.Models("python"); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := m.Models("go"); !slices.Equal(got, []string{"claude-2"}) {
			t.Errorf("the fallbacks are %q, want the best of the only family that two providers do well with", got)
		}
		for range maxScores {
			m.answers(2, 0, 500_000)
		}
		m.settle()
		if got := m.Models("python"); slices.Contains(got, "code-davinci") {
			t.Errorf("%q: what does badly is not preferred any more", got)
		}
		n := len(m.changes(fact.ModelPreference))
		m.answers(2, 0, 500_000)
		m.settle()
		if got := len(m.changes(fact.ModelPreference)); got != n {
			t.Error("the same is decided again")
		}
	})
}

func TestBadModelName(t *testing.T) {
	for said, want := range map[string]string{
		" gpt-4-class ": "gpt-4-class", "": "", "a model\nof mine": "", "\x00": "", "two words": "", strings.Repeat("x", 101): "", "\xff": "",
	} {
		if got := modelName(said); got != want {
			t.Errorf("%q is read as %q", said, got)
		}
	}
	for model, want := range map[string]string{"claude-3-opus": "claude", "meta/Llama3:8b": "llama", "gpt-4-class": "gpt", "4o": "4o", "x/": ""} {
		if got := familyOf(model); got != want {
			t.Errorf("%q is of the family %q, want %q", model, got, want)
		}
	}
}

func TestVariableOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, Config{AtOnce: 1})
		start := time.Now()
		for range 30 { // for 300 s
			id := m.asks(1, fact.JobOpened{})
			m.append(fact.AttemptProgressed{Attempt: id, Capacity: &fact.Capacity{Idle: 1}}, fact.AttemptDelivered{Attempt: id})
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		if got := len(m.changes(fact.Parallelism)); got > int(time.Since(start)/pause)+1 || got < 4 {
			t.Errorf("%d changes in %s", got, time.Since(start))
		}
	})
}

func TestUnrecordedDecisionIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, Config{})
		f := NewFold(policy.Specification())
		s, err := New(Config{Journal: m.Journal}, f)
		if err != nil {
			t.Fatal(err)
		}
		f.Apply(fact.Entry{Seq: 1, At: 1, Facts: []fact.Fact{fact.JobOpened{Task: "go"}, fact.AttemptPlanned{Provider: service(1)},
			fact.AttemptProgressed{Capacity: &fact.Capacity{Idle: 1}}}})
		now := time.Now()
		for range 3 {
			work := s.Due(now)
			if len(work) != 2 || work[0].Guard != fact.VariableSubject(fact.Parallelism) || work[0].Ready.After(now) {
				t.Fatalf("%+v", work)
			}
			decide, err := work[0].Act(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := decide(&journal.Tx{}); err != nil { // the decision is not recorded, as if the disk were full
				t.Fatal(err)
			}
			now = now.Add(pause)
		}
	})
}

func TestRowsAreRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMarket(t, Config{})
		m.append(fact.VariableChanged{Name: fact.TimeoutConfig, Key: "python", To: fact.Number(1_300_000)},
			fact.VariableChanged{Name: fact.Parallelism, Key: "", To: fact.Number(4)},
			fact.VariableChanged{Name: fact.Parallelism, Key: service(1).PubKey.Hex(), To: fact.Number(3)},
			fact.VariableChanged{Name: fact.CostBudget, Key: "python", To: fact.Number(-500)},
			fact.VariableChanged{Name: fact.ModelPreference, Key: FallbackChain, To: writeNames([]string{"claude", "gpt"})})
		rows := m.Rows()
		if len(rows) != 5 {
			t.Fatalf("%q", rows)
		}
		fresh := newMarket(t, Config{})
		mixed := maps.Clone(rows)
		mixed["trust of somebody"] = []byte(`{}`)
		for range 2 {
			if err := fresh.step.Restore(t.Context(), mixed, "backup"); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(fresh.Rows(), rows) {
			t.Errorf("%q, want %q", fresh.Rows(), rows)
		}
		if n := len(fresh.changes(fact.Parallelism)); n != 2 || fresh.Timeout("python") != 1_300_000 || fresh.Budget("python") != -500 {
			t.Errorf("%d changes", n)
		}
		if got, ok := fresh.AtOnce(); got != 4 || !ok || !slices.Equal(fresh.Models("x"), []string{"claude", "gpt"}) {
			t.Error("the values are not in force")
		}
		for row, raw := range map[string]string{
			rowName(fact.TimeoutConfig, "a"): "0", rowName(fact.Parallelism, "a"): "0",
			rowName(fact.Parallelism, "b"): `"3"`, rowName(fact.ModelPreference, "a"): `["a\nb"]`,
			rowName("PATH", "a"): "1", rowName(fact.CostBudget, strings.Repeat("x", 600)): "1",
		} {
			rows[row] = []byte(raw)
			if err := fresh.step.Restore(t.Context(), rows, "backup"); err == nil {
				t.Errorf("%q = %s is restored", row, raw)
			}
			delete(rows, row)
		}
	})
}

// history draws entries as a journal could hold them.
func history(t *rapid.T) (all []fact.Entry) {
	attempts := rapid.SampledFrom([]fact.Fact{
		fact.AttemptRequested{Silence: 400_000_000}, fact.AttemptProgressed{Silence: 500_000_000, Capacity: &fact.Capacity{Queue: 11}}, fact.AttemptQuoted{},
		fact.AttemptDelivered{}, fact.AttemptExpired{Silent: true}, fact.AttemptRefused{Event: nostr.ID{9}}, fact.AttemptCancelled{}, fact.AttemptParked{},
		fact.AttemptJudged{Verdict: guild.Verdict{Outcome: guild.Success, Score: 900_000}}, fact.AttemptRecorded{},
	})
	names := rapid.SampledFrom([]string{fact.ModelPreference, fact.TimeoutConfig, fact.Parallelism, fact.CostBudget})
	for n := range rapid.IntRange(0, 6).Draw(t, "jobs") {
		id, job, task := nostr.ID{byte(n + 1)}, guild.JobID{byte(n/2 + 1)}, fmt.Sprint("task ", n%2)
		facts := []fact.Fact{fact.JobOpened{Job: job, Task: task, Bid: guild.Msat(n % 2), Class: rapid.SampledFrom([]string{"", "financial"}).Draw(t, "class")},
			fact.BidReserved{Job: job, Turn: n, Task: task, Amount: 100, At: int64(n) * 2_000_000_000},
			fact.AttemptPlanned{Attempt: id, Job: job, Provider: service(byte(n%3 + 1))}}
		for _, f := range rapid.SliceOfN(attempts, 0, 4).Draw(t, "life") {
			facts = append(facts, toAttempt(id, f))
		}
		if rapid.Bool().Draw(t, "freed") {
			facts = append(facts, fact.BidFreed{Job: job, Turn: n, Spent: 50}, fact.JobClosed{Job: job})
		}
		if rapid.Bool().Draw(t, "changed") {
			key := rapid.SampledFrom([]string{"", task, service(1).PubKey.Hex()}).Draw(t, "key")
			facts = append(facts, fact.VariableChanged{Name: names.Draw(t, "name"), Key: key, To: fact.Number(int64(n + 1)),
				Rule: rapid.SampledFrom([]string{ruleFree, ruleCascade}).Draw(t, "rule"), Alert: n%2 == 0, Through: uint64(len(all))})
		}
		for _, f := range facts {
			seq := len(all) + 1
			all = append(all, fact.Entry{Seq: uint64(seq), At: int64(seq) * 50_000_000, Facts: []fact.Fact{f}})
		}
	}
	return all
}

func TestFoldSnapshot(t *testing.T) {
	foldtest.GoesOn(t, func() *Fold { return NewFold(policy.Specification()) }, history, nil)
}

func TestBadSnapshot(t *testing.T) {
	v := NewFold(policy.Specification())
	v.Apply(fact.Entry{Seq: 1, Facts: []fact.Fact{fact.JobOpened{Job: guild.JobID{1}, Task: "python"}}})
	foldtest.Refuses(t, v, append(foldtest.Partial(t, v), `{"values":7}`)...)
}

// The counts of waiting requests and of their providers' limits are updated incrementally. They must equal a new count.
func TestLoad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := NewFold(policy.Specification())
		for _, e := range history(t) {
			v.Apply(e)
			var want busyness
			for _, a := range v.inside().Asked.All() {
				if a.Waits {
					want.Waiting++
				}
			}
			for provider := range v.inside().Waiting.All() {
				if set, ok := v.inside().Values.Get(keyOf(fact.Parallelism, provider)); ok {
					want.Own += set.Number
				} else {
					want.Others++
				}
			}
			if v.inside().Load != want {
				t.Fatalf("%+v, want %+v", v.inside().Load, want)
			}
		}
	})
}
