package control_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
	"guild/internal/policy"
	"guild/internal/step/backup"
	"guild/nip89"
)

// wrong is a request that is refused.
type wrong struct {
	what, path, body string
	status           int
	code             string
}

// refuses checks that every request is refused as described, and that none leaves an entry.
func (d *desk) refuses(all []wrong) {
	d.Helper()
	before := d.journal.Last()
	for _, c := range all {
		if p := d.wantProblem("POST", c.path, strings.NewReader(c.body), c.status, c.code); p.Code != c.code {
			d.Errorf("%s: code %q, want %q", c.what, p.Code, c.code)
		}
	}
	if d.journal.Last() != before {
		d.Errorf("%d entries were written", d.journal.Last()-before)
	}
}

// bodies lists bodies that every route for JSON refuses.
func bodies(path string) []wrong {
	return []wrong{
		{"nothing", path, "", 400, "usage"},
		{"no JSON", path, "hello", 400, "usage"},
		{"a list", path, "[]", 400, "usage"},
		{"something that nobody knows", path, `{"surprise":1}`, 400, "usage"},
		{"two values", path, `{}{}`, 400, "usage"},
		{"more than anybody has to say", path, `{"reason":"` + strings.Repeat("x", 64<<10) + `"}`, 400, "usage"},
	}
}

// twoProviders announces bob's only service and two of carol's.
func (d *desk) twoProviders() (bob, carol nostr.PubKey) {
	d.Helper()
	bob = d.announces(3, nip89.Handler{D: "Tests", Kinds: []int{5000}, Tasks: []string{"python"}})
	carol = d.announces(4, nip89.Handler{D: "one", Kinds: []int{5000}, Tasks: []string{"python"}})
	d.announces(4, nip89.Handler{D: "two", Kinds: []int{5000}, Tasks: []string{"python"}})
	return bob, carol
}

func TestWhatCannotBeSetIsRefused(t *testing.T) {
	d := openDesk(t)
	bob, carol := d.twoProviders()
	bobs, carols := "/v1/trust/"+bob.Hex(), "/v1/trust/"+carol.Hex()
	d.refuses(append(bodies(bobs), []wrong{
		{"no reason", bobs, `{"task":"python","trust":0.5}`, 400, "usage"},
		{"no task", bobs, `{"trust":0.5,"reason":"x"}`, 400, "usage"},
		{"above the ceiling", bobs, `{"task":"python","trust":0.95,"reason":"x"}`, 400, "usage"},
		{"below the floor", bobs, `{"task":"python","trust":0,"reason":"x"}`, 400, "usage"},
		{"no share", bobs, `{"task":"python","trust":1e300,"reason":"x"}`, 400, "usage"},
		{"a task without end", bobs, `{"task":"` + strings.Repeat("t", 1000) + `","trust":0.5,"reason":"x"}`, 400, "usage"},
		{"trust and a state", bobs, `{"task":"python","trust":0.5,"state":"removed","reason":"x"}`, 400, "usage"},
		{"neither", bobs, `{"reason":"x"}`, 400, "usage"},
		{"a state that nobody sets", bobs, `{"state":"active","reason":"x"}`, 400, "usage"},
		{"force for what needs none", bobs, `{"state":"suspended","force":true,"reason":"x"}`, 400, "usage"},
		{"no key", "/v1/trust/nobody", `{"task":"python","trust":0.5,"reason":"x"}`, 400, "usage"},
		{"the start of a key", "/v1/trust/" + nip19.EncodeNpub(bob)[:12], `{"task":"python","trust":0.5,"reason":"x"}`, 400, "usage"},
		{"a stranger", "/v1/trust/" + alice.PubKey.Hex(), `{"task":"python","trust":0.5,"reason":"x"}`, 404, "missing"},
		{"a stranger's state", "/v1/trust/" + alice.PubKey.Hex(), `{"state":"suspended","reason":"x"}`, 404, "missing"},
		{"one of two services", carols, `{"task":"python","trust":0.5,"reason":"x"}`, 409, "ambiguous"},
		{"none of two services", carols, `{"d":"three","task":"python","trust":0.5,"reason":"x"}`, 404, "missing"},
	}...))
}

