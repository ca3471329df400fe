package work

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/hand/dm"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/step/steptest"
)

// works makes a delivery to a customer.
func (w *world) works(p person) nostr.ID {
	w.Helper()
	id := w.asks(p, task(w.T, bundle(w.T, fmt.Appendf(nil, "%d", time.Now().UnixNano()))))
	w.pass(time.Second)
	if w.count(id, "request.finished") != 1 {
		w.Fatal("it is not done")
	}
	return id
}

// tells sends a verdict of a person.
func (w *world) tells(p person, id nostr.ID, message byte, outcome guild.Outcome) error {
	w.Helper()
	content, err := dm.Verdict{Request: id, Task: "python", Outcome: outcome, Score: 300_000, Passed: 3, Expected: 10, Verdict: guild.Hash{1},
		Receipt: "r-1", Until: time.Now().Add(24 * time.Hour).Unix(), Text: "it was judged"}.Encode()
	if err != nil {
		w.Fatal(err)
	}
	return w.Judged(w.Context(), dm.Message{From: p.key, ID: nostr.ID{0xe, message}, Content: content})
}

// letters lists the published messages that a person can read, each once.
func (w *world) letters(p person) (all []dm.Message) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.published {
		if e.Kind != nostr.KindGiftWrap {
			continue
		}
		v, err := guild.Verify(e.Event)
		if err != nil {
			w.Fatal(err)
		}
		m, err := dm.Open(w.Context(), p.signer, p.key, v)
		if err != nil {
			w.Fatal(err)
		}
		if !slices.ContainsFunc(all, func(before dm.Message) bool { return before.ID == m.ID }) {
			all = append(all, m)
		}
	}
	return all
}

func TestVerdictIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		id := w.works(customer)
		if err := w.tells(customer, id, 1, guild.Failure); err != nil {
			t.Fatal(err)
		}
		all := w.heard.Latest()
		want := Judgement{Request: id, Customer: customer.key, Task: "python", At: time.Now().UnixMilli(), Outcome: guild.Failure,
			Score: 300_000, Text: "it was judged", Until: time.Now().Add(24 * time.Hour).Unix()}
		if len(all) != 1 || all[0] != want {
			t.Errorf("got  %+v\nwant %+v", all, want)
		}
		w.pass(time.Hour)
		if err := w.tells(customer, id, 2, guild.Success); err != nil {
			t.Fatal(err)
		}
		w.restart()
		all = w.heard.Latest()
		if len(all) != 1 || all[0].Outcome != guild.Success || all[0].Before != guild.Failure {
			t.Errorf("%+v", all)
		}
	})
}

func TestVerdictsThatAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo), Service{Task: "never", Do: (&runs{takes: time.Hour}).do})
		id := w.works(customer)
		r := task(t, bundle(t, []byte("slow")))
		r.Set("job_type", "never")
		going := w.asks(customer, r)
		steptest.WantDrop(t, w.tells(mallory, id, 1, guild.Success), guild.Stranger)
		steptest.WantDrop(t, w.tells(customer, nostr.ID{9}, 1, guild.Success), guild.Unrequested)
		steptest.WantDrop(t, w.tells(customer, going, 1, guild.Success), guild.Unrequested)
		steptest.WantDrop(t, w.Judged(t.Context(), dm.Message{From: customer.key, ID: nostr.ID{1}, Content: "well done"}), guild.Malformed)
		for message := range byte(2) {
			if err := w.tells(customer, id, 1+message, guild.Success); err != nil {
				t.Error(err)
			}
		}
		steptest.WantDrop(t, w.tells(customer, id, 2, guild.Success), guild.Repeated)
		for message := range 50 {
			steptest.WantDrop(t, w.tells(customer, id, byte(3+message), guild.Success), guild.Flood)
		}
		if n := w.count(id, "request.judged"); n != 2 {
			t.Errorf("%d facts", n)
		}
	})
}

func TestObjectionIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		id := w.works(customer)
		if err := w.Object(t.Context(), id, "why"); !errors.Is(err, ErrUnjudged) {
			t.Error(err)
		}
		if err := w.tells(customer, id, 1, guild.Failure); err != nil {
			t.Fatal(err)
		}
		if err := w.Object(t.Context(), id, "the test wants Python 2\x00"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		all := w.letters(customer)
		if len(all) != 1 || all[0].From != us.key || all[0].Reply != (nostr.ID{0xe, 1}) {
			t.Fatalf("%+v", all)
		}
		o, err := dm.DecodeObjection(all[0].Content)
		if err != nil || o != (dm.Objection{Request: id, Reason: "the test wants Python 2"}) {
			t.Errorf("%+v, %v", o, err)
		}
		if w.count(id, "request.objected") != 2 { // intent and effect
			t.Errorf("%v", w.facts(id))
		}
		if err := w.Object(t.Context(), id, "again"); !errors.Is(err, ErrObjected) {
			t.Error(err)
		}
		if j := w.heard.Latest()[0]; j.Objection != "the test wants Python 2" || !j.Sent || j.Failed != "" {
			t.Errorf("%+v", j)
		}
	})
}

func TestRelaysOfObjection(t *testing.T) {
	for name, c := range map[string]struct{ inboxes, want []string }{
		"it says where it reads messages": {[]string{"wss://box.example"}, []string{"wss://box.example"}},
		"it does not":                     {nil, []string{"wss://from.example", "wss://theirs.example"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, python(echo))
			w.inboxes = c.inboxes
			id := w.works(customer)
			if err := w.tells(customer, id, 1, guild.Failure); err != nil {
				t.Fatal(err)
			}
			if err := w.Object(t.Context(), id, "why"); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Second)
			last := w.published[len(w.published)-1]
			if last.Kind != nostr.KindGiftWrap || !slices.Equal(last.relays, c.want) {
				t.Errorf("%s: kind %d to %v", name, last.Kind, last.relays)
			}
		})
	}
}

func TestFinalVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		id := w.works(customer)
		if err := w.tells(customer, id, 1, guild.Failure); err != nil {
			t.Fatal(err)
		}
		w.pass(24 * time.Hour)
		if err := w.Object(t.Context(), id, "why"); !errors.Is(err, ErrFinal) {
			t.Error(err)
		}
		if len(w.letters(customer)) != 0 {
			t.Error("it is sent all the same")
		}
	})
}

func TestUnsentObjectionIsParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, python(echo))
		id := w.works(customer)
		if err := w.tells(customer, id, 1, guild.Failure); err != nil {
			t.Fatal(err)
		}
		w.setDeaf(true)
		if err := w.Object(t.Context(), id, "why"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		if j := w.heard.Latest()[0]; j.Sent || !strings.Contains(j.Failed, "no relay") || len(w.objections()) != 0 {
			t.Errorf("%+v", j)
		}
	})
}

func TestObjectionAfterRestart(t *testing.T) {
	var want []dm.Message
	var id nostr.ID
	live := func(t *testing.T) []fact.Entry {
		w := newWorld(t, python(echo))
		id = w.works(customer)
		if err := w.tells(customer, id, 1, guild.Failure); err != nil {
			t.Fatal(err)
		}
		if err := w.Object(t.Context(), id, "why"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Second)
		if want = w.letters(customer); len(want) != 1 {
			t.Fatalf("%d messages", len(want))
		}
		return w.Entries()
	}
	steptest.KillAtEachEntry(t, 1, live, func(t *testing.T, left, _ []fact.Entry) {
		w := newWorld(t, python(echo))
		w.Stop()
		w.Relive(left)
		facts := 0
		if w.count(id, "request.objected") > 0 {
			facts = 2
		}
		w.restart()
		w.pass(time.Hour)
		for _, m := range w.letters(customer) {
			if m.ID != want[0].ID {
				t.Error("it is another message")
			}
		}
		if n := w.count(id, "request.objected"); n != facts || n > 0 && !w.heard.Latest()[0].Sent {
			t.Errorf("%d facts, want %d", n, facts)
		}
	})
}

