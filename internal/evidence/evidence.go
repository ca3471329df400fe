// Package evidence gathers the proof of one receipt for another person: the files of an export, as package verify
// checks them and docs/VERIFY.md describes them. It reads the journal and the blobs; the owner's key makes the
// receipt's event and the openings. It writes no facts and changes nothing.
package evidence

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/internal/hand/blob"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/step/record"
	"guild/nip90"
	"guild/nipreview"
	"guild/nutshell"
	"guild/receipt"
	"guild/seal"
	"guild/verify"
)

// Limits of documents in an export, in bytes; the same as in package verify.
const (
	maxDocument = 64 << 20
	maxVerdict  = 16 << 20
)

// ErrNoFile means that a file cannot be omitted, because no export has it or every export must.
var ErrNoFile = errors.New("no file of an export that can be left out")

// Config has the sources of the evidence.
type Config struct {
	Journal *journal.Journal
	Blobs   *blob.Store
	Signer  nostr.Signer // of the customer; nil if no key is available to sign
	// Open returns the keys that open one message between us and another key, and no other message. It is nil if our
	// signer cannot derive them.
	Open func(payload string, with nostr.PubKey) ([]byte, error)
	// Prove returns the place of an entry in the journal, if possible by a checkpoint that the provider has countersigned.
	Prove func(ctx context.Context, seq uint64, provider nostr.PubKey) (Place, error)
}

// Place is an entry of the journal with the proof that the entry is in it.
type Place struct {
	Entry      []byte
	Proof      seal.Proof
	Checkpoint nostr.Event // to which the proof leads
	Witness    nostr.Event // the provider's countersignature of it; zero without one
}

// Options selects what an export omits, and what it reveals.
type Options struct {
	Without []string // names of files that Optional lists
	Reveal  bool     // the hidden tests too, so that others can judge again

	Shredded bool // the job was shredded: there is nothing left of what it said
}

// Optional lists the files that an export can omit: all except the receipt. All reviews have one name, "reviews". A
// file that belongs to an omitted one is omitted too: the key that opens a message, the proof, the checkpoint and the
// countersignature of the journal's entry, and the worker's trajectory, which the delivery has.
func Optional() []string {
	return []string{
		verify.FileReceiptEvent, verify.FileRequest, verify.FileRequestKey, verify.FileResult, verify.FileResultKey, verify.FileQuote,
		verify.FileQuoteKey, verify.FileBundle,
		verify.FileDelivery, verify.FileVerdict, verify.FileEvidence, verify.FileReplay, verify.FileWorker, verify.FilePolicy, verify.FileEntry,
		verify.FileProof, verify.FileCheckpoint, verify.FileWitness, verify.DirReviews,
	}
}

// gone lists the files that have the words of a job, which are not there once it is shredded.
var gone = []string{
	verify.FileRequest, verify.FileResult, verify.FileQuote, verify.FileBundle, verify.FileDelivery, verify.FileVerdict,
	verify.FileEvidence, verify.FileReplay, verify.FileWorker,
}

// Error reports a file with which an export cannot be made, and the reason.
type Error struct {
	File string // a file that can be omitted
	Err  error  // such as blob.ErrMissing, blob.ErrTooLarge or journal.ErrArchiveGone
}

