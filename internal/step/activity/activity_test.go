package activity

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"pgregory.net/rapid"

	"guild"
	"guild/internal/hand/door"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold/foldtest"
	"guild/internal/journal/journaltest"
	"guild/nook"
)

const ownKey = "npub1ours"

func at(j *journal.Journal, f *Fold, now time.Time) *Step {
	return New(Config{Journal: j, Now: func() time.Time { return now }, Owner: "node", Key: ownKey}, f)
}

func completed(agent, unit string, tokens int64) nook.Event {
	return nook.Event{ID: agent + " " + unit, Type: nook.TypeCompleted, AgentID: agent, WorkUnitID: unit, Tokens: tokens}
}

func TestReportIsRecordedOnce(t *testing.T) {
	dir, f := journaltest.Dir(t), NewFold()
	if err := journal.Init(dir); err != nil {
		t.Fatal(err)
	}
	j := journaltest.Reopen(t, dir, f)
	s := at(j, f, time.Now())
	var all []nook.Event
	for i := range 900 { // several entries
		all = append(all, completed("ada", fmt.Sprint(i), 1000))
	}
	first, err := s.Report(t.Context(), Own, append(all, all[0]))
	if err != nil || first != (Counted{Accepted: len(all), Duplicates: 1}) {
		t.Fatalf("%+v, %v", first, err)
	}
	before, entries := s.Profile(Own), j.Last()
	if again, err := s.Report(t.Context(), Own, all); err != nil || again != (Counted{Duplicates: len(all)}) || j.Last() != entries {
		t.Errorf("again: %+v, %v, %d entries", again, err, j.Last()-entries)
	}
	if before.Sparks != 50*nook.Spark || before.RootIdentity != ownKey || len(before.Agents) != 1 {
		t.Errorf("%s sparks of %s, %d agents", before.Sparks, before.RootIdentity, len(before.Agents))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	restarted := NewFold()
	s = at(journaltest.Reopen(t, dir, restarted), restarted, time.Now())
	if again, err := s.Report(t.Context(), Own, all); err != nil || again != (Counted{Duplicates: len(all)}) {
		t.Errorf("after a restart: %+v, %v", again, err)
	}
	lines, err := s.Lines(t.Context(), Own)
	var sum nook.Sparks
	for _, l := range lines {
		sum += l.Trace.Earned
	}
	if err != nil || len(lines) != len(all) || sum != before.Sparks {
		t.Errorf("%d lines with %s sparks, %v", len(lines), sum, err)
	}
}

// The journal has the only copy of what agents report.
func TestLostReportLeavesTheOthers(t *testing.T) {
	dir, f := journaltest.Dir(t), NewFold()
	if err := journal.Init(dir); err != nil {
		t.Fatal(err)
	}
	j := journaltest.Reopen(t, dir, f)
	s, all := at(j, f, time.Now()), []nook.Event{completed("ada", "1", 1000), completed("ada", "2", 1000), completed("ada", "3", 1000)}
	for i := range all {
		if _, err := s.Report(t.Context(), Own, all[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	journaltest.Lose(t, dir, 2)
	report, err := journal.Repair(t.Context(), journal.Options{Dir: dir, Node: "test", Now: time.Now, NoSync: true})
	if err != nil || !slices.Equal(report.Dropped, []uint64{2}) || !slices.Equal(report.Quarantined, []fact.Subject{fact.ActivitySubject}) {
		t.Fatalf("%+v, %v", report, err)
	}
	f = NewFold()
	j = journaltest.Reopen(t, dir, f)
	s = at(j, f, time.Now())
	if n := f.count(Own); n != 2 {
		t.Errorf("%d reports are left, want 2", n)
	}
	if _, err := s.Report(t.Context(), Own, all); !errors.Is(err, journal.ErrQuarantined) {
		t.Errorf("a report before the release: %v", err)
	} else if why := failureOf(err); why.status != http.StatusConflict || !strings.Contains(why.Hint, "guild journal release activity") {
		t.Errorf("the answer over HTTP: %+v", why)
	}
	if err := j.Release(t.Context(), fact.ActivitySubject); err != nil {
		t.Fatal(err)
	}
	if again, err := s.Report(t.Context(), Own, all); err != nil || again != (Counted{Accepted: 1, Duplicates: 2}) {
		t.Errorf("reported again: %+v, %v", again, err)
	}
}

func TestInvalidReportIsRefusedAsAWhole(t *testing.T) {
	f := NewFold()
	j := journaltest.Open(t, f)
	s := at(j, f, time.Now())
	late := completed("ada", "2", 1)
	late.Timestamp = time.Now().Add(time.Hour).UnixMilli()
	_, err := s.Report(t.Context(), Own, []nook.Event{completed("ada", "1", 1), late})
	if field, ok := errors.AsType[*nook.FieldError](err); !ok || field.Field != "timestamp" || j.Last() != 0 {
		t.Errorf("%v, %d entries", err, j.Last())
	}
	if _, err := s.Report(t.Context(), Own, make([]nook.Event, MaxReport+1)); !errors.Is(err, ErrReport) {
		t.Error(err)
	}
}

func TestHeartbeatsAreNotRecorded(t *testing.T) {
	f, now := NewFold(), time.Now()
	j := journaltest.Open(t, f)
	s := at(j, f, now)
	s.c.Now = func() time.Time { return now }
	working := nook.Event{Type: nook.TypeState, State: "working", AgentID: "ada"}
	if _, err := s.Report(t.Context(), Own, []nook.Event{working}); err != nil {
		t.Fatal(err)
	}
	entries := j.Last()
	for range 6 {
		now = now.Add(4 * time.Minute)
		if _, err := s.Report(t.Context(), Own, []nook.Event{{Type: nook.TypeHeartbeat, AgentID: "ada", Timestamp: now.UnixMilli()}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Profile(Own).Agents[0].Sprite.State; got != nook.Working || j.Last() != entries {
		t.Errorf("%s, %d more entries", got, j.Last()-entries)
	}
	now = now.Add(6 * time.Minute)
	if got := s.Profile(Own).Agents[0].Sprite.State; got != nook.Idle {
		t.Errorf("six minutes later: %s", got)
	}
}

// worked returns the entries of a request that was answered and judged.
func worked(n byte, tokens int64, outcome guild.Outcome) []fact.Entry {
	id := nostr.ID{n}
	facts := []fact.Fact{
		fact.RequestReceived{Request: id, Service: "python"},
		fact.RequestFinished{Request: id, Ending: "delivered", Delivery: guild.Hash{1}, Tokens: tokens},
		fact.RequestJudged{Request: id, Outcome: outcome},
	}
	var entries []fact.Entry
	for i, one := range facts {
		entries = append(entries, fact.Entry{Seq: uint64(n)*3 + uint64(i) + 1, Subject: fact.RequestSubject(id), At: time.Now().UnixMilli(), Facts: []fact.Fact{one}})
	}
	return entries
}

func TestOwnWorkCountsByTheCustomersVerdict(t *testing.T) {
	f := NewFold()
	for _, e := range append(worked(0, 50_000, guild.Success), worked(1, 50_000, guild.Failure)...) {
		f.Apply(e)
	}
	p := at(nil, f, time.Now()).Profile(Own)
	if p.Totals.Lifetime[nook.Judged] != 0+nook.Raw(50_000, 1) || p.Totals.Lifetime[nook.Reported] != 0 {
		t.Errorf("%+v", p.Totals.Lifetime)
	}
	if len(p.Agents) != 1 || p.Agents[0].ID != "python" {
		t.Errorf("%+v", p.Agents)
	}
}

func TestReceiptBindsOwnWorkWheneverItComes(t *testing.T) {
	paid := func(id nostr.ID) fact.Entry {
		return fact.Entry{Subject: fact.RequestSubject(id), At: time.Now().UnixMilli(), Facts: []fact.Fact{fact.RequestPaid{Request: id, Receipt: "r"}}}
	}
	for name, c := range map[string]struct {
		outcome guild.Outcome
		before  bool // the payment comes before the verdict
		want    nook.Level
	}{"paid later": {guild.Success, false, nook.ReceiptBound}, "paid before": {guild.Success, true, nook.ReceiptBound}, "paid and refused": {guild.Failure, false, nook.Judged}} {
		entries := worked(0, 50_000, c.outcome)
		if c.before {
			entries = slices.Insert(entries, 2, paid(nostr.ID{0}))
		}
		f := NewFold()
		for _, e := range append(entries, paid(nostr.ID{0}), paid(nostr.ID{0})) {
			f.Apply(e)
		}
		p := at(nil, f, time.Now()).Profile(Own)
		bounties := 0
		for _, a := range p.Achievements {
			if a.ID == "first_bounty" && a.UnlockedAt != 0 {
				bounties++
			}
		}
		success := c.outcome == guild.Success
		if got := p.Totals.Lifetime[c.want]; (got == nook.Raw(50_000, 1)) != success || (bounties == 1) != success {
			t.Errorf("%s: %v, %d bounties", name, p.Totals.Lifetime, bounties)
		}
	}
}

func TestJobIsBoundByItsReceipt(t *testing.T) {
	dir := journaltest.Dir(t)
	if err := journal.Init(dir); err != nil {
		t.Fatal(err)
	}
	f := NewFold()
	j := journaltest.Reopen(t, dir, f)
	receipt, closed := fact.AttemptRecorded{Receipt: "r"}, func(id guild.JobID) fact.Fact { return fact.JobClosed{Job: id, Ending: guild.JobAccepted} }
	for n, facts := range [][]fact.Fact{{receipt, closed(guild.JobID{0})}, {closed(guild.JobID{1}), receipt}, {closed(guild.JobID{2})}} {
		id := guild.JobID{byte(n)}
		for _, one := range append([]fact.Fact{fact.JobOpened{Job: id}}, facts...) {
			if err := j.Do(t.Context(), fact.JobSubject(id), "", func(tx *journal.Tx) error { tx.Append(one); return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := at(j, f, time.Now())
	lines, err := s.Lines(t.Context(), Own)
	var levels []string
	for _, l := range lines {
		if l.Event.Type == nook.TypeCompleted {
			levels = append(levels, l.Level+" "+l.Trace.Level.String())
		}
	}
	if want := []string{"receipt-bound receipt-bound", "receipt-bound receipt-bound", "judged judged"}; err != nil || !slices.Equal(levels, want) {
		t.Errorf("%q, %v", levels, err)
	}
	files, err := s.Exports(t.Context(), Own)
	if err != nil {
		t.Fatal(err)
	}
	if all, err := nook.DecodeEvents(files["events.json"]); err != nil || len(all) != len(lines) {
		t.Errorf("the export has %d events: %v", len(all), err)
	}
}

func TestReadingDoesNotWrite(t *testing.T) {
	f, now := NewFold(), time.Now()
	s := at(journaltest.Open(t, f), f, now)
	for _, when := range []time.Duration{0, -time.Hour} { // the second out of order
		e := completed("ada", fmt.Sprint(when), 1000)
		e.Timestamp = now.Add(when).UnixMilli()
		if _, err := s.Report(t.Context(), Own, []nook.Event{e}); err != nil {
			t.Fatal(err)
		}
	}
	s.Profile(Own) // completes the computation
	f.View(func(*state) {
		read := make(chan nook.Profile)
		go func() { read <- s.Profile(Own) }()
		if p := <-read; p.Sparks == 0 || len(s.Roots()) != 1 {
			t.Errorf("%+v", p)
		}
	})
	s.Profile("nobody")
	if roots := s.Roots(); len(roots) != 1 {
		t.Errorf("reading makes roots: %q", roots)
	}
}

func TestNoReportTakesThePlaceOfOwnWork(t *testing.T) {
	e := completed("python", "x", 1)
	e.ID = nook.OwnID + nook.TypeCompleted + " x"
	if err := e.Check(); err == nil {
		t.Error("a report can have the id of our own work")
	}
}

func TestRoots(t *testing.T) {
	s := at(nil, NewFold(), time.Now())
	for name, want := range map[string]string{"": Own, ownKey: Own, "team": "team"} {
		if got, err := s.Root(name); err != nil || got != want {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"npub1theirs", strings.Repeat("ab", 32), strings.Repeat("x", 129), "a\nb"} {
		if _, err := s.Root(name); !errors.Is(err, ErrRoot) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestHistoryDecidesHeritageAlone(t *testing.T) {
	f := NewFold()
	j := journaltest.Open(t, f)
	s := at(j, f, time.Now())
	var history []nook.Event
	for day := range 40 {
		for unit := range 12 {
			e := completed("old", fmt.Sprint(day, ".", unit), 10_000)
			e.Timestamp = time.Now().Add(-time.Duration(100-day)*24*time.Hour + time.Duration(unit)*time.Hour).UnixMilli()
			history = append(history, e)
		}
	}
	if err := s.Import(t.Context(), Own, history); err != nil {
		t.Fatal(err)
	}
	p := s.Profile(Own)
	if p.Heritage == nil || p.Heritage.Imported <= 500*nook.Spark || p.Sparks != 0 {
		t.Errorf("%+v, %s sparks", p.Heritage, p.Sparks)
	}
	if err := s.Import(t.Context(), Own, history); !errors.Is(err, nook.ErrHistory) {
		t.Errorf("again: %v", err)
	}
	if err := s.Evolve(t.Context(), Own, "worker"); !errors.Is(err, nook.ErrChoice) {
		t.Errorf("evolve: %v", err)
	}
}

func TestSnapshot(t *testing.T) {
	history := func(t *rapid.T) (all []fact.Entry) {
		clock := time.Now().UnixMilli()
		for seq := range rapid.IntRange(1, 40).Draw(t, "entries") {
			clock += int64(rapid.IntRange(0, 3_600_000).Draw(t, "wait"))
			e := completed(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "agent"), fmt.Sprint(seq), rapid.Int64Range(0, 100_000).Draw(t, "tokens"))
			e.Timestamp = clock - int64(rapid.IntRange(0, 1_000_000).Draw(t, "late"))
			one := fact.Fact(fact.ActivityReported{Root: rapid.SampledFrom([]string{Own, "team"}).Draw(t, "root"), Event: e})
			subject := fact.ActivitySubject
			if rapid.Bool().Draw(t, "request") {
				one, subject = fact.RequestReceived{Request: nostr.ID{byte(seq)}, Service: "python"}, fact.RequestSubject(nostr.ID{byte(seq)})
			}
			all = append(all, fact.Entry{Seq: uint64(seq + 1), Subject: subject, At: clock, Facts: []fact.Fact{one}})
		}
		return all
	}
	foldtest.GoesOn(t, NewFold, history, nil)
}

func TestBadSnapshot(t *testing.T) {
	f := NewFold()
	f.Apply(fact.Entry{Seq: 1, Subject: fact.ActivitySubject, At: 1e12, Facts: []fact.Fact{fact.ActivityReported{Event: completed("a", "1", 1)}}})
	foldtest.Refuses(t, f, append(foldtest.Partial(t, f), `{"accounts": {"": {"version": 99}}, "requests": {}}`)...)
}

func TestHandlerKeepsOthersOut(t *testing.T) {
	f := NewFold()
	s := at(journaltest.Open(t, f), f, time.Now())
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = Handler(s, "secret", door.New(server.Listener.Addr(), nil, nil))
	server.Start()
	defer server.Close()
	const event = `{"type": "agent.started", "agentId": "ada"}`
	claims := signed(t, owner, ownerClaim, time.Now(), nil, ada).String() + "\n" + signed(t, ada, agentProfile, time.Now(), nil, owner).String()
	for name, c := range map[string]struct {
		method, path, token, origin, host, body string
		want                                    int
	}{
		"an event":          {body: event, want: 200},
		"an array":          {body: "[" + event + "," + event + "]", want: 200},
		"no token":          {token: "none", body: event, want: 401},
		"a page":            {origin: "http://page.example", body: event, want: 403},
		"a name of a page":  {host: "page.example", body: event, want: 421},
		"another path":      {path: "/", body: event, want: 404},
		"a reading":         {method: "GET", want: 405},
		"no event":          {body: "{}", want: 400},
		"no JSON":           {body: "[" + event, want: 400},
		"a member too many": {body: `{"type": "agent.started", "agentId": "ada", "sparks": 5}`, want: 400},
		"too many events":   {body: "[" + strings.Repeat(event+",", MaxReport) + event + "]", want: 413},
		"too much":          {body: strings.Repeat(" ", MaxBody+1), want: 413},
		"claims":            {path: "/api/nook/claims", body: claims, want: 200},
		"no claim":          {path: "/api/nook/claims", body: event, want: 400},
		"claims of nothing": {path: "/api/nook/claims", body: "[" + claims, want: 400},
		"claims, no token":  {path: "/api/nook/claims", token: "none", body: claims, want: 401},
		"another's key":     {path: "/api/nook/events?root=npub1theirs", body: event, want: 400},
	} {
		method, path, token := c.method, c.path, c.token
		if method == "" {
			method = "POST"
		}
		if path == "" {
			path = "/api/nook/events"
		}
		if token == "" {
			token = "secret"
		}
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		r.Host = c.host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, resp.StatusCode, c.want)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	for _, seed := range []string{`{"type": "agent.idle", "agentId": "a"}`, `[]`, `[{"type":"agent.heartbeat","agentId":"a","timestamp":1}]`, `[`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		events, err := ParseReport(b)
		for _, e := range events {
			if err == nil && e.Check() != nil {
				t.Errorf("%q has an invalid event", b)
			}
		}
	})
}

func FuzzParseClaims(f *testing.F) {
	for _, seed := range []string{`{"kind": 0, "tags": [["p"]], "sig": "00"}`, `[]`, `[{}]`, `[`, `{}{}`, `null`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		claims, err := ParseClaims(b)
		for _, e := range claims {
			if err == nil && checkClaim(e, time.Now()) == nil {
				t.Errorf("%q is a claim", b)
			}
		}
	})
}
