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
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sys/unix"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/blob"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/market/registry"
	"guild/internal/market/route"
	"guild/internal/policy"
	"guild/internal/step/backup"
	"guild/internal/step/jobs"
	"guild/internal/step/judge"
	"guild/internal/step/partner"
	"guild/internal/step/record"
	"guild/internal/step/review"
	"guild/internal/step/trust"
	"guild/internal/step/trust/exchange"
	"guild/internal/step/trust/variables"
	"guild/internal/step/work"
	"guild/nip89"
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
	offline  string

	recommend func(ctx context.Context, kind int, r nip89.Recommended) (nostr.ID, int, error)
	restore   func(force bool) (backup.Report, int, error)
	stopped   control.ServerConfig // what there is to see of the node while it does not run
}

// alice is a provider.
var alice = guild.Service{PubKey: nostr.GetPublicKey(nostr.SecretKey{31: 2}), D: "python"}

// offered is a jobs.Market that only knows the offers.
type offered struct{ *registry.Registry }

func (offered) Provider(s guild.Service) guild.Provider {
	return guild.Provider{Service: s, State: guild.Seen}
}

func (offered) Measured(guild.Service, time.Time) route.Measured { return route.Measured{} }

func openDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{T: t, jobs: jobs.NewFold()}
	learned, err := trust.NewFold(policy.Specification())
	if err != nil {
		t.Fatal(err)
	}
	met, recorded, judging := partner.NewFold(policy.Specification()), record.NewFold(), judge.NewFold()
	values, told, customers := variables.NewFold(policy.Specification()), exchange.NewFold(policy.Specification()), work.NewCustomers(policy.Specification())
	reviewed, saved := review.NewFold(), backup.NewFold(policy.Specification().Backup)
	d.journal = journaltest.Open(t, d.jobs, learned, met, recorded, judging, values, told, customers, reviewed, saved)
	if d.blobs, err = blob.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if d.registry, err = registry.Open(t.Context(), registry.Config{Journal: d.journal, Now: time.Now}, met); err != nil {
		t.Fatal(err)
	}
	partners := partner.New(partner.Config{Journal: d.journal, Now: time.Now, Latest: d.registry.Latest, Services: d.registry.Services}, met)
	own := key.NewSecret(nostr.SecretKey{31: 9})
	told.Become(own.PubKey())
	d.stopped = control.ServerConfig{
		Journal: d.journal, Blobs: d.blobs, Now: time.Now, Policy: policy.Specification(), Node: deskNode{d}, Log: slog.New(slog.DiscardHandler),
		Parts: control.Parts{
			Fold: d.jobs, Registry: d.registry, Partners: partners, Observed: partner.NewObserved(), Trust: learned, Record: recorded, Judging: judging,
			Variables: values, Providers: met, Customers: customers, Backups: saved,
		},
	}
	c := d.stopped
	c.Judge, c.PubKey = judge.NewStep(judge.StepConfig{Blobs: d.blobs}, judging), "ab"
	c.Jobs = jobs.New(jobs.Config{
		Journal: d.journal, Blobs: d.blobs, Now: time.Now, Market: offered{d.registry}, Trust: learned.Trust,
	}, d.jobs)
	c.Exchange = exchange.New(exchange.Config{Journal: d.journal, Signer: key.NewSigner(own), Now: time.Now}, told)
	c.Learn = trust.New(trust.Config{Journal: d.journal, Now: time.Now}, learned)
	c.Review, err = review.Open(t.Context(), review.Config{
		Journal: d.journal, Keyer: key.NewSigner(own), PubKey: own.PubKey(), Now: time.Now, Policy: policy.Specification,
		Relays: func() []string { return nil }, Offer: d.registry.Offer,
	}, reviewed)
	if err != nil {
		t.Fatal(err)
	}
	c.Backup = backup.New(backup.Config{
		Journal: d.journal, Keyer: key.NewSigner(own), PubKey: own.PubKey(), Now: time.Now, Policy: policy.Specification().Backup,
		Parts: []backup.Part{{Name: "trust", Rows: learned.Rows}},
		Upload: func(context.Context, []byte) ([]string, error) {
			return nil, errors.New("no Blossom server is configured")
		},
	}, saved)
	d.server = control.NewServer(c)
	d.listen()
	return d
}

// deskNode is the node of a desk.
type deskNode struct{ d *desk }