// Error implements error.
func (e *Error) Error() string { return e.File + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Collector makes exports.
type Collector struct{ c Config }

// New returns a collector.
func New(c Config) *Collector { return &Collector{c} }

// Of returns the files of a receipt's export, by name. It also reads archive files of the journal. The error is an
// *Error if a file cannot be made, and matches ErrNoFile if a name cannot be omitted.
func (c *Collector) Of(ctx context.Context, job guild.JobID, s record.Stored, o Options) (map[string][]byte, error) {
	for _, name := range o.Without {
		if !slices.Contains(Optional(), name) {
			return nil, fmt.Errorf("%.80q: %w", name, ErrNoFile)
		}
	}
	x := export{c: c.c, job: job, stored: s, without: o.Without, reveal: o.Reveal && !o.Shredded, files: map[string][]byte{}}
	if o.Shredded {
		x.without = append(slices.Clone(o.Without), gone...)
	}
	if err := x.gather(ctx); err != nil {
		return nil, fmt.Errorf("export of receipt %s: %w", s.Receipt, err)
	}
	return x.files, nil
}

// export holds the evidence of one receipt while it is gathered.
type export struct {
	c       Config
	job     guild.JobID
	stored  record.Stored
	without []string
	reveal  bool
	receipt receipt.Receipt
	files   map[string][]byte

	hidden    guild.Hash // blob of the hidden tests, as a bundle
	planned   *fact.AttemptPlanned
	quoted    *fact.AttemptQuoted // the quote that the receipt refers to, if the journal has its event
	delivered *fact.AttemptDelivered
	judged    *fact.AttemptJudged // the verdict that the receipt refers to
	recorded  uint64              // sequence number of the entry that names the receipt
	archived  bool                // that entry is in an archive file
}

// gather reads the receipt and its facts first, because all other files are found by them.
func (x *export) gather(ctx context.Context) error {
	raw, err := x.c.Blobs.ReadAll(x.stored.Blob, receipt.MaxSize)
	if err != nil {
		return err
	}
	if x.receipt, err = receipt.Decode(raw); err != nil {
		return err
	}
	x.files[verify.FileReceipt] = raw
	if err := x.find(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		x.sayReceipt, x.addRequest, x.addResult, x.addQuote, x.addTransaction, x.addDocuments, x.addWorker, x.addHidden, x.addPolicy, x.addProof, x.addReviews,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// find looks up the facts of the receipt: in the journal, and then in its archive files if some are missing.
//
// Archive files are read only if needed, because they may be large or may have been moved away.
func (x *export) find(ctx context.Context) error {
	subject := fact.JobSubject(x.job)
	if err := x.search(x.c.Journal.Of(ctx, subject)); err != nil {
		return err
	}
	if x.recorded != 0 && x.planned != nil {
		return nil
	}
	x.archived = x.recorded == 0
	if err := x.search(x.c.Journal.Archived(ctx, subject)); err != nil {
		return err
	}
	if x.recorded == 0 || x.planned == nil {
		return fmt.Errorf("job %s: the journal says nothing of it", x.job.Short())
	}
	return nil
}

// search reads entries up to the one that names the receipt. Later entries, such as the verdict after a dispute, belong
// to another receipt.
func (x *export) search(entries iter.Seq2[fact.Entry, error]) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		for _, f := range e.Facts {
			x.take(f, e.Seq)
		}
		if x.recorded == e.Seq {
			break
		}
	}
	return nil
}

// take stores a fact if it belongs to the receipt. The verdict must have the receipt's hash, because an attempt can
// have several after a dispute.
func (x *export) take(f fact.Fact, seq uint64) {
	switch f := f.(type) {
	case fact.JobOpened:
		x.hidden = f.Hidden
	case fact.AttemptPlanned:
		if f.Attempt == x.stored.Attempt {
			x.planned = &f
		}
	case fact.AttemptQuoted:
		if f.Attempt == x.stored.Attempt && f.Answer != nil && f.Event == x.receipt.QuoteEvent {
			x.quoted = &f
		}
	case fact.AttemptDelivered:
		if f.Attempt == x.stored.Attempt {
			x.delivered = &f
		}
	case fact.AttemptJudged:
		if f.Attempt == x.stored.Attempt && f.Hash == x.receipt.VerdictHash {
			x.judged = &f
		}
	case fact.AttemptRecorded:
		if f.Receipt == x.stored.Receipt {
			x.recorded = seq
		}
	}
}

// wants reports whether the export includes a file.
func (x *export) wants(name string) bool { return !slices.Contains(x.without, name) }

// sayReceipt signs the event that publishes the receipt. The event is the same each time; only its signature differs.
func (x *export) sayReceipt(ctx context.Context) error {
	if x.c.Signer == nil || !x.wants(verify.FileReceiptEvent) {
		return nil
	}
	e, err := x.receipt.Event()
	if err != nil {
		return err
	}
	v, err := guild.Sign(ctx, x.c.Signer, e)
	if err != nil {
		return err
	}
	return x.add(verify.FileReceiptEvent, v.Event())
}

// addRequest adds the request event and, if it is encrypted, the key that opens it. It adds no key if the request came
// with credentials: they are for the provider only, and the key would open them.
func (x *export) addRequest(context.Context) error {
	if !x.wants(verify.FileRequest) {
		return nil
	}
	if err := x.add(verify.FileRequest, x.planned.Request); err != nil {
		return err
	}
	if !x.planned.Encrypted || !x.wants(verify.FileBundle) { // the request contains the bundle, or says where it is
		return nil
	}
	if err := x.addKey(verify.FileRequestKey, x.planned.Request.Content); err != nil {
		return err
	}
	// Whether there are credentials is known only now, because the check needs the decrypted request.
	key, there := x.files[verify.FileRequestKey]
	if !there {
		return nil
	}
	opening, err := verify.ParseOpening(string(key))
	if err != nil {
		return &Error{verify.FileRequestKey, err}
	}
	request, err := nip90.ParseRequest(x.planned.Request, func(_ nostr.PubKey, payload string) (string, error) { return opening.Open(payload) })
	if err != nil {
		return &Error{verify.FileRequest, err}
	}
	if request.Get(nip90.ParamVault) != "" {
		delete(x.files, verify.FileRequestKey)
	}
	return nil
}

// addResult adds the result event and, if it is encrypted, the key that opens it. A large event is not in the entry but
// in a blob.
func (x *export) addResult(context.Context) error {
	if x.delivered == nil || !x.wants(verify.FileResult) {
		return nil
	}
	e := x.delivered.Answer
	if e == nil {
		raw, err := x.c.Blobs.ReadAll(x.delivered.Event, maxDocument)
		if err != nil {
			return &Error{verify.FileResult, err}
		}
		e = new(nostr.Event)
		if err := json.Unmarshal(raw, e); err != nil {
			return &Error{verify.FileResult, err}
		}
	}
	if err := x.add(verify.FileResult, *e); err != nil {
		return err
	}
	if !isSealed(*e) || !x.wants(verify.FileDelivery) {
		return nil
	}
	return x.addKey(verify.FileResultKey, e.Content)
}

func isSealed(e nostr.Event) bool {
	return slices.ContainsFunc(e.Tags, func(t nostr.Tag) bool { return len(t) > 0 && t[0] == "encrypted" })
}

// addQuote adds the provider's quote that was paid and, if it is encrypted, the key that opens it.
func (x *export) addQuote(context.Context) error {
	if x.quoted == nil || !x.wants(verify.FileQuote) {
		return nil
	}
	e := *x.quoted.Answer
	if err := x.add(verify.FileQuote, e); err != nil || !isSealed(e) {
		return err
	}
	return x.addKey(verify.FileQuoteKey, e.Content)
}

// addTransaction adds the transaction that paid the provider on the chain, and what shows that a block has it.
func (x *export) addTransaction(ctx context.Context) error {
	if x.receipt.Rail == nil || *x.receipt.Rail != "onchain" {
		return nil
	}
	paid, err := x.mined(x.c.Journal.Of(ctx, fact.Ledger))
	if err == nil && paid == nil {
		paid, err = x.mined(x.c.Journal.Archived(ctx, fact.Ledger))
	}
	if err != nil || paid == nil {
		return err
	}
	x.files[verify.FileTransaction] = []byte(paid.Raw)
	if x.files[verify.FileInclusion], err = canon.Marshal(paid.Inclusion); err != nil {
		return fmt.Errorf("%s: %w", verify.FileInclusion, err)
	}
	return nil
}

// mined returns what entries of the ledger say of the transaction that paid the attempt, or nil.
func (x *export) mined(entries iter.Seq2[fact.Entry, error]) (*fact.PaymentMined, error) {
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		for _, f := range e.Facts {
			if m, ok := f.(fact.PaymentMined); ok && m.Attempt == x.stored.Attempt {
				return &m, nil
			}
		}
	}
	return nil, nil
}