func TestAPersonSetsTrust(t *testing.T) {
	d := openDesk(t)
	bob, carol := d.twoProviders()
	empty, err := control.Trust.Call(t.Context(), d.Client)
	if err != nil || len(empty.Entries) != 0 {
		t.Fatalf("%+v, %v", empty, err)
	}
	set := func(key nostr.PubKey, d2 string, value float64) control.Standing {
		t.Helper()
		how := control.SetTrust{Task: "python", Trust: &value, Reason: "audited by hand"}
		if d2 != "" {
			how.D = &d2
		}
		all, err := control.ChangeTrust.Call(t.Context(), d.Client, how, key.Hex())
		if err != nil || len(all) != 1 || len(all[0].Trust) != 1 || math.Abs(all[0].Trust[0].Trust-value) > 1e-9 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0]
	}
	if s := set(bob, "", 0.7); s.D != "tests" || s.State != "seen" || s.Name != "" {
		t.Errorf("%+v", s)
	}
	if s := set(carol, "TWO", 0.9); s.D != "two" { // as it is spelled elsewhere
		t.Errorf("%+v", s)
	}
	m, err := control.Trust.Call(t.Context(), d.Client, "python")
	if err != nil || len(m.Entries) != 2 || m.Entries[0].Trust != 0.9 || m.Entries[1].Trust != 0.7 || m.Hash == empty.Hash || m.Policy != policy.Partnership {
		t.Errorf("%+v, %v", m, err)
	}
	if other, err := control.Trust.Call(t.Context(), d.Client, "go"); err != nil || len(other.Entries) != 0 || other.Hash != m.Hash {
		t.Errorf("%+v, %v", other, err)
	}
	if all, err := control.Standings.Call(t.Context(), d.Client, nip19.EncodeNpub(carol)[:12]); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	if all, err := control.Standings.Call(t.Context(), d.Client, carol.Hex(), "One"); err != nil || len(all) != 1 || all[0].D != "one" || len(all[0].Trust) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	for path, status := range map[string]int{"nobody": 400, alice.PubKey.Hex(): 404, carol.Hex() + "?d=three": 404} {
		d.wantProblem("GET", "/v1/trust/"+path, nil, status, map[int]string{400: "usage", 404: "missing"}[status])
	}
}

func TestAPersonSetsAState(t *testing.T) {
	d := openDesk(t)
	bob, _ := d.twoProviders()
	for _, c := range []struct {
		state   string
		force   bool
		want    guild.ProviderState
		refused string // how the error ends
	}{
		{"suspended", false, guild.Suspended, ""},
		{"reinstated", false, guild.Benchmarking, ""},
		{"reinstated", true, guild.Active, ""},
		{"removed", false, guild.Removed, ""},
		{"suspended", false, "", "the key is removed: allow it first"},
		{"allowed", false, guild.Seen, ""},
	} {
		all, err := control.ChangeTrust.Call(t.Context(), d.Client, control.SetTrust{State: c.state, Force: c.force, Reason: "because of " + c.state}, bob.Hex())
		if c.refused != "" {
			problem, ok := errors.AsType[*control.ProblemError](err)
			if !ok || problem.Problem.Code != "refused" || problem.Status != 409 || problem.Problem.Hint == "" || !strings.HasSuffix(problem.Problem.Error, c.refused) {
				t.Errorf("%s: %v", c.state, err)
			}
			continue
		}
		if err != nil || len(all) != 1 || all[0].State != string(c.want) || all[0].Cause != "because of "+c.state {
			t.Errorf("%s, forced %v: %+v, %v", c.state, c.force, all, err)
		}
	}
}

func TestTrustIsRolledBack(t *testing.T) {
	d := openDesk(t)
	bob, _ := d.twoProviders()
	service := guild.Service{PubKey: bob, D: "tests"}
	set := func(value float64) {
		t.Helper()
		if _, err := control.ChangeTrust.Call(t.Context(), d.Client, control.SetTrust{Task: "python", Trust: &value, Reason: "x"}, bob.Hex()); err != nil {
			t.Fatal(err)
		}
	}
	set(0.7)
	first := time.Now().UnixMilli()
	nextMillisecond()
	set(0.3)
	d.refuses(append(bodies("/v1/trust/rollback"), []wrong{
		{"a time to come", "/v1/trust/rollback", fmt.Sprintf(`{"to":%d}`, time.Now().Add(time.Hour).UnixMilli()), 400, "usage"},
		{"a time before everything", "/v1/trust/rollback", `{"to":1}`, 400, "usage"},
	}...))
	for _, c := range []struct {
		task    string
		entries int
		want    guild.Trust
	}{{"go", 0, 300_000}, {"python", 1, 700_000}, {"", 0, 700_000}} {
		got, err := control.RollBack.Call(t.Context(), d.Client, control.Rollback{To: first, Task: c.task})
		now, _ := d.stopped.Trust.Trust("python", service)
		if err != nil || got.Entries != c.entries || got.Hash != d.stopped.Trust.Hash().String() || now != c.want {
			t.Errorf("%q: %+v, trust %s, %v", c.task, got, now, err)
		}
	}
}

