package review

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/policy"
	"guild/internal/step/steptest"
	"guild/nipreview"
	"guild/receipt"
)

// follows has the owner follow people.
func follows(people ...person) func(*Config) {
	return func(c *Config) {
		for _, p := range people {
			c.Follow = append(c.Follow, p.key)
		}
	}
}

// mustSay is like says, for a review that has to be accepted.
func (w *world) mustSay(p person, r nipreview.Review, at time.Time) nostr.ID {
	w.Helper()
	id, err := w.says(p, r, at)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// trusts has this node trust a key as a provider.
func (w *world) trusts(p person, task string, so guild.Trust) {
	w.Helper()
	w.Write(fact.TrustSubject(task), fact.TrustChanged{Task: task, Service: p.service(), To: so})
}

// TestWeights multiplies the trust in the reviewer by the factor for age and by a half if there is no receipt. With a
// half-life of 90 days: 0.60 · 1 · 0.5 = 0.30; 1 · 0.5 · 0.5 = 0.25 after 90 days; 1 · 0.25 · 0.5 = 0.125 after 180; 1
// · 0.707107 · 0.5 = 0.353553 after 45.
func TestWeights(t *testing.T) {
	for _, c := range []struct {
		name string
		who  person
		old  time.Duration
		want guild.Trust
		why  string
	}{
		{"somebody unknown", newPerson(10), 0, 0, "we do not know the reviewer"},
		{"a provider that we trust", carol, 0, 300_000, "trusted as a provider with 0.60, 0 days old: × 1.00, no receipt that verifies: × 0.50"},
		{"somebody whom we follow", bob, 0, 500_000, "a key that we follow, 0 days old: × 1.00, no receipt that verifies: × 0.50"},
		{"45 days ago", bob, 45 * day, 353_553, "a key that we follow, 45 days old: × 0.71, no receipt that verifies: × 0.50"},
		{"90 days ago", bob, 90 * day, 250_000, "a key that we follow, 90 days old: × 0.50, no receipt that verifies: × 0.50"},
		{"180 days ago", bob, 180 * day, 125_000, "a key that we follow, 180 days old: × 0.25, no receipt that verifies: × 0.50"},
		{"ten years ago", bob, 3650 * day, 0, "a key that we follow, 3650 days old: × 0.00, no receipt that verifies: × 0.50"},
		{"with a clock that is fast", bob, -30 * time.Minute, 500_000, "a key that we follow, 0 days old: × 1.00, no receipt that verifies: × 0.50"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, follows(bob))
				w.trusts(carol, "rust", 600_000)
				w.trusts(carol, python, 100_000)
				w.mustSay(c.who, of(alice, 750_000), time.Now().Add(-c.old))
				got := w.About(alice.key, python)
				if got.Count != 1 || got.Weight != c.want || got.Reviews[0].Weight != c.want || got.Reviews[0].Why != c.why {
					t.Errorf("%+v", got)
				}
				if counts := c.want > 0; (got.Counted == 1) != counts || (got.Stars.String() == "4") != counts {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// Two keys of one owner review each other as often as they like: it is the owner's review of itself.
func TestReviewsOfOneOwnerHaveNoWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) {
			follows(bob, carol)(c)
			c.SameOwner = func(a, b nostr.PubKey) bool { return a == bob.key && b == alice.key }
		})
		w.mustSay(bob, of(alice, guild.Micro), time.Now())
		w.mustSay(carol, of(alice, 400_000), time.Now())
		got := w.About(alice.key, python)
		if got.Count != 2 || got.Counted != 1 || got.Reviews[1].Why != "reviewer and provider have the same owner" || got.Reviews[1].Weight != 0 {
			t.Errorf("%+v", got)
		}
	})
}

func TestHalfLife(t *testing.T) {
	half := policy.Specification().Review.HalfLife
	rapid.Check(t, func(t *rapid.T) {
		age := rapid.Int64Range(0, 40*half).Draw(t, "age")
		want := math.Exp2(-float64(age) / float64(half))
		if got := fade(age, half); math.Abs(got.Float()-want) > 0.001 || got > fade(max(0, age-half/7), half) {
			t.Fatalf("after %d ms %s is left, not %f", age, got, want)
		}
	})
}