func (n deskNode) Offline() string                       { return n.d.offline }
func (deskNode) Pending(fact.Subject) string             { return "" }
func (deskNode) Status() control.Status                  { return control.Status{Version: "v1", Node: "test"} }
func (deskNode) Kind(task string) int                    { return guild.KindOf(task) }
func (deskNode) Class(string) string                     { return "" }
func (n deskNode) Matrix() (guild.Hash, error)           { return n.d.stopped.Trust.Hash(), nil }
func (n deskNode) Sandbox(context.Context) error         { return n.d.unboxed }
func (deskNode) Judgeable(context.Context, []byte) error { return nil }
func (deskNode) Recipient() (string, error)              { return ownRecipient, nil }
func (deskNode) Seek(context.Context, []nostr.PubKey)    {}

func (n deskNode) Recommend(ctx context.Context, kind int, r nip89.Recommended) (nostr.ID, int, error) {
	return n.d.recommend(ctx, kind, r)
}

func (n deskNode) RestoreBackup(_ context.Context, force bool) (backup.Report, int, error) {
	return n.d.restore(force)
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

// wantProblem checks that the answer is a problem with this status and code, and returns it.
func (d *desk) wantProblem(method, path string, body io.Reader, status int, code string) control.Problem {
	d.Helper()
	got, header, answer := d.ask(method, path, body)
	var p control.Problem
	if err := json.Unmarshal(answer, &p); err != nil || got != status || p.Code != code || p.Error == "" || header.Get("Content-Type") != "application/json" {
		d.Errorf("%s %s: %d %s, want %d %s", method, path, got, answer, status, code)
	}
	return p
}

func TestTheSocketIsItsOwnersAlone(t *testing.T) {
	d := openDesk(t)
	info, err := os.Stat(d.socket)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != os.ModeSocket {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestDeadSocketIsReplaced(t *testing.T) {
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
		conn.SetReadDeadline(time.Now().Add(time.Minute))
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
	if _, err := control.NodeStatus.Call(t.Context(), d.Client); err != nil {
		t.Errorf("the owner after the stranger: %v", err)
	}
}

func TestStatusIsWhatTheNodeSays(t *testing.T) {
	d := openDesk(t)
	s, err := control.NodeStatus.Call(t.Context(), d.Client)
	if err != nil || s.Version != "v1" || s.Node != "test" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestUnknownRouteIsProblem(t *testing.T) {
	d := openDesk(t)
	for _, c := range [][2]string{{"GET", "/"}, {"GET", "/v2/status"}, {"GET", "/v1/jobs/"}, {"GET", "/v1/jobs/a/b/c"}} {
		d.wantProblem(c[0], c[1], nil, 404, "missing")
	}
	if status, _, _ := d.ask("DELETE", "/v1/status", nil); status < 400 {
		t.Errorf("DELETE: %d", status)
	}
}

// open appends a job, as jobs would.
func (d *desk) open(id guild.JobID) {
	d.Helper()
	d.append(fact.JobSubject(id), fact.JobOpened{Job: id, Task: "python", Title: "Sort it", Size: 2048, Tries: 3, Deadline: time.Now().Add(time.Hour).UnixMilli()})
}

// nextMillisecond waits for the next millisecond, so that facts have different times.
func nextMillisecond() {
	for began := time.Now().UnixMilli(); time.Now().UnixMilli() == began; {
		runtime.Gosched()
	}
}

func TestJobByPrefix(t *testing.T) {
	d := openDesk(t)
	first, second := guild.JobID{0xab, 1}, guild.JobID{0xab, 2}
	d.open(first)
	nextMillisecond()
	d.open(second)
	for _, prefix := range []string{"ab01", "AB01", first.String()} {
		if job, err := control.OneJob.Call(t.Context(), d.Client, prefix); err != nil || job.ID != first.String() {
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
	all, err := control.Jobs.Call(t.Context(), d.Client)
	if err != nil || len(all) != 2 || all[0].ID != second.String() {
		t.Errorf("the newest is not first: %+v, %v", all, err)
	}
}

func TestInspectedNodeDoesNothing(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	inspected := control.NewServer(d.stopped)
	client, hangUp := control.InProcess(t.Context(), inspected)
	defer hangUp()
	if all, err := control.Jobs.Call(t.Context(), client); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if _, err := control.CancelJob.Call(t.Context(), client, "01"); err == nil {
		t.Error("it cancelled a job")
	}
	if _, err := control.RuleJob.Call(t.Context(), client, control.Rule{Outcome: guild.Success}, "01"); err == nil {
		t.Error("it ruled")
	}
	if _, err := client.Hire(t.Context(), bytes.NewReader(packed(t, "")), control.Hire{Task: "python"}); err == nil {
		t.Error("it hired")
	}
}