// addKey adds the key that opens one encrypted message. A remote signer cannot derive it.
func (x *export) addKey(name, payload string) error {
	if x.c.Open == nil || !x.wants(name) {
		return nil
	}
	keys, err := x.c.Open(payload, x.receipt.ProviderPubKey)
	if err != nil {
		return &Error{name, err}
	}
	x.files[name] = []byte(hex.EncodeToString(keys))
	return nil
}

// addDocuments adds the blobs that the receipt names by hash.
func (x *export) addDocuments(context.Context) error {
	var evidence, verdict guild.Hash
	if x.judged != nil {
		evidence, verdict = x.judged.Verdict.Evidence, x.judged.Stored
	}
	for _, b := range []struct {
		name string
		hash guild.Hash
		most int64
	}{
		{verify.FileBundle, x.receipt.BundleHash, maxDocument},
		{verify.FileDelivery, x.receipt.DeliveryHash, maxDocument},
		{verify.FileVerdict, verdict, maxVerdict},
		{verify.FileEvidence, evidence, maxDocument},
		{verify.FileReplay, x.stored.Replay, maxDocument},
	} {
		if b.hash.IsZero() || !x.wants(b.name) {
			continue
		}
		raw, err := x.c.Blobs.ReadAll(b.hash, b.most)
		if err != nil {
			return &Error{b.name, err}
		}
		x.files[b.name] = raw
	}
	return nil
}

