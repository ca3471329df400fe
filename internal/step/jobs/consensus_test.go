package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
)

// The table of section 4.1.3 of the partnership protocol.
func TestReplicasAreAskedAtOnce(t *testing.T) {
	for _, c := range []struct {
		level    guild.Criticality
		replicas int
		quorum   int
	}{
		{guild.Low, 1, 1}, {"", 1, 1}, {guild.Medium, 2, 1}, {guild.High, 3, 2}, {guild.Critical, 5, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, people := trusted(t, 7)
			id := w.opens(Order{Criticality: c.level})
			requests := w.sent(5000)
			asked := map[string]bool{}
			for _, r := range requests {
				asked[r.Tags.Find("p")[1]] = true
				if r.at != 0 {
					t.Errorf("%s: a request after %v", c.level, r.at)
				}
			}
			if len(requests) != c.replicas || len(asked) != c.replicas {
				t.Errorf("%s: %d requests to %d providers, want %d", c.level, len(requests), len(asked), c.replicas)
			}
			w.votes(id, people, strings.Repeat("a", c.quorum))
			w.ends(id, guild.JobAccepted)
			if again := len(w.sent(5000)); again != c.replicas {
				t.Errorf("%s: %d requests in all", c.level, again)
			}
			if taken := len(w.sent(5)); taken != c.replicas-c.quorum {
				t.Errorf("%s: %d taken back, want %d", c.level, taken, c.replicas-c.quorum)
			}
		})
	}
}

func TestHowAnswersAddUp(t *testing.T) {
	for _, c := range []struct {
		level  guild.Criticality
		votes  string
		want   guild.Ending
		chosen int // the number of the answer, from 1
		asked  int
		reason string
	}{
		{guild.Low, "-a", guild.JobAccepted, 2, 2, ""},
		{guild.Low, "---", guild.JobRejected, 0, 3, "3 of 3 tries used; the last: rejected"},
		{guild.Medium, "a", guild.JobAccepted, 1, 2, "the first that was accepted"},
		{guild.Medium, "-a", guild.JobAccepted, 2, 3, "the first that was accepted"},
		{guild.Medium, "----", guild.JobRejected, 0, 4, "4 of 4 tries used; the last: rejected"},
		{guild.High, "aa", guild.JobAccepted, 1, 3, "2 of 2 accepted agree"},
		{guild.High, "aba", guild.JobAccepted, 1, 3, "2 of 3 accepted agree"},
		{guild.High, "abb", guild.JobAccepted, 2, 3, "2 of 3 accepted agree"},
		{guild.High, "-aa", guild.JobAccepted, 2, 4, "2 of 2 accepted agree"},
		{guild.High, "abcc", guild.JobAccepted, 3, 4, "2 of 4 accepted agree"},
		{guild.High, "abcde", guild.JobDisagreed, 0, 5, "2 must agree, and of 5 accepted 1 do; 5 of 5 tries used; the last: accepted"},
		{guild.High, "a----", guild.JobDisagreed, 0, 5, "2 must agree, and of 1 accepted 1 do; 5 of 5 tries used; the last: rejected"},
		{guild.High, "----", guild.JobRejected, 0, 5, "5 of 5 tries used; the last: cancelled, taken back"},
		{guild.Critical, "aaa", guild.JobAccepted, 1, 5, "3 of 3 accepted agree"},
		{guild.Critical, "aaba", guild.JobAccepted, 1, 5, "3 of 4 accepted agree"},
		{guild.Critical, "abbab", guild.JobAccepted, 2, 5, "3 of 5 accepted agree"},
		{guild.Critical, "abcdeaa", guild.JobAccepted, 1, 7, "3 of 7 accepted agree"},
		{guild.Critical, "aabbccd", guild.JobDisagreed, 0, 7, ""},
		{guild.Critical, "-----", guild.JobRejected, 0, 7, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, people := trusted(t, 8)
			id := w.opens(Order{Criticality: c.level})
			w.votes(id, people, c.votes)
			name := fmt.Sprintf("%s %s", c.level, c.votes)
			job := w.ends(id, c.want)
			if len(job.Attempts) != c.asked {
				t.Errorf("%s: %d were asked, want %d", name, len(job.Attempts), c.asked)
			}
			if at := job.index(job.Chosen) + 1; at != c.chosen {
				t.Errorf("%s: answer %d was chosen, want %d", name, at, c.chosen)
			}
			if c.reason != "" && job.Reason != c.reason {
				t.Errorf("%s: %q, want %q", name, job.Reason, c.reason)
			}
			for _, a := range job.Attempts {
				if a.State.Waiting() {
					t.Errorf("%s: %.8s is waited for, and the job is over", name, a.ID.Hex())
				}
			}
			if w.pass(2 * time.Hour); w.fold.Open() != 0 {
				t.Errorf("%s: something is still due", name)
			}
		})
	}
}

func TestFewerProvidersThanReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 2)
		id := w.opens(Order{Criticality: guild.High})
		w.wants(id, guild.Requested, guild.Requested)
		w.votes(id, people, "aa")
		if job := w.ends(id, guild.JobAccepted); job.Reason != "2 of 2 accepted agree; 2 instead of 3 were asked: no more could be" {
			t.Error(job.Reason)
		}
		one := w.opens(Order{Criticality: guild.Medium, Providers: nil, Bid: 1})
		w.wants(one, guild.Requested)
		w.votes(one, people, "a")
		if job := w.ends(one, guild.JobAccepted); job.Reason != "the first that was accepted; 1 instead of 2 were asked: no more could be" {
			t.Error(job.Reason)
		}
	})
}

func TestNothingIsAcceptedBelowTheQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 2)
		id := w.opens(Order{Criticality: guild.High})
		w.votes(id, people, "a-")
		job := w.ends(id, guild.JobDisagreed)
		if want := `2 must agree, and of 1 accepted 1 do; rejected; no eligible provider among 2 for the task "python": `; !strings.HasPrefix(job.Reason, want) {
			t.Error(job.Reason)
		}
	})
}

func TestTooFewTrustedProviders(t *testing.T) {
	conditional := func(o guild.Offer) guild.Offer { o.State = guild.Conditional; return o }
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(1), conditional(bob.offers(2)), carol.offers(3), mallory.offers(4))
		w.trust[alice.service()], w.trust[bob.service()], w.trust[carol.service()] = 600_000, 600_000, 499_999
		id := w.opens(Order{Criticality: guild.High})
		w.pass(10*time.Second - time.Millisecond)
		w.ends(id, guild.Open)
		w.pass(time.Millisecond)
		job := w.ends(id, guild.JobUnclaimed)
		const want = `a job of high criticality needs 2 providers that are trusted with it; of 4 who offer the task "python" 1 may be asked: ` +
			`3 are not qualified for this criticality (guild market bench NAME, or a lower --criticality), for example a provider (`
		if !strings.HasPrefix(job.Reason, want) || !strings.HasSuffix(job.Reason, ") is conditional") || len(w.published) != 0 {
			t.Errorf("%s; %d requests", job.Reason, len(w.published))
		}
		for person, want := range map[person]string{bob: "is conditional", carol: "is trusted 0.50 only", mallory: "has not been met"} {
			offer := person.offers(0)
			if person == bob {
				offer = conditional(offer)
			}
			f := w.Jobs.facts("python", offer, time.Now())
			if got := w.explain(job, &f, w.bars(job, &f, time.Now())); !strings.HasSuffix(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		low := w.opens(Order{})
		if a := w.attempt(low); a.Provider.PubKey != alice.key {
			t.Error("the trusted one was not the first")
		}
	})
}

func TestProviderAppearsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 3)
		late := w.offers[2]
		w.offers = w.offers[:1]
		id := w.opens(Order{Criticality: guild.High})
		w.wants(id)
		w.pass(4 * time.Second)
		w.mu.Lock()
		w.offers = append(w.offers, late)
		w.mu.Unlock()
		w.runner.Wake()
		w.pass(0)
		w.wants(id, guild.Requested, guild.Requested)
		w.votes(id, people, "aa")
		w.ends(id, guild.JobAccepted)
	})
}

func TestAViolationOutranksDisagreement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 2)
		id := w.opens(Order{Criticality: guild.High})
		w.votes(id, people, "a")
		a, p, _ := w.waiting(id, people)
		w.delivers(p, a.ID, []byte("evil"))
		w.append(id, fact.AttemptJudged{Attempt: a.ID, Verdict: guild.Verdict{Outcome: guild.Violation}})
		w.ends(id, guild.JobViolated)
	})
}

func TestDeliveryAfterQuorumChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 3)
		id := w.opens(Order{Criticality: guild.High})
		job, _ := w.fold.Job(id)
		first, second, third := job.Attempts[0], job.Attempts[1], job.Attempts[2]
		for i, a := range []Attempt{first, second, third} {
			w.delivers(people[slices.IndexFunc(people, func(p person) bool { return p.key == a.Provider.PubKey })], a.ID,
				made(t, i, map[string]string{"answer.txt": "a"}))
		}
		w.rules(id, first, "a")
		w.ends(id, guild.Open)
		w.rules(id, third, "a")
		w.ends(id, guild.JobAccepted)
		w.wants(id, guild.Accepted, guild.Delivered, guild.Accepted)
		if w.fold.Open() == 0 {
			t.Error("nobody would see to it that the delivery is there for the judge")
		}
		w.rules(id, second, "-")
		if job := w.ends(id, guild.JobAccepted); job.Chosen != first.ID || w.fold.Open() != 0 || len(w.sent(5)) != 0 {
			t.Errorf("%+v", job)
		}
	})
}

// TestPaidDeliveryIsComparedAfterQuorum judges the third of three deliveries when the first two have agreed: its provider is
// paid if it agrees, too.
func TestPaidDeliveryIsComparedAfterQuorum(t *testing.T) {
	for answer, same := range map[string]bool{"a": true, "b": false} {
		synctest.Test(t, func(t *testing.T) { // in which all verdicts come at one time
			w, people := trusted(t, 3)
			id := w.opens(Order{Criticality: guild.High, Settle: &fact.Settlement{How: Escrow, Unit: "test", Most: 600}})
			job, _ := w.fold.Job(id)
			for i, a := range job.Attempts {
				text := "a"
				if i == 2 {
					text = answer
				}
				w.delivers(people[slices.IndexFunc(people, func(p person) bool { return p.key == a.Provider.PubKey })], a.ID,
					made(t, i, map[string]string{"answer.txt": text}))
			}
			for _, a := range job.Attempts {
				w.append(id, fact.AttemptHeld{Attempt: a.ID, Rail: "cashu", Amount: 500_000})
			}
			judged := func(a Attempt) {
				w.append(id, fact.AttemptJudged{Attempt: a.ID, Verdict: guild.Verdict{Outcome: guild.Success, Strength: guild.Unverified, Score: guild.Micro}})
			}
			first, last := job.Attempts[1], job.Attempts[2]
			judged(first)
			judged(job.Attempts[0])
			w.ends(id, guild.JobAccepted)
			judged(last)
			job = w.ends(id, guild.JobAccepted)
			want := last.ID
			if same {
				want = first.ID
			}
			if got := job.Attempts[2].Agrees; got != want || w.fold.Open() != 0 {
				t.Errorf("%q agrees with %.8s, want %.8s; %d jobs are open", answer, got.Hex(), want.Hex(), w.fold.Open())
			}
			if closed := steptest.Facts[fact.JobClosed](w); len(closed) != 1 || closed[0].Agrees != first.ID {
				t.Errorf("%+v, want those who agree with %.8s", closed, first.ID.Hex())
			}
		})
	}
}

