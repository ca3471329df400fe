// Package fact defines all types of facts in the journal, with a file for each noun, so that the format on disk can be read in
// one place. Facts stay on disk for ever: fields may be added, but never renamed or given another meaning; another shape is
// another type. The package does no I/O and contains no rules.
package fact

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"guild"
)

// Version is the version of the entry format.
const Version = 1

// sealedVersion is the version of entries with encrypted members. A program that does not know them refuses such an entry.
const sealedVersion = 2

// MaxEntry is the size limit of an encoded entry, in bytes. Larger data belongs in a blob.
const MaxEntry = 256 << 10

// ErrUnknown means that an entry has a fact of an unknown type, or another format: a newer program wrote it.
var ErrUnknown = errors.New("unknown type of fact")

// Fact is part of a decision. Type returns the stored name of its type, "noun.verbed".
type Fact interface{ Type() string }

// Subject names what the facts of an entry are about, by a noun and an id: "job.5f21…". It is also their guard: of two
// decisions under one subject, the second sees the first. The entry is stored under "fact." + Subject.
type Subject string

// Noun returns the part before the first dot.
func (s Subject) Noun() string { noun, _, _ := strings.Cut(string(s), "."); return noun }

// Entry is a decision. All its facts are one message of the journal, which is kept or lost as a whole.
type Entry struct {
	Seq     uint64  `json:"-"` // its sequence in the journal, from 1; set by the journal
	Subject Subject `json:"-"` // the guard of the decision; set by the journal

	Hash guild.Hash `json:"-"` // SHA-256 of the entry as stored; set by the journal

	V     int    `json:"v"`
	At    int64  `json:"at"`              // Unix ms; never decreases within a subject; entries are ordered by Seq, not by At
	By    string `json:"by"`              // the node that decided
	Cause string `json:"cause,omitempty"` // the event or entry that led to the decision
	Prev  string `json:"prev,omitempty"`  // hash of the previous entry of the subject, in hex
	Facts []Fact `json:"facts"`

	Sealed []byte `json:"sealed,omitempty"` // as stored, the encrypted private members of Facts; see Seal
}

// MarshalJSON calls Encode.
func (e Entry) MarshalJSON() ([]byte, error) { return e.Encode() }

// Encode returns the stored form of the entry without encryption. Each fact is an object whose first member is "type".
// json.Marshal returns the same bytes, but validates and copies them once more.
func (e Entry) Encode() ([]byte, error) {
	e.Sealed = nil
	bodies := make([]json.RawMessage, len(e.Facts))
	for i, f := range e.Facts {
		body, err := json.Marshal(f)
		if err != nil {
			return nil, fmt.Errorf("fact %s: %w", f.Type(), err)
		}
		bodies[i] = body
	}
	return e.encode(bodies)
}

