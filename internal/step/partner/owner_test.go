package partner

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/registry"
	"guild/internal/policy"
)

func TestOwnersOrderHolds(t *testing.T) {
	trouble := []func(nostr.ID) fact.Fact{badly, badly, badly, silent, silent, silent, well, well, well}
	for _, c := range []struct {
		order Order
		want  guild.ProviderState
	}{
		{Suspend, guild.Suspended}, {Force, guild.Active},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, alice := newWorld(t), newProvider(1)
			s := w.partner(1)
			if _, err := w.Set(t.Context(), alice.key, &s.D, c.order, "because"); err != nil {
				t.Fatal(err)
			}
			w.works(s, trouble...)
			w.meets(s, guild.Active, well, well, well)
			w.meets(s, guild.Unqualified, badly, badly, badly)
			w.wantState(s, c.want)
			w.wantCheckup(s, "")
			if last := w.lastTurn(s); last.Signal != fact.SignalOwner || last.Cause != "because" || last.Until != 0 {
				t.Errorf("%+v", last)
			}
			before := w.Journal.Last()
			if _, err := w.Set(t.Context(), alice.key, nil, c.order, "again"); err != nil || w.Journal.Last() != before {
				t.Errorf("an order that changes nothing is recorded: %v", err)
			}
			w.works(s, judged(guild.Violation, 0))
			w.wantState(s, guild.Removed)
		})
	}
}

func TestReinstate(t *testing.T) {
	for _, c := range []struct {
		name  string
		order Order
		then  func(w *world, s guild.Service)
		want  guild.ProviderState
	}{
		{"through a benchmark", Reinstate, func(w *world, s guild.Service) {
			w.wantCheckup(s, guild.PurposeRetry)
			w.meetsFor(guild.PurposeRetry, s, guild.Active, well, well, well)
		}, guild.Active},
		{"the benchmark fails", Reinstate, func(w *world, s guild.Service) {
			w.meetsFor(guild.PurposeRetry, s, guild.Unqualified, badly, badly, badly)
		}, guild.Suspended},
		{"the benchmark teaches nothing and is repeated", Reinstate, func(w *world, s guild.Service) {
			w.meetsFor(guild.PurposeRetry, s, "")
			w.wantCheckup(s, guild.PurposeRetry)
		}, guild.Benchmarking},
		{"by force", Force, func(*world, guild.Service) {}, guild.Active},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				s := w.partner(1)
				w.works(s, badly, badly, badly)
				w.wantState(s, guild.Suspended)
				if _, err := w.Set(t.Context(), s.PubKey, &s.D, c.order, ""); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				c.then(w, s)
				w.wantState(s, c.want)
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // the rules apply again
		w := newWorld(t)
		s := w.partner(1)
		for _, o := range []Order{Force, Reinstate} {
			if _, err := w.Set(t.Context(), s.PubKey, &s.D, o, ""); err != nil {
				t.Fatal(err)
			}
		}
		w.wantState(s, guild.Active)
		w.works(s, badly)
		w.wantState(s, guild.Warned)
	})
}

func TestRemoveAndAllow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, alice := newWorld(t), newProvider(1)
		s, other := w.partner(1), alice.service("other")
		w.works(other, badly)
		set := func(o Order) ([]guild.Service, error) { return w.Set(t.Context(), alice.key, &s.D, o, "rude") }
		if about, err := set(Remove); err != nil || len(about) != 2 {
			t.Fatalf("%v, %v", about, err)
		}
		w.wantState(s, guild.Removed)
		w.wantState(other, guild.Removed)
		w.wantState(alice.service("never heard of"), guild.Removed)
		for _, o := range []Order{Suspend, Reinstate, Force} {
			if _, err := set(o); !errors.Is(err, ErrRemoved) {
				t.Errorf("%s: %v", o, err)
			}
		}
		if _, err := set(Allow); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for _, s := range []guild.Service{s, other} {
			w.wantState(s, guild.Seen) // as if they were new
			if r, _, _ := w.fold.record(registry.IDOf(s)); r.Base != "" || r.Failed != 0 || len(r.Signals) != 0 {
				t.Errorf("%+v", r)
			}
		}
		mallory := newProvider(9)
		if _, err := w.Set(t.Context(), mallory.key, nil, Remove, "spam"); err != nil {
			t.Errorf("remove an unknown key: %v", err)
		}
		w.wantState(mallory.service("x"), guild.Removed)
		if _, err := w.Set(t.Context(), newProvider(8).key, nil, Suspend, ""); !errors.Is(err, ErrNobody) {
			t.Errorf("%v", err)
		}
		if _, err := w.Set(t.Context(), alice.key, nil, "praise", ""); !errors.Is(err, ErrOrder) {
			t.Errorf("%v", err)
		}
	})
}