// addWorker adds the trajectory of the provider's worker, if the delivery has one that the result names. One that is not named,
// or is invalid, would make a valid export fail. What is wrong with result or delivery is found by their own checks.
func (x *export) addWorker(context.Context) error {
	raw, there := x.files[verify.FileDelivery]
	if !there || x.files[verify.FileResult] == nil || !x.wants(verify.FileWorker) {
		return nil
	}
	var e nostr.Event
	if err := json.Unmarshal(x.files[verify.FileResult], &e); err != nil {
		return &Error{verify.FileResult, err}
	}
	result, err := nip90.ParseResult(e, func(nostr.PubKey, string) (string, error) { return "", nil }) // its tags are in clear
	if err != nil || result.Trajectory.IsZero() {
		return nil
	}
	delivery, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
	if err != nil {
		return nil
	}
	trajectory, err := delivery.ReadFile(nutshell.TrajectoryFile)
	if err == nil && len(trajectory) <= nutshell.MaxTrajectory && verify.CheckWorker(trajectory, result.Trajectory) == nil {
		x.files[verify.FileWorker] = trajectory
	}
	return nil
}

// addHidden adds the hidden tests that the verdict names, with what opens the commitments to them, if they are to be
// revealed.
func (x *export) addHidden(context.Context) error {
	if !x.reveal || x.hidden.IsZero() || x.judged == nil {
		return nil
	}
	raw, err := x.c.Blobs.ReadAll(x.hidden, maxDocument)
	if err != nil {
		return &Error{verify.FileHidden, err}
	}
	bundle, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
	if err != nil {
		return &Error{verify.FileHidden, err}
	}
	inBundle := func(name string) ([]byte, error) {
		return bundle.ReadFile("files" + strings.TrimPrefix(name, nutshell.HiddenDir))
	}
	text, err := inBundle(nutshell.SaltsFile)
	if err != nil {
		return &Error{verify.FileHidden, err}
	}
	salts, err := nutshell.ParseSalts(text)
	if err != nil {
		return &Error{verify.FileHidden, err}
	}
	whole, err := x.verdict()
	if err != nil {
		return &Error{verify.FileHidden, err}
	}
	var tests []verify.RevealedTest
	for _, c := range whole.Hidden {
		t := verify.RevealedTest{Path: c.Path, Hash: c.Hash}
		if i := slices.IndexFunc(salts, func(s guild.Commitment) bool { return s.Path == c.Path }); i >= 0 {
			t.Salt = salts[i].Salt
		}
		if t.Content, err = inBundle(c.Path); err != nil {
			return &Error{verify.FileHidden, err}
		}
		tests = append(tests, t)
	}
	x.files[verify.FileHidden], err = verify.EncodeHidden(tests)
	return err
}