// TestWeightedMean combines bob's 5 stars with weight 0.5 and carol's 3 with 0.3: (5·0.5 + 3·0.3)/0.8 = 4.25.
func TestWeightedMean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, follows(bob))
		w.trusts(carol, python, 600_000)
		w.mustSay(newPerson(10), of(alice, 0), time.Now())
		w.mustSay(bob, of(alice, 1_000_000), time.Now())
		c := w.mustSay(carol, of(alice, 500_000), time.Now().Add(-time.Second))
		rust := of(alice, 500_000)
		rust.Task = "Rust"
		w.mustSay(bob, rust, time.Now())
		got := w.About(alice.key, python)
		if got.Stars.String() != "4.25" || got.Trust != 812_500 || got.Count != 3 || got.Counted != 2 || got.Weight != 800_000 ||
			got.Newest != nostr.Timestamp(time.Now().Unix()) || got.Reviews[0].Reviewer != bob.key || got.Reviews[1].ID != c {
			t.Errorf("%+v", got)
		}
		// (5·0.5 + 3·0.3 + 3·0.5)/1.3 = 3.769230
		if all := w.About(alice.key, ""); all.Count != 4 || all.Stars.String() != "3.76923" {
			t.Errorf("%+v", all)
		}
		if got := w.About(alice.key, "rust"); got.Count != 1 {
			t.Errorf("the task in another spelling: %+v", got)
		}
		equal(t, w.Tasks(alice.key), "Rust", "python")
		if got := w.About(bob.key, ""); got.Count != 0 || got.Stars != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestOrderByWeight expects 0.5 without reviews; bob's five stars with a weight of 0.5 give (0.5·1 + 1·0.5)/1.5 =
// 0.666666, his one star (0.5·1 + 0·0.5)/1.5 = 0.333333.
func TestOrderByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, follows(bob))
		w.mustSay(bob, of(alice, 1_000_000), time.Now())
		w.mustSay(bob, of(carol, 0), time.Now())
		other := of(alice, 0)
		other.Task, other.Service = "rust", "another"
		w.mustSay(bob, other, time.Now())
		for _, c := range []struct {
			who  person
			want guild.Trust
		}{{alice, 666_666}, {carol, 333_333}, {newPerson(10), 500_000}} {
			if got := w.Order(c.who.service()); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		}
	})
}

func TestUnknownReviewers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, follows(bob))
		w.mustSay(bob, of(alice, 250_000), time.Now())
		before, order := w.About(alice.key, python), w.Order(alice.service())
		facts := w.Journal.Last()
		for n := range 1000 {
			w.mustSay(newPerson(1000+n), of(alice, 1_000_000), time.Now())
		}
		after := w.About(alice.key, python)
		if after.Count != 1001 || after.Counted != 1 || after.Stars != before.Stars || after.Weight != before.Weight || after.Trust != before.Trust {
			t.Errorf("%+v, was %+v", after, before)
		}
		if len(after.Reviews) != shown || after.Reviews[0] != before.Reviews[0] {
			t.Errorf("%d reviews, %+v", len(after.Reviews), after.Reviews[0])
		}
		if got := w.Order(alice.service()); got != order {
			t.Errorf("the order was %s and is %s", order, got)
		}
		w.Pass(time.Hour)
		if w.fold.Esteem(alice.key) != 0 || w.Journal.Last() != facts {
			t.Error("strangers moved trust, or wrote facts")
		}
		w.wants(0, "")
	})
}

func TestDroppedReviews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, now := newWorld(t, nil), time.Now()
		_, err := w.says(alice, of(alice, 1_000_000), now)
		steptest.WantDrop(t, err, guild.SelfReview)
		_, err = w.says(bob, of(alice, 1_000_000), now.Add(time.Hour+time.Second))
		steptest.WantDrop(t, err, guild.Future)
		_, err = w.hears(bob, nostr.Event{Kind: Kind, CreatedAt: nostr.Timestamp(now.Unix())})
		steptest.WantDrop(t, err, guild.Malformed)
		_, err = w.hears(bob, nostr.Event{Kind: 1985, CreatedAt: nostr.Timestamp(now.Unix())})
		steptest.WantDrop(t, err, guild.Unexpected)
		long := of(alice, 1_000_000)
		long.Summary, long.Recommendation = strings.Repeat("x", 2000), strings.Repeat("y", 2000)
		_, err = w.says(bob, long, now)
		steptest.WantDrop(t, err, guild.TooLarge)
		if _, err = w.says(owner, of(alice, 0), now); err != nil {
			t.Errorf("our own: %v", err)
		}
		if w.known() != 0 {
			t.Errorf("%d reviews are kept", w.known())
		}
		w.mustSay(bob, of(alice, 500_000), now)
		_, err = w.says(bob, of(alice, 400_000), now.Add(-time.Second))
		steptest.WantDrop(t, err, guild.Outdated)
		w.mustSay(bob, of(alice, 500_000), now) // a relay sends it again
		set := of(alice, 500_000)
		set.Kind = KindSet
		w.mustSay(bob, set, now) // the same review as the other kind
		if got := w.About(alice.key, ""); got.Count != 1 {
			t.Errorf("%+v", got)
		}
	})
}

func TestNewestReviewCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, follows(bob))
		w.mustSay(bob, of(alice, 1_000_000), time.Now().Add(-time.Hour))
		r := of(alice, 0)
		r.Summary = "It got worse"
		last := w.mustSay(bob, r, time.Now())
		w.mustSay(carol, of(alice, 500_000), time.Now())
		for range 2 {
			got := w.About(alice.key, python)
			if got.Count != 2 || got.Reviews[0].ID != last || got.Reviews[0].Summary != "It got worse" || got.Stars.String() != "1" {
				t.Errorf("%+v", got)
			}
			w.restart()
		}
		if w.Journal.Last() != 0 {
			t.Error("what strangers wrote became facts")
		}
	})
}

func TestRetractedByAuthor(t *testing.T) {
	for name, names := range map[string]func(id nostr.ID) nostr.Tags{
		"by its id": func(id nostr.ID) nostr.Tags { return nostr.Tags{{"e", id.Hex()}, {"k", "32020"}} },
		"by its address": func(nostr.ID) nostr.Tags {
			return nostr.Tags{{"a", "32020:" + bob.key.Hex() + ":" + alice.key.Hex() + ":python"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, said := newWorld(t, follows(bob)), time.Now()
				r := of(alice, 1_000_000)
				r.Kind = KindSet
				id := w.mustSay(bob, r, said)
				w.Pass(time.Minute)
				deletion := nostr.Event{Kind: KindDeletion, CreatedAt: nostr.Timestamp(time.Now().Unix()), Tags: names(id)}
				if !w.Deletes(nostr.Event{Kind: KindDeletion, PubKey: bob.key, Tags: names(id)}) || !w.Deletes(nostr.Event{Tags: nostr.Tags{{"e", id.Hex()}}}) {
					t.Error("it is not seen to be about a review")
				}
				_, err := w.hears(carol, deletion)
				steptest.WantDrop(t, err, guild.Misdirected)
				if w.known() != 1 {
					t.Fatal("somebody else took it back")
				}
				if _, err := w.hears(bob, deletion); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if w.known() != 0 || w.About(alice.key, "").Count != 0 {
						t.Error("it is still there")
					}
					_, err = w.says(bob, r, said)
					steptest.WantDrop(t, err, guild.Outdated)
					w.restart()
				}
				w.Pass(time.Minute)
				w.mustSay(bob, r, time.Now())
				if w.known() != 1 {
					t.Error("its author cannot say anything any more")
				}
			})
		})
	}
	if r := (&Review{others: newOthers(Config{}, NewFold())}); r.Deletes(nostr.Event{Tags: nostr.Tags{{"e", nostr.ID{1}.Hex()}, {"k", "31990"}, {"a"}}}) {
		t.Error("the deletion of an announcement is taken for one of a review")
	}
}

func TestReviewsOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for n := range mostOfNobody {
			w.mustSay(bob, of(newPerson(100+n), 500_000), time.Now())
		}
		_, err := w.says(bob, of(alice, 500_000), time.Now())
		steptest.WantDrop(t, err, guild.Flood)
		w.mustSay(bob, of(newPerson(100), 600_000), time.Now().Add(time.Second)) // it may replace its own review
		w.trusts(bob, python, 600_000)
		w.mustSay(bob, of(alice, 500_000), time.Now())
	})
}

func TestStrangersGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, follows(bob))
		w.others.limit = 5
		w.mustSay(bob, of(alice, 500_000), time.Now().Add(-day))
		for n := range 4 {
			w.mustSay(newPerson(10+n), of(alice, 500_000), time.Now().Add(time.Duration(n-10)*time.Minute))
		}
		_, err := w.says(newPerson(20), of(alice, 500_000), time.Now().Add(-time.Hour))
		steptest.WantDrop(t, err, guild.Flood) // older than all
		w.mustSay(newPerson(21), of(alice, 500_000), time.Now())
		w.mustSay(bob, of(carol, 500_000), time.Now().Add(-day))
		for range 2 {
			got := w.About(alice.key, "")
			if w.known() != 5 || got.Count != 4 || got.Counted != 1 || got.Reviews[0].Reviewer != bob.key || got.Reviews[1].Reviewer != newPerson(21).key {
				t.Errorf("%d, %+v", w.known(), got)
			}
			w.restart()
		}
	})
}

