package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/blob"
	"guild/internal/control"
	"guild/internal/fact"
	"guild/internal/jobs"
	"guild/internal/journal"
	"guild/internal/journal/journaltest"
	"guild/internal/key"
	"guild/internal/record"
	"guild/internal/registry"
	"guild/internal/sandbox"
	"guild/internal/trust"
	"guild/nip89"
	"guild/nutshell"
)

// desk is a server on a real socket, over a real journal that a test writes to.
type desk struct {
	*testing.T
	*control.Client
	server   *control.Server
	socket   string
	http     *http.Client
	journal  *journal.Journal
	blobs    *blob.Store
	registry *registry.Registry
	jobs     *jobs.Fold
	unboxed  error // why nothing can be judged
}

// alice is a provider.
var alice = guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 2}), D: "python"}

func openDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, jobs: jobs.NewFold()}
	learned, err := trust.NewFold(trust.Default())
	if err != nil {
		t.Fatal(err)
	}
	met, recorded := registry.NewFold(), record.NewFold()
	d.journal = journaltest.Open(t, d.jobs, learned, met, recorded)
	if d.blobs, err = blob.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if d.registry, err = registry.Open(t.Context(), registry.Config{Journal: d.journal, Now: time.Now}, met); err != nil {
		t.Fatal(err)
	}
	d.server = control.NewServer(control.ServerConfig{
		Journal: d.journal, Blobs: d.blobs, Fold: d.jobs, Registry: d.registry, Trust: learned, Record: recorded,
		Jobs:   jobs.New(jobs.Config{Journal: d.journal, Blobs: d.blobs, Now: time.Now}, d.jobs),
		Status: func() control.Status { return control.Status{Version: "v1", Node: "test"} },
		Kind:   guild.KindOf, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Sandbox: func(context.Context) error { return d.unboxed },
	})
	d.listen()
	return d
}

// listen serves on a socket until the test ends.
func (d *desk) listen() {
	d.Helper()
	dir, err := os.MkdirTemp("", "desk") // short enough for a socket
	if err != nil {
		d.Fatal(err)
	}
	d.socket = filepath.Join(dir, "s")
	l, err := control.Listen(d.socket)
	if err != nil {
		d.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.server.Serve(ctx, l) }()
	d.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			d.Errorf("the server ended with: %v", err)
		}
		os.RemoveAll(dir)
	})
	d.Client = control.Dial(d.socket)
	d.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.socket)
	}}}
}

func (d *desk) append(guard fact.Subject, facts ...fact.Fact) {
	d.Helper()
	err := d.journal.Do(d.Context(), guard, "", func(tx *journal.Tx) error { tx.Append(facts...); return nil })
	if err != nil {
		d.Fatal(err)
	}
}

// ask sends a request as it is, and reads the answer.
func (d *desk) ask(method, path string, body io.Reader) (status int, header http.Header, answer []byte) {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), method, "http://node"+path, body)
	if err != nil {
		d.Fatal(err)
	}
	resp, err := d.http.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err = io.ReadAll(resp.Body); err != nil {
		d.Fatal(err)
	}
	return resp.StatusCode, resp.Header, answer
}

// wantProblem wants an answer to be a problem with a code, and with a hint.
func (d *desk) wantProblem(method, path string, body io.Reader, status int, code string) control.Problem {
	d.Helper()
	got, header, answer := d.ask(method, path, body)
	var p control.Problem
	if err := json.Unmarshal(answer, &p); err != nil || got != status || p.Code != code || p.Error == "" || header.Get("Content-Type") != "application/json" {
		d.Errorf("%s %s: %d %s, want %d %s", method, path, got, answer, status, code)
	}
	return p
}