// TestNotAnnouncedBecomesStale covers the recovery of section 3.3.4: services without an announcement become stale once
// relays have had the time to answer.
func TestNotAnnouncedBecomesStale(t *testing.T) {
	w := newLight(t)
	s, alice := w.partner(1), newProvider(1)
	w.works(s, badly)
	w.sleep(2 * day)
	start := w.now()
	w.c.Hears = func() time.Time { return start }
	w.fold.touchAll()
	w.sleep(time.Minute - time.Millisecond)
	w.wantState(s, guild.Warned)
	w.sleep(time.Millisecond)
	w.wantState(s, guild.Stale)
	w.sleep(50 * day)
	w.sees(alice, python("a"))
	w.wantState(s, guild.Warned) // absence does not clear a warning
	w.sleep(30*day - time.Second)
	w.wantState(s, guild.Warned)
	w.sleep(time.Second)
	w.wantState(s, guild.Stale)
	w.wantCheckup(s, guild.PurposeProbe)
	w.append(fact.MeetingBegan{Meeting: "p", Service: s, Purpose: guild.PurposeProbe})
	w.wantState(s, guild.Stale)
	w.works(s, func(id nostr.ID) fact.Fact { return fact.AttemptProgressed{Attempt: id} })
	w.wantState(s, guild.Warned) // an answered probe ends it
	w.append(fact.MeetingEnded{Meeting: "p", Service: s, To: guild.Active})
	w.wantState(s, guild.Active)
	w.withdraws(s)
	w.sleep(day - time.Second)
	w.wantState(s, guild.Active) // away for nearly a day: it may be restarting
	w.sleep(time.Second)
	w.wantState(s, guild.Stale)
}

func TestSilenceKeepsTheRecord(t *testing.T) {
	for _, c := range []struct {
		name string
		ends []func(nostr.ID) fact.Fact
		want guild.ProviderState
		long guild.ProviderState // after it was archived
	}{
		{"active", nil, guild.Active, guild.Seen},
		{"warned", []func(nostr.ID) fact.Fact{badly}, guild.Warned, guild.Seen},
		{"reduced", []func(nostr.ID) fact.Fact{badly, badly}, guild.Reduced, guild.Seen},
		{"suspended", []func(nostr.ID) fact.Fact{badly, badly, badly}, guild.Suspended, guild.Suspended},
	} {
		for _, away := range []time.Duration{31 * day, 91 * day} {
			w := newLight(t)
			alice, s := newProvider(1), w.partner(1)
			w.sees(alice, python("a"))
			w.works(s, c.ends...)
			w.wantState(s, c.want)
			w.sleep(away)
			want, gone := c.want, guild.Stale
			if away > 90*day {
				want, gone = c.long, guild.Archived
			}
			w.wantState(s, gone)
			w.sees(alice, python("a"))
			w.wantState(s, want)
			if p := w.fold.Provider(s); want == guild.Suspended && p.Until == 0 {
				t.Errorf("%s: suspended without an end", c.name)
			}
		}
	}
}

// By the policy measured, a key that never answers is left alone for twice as long each time, until it does.
func TestSilenceAgainIsLonger(t *testing.T) {
	p, err := policy.Named(policy.Measured)
	if err != nil {
		t.Fatal(err)
	}
	w, s := lightBy(t, p), newProvider(1).service("a")
	for _, days := range []time.Duration{1, 2, 4, 8} {
		w.works(s, silent)
		w.wantState(s, guild.Unresponsive)
		w.sleep(days*day - time.Second)
		w.wantState(s, guild.Unresponsive)
		w.sleep(time.Second)
		w.wantState(s, guild.Seen)
	}
	w.works(s, well, silent)
	w.sleep(day)
	w.wantState(s, guild.Warned)
}