func TestInboxList(t *testing.T) {
	ours := []string{"wss://ours.example"}
	for name, c := range map[string]struct {
		ours   []string
		before *nostr.Event
		want   []string // nil if nothing is published
	}{
		"for the first time":              {ours, nil, ours},
		"without relays":                  {nil, nil, nil},
		"three at most":                   {[]string{"wss://a.example", "wss://b.example", "wss://c.example", "wss://d.example"}, nil, []string{"wss://a.example", "wss://b.example", "wss://c.example"}},
		"what names us stays":             {ours, listed("wss://else.example", "wss://OURS.example/"), nil},
		"what a person has elsewhere too": {ours, listed("wss://else.example"), []string{"wss://ours.example", "wss://else.example"}},
		"not what only a machine reaches": {ours, listed("ws://127.0.0.1:7447"), ours},
		"a broken one":                    {ours, &nostr.Event{Tags: nostr.Tags{{"relay"}, {}, {"client", "x"}}}, ours},
	} {
		w := New(Config{Relays: relays{ours: c.ours}}, NewFold())
		var got []string
		if e := w.inboxList(c.before); e != nil {
			got = dm.Relays(*e)
			if e.Kind != 10050 {
				t.Errorf("%s: kind %d", name, e.Kind)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func listed(urls ...string) *nostr.Event {
	e := &nostr.Event{Kind: 10050}
	for _, u := range urls {
		e.Tags = append(e.Tags, nostr.Tag{"relay", u})
	}
	return e
}

// judgementHistory draws entries. Not all make sense.
func judgementHistory(t *rapid.T) (all []fact.Entry) {
	pick := rapid.IntRange(0, 3)
	for seq := range rapid.IntRange(0, 60).Draw(t, "entries") {
		id := nostr.ID{byte(pick.Draw(t, "request"))}
		f := rapid.SampledFrom([]fact.Fact{
			fact.RequestReceived{Request: id, Customer: customer.key, Task: "python", From: "wss://a.example", Relays: []string{"wss://a.example"}},
			fact.RequestFinished{Request: id, Ending: delivered}, fact.RequestFinished{Request: id, Ending: failed},
			fact.RequestCancelled{Request: id}, fact.RequestJudged{Request: id, Message: nostr.ID{byte(seq)}, Outcome: guild.Failure},
			fact.RequestObjected{Request: id, Message: nostr.ID{byte(seq)}, Reason: "why"}, fact.RequestObjected{Request: id, Sent: true},
			fact.EffectParked{Effect: objecting(id.Hex()), Reason: "no relay"},
		}).Draw(t, "fact")
		all = append(all, fact.Entry{Seq: uint64(seq + 1), At: int64(seq), Subject: fact.RequestSubject(id), Facts: []fact.Fact{f}})
	}
	return all
}

func TestJudgementsRestore(t *testing.T) {
	foldtest.GoesOn(t, NewJudgements, judgementHistory, nil)
}

func TestJudgementsRefuseGarbledSnapshot(t *testing.T) {
	f, id := NewJudgements(), nostr.ID{1}
	f.Apply(fact.Entry{Subject: fact.RequestSubject(id), Facts: []fact.Fact{fact.RequestReceived{Request: id}}})
	foldtest.Refuses(t, f)
}

func TestJudgementsAreBounded(t *testing.T) {
	f := NewJudgements()
	for i := range maxDone + 10 {
		id := nostr.ID{byte(i >> 8), byte(i)}
		for _, one := range []fact.Fact{fact.RequestReceived{Request: id}, fact.RequestFinished{Request: id, Ending: delivered}, fact.RequestJudged{Request: id}} {
			f.Apply(fact.Entry{Subject: fact.RequestSubject(id), Facts: []fact.Fact{one}})
		}
	}
	if s := f.Copy(); len(s.Done) != maxDone || s.Open.Len() != maxDone || len(f.Latest()) != maxLatest {
		t.Errorf("%d delivered, %d requests, %d listed", len(s.Done), s.Open.Len(), len(f.Latest()))
	}
}
