package control_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/control"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/typed"
	"guild/nutshell"
	"guild/oa"
)

// packed returns a request bundle with these fields in its manifest.
func packed(t *testing.T, fields string) []byte {
	t.Helper()
	var b bytes.Buffer
	tree := fstest.MapFS{"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"Sort it"}` + fields + `}`)}}
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHireOpensJobWithTerms(t *testing.T) {
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

func TestHireAgainIsSameJob(t *testing.T) {
	d := openDesk(t)
	h := control.Hire{Task: "python", ID: strings.Repeat("ab", 16)}
	for range 2 {
		job, err := d.Hire(t.Context(), bytes.NewReader(packed(t, "")), h)
		if err != nil || job.ID != h.ID {
			t.Errorf("got %+v, %v", job, err)
		}
	}
	if all, err := control.Jobs.Call(t.Context(), d.Client); err != nil || len(all) != 1 {
		t.Errorf("%d jobs, %v", len(all), err)
	}
	d.wantProblem("POST", "/v1/jobs?task=python&id="+h.ID, bytes.NewReader(packed(t, `,"tags":{"skills_required":["go"]}`)), 400, "usage")
	d.wantProblem("POST", "/v1/jobs?task=python&id=abc", bytes.NewReader(packed(t, "")), 400, "usage")
}

func TestTaskOfOrder(t *testing.T) {
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

func TestTypedJobOfAnotherTask(t *testing.T) {
	d := openDesk(t)
	e, err := oa.DecodeEnvelope([]byte(`{"job_type":"oa.embedding.v1","payload":{"texts":["a"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := typed.Bundle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	p := d.wantProblem("POST", "/v1/jobs?task=python", bytes.NewReader(bundle), 400, "usage")
	if !strings.Contains(p.Error, "leave the task out") || d.journal.Last() != 0 {
		t.Errorf("%q, %d entries", p.Error, d.journal.Last())
	}
	for _, query := range []string{"", "?task=oa.embedding.v1"} {
		if status, _, answer := d.ask("POST", "/v1/jobs"+query, bytes.NewReader(bundle)); status != 200 {
			t.Errorf("%q: %d %s", query, status, answer)
		}
	}
}

func TestWrongOrdersOpenNothing(t *testing.T) {
	d := openDesk(t)
	offCurve := nip19.EncodeNpub(nostr.PubKey(bytes.Repeat([]byte{0xff}, 32)))
	for _, query := range []string{
		"?timeout_ms=soon", "?timeout_ms=-1", "?timeout_ms=9223372036854775807", "?bid_msat=1.5", "?bid_msat=99999999999999999999", "?tries=-1",
		"?tries=1e3", "?tries=1000000000", "?kind=4999", "?kind=6000", "?kind=x", "?provider=alice", "?provider=npub1x", "?provider=" + offCurve,
		"?provider=" + strings.Repeat("f", 64), "?provider=" + strings.Repeat("0", 64), "?task=%ff",
		"?class=urgent", "?urgency=very", "?target=0.95", "?target=0", "?target=0.0000001", "?target=NaN", "?free=true&bid_msat=1",
		"?timeout=5000", "?privat=true", "?most=1000",
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

// endless is a body of so many zero bytes.
type endless struct{ left int64 }

func (e *endless) Read(p []byte) (int, error) {
	n := min(int64(len(p)), e.left)
	e.left -= n
	if n == 0 {
		return 0, io.EOF
	}
	return int(n), nil
}

func TestBundleOverLimit(t *testing.T) {
	d := openDesk(t)
	const limit = 64 << 20
	_, err := d.Hire(t.Context(), &endless{limit + 1<<20}, control.Hire{Task: "python"})
	problem, ok := errors.AsType[*control.ProblemError](err)
	if !ok || problem.Problem.Code != "usage" || !strings.Contains(problem.Problem.Error, "too large") {
		t.Errorf("got %v", err)
	}
}

func TestHireWithoutSandbox(t *testing.T) {
	d := openDesk(t)
	d.unboxed = &sandbox.UnusableError{Remedy: "install podman"}
	p := d.wantProblem("POST", "/v1/jobs?task=python", bytes.NewReader(packed(t, "")), 503, "unsandboxed")
	if p.Hint != "install podman" || d.journal.Last() != 0 {
		t.Errorf("hint %q", p.Hint)
	}
}

func TestClosedJournalIsInternal(t *testing.T) {
	d := openDesk(t)
	d.open(guild.JobID{1})
	if err := d.journal.Close(); err != nil {
		t.Fatal(err)
	}
	d.wantProblem("POST", "/v1/jobs?task=python", bytes.NewReader(packed(t, "")), 500, "internal")
	d.wantProblem("POST", "/v1/jobs/01/cancel", nil, 500, "internal")
	d.wantProblem("GET", "/v1/journal/1", nil, 500, "internal")
}

func TestCancelIsAFactOnce(t *testing.T) {
	d := openDesk(t)
	id := guild.JobID{1}
	d.open(id)
	for range 2 {
		if _, err := control.CancelJob.Call(t.Context(), d.Client, "01"); err != nil {
			t.Fatal(err)
		}
	}
	if job, _ := d.jobs.Job(id); !job.Cancelled || d.journal.Last() != 2 {
		t.Errorf("%+v at entry %d", job, d.journal.Last())
	}
	d.wantProblem("POST", "/v1/jobs/02/cancel", nil, 404, "missing")
}