func TestStoryAndNext(t *testing.T) {
	w := newLight(t)
	s := w.partner(1)
	w.works(s, badly, well)
	want := []string{"seen→benchmarking: a meeting began", "benchmarking→active: met", "active→warned: FAILURE", "warned→active: score 0.90"}
	story := w.fold.Story(s)
	if len(story) != len(want) {
		t.Fatalf("%+v", story)
	}
	for i, turn := range story {
		if got := fmt.Sprintf("%s→%s: %s", turn.From, turn.To, turn.Cause); got != want[i] || turn.At == 0 || (turn.Attempt == nostr.ID{}) == (turn.Meeting == "") {
			t.Errorf("%s, want %s: %+v", got, want[i], turn)
		}
	}
	next := w.Next(s)
	if len(next) != 1 || next[0].What != "benchmark ("+guild.PurposeHeartbeat+")" || !next[0].At.Equal(w.now().Add(7*day)) {
		t.Errorf("next: %+v", next)
	}
	w.works(s, silent)
	if next := w.Next(s); len(next) != 1 || next[0].What != "warned: quarantine over" || !next[0].At.Equal(w.now().Add(day)) {
		t.Errorf("next: %+v", next)
	}
	for range 100 {
		w.works(s, badly, well)
	}
	if n := len(w.fold.Story(s)); n > maxTransitions {
		t.Errorf("%d transitions are kept, want at most %d", n, maxTransitions)
	}
}

func TestRestoreRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newLight(t)
		good, warned := old.partner(1), old.partner(2)
		old.works(warned, badly)
		old.works(old.partner(3), badly, badly, badly)
		old.works(old.partner(4), silent)
		old.works(newProvider(5).service("a"), badly)
		old.works(old.partner(6), judged(guild.Violation, 0))
		old.works(newProvider(6).service("another"), well)
		rows := old.fold.Rows()
		if len(rows) != 6 {
			t.Fatalf("%d rows", len(rows))
		}
		rows["trust something"] = json.RawMessage(`{}`)
		w := newWorld(t)
		for range 2 {
			if err := w.Restore(t.Context(), rows, "b1"); err != nil {
				t.Fatal(err)
			}
			delete(rows, "trust something")
			if got := w.fold.Rows(); !maps.EqualFunc(got, rows, func(a, b json.RawMessage) bool { return string(a) == string(b) }) {
				t.Fatalf("restored %s\nwant %s", got, rows)
			}
			if w.Journal.Last() != 6 {
				t.Errorf("%d entries", w.Journal.Last())
			}
		}
		w.wantState(newProvider(6).service("another"), guild.Removed)
		w.works(warned, well)
		w.wantState(warned, guild.Active) // and the rules apply from then on
		w.wantState(good, guild.Active)
		if turn := w.fold.Story(good)[0]; turn.Signal != fact.SignalRestored || turn.Cause != "restored from backup b1" {
			t.Errorf("%+v", turn)
		}
	})
	for _, bad := range []string{``, `null`, `{"state":"great"}`, `{"state":"active","rung":"x"}`, `{"state":"active","failed":-1}`, `[]`} {
		if _, err := parseRow([]byte(bad)); err == nil {
			t.Errorf("%q is accepted as a row", bad)
		}
	}
}

// TestRestoredNotAnnounced covers the recovery of section 3.3.4 on a new machine: restored services are compared with live
// announcements, once relays have had a minute to send them.
func TestRestoredNotAnnounced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := newLight(t)
		gone, stays, byHand, quit := old.partner(1), old.partner(2), old.partner(3), old.partner(4)
		m, _, err := old.fold.order(byHand, Force, "a person")
		if err != nil {
			t.Fatal(err)
		}
		old.append(m)
		w := newWorld(t)
		start := time.Time{}
		w.hears = func() time.Time { return start }
		w.open()
		w.announces(newProvider(4), python(quit.D))
		if err := w.observe(newProvider(4), nostr.Event{Kind: 5, Tags: nostr.Tags{{"a", "31990:" + quit.PubKey.Hex() + ":" + quit.D}}}); err != nil {
			t.Fatal(err)
		}
		if err := w.Restore(t.Context(), old.fold.Rows(), "b1"); err != nil {
			t.Fatal(err)
		}
		w.sleep(time.Hour)
		w.wantState(gone, guild.Active) // no relay has answered, so a missing announcement means nothing
		start = time.Now()
		w.announces(newProvider(2), python(stays.D))
		w.sleep(recheck + time.Second) // until the next look
		w.sleep(time.Minute)
		w.wantState(gone, guild.Stale)
		w.wantState(quit, guild.Stale) // although it was announced a little before the restore
		w.wantState(stays, guild.Active)
		w.wantState(byHand, guild.Active)
		if offers := w.offers("python"); len(offers) != 1 || offers[0].Service != stays {
			t.Errorf("%+v", offers)
		}
		w.announces(newProvider(1), python(gone.D))
		w.works(stays, well)            // the runner looks again with the next fact
		w.wantState(gone, guild.Active) // it was only away
	})
}