// proven returns a review of alice's work and the receipt that it names.
func proven(t *testing.T) (nipreview.Review, []byte) {
	t.Helper()
	job, attempt, result := guild.JobID{1}, nostr.ID{2}, nostr.ID{3}
	doc := receipt.Receipt{
		ID: "r-1", SessionID: "s", TrajectoryHash: guild.Sum([]byte("t")), PolicyBundleID: "p", JobHash: guild.Sum([]byte("j")),
		Timestamp: "2026-01-13T10:05:32Z", Task: python, Job: job, Attempt: attempt, RequestEvent: attempt, ResultEvent: result,
		BundleHash: guild.Sum([]byte("b")), DeliveryHash: guild.Sum([]byte("d")), Outcome: guild.Success, VerdictHash: guild.Sum([]byte("v")),
	}
	doc.SetProvider(alice.key)
	raw, err := doc.Encode()
	if err != nil {
		t.Fatal(err)
	}
	r := of(alice, 750_000)
	r.Request = attempt
	r.Evidence = nipreview.Evidence{Receipt: "r-1", ReceiptHash: guild.Sum(raw), VerdictHash: guild.Sum([]byte("v"))}
	return r, raw
}

func TestVerifiedReceipt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*nipreview.Review)
		proves bool
	}{
		"as it is":            {func(*nipreview.Review) {}, true},
		"no request is named": {func(r *nipreview.Review) { r.Request = nostr.ID{} }, true},
		"another request":     {func(r *nipreview.Review) { r.Request = nostr.ID{9} }, false},
		"another provider":    {func(r *nipreview.Review) { r.Subject = carol.key }, false},
		"another task":        {func(r *nipreview.Review) { r.Task = "rust" }, false},
		"another verdict":     {func(r *nipreview.Review) { r.Evidence.VerdictHash = guild.Sum(nil) }, false},
		"no verdict":          {func(r *nipreview.Review) { r.Evidence.VerdictHash = guild.Hash{} }, false},
		"another id":          {func(r *nipreview.Review) { r.Evidence.Receipt = "r-2" }, false},
		"no id":               {func(r *nipreview.Review) { r.Evidence.Receipt = "" }, false},
		"a hash of nothing":   {func(r *nipreview.Review) { r.Evidence.ReceiptHash = guild.Sum(nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, raw := proven(t)
				looked := 0
				w := newWorld(t, func(c *Config) {
					follows(bob)(c)
					c.Receipt = func(context.Context, guild.Hash) ([]byte, error) { looked++; return raw, nil }
				})
				c.change(&r)
				w.mustSay(bob, r, time.Now())
				want := guild.Trust(500_000)
				if c.proves {
					want = 1_000_000
				}
				w.works(carol.service(), 600_000) // anything that changes the journal
				w.Pass(time.Minute)
				for range 2 {
					if got := w.About(r.Subject, ""); got.Reviews[0].Proven != c.proves || got.Weight < want-1_000 || got.Weight > want {
						t.Errorf("%+v", got)
					}
					if c.proves && looked != 1 {
						t.Errorf("looked %d times", looked)
					}
					w.restart()
				}
			})
		})
	}
}

func TestMissingReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := proven(t)
		looked := 0
		w := newWorld(t, func(c *Config) {
			follows(bob)(c)
			c.Receipt = func(context.Context, guild.Hash) ([]byte, error) { looked++; return nil, errors.New("nowhere") }
		})
		w.mustSay(newPerson(10), r, time.Now())
		w.mustSay(bob, r, time.Now())
		w.works(carol.service(), 600_000)
		w.Pass(time.Hour)
		if looked != looks || w.About(alice.key, "").Weight > 500_000 {
			t.Errorf("looked %d times", looked)
		}
	})
}

func BenchmarkOrder(b *testing.B) {
	o := newOthers(Config{Policy: policy.Specification, Now: time.Now}, NewFold())
	for n := range 10_000 {
		reviewer, subject := nostr.PubKey{1, byte(n >> 8), byte(n)}, nostr.PubKey{2, byte(n)}
		said := &opinion{id: nostr.ID{byte(n >> 8), byte(n)}, reviewer: reviewer, subject: subject, at: 1, task: fmt.Sprint(n)}
		if _, _, err := o.put(placeOf(reviewer, subject, said.task), said); err != nil {
			b.Fatal(err)
		}
	}
	r := &Review{c: o.c, others: o}
	for b.Loop() {
		r.Order(guild.Service{PubKey: nostr.PubKey{2, 7}})
	}
}