func TestTrustIsExchanged(t *testing.T) {
	here, there := openDesk(t), openDesk(t)
	bob, _ := here.twoProviders()
	value := 0.55
	if _, err := control.ChangeTrust.Call(t.Context(), here.Client, control.SetTrust{Task: "python", Trust: &value, Reason: "x"}, bob.Hex()); err != nil {
		t.Fatal(err)
	}
	document, err := control.ExportTrust.Call(t.Context(), here.Client)
	if err != nil {
		t.Fatal(err)
	}
	npub := nip19.EncodeNpub(nostr.GetPublicKey(nostr.SecretKey{31: 9}))
	change, err := control.ImportTrust.Call(t.Context(), here.Client, bytes.NewReader(document), npub)
	if err != nil || change.Entries != 0 || len(change.Skipped) != 0 || change.Guild != npub || change.Signed == 0 {
		t.Errorf("its own: %+v, %v", change, err)
	}
	here.wantProblem("POST", "/v1/trust/import", bytes.NewReader(document), 409, "refused") // imported before
	there.wantProblem("POST", "/v1/trust/import", bytes.NewReader(bytes.Replace(document, []byte("550000"), []byte("900000"), 1)), 409, "refused")
	there.wantProblem("POST", "/v1/trust/import?from="+bob.Hex(), bytes.NewReader(document), 409, "refused")
	there.wantProblem("POST", "/v1/trust/import?from=bob", bytes.NewReader(document), 400, "usage")
	for _, body := range []string{"", "hello", "{}", `{"version":99}`} {
		there.wantProblem("POST", "/v1/trust/import", strings.NewReader(body), 400, "usage")
	}
	if there.journal.Last() != 0 {
		t.Errorf("%d entries", there.journal.Last())
	}
}

func TestThePolicyInForceIsShown(t *testing.T) {
	d := openDesk(t)
	document, err := control.Policy.Call(t.Context(), d.Client)
	want, _ := policy.Specification().Hash()
	if p, broken := policy.Decode(document); err != nil || broken != nil {
		t.Errorf("%v, %v", err, broken)
	} else if got, _ := p.Hash(); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

func TestStoryIsInOrder(t *testing.T) {
	d := openDesk(t)
	bob, carol := d.twoProviders()
	bobs, carols := guild.Service{PubKey: bob, D: "tests"}, guild.Service{PubKey: carol, D: "one"}
	d.append(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: bobs, To: 600_000, First: true, Reason: "its benchmarks", Rationale: "score 0.85"},
		fact.TrustChanged{Task: "python", Service: carols, To: 600_000, First: true, Reason: "its benchmarks"})
	d.append(fact.ProviderSubject(bob), fact.ProviderMoved{Service: bobs, From: guild.Seen, To: guild.Active, Cause: "3 successes in a row"})
	d.append(fact.TrustSubject("go"), fact.TrustChanged{Task: "go", Service: bobs, From: 600_000, To: 500_000, Rule: fact.RuleOwner, Reason: "audited"})
	d.append(fact.MeetingSubject, fact.MeetingBegan{Meeting: "m", Service: bobs, Task: "python", Purpose: guild.PurposeHeartbeat})
	d.append(fact.ReviewSubject("python", bobs), fact.ReviewHeld{Service: bobs, Task: "python", By: "owner", Reason: "they object"})
	d.append(fact.VariableSubject(fact.Parallelism), fact.VariableChanged{Name: fact.Parallelism, Key: bob.Hex(), To: []byte("2"), Rationale: "its queue is long"},
		fact.VariableChanged{Name: fact.Parallelism, Key: carol.Hex(), To: []byte("1")})

	for task, want := range map[string][]string{
		"": {"trusted 0.60 for the first time: its benchmarks", "seen → active: 3 successes in a row", "trust 0.60 → 0.50 (owner): audited",
			"its weekly benchmark began", "reviews of it are held by the owner: they object", fact.Parallelism + " is 2 now: its queue is long"},
		"go": {"seen → active: 3 successes in a row", "trust 0.60 → 0.50 (owner): audited", fact.Parallelism + " is 2 now: its queue is long"},
	} {
		story, err := control.Story.Call(t.Context(), d.Client, nip19.EncodeNpub(bob)[:12], task)
		var got []string
		for _, c := range story {
			got = append(got, c.Text)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", task, got, err)
		}
	}
	story, err := control.Story.Call(t.Context(), d.Client, bob.Hex())
	if err != nil || *story[0].To != 0.6 || story[0].From != nil || story[0].Rationale != "score 0.85" || *story[2].From != 0.6 || story[1].State != "active" {
		t.Errorf("%+v, %v", story, err)
	}
	d.wantProblem("GET", "/v1/providers/nobody/story", nil, 400, "usage")
	if none, err := control.Story.Call(t.Context(), d.Client, alice.PubKey.Hex()); err != nil || len(none) != 0 {
		t.Errorf("of a stranger: %+v, %v", none, err)
	}
}