func FuzzParseRow(f *testing.F) {
	f.Add([]byte(`{"service":{"pubkey":"` + newProvider(1).key.Hex() + `","d":"a"},"state":"active","base":"active","signals":["rate"]}`))
	f.Add([]byte(`{"state":"seen"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		one, err := parseRow(b)
		if err != nil {
			return
		}
		var r record
		r.restore(fact.ProviderMoved{Row: b, Until: 7 + one.Hours*hourMs}, 7)
		r.Service = one.Service
		if got, err := json.Marshal(r.asRow()); err != nil {
			t.Fatal(err)
		} else if again, err := parseRow(got); err != nil || fmt.Sprint(again) != fmt.Sprint(one) {
			t.Fatalf("%s: %v", got, err)
		}
	})
}

// TestRandomHistories checks for random events in a random order that every decision is in the table of states, that
// decisions come to an end, and that the memory stays bounded. settle of the light world checks the first two.
func TestRandomHistories(t *testing.T) {
	deeds := []func(w *world, s guild.Service){
		func(w *world, s guild.Service) { w.works(s, well) },
		func(w *world, s guild.Service) { w.works(s, parted) },
		func(w *world, s guild.Service) { w.works(s, badly) },
		func(w *world, s guild.Service) { w.works(s, silent) },
		func(w *world, s guild.Service) { w.promised(s) },
		func(w *world, s guild.Service) { w.works(s, judged(guild.Violation, 0)) },
		func(w *world, s guild.Service) { w.append(well(nostr.ID{byte(w.attempts)})) }, // judged again
		func(w *world, s guild.Service) { w.append(badly(nostr.ID{byte(w.attempts)})) },
		func(w *world, s guild.Service) {
			w.append(fact.TrustChanged{Service: s, Suspends: true, Attempt: nostr.ID{250}})
		},
		func(w *world, s guild.Service) { w.sees(newProvider(1), python(s.D)) },
		func(w *world, s guild.Service) {
			w.withdraws(s)
		},
		func(w *world, s guild.Service) { w.sleep(time.Hour) },
		func(w *world, s guild.Service) { w.sleep(day) },
		func(w *world, s guild.Service) { w.sleep(31 * day) },
		func(w *world, s guild.Service) { w.sleep(91 * day) },
	}
	purposes := []string{"", guild.PurposeHeartbeat, guild.PurposeProbe, guild.PurposeReverify, guild.PurposeRetry}
	ends := []guild.ProviderState{"", guild.Active, guild.Conditional, guild.Unqualified}
	orders := []Order{Suspend, Reinstate, Force, Remove, Allow}
	rapid.Check(t, func(rt *rapid.T) {
		w := newLight(t)
		start := w.now()
		if rapid.Bool().Draw(rt, "hears") {
			w.c.Hears = func() time.Time { return start }
		}
		for n := range rapid.IntRange(1, 60).Draw(rt, "deeds") {
			s := newProvider(1).service(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "service"))
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0, 1:
				id := fmt.Sprint("m", n)
				w.append(fact.MeetingBegan{Meeting: id, Service: s, Purpose: rapid.SampledFrom(purposes).Draw(rt, "purpose")})
				rapid.SampledFrom(deeds).Draw(rt, "meanwhile")(w, s)
				w.append(fact.MeetingEnded{Meeting: id, Service: s, To: rapid.SampledFrom(ends).Draw(rt, "to")})
			case 2:
				o := rapid.SampledFrom(orders).Draw(rt, "order")
				m, wanted, err := w.fold.order(s, o, "a person")
				if err == nil && wanted {
					if m.From != m.To && m.From != guild.Removed && !m.From.CanBecome(m.To) && o != Force && o != Suspend {
						rt.Fatalf("%s takes it from %s to %s", o, m.From, m.To)
					}
					w.append(m)
				}
			default:
				rapid.SampledFrom(deeds).Draw(rt, "deed")(w, s)
			}
			w.settle()
		}
		records := w.fold.records()
		for i, r := range records.All() {
			if len(r.Ends) > maxEnds || len(r.Transitions) > maxTransitions || len(r.Pending) > maxPending || len(r.Signals) > maxSignals {
				rt.Fatalf("%s: %+v", i, r)
			}
		}
	})
}