// verdict reads the whole verdict; the fact has only the beginning of its lists.
func (x *export) verdict() (v guild.Verdict, err error) {
	raw, err := x.c.Blobs.ReadAll(x.judged.Stored, maxVerdict)
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	return v, err
}

// addPolicy adds the policy that the receipt names. The policy is in an archive file more often than the job is. It is
// omitted if that file was moved away.
func (x *export) addPolicy(ctx context.Context) error {
	if !x.wants(verify.FilePolicy) {
		return nil
	}
	for _, entries := range []iter.Seq2[fact.Entry, error]{
		x.c.Journal.Of(ctx, fact.PolicySubject), x.c.Journal.Archived(ctx, fact.PolicySubject),
	} {
		document, err := x.policy(entries)
		if errors.Is(err, journal.ErrArchiveGone) {
			return nil
		}
		if err != nil {
			return err
		}
		if document != nil {
			x.files[verify.FilePolicy] = document
			return nil
		}
	}
	return nil
}

// policy returns the document of the policy that the receipt names; nil if it is not among the entries.
func (x *export) policy(entries iter.Seq2[fact.Entry, error]) ([]byte, error) {
	for e, err := range entries {
		if err != nil {
			return nil, err
		}
		for _, f := range e.Facts {
			if p, ok := f.(fact.PolicyAdopted); ok && p.Policy.String() == x.receipt.PolicyBundleID {
				return p.Document, nil
			}
		}
	}
	return nil, nil
}

// addProof adds the proof that the journal contains the receipt.
func (x *export) addProof(ctx context.Context) error {
	if x.c.Prove == nil || !x.wants(verify.FileEntry) {
		return nil
	}
	place, err := x.c.Prove(ctx, x.recorded, x.receipt.ProviderPubKey)
	if err != nil {
		return err
	}
	x.files[verify.FileEntry] = place.Entry
	if x.wants(verify.FileProof) {
		if x.files[verify.FileProof], err = place.Proof.Encode(); err != nil {
			return err
		}
	}
	if !x.wants(verify.FileCheckpoint) {
		return nil
	}
	if place.Witness.ID != (nostr.ID{}) && x.wants(verify.FileWitness) {
		if err := x.add(verify.FileWitness, place.Witness); err != nil {
			return err
		}
	}
	return x.add(verify.FileCheckpoint, place.Checkpoint)
}

// addReviews adds the reviews that we published because of this receipt. There are none before it was recorded.
func (x *export) addReviews(ctx context.Context) error {
	if !x.wants(verify.DirReviews) {
		return nil
	}
	subject := fact.ReviewSubject(x.receipt.Task, x.planned.Provider)
	if err := x.review(x.c.Journal.Of(ctx, subject)); err != nil || !x.archived {
		return err
	}
	if err := x.review(x.c.Journal.Archived(ctx, subject)); err != nil {
		return &Error{verify.DirReviews, err}
	}
	return nil
}

// review adds the review events in entries that name the receipt. Mirrors in other kinds are not evidence.
func (x *export) review(entries iter.Seq2[fact.Entry, error]) error {
	for e, err := range entries {
		if err != nil {
			return err
		}
		for _, f := range e.Facts {
			d, ok := f.(fact.ReviewDrafted)
			if !ok {
				continue
			}
			for _, e := range d.Events {
				if e.Kind != nipreview.Kind && e.Kind != nipreview.KindSet {
					continue
				}
				said, err := nipreview.Parse(e)
				if err != nil || said.Evidence.Receipt != x.receipt.ID {
					continue
				}
				if err := x.add(verify.DirReviews+"/"+e.ID.Hex()+".json", e); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// add adds an event to the export, in canonical form.
func (x *export) add(name string, e nostr.Event) error {
	raw, err := canon.Marshal(e)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	x.files[name] = raw
	return nil
}