func TestReviewsAreSteered(t *testing.T) {
	d := openDesk(t)
	bob, carol := d.twoProviders()
	bobs, carols := "/v1/reviews/"+bob.Hex(), "/v1/reviews/"+carol.Hex()
	d.refuses(append(bodies(bobs+"/hold"), []wrong{
		{"invalid act", bobs + "/praise", `{"task":"python"}`, 404, "missing"},
		{"no task, and none is known", bobs + "/publish", `{}`, 409, "ambiguous"},
		{"nothing is known", bobs + "/publish", `{"task":"python"}`, 404, "missing"},
		{"nothing is public", bobs + "/retract", `{"task":"python"}`, 404, "missing"},
		{"no id", bobs + "/retract", `{"task":"python","id":"x"}`, 400, "usage"},
		{"not ours", bobs + "/retract", `{"task":"python","id":"` + strings.Repeat("ab", 32) + `"}`, 404, "missing"},
		{"one of two services", carols + "/hold", `{"task":"python"}`, 409, "ambiguous"},
		{"none of two services", carols + "/hold", `{"task":"python","d":"three"}`, 404, "missing"},
		{"no key", "/v1/reviews/nobody/hold", `{"task":"python"}`, 400, "usage"},
	}...))
	for _, act := range []string{"hold", "resume"} {
		if _, err := control.ChangeReview.Call(t.Context(), d.Client, control.ReviewAct{Task: "python", Reason: "they object"}, bob.Hex(), act); err != nil {
			t.Errorf("%s: %v", act, err)
		}
	}
	if d.journal.Last() != 2 {
		t.Errorf("%d entries, want one of each", d.journal.Last())
	}
	cards, err := control.ReviewCards.Call(t.Context(), d.Client, nip19.EncodeNpub(carol)[:12], "python")
	if err != nil || len(cards) != 2 || len(cards[0].Others) != 1 || cards[0].Others[0].Count != 0 || cards[0].D != "one" || len(cards[1].Others) != 0 {
		t.Errorf("%+v, %v", cards, err)
	}
	d.wantProblem("GET", "/v1/reviews/"+alice.PubKey.Hex(), nil, 404, "missing")
	d.wantProblem("GET", "/v1/reviews/nobody", nil, 400, "usage")
	if all, err := control.Reviews.Call(t.Context(), d.Client, "python"); err != nil || len(all) > 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestWhyABackupIsNotMade(t *testing.T) {
	d := openDesk(t)
	bob, _ := d.twoProviders()
	d.wantProblem("POST", "/v1/backups", nil, 404, "missing") // there is nothing to be kept
	value := 0.7
	if _, err := control.ChangeTrust.Call(t.Context(), d.Client, control.SetTrust{Task: "python", Trust: &value, Reason: "x"}, bob.Hex()); err != nil {
		t.Fatal(err)
	}
	p := d.wantProblem("POST", "/v1/backups", nil, 502, "unsaved")
	if p.Hint == "" || !strings.Contains(p.Error, "no Blossom server") {
		t.Errorf("%+v", p)
	}
}

func TestWhyABackupIsNotRestored(t *testing.T) {
	d := openDesk(t)
	if all, err := control.Backups.Call(t.Context(), d.Client); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	d.refuses(bodies("/v1/backups/restore"))
	for err, want := range map[error]string{
		backup.ErrNotEmpty:     "409 refused",
		backup.ErrNewer:        "409 refused",
		backup.ErrRestoring:    "409 refused",
		backup.ErrNone:         "404 missing",
		backup.ErrGone:         "404 missing",
		errors.New("no relay"): "502 unrestored",
	} {
		d.restore = func(bool) (backup.Report, int, error) { return backup.Report{}, 0, fmt.Errorf("restore: %w", err) }
		_, got := control.RestoreBackup.Call(t.Context(), d.Client, control.Restore{Force: false})
		problem, ok := errors.AsType[*control.ProblemError](got)
		if !ok || fmt.Sprint(problem.Status, " ", problem.Problem.Code) != want {
			t.Errorf("%v: %+v, want %s", err, problem, want)
		}
	}
	d.restore = func(force bool) (backup.Report, int, error) {
		return backup.Report{Backup: "b1", Services: 3, Unclaimed: 1}, 7, map[bool]error{false: errors.New("it was not forced")}[force]
	}
	if r, err := control.RestoreBackup.Call(t.Context(), d.Client, control.Restore{Force: true}); err != nil || r.Backup != "b1" || r.Services != 3 || r.Unclaimed != 1 || r.Messages != 7 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCustomersAreScored(t *testing.T) {
	d := openDesk(t)
	request := nostr.ID{1}
	d.append(fact.RequestSubject(request), fact.RequestReceived{Request: request, Customer: alice.PubKey, Task: "python", Service: "python"})
	all, err := control.Customers.Call(t.Context(), d.Client)
	if err != nil || len(all) != 1 || all[0].Npub != nip19.EncodeNpub(alice.PubKey) || all[0].Score != 0.5 || all[0].Asked != 1 || all[0].PubKey != alice.PubKey.Hex() {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestStoppedNodeShowsTrust reads the directory of a stopped node.
func TestStoppedNodeShowsTrust(t *testing.T) {
	d := openDesk(t)
	bob, _ := d.twoProviders()
	value := 0.7
	if _, err := control.ChangeTrust.Call(t.Context(), d.Client, control.SetTrust{Task: "python", Trust: &value, Reason: "x"}, bob.Hex()); err != nil {
		t.Fatal(err)
	}
	last := d.journal.Last()
	client, hangUp := control.InProcess(t.Context(), control.NewServer(d.stopped))
	defer hangUp()
	ctx := t.Context()
	for what, ask := range map[string]func() (int, error){
		"trust":     func() (int, error) { m, err := control.Trust.Call(ctx, client); return len(m.Entries), err },
		"standings": func() (int, error) { all, err := control.Standings.Call(ctx, client, bob.Hex()); return len(all), err },
		"story":     func() (int, error) { all, err := control.Story.Call(ctx, client, bob.Hex()); return len(all), err },
		"policy":    func() (int, error) { b, err := control.Policy.Call(ctx, client); return min(len(b), 1), err },
	} {
		if n, err := ask(); err != nil || n != 1 {
			t.Errorf("%s: %d, %v", what, n, err)
		}
	}
	for what, ask := range map[string]func() error{
		"set trust": func() error {
			_, err := control.ChangeTrust.Call(ctx, client, control.SetTrust{Task: "python", Trust: &value, Reason: "x"}, bob.Hex())
			return err
		},
		"roll back": func() error { _, err := control.RollBack.Call(ctx, client, control.Rollback{To: 1}); return err },
		"import":    func() error { _, err := control.ImportTrust.Call(ctx, client, strings.NewReader("{}")); return err },
		"review": func() error {
			_, err := control.ChangeReview.Call(ctx, client, control.ReviewAct{Task: "python"}, bob.Hex(), "hold")
			return err
		},
		"back up": func() error { _, err := control.MakeBackup.Call(ctx, client); return err },
		"restore": func() error {
			_, err := control.RestoreBackup.Call(ctx, client, control.Restore{Force: true})
			return err
		},
	} {
		if err := ask(); err == nil {
			t.Errorf("a stopped node does this: %s", what)
		}
	}
	if d.journal.Last() != last {
		t.Errorf("%d entries were written", d.journal.Last()-last)
	}
}