// packed is a request bundle with these fields in its manifest.
func packed(t *testing.T, fields string) []byte {
	t.Helper()
	var b bytes.Buffer
	tree := fstest.MapFS{"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Sort it"}` + fields + `}`)}}
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTheSocketIsItsOwnersAlone(t *testing.T) {
	d := openDesk(t)
	info, err := os.Stat(d.socket)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != os.ModeSocket {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestASocketThatADeadNodeLeftIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	l, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if _, err := control.Listen(filepath.Join(t.TempDir(), "absent", "s")); err == nil {
		t.Error("a socket without a directory")
	}
}

// TestAStrangersConnectionIsClosed connects as another user, which only root can do: the permissions of the
// socket, which keep strangers out before, are opened for it.
func TestAStrangersConnectionIsClosed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("only root can become somebody else; nothing was tried")
		return
	}
	d := openDesk(t)
	if err := errors.Join(os.Chmod(d.socket, 0o666), os.Chmod(filepath.Dir(d.socket), 0o755)); err != nil {
		t.Fatal(err)
	}
	answered := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread of a stranger is not used again
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0)); errno != 0 {
			answered <- errno
			return
		}
		conn, err := net.Dial("unix", d.socket)
		if err != nil {
			answered <- err
			return
		}
		defer conn.Close()
		io.WriteString(conn, "GET /v1/status HTTP/1.1\r\nHost: node\r\n\r\n")
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		if b, err := io.ReadAll(conn); len(b) > 0 {
			answered <- errors.New("a stranger was answered: " + string(b))
		} else if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			answered <- errors.New("the connection stays open")
		}
		answered <- nil
	}()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if _, err := d.Status(t.Context()); err != nil {
		t.Errorf("the owner after the stranger: %v", err)
	}
}

func TestStatusIsWhatTheNodeSays(t *testing.T) {
	d := openDesk(t)
	s, err := d.Status(t.Context())
	if err != nil || s.Version != "v1" || s.Node != "test" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestARouteThatIsNoneIsAProblemToo(t *testing.T) {
	d := openDesk(t)
	for _, c := range [][2]string{{"GET", "/"}, {"GET", "/v2/status"}, {"GET", "/v1/jobs/"}, {"GET", "/v1/jobs/a/b/c"}} {
		d.wantProblem(c[0], c[1], nil, 404, "missing")
	}
	if status, _, _ := d.ask("DELETE", "/v1/status", nil); status < 400 {
		t.Errorf("DELETE: %d", status)
	}
}

func TestHiringOpensAJobOnTheTermsGiven(t *testing.T) {
	d := openDesk(t)
	npub := nip19.EncodeNpub(alice.PubKey)
	other := nostr.GetPublicKey(nostr.SecretKey{31: 3})
	job, err := d.Hire(t.Context(), bytes.NewReader(packed(t, "")), control.Hire{
		Task: "python", Providers: []string{npub, other.Hex()}, Timeout: 90_000, Bid: 21_000, Tries: 5, Private: true, Kind: 5100})
	if err != nil {
		t.Fatal(err)
	}
	id, _ := guild.ParseJobID(job.ID)
	opened, ok := d.jobs.Job(id)
	if !ok || opened.Kind != 5100 || opened.Bid != 21_000 || opened.Tries != 5 || !opened.Private || opened.Deadline-opened.At != 90_000 ||
		!slices.Equal(opened.Providers, []nostr.PubKey{alice.PubKey, other}) {
		t.Errorf("%+v", opened)
	}
	if job.Task != "python" || job.Title != "Sort it" || job.Ending != guild.Open || job.Bundle != opened.Bundle.String() || !d.blobs.Has(opened.Bundle) {
		t.Errorf("%+v", job)
	}
	_, header, _ := d.ask("POST", "/v1/jobs?task=python", bytes.NewReader(packed(t, "")))
	if !strings.HasPrefix(header.Get("Location"), "/v1/jobs/") {
		t.Errorf("location %q", header.Get("Location"))
	}
}

func TestTheTaskIsTheOneAskedForElseTheBundles(t *testing.T) {
	d := openDesk(t)
	for _, c := range []struct {
		query, fields, want string
		kind                int
	}{
		{"?task=cobol", `,"extensions":{"guild":{"task":"python"}}`, "cobol", 5000},
		{"", `,"extensions":{"guild":{"task":"oa.embedding.v1"}},"tags":{"skills_required":["go"]}`, "oa.embedding.v1", 5050},
		{"", `,"tags":{"skills_required":["go","rust"]}`, "go", 5000},
	} {
		status, _, answer := d.ask("POST", "/v1/jobs"+c.query, bytes.NewReader(packed(t, c.fields)))
		var job control.Job
		if err := json.Unmarshal(answer, &job); err != nil || status != 200 || job.Task != c.want {
			t.Errorf("%s: %d %s", c.fields, status, answer)
		}
		id, _ := guild.ParseJobID(job.ID)
		if opened, _ := d.jobs.Job(id); opened.Kind != c.kind {
			t.Errorf("%s has the kind %d", job.Task, opened.Kind)
		}
	}
}

func TestAnOrderThatMakesNoSenseOpensNothing(t *testing.T) {
	d := openDesk(t)
	offCurve := nip19.EncodeNpub(nostr.PubKey(bytes.Repeat([]byte{0xff}, 32)))
	for _, query := range []string{
		"?timeout_ms=soon", "?timeout_ms=-1", "?timeout_ms=9223372036854775807", "?bid_msat=1.5", "?bid_msat=99999999999999999999", "?tries=-1",
		"?tries=1e3", "?tries=1000000000", "?kind=4999", "?kind=6000", "?kind=x", "?provider=alice", "?provider=npub1x", "?provider=" + offCurve,
		"?provider=" + strings.Repeat("f", 64), "?provider=" + strings.Repeat("0", 64), "?task=%ff",
	} {
		if !strings.Contains(query, "task") {
			query += "&task=python"
		}
		d.wantProblem("POST", "/v1/jobs"+query, bytes.NewReader(packed(t, "")), 400, "usage")
	}
	for _, body := range []string{"", "hello", "NUT\x01", "NUT\x02xxxx"} {
		d.wantProblem("POST", "/v1/jobs?task=python", strings.NewReader(body), 400, "usage")
	}
	if p := d.wantProblem("POST", "/v1/jobs", bytes.NewReader(packed(t, "")), 400, "usage"); !strings.Contains(p.Hint, "--task") {
		t.Errorf("hint %q", p.Hint)
	}
	if d.journal.Last() != 0 {
		t.Errorf("%d entries", d.journal.Last())
	}
}

// endless is a body that says how long it is and never ends.
type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	n := min(int64(len(p)), e.left)
	e.left -= n
	if n == 0 {
		return 0, io.EOF
	}
	return int(n), nil
}

func TestABundleOverTheLimitIsRefused(t *testing.T) {
	d := openDesk(t)
	const limit = 64 << 20
	_, err := d.Hire(t.Context(), &endless{limit + 1<<20}, control.Hire{Task: "python"})
	problem, ok := errors.AsType[*control.ProblemError](err)
	if !ok || problem.Problem.Code != "usage" || !strings.Contains(problem.Problem.Error, "too large") {
		t.Errorf("got %v", err)
	}
}

func TestNothingIsHiredWhereNothingCanBeJudged(t *testing.T) {
	d := openDesk(t)
	d.unboxed = &sandbox.UnusableError{Remedy: "install bubblewrap"}
	p := d.wantProblem("POST", "/v1/jobs?task=python", bytes.NewReader(packed(t, "")), 503, "unsandboxed")
	if p.Hint != "install bubblewrap" || d.journal.Last() != 0 {
		t.Errorf("hint %q", p.Hint)
	}
}

func TestAClosedJournalIsAProblemOfTheNode(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	if err := d.journal.Close(); err != nil {
		t.Fatal(err)
	}
	d.wantProblem("POST", "/v1/jobs?task=python", bytes.NewReader(packed(t, "")), 500, "internal")
	d.wantProblem("POST", "/v1/jobs/01/cancel", nil, 500, "internal")
	d.wantProblem("GET", "/v1/journal/1", nil, 500, "internal")
}

// open writes a job as jobs would.
func (d *desk) open(id guild.JobID) {
	d.Helper()
	d.append(fact.JobSubject(id), fact.JobOpened{Job: id, Task: "python", Title: "Sort it", Size: 2048, Tries: 3, Deadline: time.Now().Add(time.Hour).UnixMilli()})
}

func TestAJobIsFoundByAnUnambiguousBeginningOfItsID(t *testing.T) {
	d := openDesk(t)
	first, second := guild.JobID{0xab, 1}, guild.JobID{0xab, 2}
	d.open(first)
	time.Sleep(2 * time.Millisecond) // the wall clock of the journal is in milliseconds
	d.open(second)
	for _, prefix := range []string{"ab01", "AB01", first.String()} {
		if job, err := d.Job(t.Context(), prefix); err != nil || job.ID != first.String() {
			t.Errorf("%s: %s, %v", prefix, job.ID, err)
		}
	}
	for _, path := range []string{"", "/watch"} {
		d.wantProblem("GET", "/v1/jobs/ab"+path, nil, 409, "ambiguous")
		if p := d.wantProblem("GET", "/v1/jobs/cd"+path, nil, 404, "missing"); p.Hint == "" {
			t.Error("no hint")
		}
		d.wantProblem("GET", "/v1/jobs/"+strings.Repeat("f", 4000)+path, nil, 404, "missing")
		d.wantProblem("GET", "/v1/jobs/%2e%2e%2fab"+path, nil, 404, "missing")
	}
	all, err := d.Jobs(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != second.String() {
		t.Errorf("the newest is not first: %+v, %v", all, err)
	}
}

func TestCancelIsAFactOnce(t *testing.T) {
	d := openDesk(t)
	id := guild.JobID{1}
	d.open(id)
	for range 2 {
		if _, err := d.Cancel(t.Context(), "01"); err != nil {
			t.Fatal(err)
		}
	}
	if job, _ := d.jobs.Job(id); !job.Cancelled || d.journal.Last() != 2 {
		t.Errorf("%+v at entry %d", job, d.journal.Last())
	}
	d.wantProblem("POST", "/v1/jobs/02/cancel", nil, 404, "missing")
}

// life writes the life of a job from its first attempt to its end, an entry for each step, and calls after
// each of them.
func (d *desk) life(id guild.JobID, after func()) (attempt nostr.ID) {
	d.Helper()
	attempt = nostr.ID{id[0], 1}
	request := nostr.Event{ID: attempt, PubKey: alice.PubKey}
	for _, f := range []fact.Fact{
		fact.AttemptPlanned{Attempt: attempt, Job: id, Provider: alice, Request: request, Unmet: true},
		fact.AttemptRequested{Attempt: attempt, Relays: []string{"wss://a"}},
		fact.AttemptProgressed{Attempt: attempt, Status: "partial", Text: "half way"},
		fact.AttemptDelivered{Attempt: attempt, Size: 3 << 20, LatencyMs: 1500},
		fact.AttemptJudged{Attempt: attempt, Verdict: guild.Verdict{Outcome: guild.Success, Score: guild.Micro, Passed: 3, Expected: 3, Strength: guild.Strong, Tier: "bubblewrap"}},
		fact.JobClosed{Job: id, Ending: guild.JobAccepted},
		fact.AttemptRecorded{Attempt: attempt, Receipt: "r-" + id.String()[:4], Stored: d.put(`{"a":1}`), Replay: d.put("{}\n")},
	} {
		d.append(fact.JobSubject(id), f)
		after()
	}
	d.append(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: alice, To: 600_000, First: true, Job: id, Attempt: attempt})
	after()
	return attempt
}

func (d *desk) put(text string) guild.Hash {
	d.Helper()
	h, err := d.blobs.PutBytes(d.Context(), []byte(text))
	if err != nil {
		d.Fatal(err)
	}
	return h
}

// lifeTold is what a person hears of life.
var lifeTold = []string{
	"bundle done 2.0 KB, ", `discover done `, "request done asked ", "work progress half way", "work done delivery 3.0 MB, 1.5s after the request",
	"judge done SUCCESS: 3 of 3 passed, score 1.00, strong, bubblewrap", "record progress the job is accepted", "record done receipt r-0100",
	"trust done ", "trust done the job is accepted",
}

func (d *desk) wantTold(updates []control.Update) {
	d.Helper()
	if len(updates) != len(lifeTold) {
		d.Fatalf("%d updates, want %d: %+v", len(updates), len(lifeTold), updates)
	}
	for i, u := range updates {
		if text := u.Step + " " + u.State + " " + u.Text; !strings.HasPrefix(text, lifeTold[i]) {
			d.Errorf("update %d: %q, want %q", i, text, lifeTold[i])
		}
		if !slices.Contains(control.Steps[:], u.Step) || u.Job != (guild.JobID{1}).String() || i > 0 && u.Seq < updates[i-1].Seq {
			d.Errorf("update %d: %+v", i, u)
		}
	}
	last := updates[len(updates)-1]
	if last.Event != "ended" || last.Ended == nil || last.Ended.Ending != guild.JobAccepted || *last.Ended.Attempts[0].TrustTo != 0.6 || last.Ended.Attempts[0].TrustFrom != nil {
		d.Errorf("the last: %+v", last)
	}
}

// watch reads the updates of a job to their end.
func (d *desk) watch(prefix string) (all []control.Update) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 20*time.Second)
	defer cancel()
	for u, err := range d.Watch(ctx, prefix) {
		if err != nil {
			d.Errorf("watch: %v", err)
			return all
		}
		all = append(all, u)
	}
	return all
}

func TestALateWatcherHearsEverythingFromTheStart(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	d.open(guild.JobID{2})
	d.life(guild.JobID{1}, func() { d.append(fact.JobSubject(guild.JobID{2}), fact.EffectSettled{Effect: "x"}) })
	d.wantTold(d.watch("01"))
	d.append(fact.JobSubject(guild.JobID{1}), fact.EffectSettled{Effect: "the deletion is published later"})
	d.wantTold(d.watch("01"))
}

func TestAWatcherHearsEachThingAsItHappens(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	heard := make(chan control.Update)
	go func() {
		defer close(heard)
		for u, err := range d.Watch(t.Context(), "01") {
			if err != nil {
				t.Errorf("watch: %v", err)
				return
			}
			heard <- u
		}
	}()
	updates := []control.Update{<-heard}
	d.life(guild.JobID{1}, func() { updates = append(updates, <-heard) }) // one for each, before the next
	updates = append(updates, <-heard)
	if _, more := <-heard; more {
		t.Error("there is more after the end")
	}
	d.wantTold(updates)
}

func TestAJobThatEndedWithoutAnyAttemptEndsItsStream(t *testing.T) {
	d := openDesk(t)
	id := guild.JobID{1}
	d.open(id)
	d.append(fact.JobSubject(id), fact.JobClosed{Job: id, Ending: guild.JobUnclaimed, Reason: "nobody offers it"})
	updates := d.watch("01")
	if n := len(updates); n != 3 || updates[1].Text != "nobody offers it" || updates[2].State != "failed" {
		t.Errorf("%+v", updates)
	}
}

func TestAJobThatIsArchivedIsOverForItsWatcher(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	d.life(guild.JobID{1}, func() {})
	time.Sleep(2 * time.Millisecond)
	between := time.Now()
	time.Sleep(2 * time.Millisecond)
	d.open(guild.JobID{2})
	if _, err := d.journal.Archive(t.Context(), between, nil); err != nil {
		t.Fatal(err)
	}
	updates := d.watch("01")
	if len(updates) != 1 || updates[0].Event != "ended" || updates[0].Ended.Ending != guild.JobAccepted {
		t.Errorf("%+v", updates)
	}
}

func TestAWatcherThatLeavesIsCountedNoLonger(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	ctx, cancel := context.WithCancel(t.Context())
	next := make(chan control.Update)
	go func() {
		defer close(next)
		for u := range d.Watch(ctx, "01") {
			next <- u
		}
	}()
	<-next
	if n := d.server.Clients(); n != 1 {
		t.Errorf("%d clients", n)
	}
	cancel()
	for range next {
	}
	for late := time.After(10 * time.Second); d.server.Clients() != 0; {
		select {
		case <-late:
			t.Fatal("it is still counted")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestReceiptsAndTrajectoriesComeAsTheyAreStored(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	d.wantProblem("GET", "/v1/receipts/01", nil, 404, "missing")
	d.wantProblem("GET", "/v1/receipts/r-0100", nil, 404, "missing")
	d.wantProblem("GET", "/v1/replays/01", nil, 404, "missing")
	d.life(guild.JobID{1}, func() {})
	for _, id := range []string{"r-0100", "r-01", "01"} {
		if got, err := d.Receipt(t.Context(), id); err != nil || string(got) != `{"a":1}` {
			t.Errorf("%s: %s, %v", id, got, err)
		}
	}
	if got, err := d.Replay(t.Context(), "01"); err != nil || string(got) != "{}\n" {
		t.Errorf("%s, %v", got, err)
	}
	d.wantProblem("GET", "/v1/receipts/02", nil, 404, "missing")
	d.wantProblem("GET", "/v1/receipts/r-x", nil, 404, "missing")
	d.wantProblem("GET", "/v1/replays/02", nil, 404, "missing")
	d.open(guild.JobID{3})
	d.append(fact.JobSubject(guild.JobID{3}), fact.AttemptPlanned{Attempt: nostr.ID{3}, Job: guild.JobID{3}, Provider: alice, Request: nostr.Event{PubKey: alice.PubKey}},
		fact.AttemptRecorded{Attempt: nostr.ID{3}, Receipt: "r-lost", Stored: guild.Hash{1}})
	d.wantProblem("GET", "/v1/receipts/03", nil, 500, "internal")
}

func TestTheJournalIsListedFromASequenceOrATimeOn(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	d.open(guild.JobID{2})
	d.append(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: alice})
	past, future := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for _, c := range []struct {
		query string
		want  []uint64
	}{
		{"", []uint64{1, 2, 3}}, {"?since=2", []uint64{2, 3}}, {"?since=9", nil}, {"?since=1h", []uint64{1, 2, 3}}, {"?since=0s", nil},
		{"?since=" + past.UTC().Format(time.RFC3339), []uint64{1, 2, 3}}, {"?since=" + future.UTC().Format(time.RFC3339), nil},
		{"?subject=job.", []uint64{1, 2}}, {"?subject=job.02", []uint64{2}}, {"?subject=trust&since=1", []uint64{3}}, {"?subject=x", nil},
	} {
		status, header, answer := d.ask("GET", "/v1/journal"+c.query, nil)
		var got []uint64
		for line := range bytes.Lines(answer) {
			var r control.Record
			if err := json.Unmarshal(line, &r); err != nil || len(r.Entry) < 10 || r.Subject == "" {
				t.Errorf("%s: %s, %v", c.query, line, err)
			}
			got = append(got, r.Seq)
		}
		if status != 200 || header.Get("Content-Type") != "application/x-ndjson" || !slices.Equal(got, c.want) && c.query != "?since=0s" {
			t.Errorf("%s: %d %v, want %v", c.query, status, got, c.want)
		}
	}
	for _, query := range []string{"?since=yesterday", "?since=-1", "?since=99999999999999999999", "?since=" + strings.Repeat("x", 4000)} {
		if p := d.wantProblem("GET", "/v1/journal"+query, nil, 400, "usage"); p.Hint == "" || len(p.Error) > 200 {
			t.Errorf("%+v", p)
		}
	}
}

func TestOneEntryIsShownByItsSequence(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	r, err := d.Record(t.Context(), 1)
	var entry fact.Entry
	if err != nil || r.Subject != string(fact.JobSubject(guild.JobID{1})) || json.Unmarshal(r.Entry, &entry) != nil || entry.Facts[0].Type() != "job.opened" {
		t.Errorf("%+v, %v", r, err)
	}
	d.wantProblem("GET", "/v1/journal/2", nil, 404, "missing")
	d.wantProblem("GET", "/v1/journal/0", nil, 400, "usage")
	d.wantProblem("GET", "/v1/journal/x", nil, 400, "usage")
	d.wantProblem("GET", "/v1/journal/-1", nil, 400, "usage")
	d.wantProblem("GET", "/v1/journal/99999999999999999999", nil, 400, "usage")
}

func TestProvidersAreShownWithHowWeStand(t *testing.T) {
	d := openDesk(t)
	if all, err := d.Providers(t.Context(), ""); err != nil || all == nil || len(all) != 0 {
		t.Errorf("none: %v, %v", all, err)
	}
	h := nip89.Handler{D: "python", Name: "Alice", Kinds: []int{5000}, Tasks: []string{"python"}}
	e := h.Event()
	e.CreatedAt = nostr.Timestamp(time.Now().Unix())
	v, err := guild.Sign(t.Context(), key.NewSigner(key.NewSecret(nostr.SecretKey{31: 2})), e)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.registry.Observe(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	d.append(fact.ProviderSubject(alice.PubKey), fact.ProviderMoved{Service: alice, To: guild.Warned, Until: 7})
	d.append(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: alice, To: 600_000, First: true})
	for _, task := range []string{"", "python"} {
		all, err := d.Providers(t.Context(), task)
		if err != nil || len(all) != 1 {
			t.Fatalf("%q: %+v, %v", task, all, err)
		}
		p := all[0]
		if p.Name != "Alice" || p.PubKey != alice.PubKey.Hex() || p.Npub != nip19.EncodeNpub(alice.PubKey) || p.State != "warned" || p.Until != 7 || p.Trust["python"] != 0.6 {
			t.Errorf("%+v", p)
		}
	}
	if all, err := d.Providers(t.Context(), "cobol"); err != nil || len(all) != 0 {
		t.Errorf("cobol: %v, %v", all, err)
	}
}

func TestWhatWasTurnedDownIsShownWithItsReason(t *testing.T) {
	d := openDesk(t)
	for _, reason := range []string{"stranger", "late"} {
		raw, _ := json.Marshal(control.Dropped{From: "wss://a", Event: "{}"})
		if err := d.journal.Reject(t.Context(), reason, raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.journal.Reject(t.Context(), "junk", []byte("no json")); err != nil {
		t.Fatal(err)
	}
	all, err := d.Rejected(t.Context())
	if err != nil || len(all) != 2 || all[0].Reason != "stranger" || all[1].Reason != "late" || all[1].From != "wss://a" || all[1].At == 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestANodeThatIsOnlyLookedAtDoesNothing(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	learned, err := trust.NewFold(trust.Default())
	if err != nil {
		t.Fatal(err)
	}
	inspected := control.NewServer(control.ServerConfig{Journal: d.journal, Blobs: d.blobs, Fold: d.jobs, Registry: d.registry,
		Trust: learned, Record: record.NewFold(), Kind: guild.KindOf, Now: time.Now})
	client, hangUp := control.InProcess(t.Context(), inspected)
	defer hangUp()
	if all, err := client.Jobs(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := client.Cancel(t.Context(), "01"); err == nil {
		t.Error("it cancelled a job")
	}
	if _, err := client.Hire(t.Context(), bytes.NewReader(packed(t, "")), control.Hire{Task: "python"}); err == nil {
		t.Error("it hired")
	}
}
