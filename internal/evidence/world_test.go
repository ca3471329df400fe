package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/evidence"
	"guild/internal/hand/blob"
	"guild/internal/hand/key"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/journaltest"
	"guild/internal/step/audit"
	"guild/internal/step/record"
	"guild/nip90"
	"guild/nipreview"
	"guild/receipt"
	"guild/seal"
	"guild/verify"
)

func TestMain(m *testing.M) { journaltest.Main(m) }

const task = "python-function"

func signer(n byte) *key.Signer { return key.NewSigner(key.NewSecret(nostr.SecretKey{31: n})) }

func pubkey(s *key.Signer) nostr.PubKey {
	p, err := s.GetPublicKey(context.Background())
	if err != nil {
		panic(err)
	}
	return p
}

var (
	customer, provider = signer(1), signer(2)
	service            = guild.Service{PubKey: pubkey(provider), D: "python"}
	policy             = []byte(`{"name":"cautious","version":1}`)
)

// world has a customer's journal and blobs, with the real steps that record and seal.
type world struct {
	*testing.T
	dir     string // directory of the journal
	journal *journal.Journal
	blobDir string
	blobs   *blob.Store
	record  *record.Record
	records *record.Fold
	audit   *audit.Step
	collect *evidence.Collector
	vault   string // sent with the requests

	witnesses map[nostr.ID]guild.Verified // countersignatures, by the checkpoint
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, dir: journaltest.Dir(t), blobDir: t.TempDir(), records: record.NewFold()}
	ok(t, journal.Init(w.dir))
	seals := audit.NewFold()
	w.journal = journaltest.Reopen(t, w.dir, w.records, seals)
	var err error
	w.blobs, err = blob.Open(w.blobDir)
	ok(t, err)
	hash, err := canon.Hash(policy)
	ok(t, err)
	w.record = record.New(record.Config{Blobs: w.blobs, Policy: func() guild.Hash { return hash }, Producer: "guild@test"}, w.records)
	w.audit = audit.New(audit.Config{Journal: w.journal, Signer: customer, Now: time.Now}, seals)
	w.collect = evidence.New(evidence.Config{Journal: w.journal, Blobs: w.blobs, Signer: customer, Open: customer.MessageKeys, Prove: w.prove})
	w.append(fact.PolicySubject, fact.PolicyAdopted{Policy: hash, Name: "cautious", Document: policy})
	return w
}

// prove has the provider countersign the seal.
func (w *world) prove(ctx context.Context, seq uint64, by nostr.PubKey) (evidence.Place, error) {
	p, err := w.audit.Prove(ctx, seq)
	if err != nil {
		return evidence.Place{}, err
	}
	sealed, err := guild.Verify(p.Checkpoint)
	ok(w, err)
	point, err := seal.ParseCheckpoint(sealed)
	ok(w, err)
	e := seal.Witness{Customer: pubkey(customer), Checkpoint: point}.Event(int64(p.Checkpoint.CreatedAt))
	if by != pubkey(provider) {
		return evidence.Place{}, fmt.Errorf("the provider is %s", by.Hex())
	}
	if w.witnesses == nil {
		w.witnesses = map[nostr.ID]guild.Verified{}
	}
	v, there := w.witnesses[p.Checkpoint.ID]
	if !there {
		v, err = guild.Sign(ctx, provider, e)
		w.witnesses[p.Checkpoint.ID] = v
	}
	return evidence.Place{Entry: []byte(p.Entry), Proof: p.Proof, Checkpoint: p.Checkpoint, Witness: v.Event()}, err
}

func (w *world) append(subject fact.Subject, facts ...fact.Fact) {
	w.Helper()
	ok(w, w.journal.Do(w.Context(), subject, "", func(tx *journal.Tx) error { tx.Append(facts...); return nil }))
}

func (w *world) put(b []byte) guild.Hash {
	w.Helper()
	h, err := w.blobs.PutBytes(w.Context(), b)
	ok(w, err)
	return h
}

func (w *world) sign(s *key.Signer, e nostr.Event) nostr.Event {
	w.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = nostr.Timestamp(time.Now().Unix())
	}
	v, err := guild.Sign(w.Context(), s, e)
	ok(w, err)
	return v.Event()
}

// sealer returns a function that encrypts from one key to the other.
func (w *world) sealer(from, to *key.Signer) nip90.Sealer {
	return func(plain string) (string, error) { return from.Encrypt(w.Context(), plain, pubkey(to)) }
}

// job is one job of the world.
type job struct {
	id               guild.JobID
	sealed           bool
	bundle, delivery []byte
	request, result  nostr.Event
	trajectory       guild.Hash // of the worker, as the result names it
}

// asked opens the nth job and sends its request to the provider.
func (w *world) asked(n byte, sealed bool) job {
	w.Helper()
	j := job{id: guild.JobID{n}, sealed: sealed, bundle: fmt.Appendf(nil, "NUT\x01 task %d", n), delivery: fmt.Appendf(nil, "NUT\x01 work %d", n)}
	p := service.PubKey
	r := nip90.Request{Kind: 5000, Provider: &p, Job: j.id.String(), Output: "application/json", Relays: []string{"wss://relay.example"}, Content: "Write it"}
	r.Set(nip90.ParamJobType, task)
	r.Set(nip90.ParamDeadline, fmt.Sprint(time.Now().Add(time.Hour).Unix()))
	ok(w, r.SetBundle(nip90.NewParcel(j.bundle)))
	if w.vault != "" {
		r.Set(nip90.ParamVault, w.vault)
	}
	jobHash, err := r.JobHash()
	ok(w, err)
	r.Set(nip90.ParamJobHash, jobHash.Hex())
	write := r.Event
	if sealed {
		write = func() (nostr.Event, error) { return r.Sealed(w.sealer(customer, provider)) }
	}
	e, err := write()
	ok(w, err)
	j.request = w.sign(customer, e)
	w.append(fact.JobSubject(j.id), fact.JobOpened{Job: j.id, Task: task, Bundle: w.put(j.bundle), Size: int64(len(j.bundle)), Kind: 5000})
	w.append(fact.JobSubject(j.id), fact.AttemptPlanned{Attempt: j.request.ID, Job: j.id, Provider: service, Request: j.request, JobHash: jobHash, Encrypted: sealed})
	return j
}