// encode encodes the entry with encoded facts.
func (e Entry) encode(bodies []json.RawMessage) ([]byte, error) {
	type plain Entry
	head, err := json.Marshal(struct {
		plain
		Facts *struct{} `json:"facts,omitempty"`
	}{plain: plain(e)})
	if err != nil {
		return nil, err
	}
	b := append(head[:len(head)-1], `,"facts":[`...)
	for i, body := range bodies {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"type":%q`, e.Facts[i].Type())
		if len(body) > len("{}") {
			b = append(b, ',')
		}
		b = append(b, body[1:]...)
	}
	return append(b, "]}"...), nil
}

// UnmarshalJSON decodes an entry without decryption. For a fact of an unknown type the error matches ErrUnknown: a state folded
// without that fact would be wrong.
func (e *Entry) UnmarshalJSON(b []byte) (err error) {
	*e, err = Decode(b, nil)
	return err
}

func decode(raw, private json.RawMessage) (Fact, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	of, ok := readers[head.Type]
	if !ok {
		return nil, fmt.Errorf("%q: %w", head.Type, ErrUnknown)
	}
	raw, err := of.whole(raw, private)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", head.Type, err)
	}
	f, err := of.read(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", head.Type, err)
	}
	return f, nil
}

// All returns the zero value of every type of fact with one of the given nouns, ordered by name. Tests of code that must know
// all facts of a noun use it, so that they fail when a type is added.
func All(nouns ...string) []Fact {
	var all []Fact
	for _, name := range slices.Sorted(maps.Keys(readers)) {
		noun, _, _ := strings.Cut(name, ".")
		if !slices.Contains(nouns, noun) {
			continue
		}
		if f, err := readers[name].read(json.RawMessage("{}")); err == nil {
			all = append(all, f)
		}
	}
	return all
}

// readers has each type of fact, by name. It is never changed.
var readers = table(
	reader[JobOpened](), reader[JobClosed](), reader[JobCancelled](), reader[JobShredded](), reader[JobErased](),
	reader[AttemptPlanned](), reader[AttemptRequested](), reader[AttemptQuoted](), reader[AttemptProgressed](),
	reader[AttemptDelivered](), reader[AttemptFetched](), reader[AttemptJudged](), reader[AttemptUndecided](), reader[AttemptRefused](),
	reader[AttemptExpired](), reader[AttemptCancelled](), reader[AttemptParked](), reader[AttemptRecorded](), reader[ReceiptPublished](),
	reader[RequestReceived](), reader[RequestFinished](), reader[RequestCancelled](), reader[RequestPaid](),
	reader[ProviderMoved](), reader[TrustChanged](), reader[TrustImported](),
	reader[JobSolicited](), reader[JobOffered](), reader[AttemptCompared](),
	reader[ServicePaused](), reader[ServiceResumed](), reader[MeetingBegan](), reader[MeetingEnded](),
	reader[AttemptDisputed](), reader[AttemptTold](), reader[RequestJudged](), reader[RequestObjected](),
	reader[PolicyAdopted](), reader[VariableChanged](), reader[BidReserved](), reader[BidFreed](),
	reader[ReviewDrafted](), reader[ReviewPublished](), reader[ReviewHeld](), reader[ReviewResumed](), reader[ReviewDropped](),
	reader[BackupMade](), reader[BackupSent](), reader[BackupFailed](), reader[BackupChosen](), reader[BackupRestored](),
	reader[EffectClaimed](), reader[EffectRenewed](), reader[EffectSettled](), reader[EffectParked](),
	reader[JournalArchived](), reader[JournalRepaired](), reader[JournalReleased](), reader[JournalClosed](),
	reader[JournalSealed](), reader[SealPublished](),
	reader[WitnessAsked](), reader[SealWitnessed](), reader[CheckpointWitnessed](), reader[WitnessPublished](),
	reader[AgentInstalled](), reader[AgentRemoved](), reader[AgentSigned](), reader[AgentPublished](), reader[NudgeKept](), reader[NudgeRemoved](),
	reader[LessonDrafted](), reader[LessonAsked](), reader[LessonAccepted](), reader[LessonRejected](), reader[LessonMeasured](), reader[LessonRetired](),
	reader[MintAdded](), reader[WalletFrozen](), reader[BudgetSet](), reader[EcashPlanned](), reader[EcashSettled](), reader[EcashFailed](), reader[EcashLost](), reader[LedgerCorrected](),
	reader[PaymentReserved](), reader[PaymentRefused](), reader[PaymentAllowed](), reader[PaymentSent](), reader[PaymentApproved](), reader[PaymentDecided](),
	reader[PaymentReleased](), reader[PaymentReturned](), reader[InvoicePaid](), reader[InvoiceUnpaid](), reader[InvoiceSettled](),
	reader[InvoiceHeld](), reader[InvoiceCancelled](),
	reader[PaymentMined](), reader[CoinsDoubted](), reader[CoinsUnpaid](), reader[CoinsReceived](), reader[CoinsLost](), reader[AddressClosed](),
	reader[LockOffered](), reader[LockAccepted](), reader[LockRefused](), reader[LockReleased](), reader[LockReturned](), reader[LockExpired](), reader[LockLost](),
	reader[LockDisputed](), reader[PaymentDisputed](), reader[PaymentRuled](), reader[CaseOpened](), reader[CaseTold](), reader[CaseRuled](), reader[CaseSent](), reader[CaseClosed](),
	reader[AttemptDeferred](), reader[AttemptHeld](), reader[AttemptReleased](), reader[AttemptRefunded](), reader[RequestQuoted](),
	reader[ActivityReported](), reader[ActivityImported](), reader[AgentsOnboarded](), reader[AgentClaimed](), reader[SpriteEvolved](),
)

type entryReader struct {
	name    string
	read    func(json.RawMessage) (Fact, error)
	private members
}

func reader[T Fact]() entryReader {
	var zero T
	return entryReader{name: zero.Type(), private: membersOf(reflect.TypeFor[T]()), read: func(raw json.RawMessage) (Fact, error) {
		var f T
		err := json.Unmarshal(raw, &f)
		return f, err
	}}
}

func table(all ...entryReader) map[string]entryReader {
	m := make(map[string]entryReader, len(all))
	for _, r := range all {
		m[r.name] = r
	}
	return m
}
