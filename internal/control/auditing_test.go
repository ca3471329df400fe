package control_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/step/audit"
	"guild/internal/step/jobs"
	"guild/internal/step/record"
)

// archive is a server over a journal whose older entries can be put into archive files.
type archive struct {
	*testing.T
	*control.Client
	journal *journal.Journal
	dir     string
}

func openArchive(t *testing.T) *archive {
	t.Helper()
	a := &archive{T: t, dir: t.TempDir()}
	if err := journal.Init(a.dir); err != nil {
		t.Fatal(err)
	}
	all, recorded, sealed := jobs.NewFold(), record.NewFold(), audit.NewFold()
	a.journal = journaltest.Reopen(t, a.dir, all, recorded, sealed)
	t.Cleanup(func() { a.journal.Close() })
	signer := key.NewSigner(key.NewSecret(nostr.SecretKey{31: 9}))
	client, hangUp := control.InProcess(t.Context(), control.NewServer(control.ServerConfig{
		Journal: a.journal, Now: time.Now,
		Parts: control.Parts{Fold: all, Record: recorded, Audit: audit.New(audit.Config{Journal: a.journal, Signer: signer, Now: time.Now}, sealed)},
	}))
	t.Cleanup(hangUp)
	a.Client = client
	return a
}

func (a *archive) append(guard fact.Subject, facts ...fact.Fact) {
	a.Helper()
	if err := a.journal.Do(a.Context(), guard, "", func(tx *journal.Tx) error { tx.Append(facts...); return nil }); err != nil {
		a.Fatal(err)
	}
}

// putAway archives everything so far, and returns the file.
func (a *archive) putAway() (file string) {
	a.Helper()
	nextMillisecond()
	now := time.Now()
	nextMillisecond()
	a.append("x.1", fact.JobCancelled{})
	report, err := a.journal.Archive(a.Context(), now, nil)
	if err != nil || report.File == "" {
		a.Fatalf("%+v, %v", report, err)
	}
	return report.File
}

func (a *archive) wantMissing(err error, says string) {
	a.Helper()
	problem, ok := errors.AsType[*control.ProblemError](err)
	if !ok || problem.Problem.Code != "missing" || problem.Problem.Hint == "" || !strings.Contains(problem.Error(), says) {
		a.Errorf("%v, want %q and a hint", err, says)
	}
}

func TestProofOfArchivedReceipt(t *testing.T) {
	a := openArchive(t)
	id := guild.JobID{1}
	const receipt = "r-0123456789abcdef"
	a.append(fact.JobSubject(id), fact.JobOpened{Job: id, Task: "python", Tries: 1, Deadline: time.Now().Add(time.Hour).UnixMilli()})
	a.append(fact.JobSubject(id), fact.AttemptPlanned{Attempt: nostr.ID{1}, Job: id, Provider: alice})
	a.append(fact.JobSubject(id), fact.AttemptRecorded{Attempt: nostr.ID{1}, Receipt: receipt, Stored: guild.Sum(nil)})
	file := a.putAway()
	if p, err := control.Proof.Call(t.Context(), a.Client, receipt); err != nil || p.Seq != 3 || !strings.Contains(p.Entry, receipt) {
		t.Errorf("%d, %v", p.Seq, err)
	}
	a.wantMissing(second(control.Proof.Call(t.Context(), a.Client, "4242")), "the journal has")
	a.wantMissing(second(control.Proof.Call(t.Context(), a.Client, "abcd")), "no job")
	if err := os.Rename(file, filepath.Join(t.TempDir(), "elsewhere")); err != nil {
		t.Fatal(err)
	}
	a.wantMissing(second(control.Proof.Call(t.Context(), a.Client, receipt)), filepath.Join(a.dir, "archive"))
	a.wantMissing(second(control.Proof.Call(t.Context(), a.Client, "2")), filepath.Join(a.dir, "archive"))
}

func second[T any](_ T, err error) error { return err }

func TestAnEmptyJournalIsNotSealed(t *testing.T) {
	a := openArchive(t)
	a.wantMissing(second(control.SealJournal.Call(t.Context(), a.Client)), "the journal is empty")
}

func TestArchivedRequest(t *testing.T) {
	a := openArchive(t)
	first, second := nostr.ID{0xab, 1}, nostr.ID{0xab, 2}
	for _, id := range []nostr.ID{first, second} {
		a.append(fact.Subject("request."+id.Hex()), fact.RequestReceived{Request: id, Customer: alice.PubKey, Task: "python"})
	}
	a.putAway()
	a.append(fact.Subject("request."+second.Hex()), fact.RequestFinished{Request: second, Ending: "delivered"})
	if r, err := control.OneRequest.Call(t.Context(), a.Client, first.Hex()[:8]); err != nil || r.Request != first.Hex() || r.Task != "python" || r.Ending != "" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := control.OneRequest.Call(t.Context(), a.Client, second.Hex()[:8]); err != nil || r.Task != "python" || r.Ending != "delivered" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := control.OneRequest.Call(t.Context(), a.Client, "cd"); err == nil {
		t.Error("a request that nobody sent")
	}
	nobody := a.putAway()
	if err := os.Remove(nobody); err != nil {
		t.Fatal(err)
	}
	_, err := control.OneRequest.Call(t.Context(), a.Client, second.Hex()[:8])
	a.wantMissing(err, filepath.Join(a.dir, "archive"))
}