// delivered lets the provider deliver.
func (w *world) delivered(j *job) {
	w.Helper()
	r := nip90.Result{Kind: 6000, Request: j.request.ID, Customer: pubkey(customer), Trajectory: j.trajectory}
	ok(w, r.SetDelivery(nip90.NewParcel(j.delivery)))
	write := r.Event
	if j.sealed {
		write = func() (nostr.Event, error) { return r.Sealed(w.sealer(provider, customer)) }
	}
	e, err := write()
	ok(w, err)
	j.result = w.sign(provider, e)
	raw, err := json.Marshal(j.result)
	ok(w, err)
	w.append(fact.JobSubject(j.id), fact.AttemptDelivered{Attempt: j.request.ID, Result: j.result.ID, Event: w.put(raw),
		Delivery: w.put(j.delivery), Size: int64(len(j.delivery))})
}

// judged judges the delivery, adds what became of the money, records the attempt, and returns the location of the record.
func (w *world) judged(j job, o guild.Outcome, money ...fact.Fact) record.Stored {
	w.Helper()
	v := guild.Verdict{Outcome: o, Strength: guild.Strong, Tier: "none", Expected: 2, Passed: 1, Score: guild.Micro / 2, Cause: "test_b"}
	if o == guild.Success {
		v.Passed, v.Score, v.Cause = 2, guild.Micro, ""
	}
	raw, err := canon.Marshal(v)
	ok(w, err)
	w.append(fact.JobSubject(j.id), fact.AttemptJudged{Attempt: j.request.ID, Verdict: v, Hash: guild.Sum(raw), Stored: w.put(raw)})
	if len(money) > 0 {
		w.append(fact.JobSubject(j.id), money...)
	}
	for _, work := range w.record.Due(time.Now()) {
		decide, err := work.Act(w.Context())
		ok(w, err)
		ok(w, w.journal.Do(w.Context(), work.Guard, work.Key, decide))
	}
	all := w.records.Of(j.id)
	return all[len(all)-1]
}

// done runs a job from its start to its receipt.
func (w *world) done(n byte, sealed bool) (job, record.Stored) {
	w.Helper()
	j := w.asked(n, sealed)
	w.delivered(&j)
	return j, w.judged(j, guild.Success)
}

// reviewed publishes a review of a job.
func (w *world) reviewed(j job, s record.Stored) nostr.Event {
	w.Helper()
	raw, err := w.blobs.ReadAll(s.Blob, receipt.MaxSize)
	ok(w, err)
	of, err := receipt.Decode(raw)
	ok(w, err)
	r := nipreview.Review{Kind: nipreview.Kind, Subject: service.PubKey, Stars: 4_500_000, Task: task, Request: j.request.ID, JobKind: 5000,
		Content: nipreview.Content{Summary: "Good work.", Evidence: nipreview.Evidence{Receipt: s.Receipt, ReceiptHash: s.Blob, VerdictHash: of.VerdictHash}}}
	e := w.sign(customer, r.Event())
	w.append(fact.ReviewSubject(task, service), fact.ReviewDrafted{Review: e.ID, Service: service, Task: task, Events: []nostr.Event{e}})
	return e
}

// archived moves all entries so far to an archive file, and returns its name.
func (w *world) archived() string {
	w.Helper()
	w.append("trust.00", fact.TrustChanged{Task: "x", Service: service}) // the last entry always stays, and then the archive is recorded
	report, err := w.journal.Archive(w.Context(), time.Now().Add(time.Hour), nil)
	ok(w, err)
	if report.File == "" || report.Kept != 2 {
		w.Fatalf("%+v", report)
	}
	return report.File
}

// export returns the export of a receipt.
func (w *world) export(j job, s record.Stored, without ...string) map[string][]byte {
	w.Helper()
	files, err := w.collect.Of(w.Context(), j.id, s, evidence.Options{Without: without})
	ok(w, err)
	return files
}

// blob returns the path of a blob.
func (w *world) blob(b []byte) string { return filepath.Join(w.blobDir, guild.Sum(b).Hex()) }

// holds checks that verify accepts an export, and returns the checks that had something to check.
func (w *world) holds(files map[string][]byte) (passed []string) {
	w.Helper()
	packed, err := verify.Pack(files)
	ok(w, err)
	report, err := verify.Archive(packed)
	ok(w, err)
	for _, c := range report.Checks {
		switch c.State {
		case verify.Failed:
			w.Errorf("%s: %s", c.Name, c.Detail)
		case verify.Passed:
			passed = append(passed, c.Name)
		}
	}
	return passed
}

// same reports whether two exports have the same files, except for signatures and proofs, which are made again each
// time.
func same(a, b map[string][]byte) bool {
	for name := range a {
		if _, there := b[name]; !there {
			return false
		}
	}
	for name, file := range b {
		anew := name == verify.FileReceiptEvent || name == verify.FileProof || name == verify.FileCheckpoint || name == verify.FileWitness
		if was, there := a[name]; !there || !anew && !bytes.Equal(was, file) {
			return false
		}
	}
	return true
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