func TestCancelTellsAllProviders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 5)
		id := w.opens(Order{Criticality: guild.Critical})
		w.votes(id, people, "a")
		if err := w.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.pass(0)
		w.ends(id, guild.JobCancelled)
		if n := len(w.sent(5)); n != 4 {
			t.Errorf("%d were told", n)
		}
	})
}

func TestLateDeliveryMakesNoQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 3)
		id := w.opens(Order{Criticality: guild.High, Timeout: time.Minute})
		w.votes(id, people, "a")
		a, p, _ := w.waiting(id, people)
		w.pass(2 * time.Minute)
		steptest.WantDrop(t, w.delivers(p, a.ID, made(t, 2, map[string]string{"answer.txt": "a"})), guild.Late)
		if job := w.ends(id, guild.JobDisagreed); job.Reason != "2 must agree, and of 1 accepted 1 do; the deadline passed" {
			t.Error(job.Reason)
		}
	})
}

func TestOrderWithoutQuorumIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := trusted(t, 3)
		for want, o := range map[string]Order{
			"criticality high: 2 must agree, and only 1 are named":                                                                                  {Criticality: guild.High, Providers: []nostr.PubKey{alice.key, alice.key}},
			"criticality critical: 3 must agree, and only 2 may be asked":                                                                           {Criticality: guild.Critical, Tries: 2},
			`criticality "vital": want low, medium, high or critical`:                                                                               {Criticality: "vital"},
			`compare "taste": want hash, json, text, numbers:TOLERANCE or tests`:                                                                    {Compare: "taste"},
			"criticality \"vital\": want low, medium, high or critical\nopen shows everybody what the job is about, and private nobody: choose one": {Criticality: "vital", Open: true, Private: true},
		} {
			o.Kind = 5000
			if _, err := w.Open(t.Context(), o); err == nil || err.Error() != "open a job: "+want {
				t.Errorf("%v\nwant %s", err, want)
			}
		}
	})
}

func TestBundleNamesItsComparer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 3)
		id := w.opens(Order{Criticality: guild.High, Bundle: asking(t, "numbers:0.01")})
		for i, answer := range []string{"pi is 3.14", "pi  is 3.145\n"} {
			a, p, _ := w.waiting(id, people)
			w.delivers(p, a.ID, made(t, i, map[string]string{"answer.txt": answer}))
			w.rules(id, a, "a")
		}
		w.ends(id, guild.JobAccepted)
		if _, err := w.Open(t.Context(), Order{Kind: 5000, Criticality: guild.High, Bundle: asking(t, "taste")}); err == nil {
			t.Error("a bundle may name a comparer that there is not")
		}
	})
}

func TestRepeatedOrderIsOneJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := trusted(t, 1)
		name := guild.JobID{7}
		for range 3 {
			if id := w.opens(Order{ID: name}); id != name {
				t.Errorf("it is job %s", id)
			}
		}
		if n := len(w.sent(5000)); n != 1 {
			t.Errorf("%d requests", n)
		}
		if _, err := w.Open(t.Context(), Order{ID: name, Kind: 5000, Task: "python", Bundle: []byte("another task")}); err == nil {
			t.Error("another order goes by the same name")
		}
	})
}

func TestLostDeliveryAgreesWithNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 5)
		id := w.opens(Order{Criticality: guild.High})
		for i := range 3 {
			a, p, _ := w.waiting(id, people)
			w.delivers(p, a.ID, made(t, i, map[string]string{"answer.txt": fmt.Sprint(min(i, 1))}))
			if a, _, _ = w.fold.Attempt(a.ID); i == 1 {
				w.lose(a.Delivery)
			}
			w.rules(id, a, "a")
		}
		w.ends(id, guild.Open)
		w.votes(id, people, "1")
		w.ends(id, guild.JobAccepted)
	})
}
