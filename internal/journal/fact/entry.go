// Package fact holds every type of fact that the journal keeps, one file per noun, so that the on-disk format
// can be read in one place. Bodies are for ever: fields are added, never renamed or given another meaning; a
// changed shape is a new type. The package does no I/O and knows no rules.
package fact

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Version is the version of the entry format.
const Version = 1

// MaxEntry is the largest encoded entry, in bytes. What is larger belongs in a blob.
const MaxEntry = 256 << 10

// ErrUnknown marks a fact of a type that this program does not know: a newer one wrote it.
var ErrUnknown = errors.New("unknown type of fact")

// Fact is something that was decided. Type is the name under which it is stored, "noun.verbed".
type Fact interface{ Type() string }

// Subject is the noun and id that a fact is about, as "job.5f21…": the consistency boundary under which it
// was decided. The journal stores it under "fact." + Subject.
type Subject string

// Noun is the part before the first dot.
func (s Subject) Noun() string { noun, _, _ := strings.Cut(string(s), "."); return noun }

// Entry is one decision: all its facts are one message of the journal, kept or lost together.
type Entry struct {
	Seq     uint64  `json:"-"` // position in the journal, given by it
	Subject Subject `json:"-"` // the guard it was decided under, given by the journal

	V     int    `json:"v"`
	At    int64  `json:"at"`              // Unix ms; never goes back within a subject; order is Seq, not At
	By    string `json:"by"`              // the node that decided
	Cause string `json:"cause,omitempty"` // event id or entry that led to it
	Prev  string `json:"prev,omitempty"`  // hash of the subject's previous entry, bare hex
	Facts []Fact `json:"facts"`
}

// MarshalJSON is Encode.
func (e Entry) MarshalJSON() ([]byte, error) { return e.Encode() }

// Encode writes the entry as it is stored: each fact is one object whose "type" comes first. It gives the same
// bytes as json.Marshal, which would go over all of them once more.
func (e Entry) Encode() ([]byte, error) {
	type plain Entry
	head, err := json.Marshal(struct {
		plain
		Facts *struct{} `json:"facts,omitempty"`
	}{plain: plain(e)})
	if err != nil {
		return nil, err
	}
	b := append(head[:len(head)-1], `,"facts":[`...)
	for i, f := range e.Facts {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendFact(b, f); err != nil {
			return nil, err
		}
	}
	return append(b, "]}"...), nil
}

// UnmarshalJSON reads an entry. A fact of an unknown type is an error that matches ErrUnknown: a state folded
// without it would be wrong.
func (e *Entry) UnmarshalJSON(b []byte) error {
	type plain Entry
	var wire struct {
		plain
		Facts []json.RawMessage `json:"facts"`
	}
	if err := json.Unmarshal(b, &wire); err != nil {
		return fmt.Errorf("entry: %w", err)
	}
	if wire.V != Version {
		return fmt.Errorf("entry: format %d, this program reads %d: %w", wire.V, Version, ErrUnknown)
	}
	*e = Entry(wire.plain)
	e.Facts = make([]Fact, len(wire.Facts))
	for i, raw := range wire.Facts {
		f, err := decode(raw)
		if err != nil {
			return fmt.Errorf("entry: %w", err)
		}
		e.Facts[i] = f
	}
	return nil
}

func appendFact(b []byte, f Fact) ([]byte, error) {
	body, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("fact %s: %w", f.Type(), err)
	}
	b = fmt.Appendf(b, `{"type":%q`, f.Type())
	if len(body) > len("{}") {
		b = append(b, ',')
	}
	return append(b, body[1:]...), nil
}

func decode(raw json.RawMessage) (Fact, error) {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	read, ok := readers[head.Type]
	if !ok {
		return nil, fmt.Errorf("%q: %w", head.Type, ErrUnknown)
	}
	f, err := read(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", head.Type, err)
	}
	return f, nil
}

// All returns the zero value of every type of fact whose noun is given, by name. A test of a reader of facts compares what the
// reader knows with it, so that a new type is not forgotten.
func All(nouns ...string) []Fact {
	var all []Fact
	for _, name := range slices.Sorted(maps.Keys(readers)) {
		noun, _, _ := strings.Cut(name, ".")
		if !slices.Contains(nouns, noun) {
			continue
		}
		if f, err := readers[name](json.RawMessage("{}")); err == nil {
			all = append(all, f)
		}
	}
	return all
}

// readers is the table of all types. It is never written to.
var readers = table(
	reader[JobOpened](), reader[JobClosed](), reader[JobCancelled](),
	reader[AttemptPlanned](), reader[AttemptRequested](), reader[AttemptQuoted](), reader[AttemptProgressed](),
	reader[AttemptDelivered](), reader[AttemptFetched](), reader[AttemptJudged](), reader[AttemptUndecided](), reader[AttemptRefused](),
	reader[AttemptExpired](), reader[AttemptCancelled](), reader[AttemptParked](), reader[AttemptRecorded](), reader[ReceiptPublished](),
	reader[RequestReceived](), reader[RequestFinished](), reader[RequestCancelled](),
	reader[ProviderMoved](), reader[TrustChanged](),
	reader[JobSolicited](), reader[JobOffered](), reader[AttemptCompared](),
	reader[ServicePaused](), reader[ServiceResumed](), reader[MeetingBegan](), reader[MeetingEnded](),
	reader[AttemptDisputed](), reader[AttemptTold](), reader[RequestJudged](), reader[RequestObjected](),
	reader[PolicyAdopted](), reader[VariableChanged](), reader[BidReserved](), reader[BidFreed](),
	reader[ReviewDrafted](), reader[ReviewPublished](), reader[ReviewHeld](), reader[ReviewResumed](), reader[ReviewDropped](),
	reader[BackupMade](), reader[BackupSent](), reader[BackupFailed](), reader[BackupChosen](), reader[BackupRestored](),
	reader[EffectClaimed](), reader[EffectRenewed](), reader[EffectSettled](), reader[EffectParked](),
	reader[JournalArchived](), reader[JournalRepaired](), reader[JournalReleased](), reader[JournalSealed](), reader[SealPublished](),
)

type entryReader struct {
	name string
	read func(json.RawMessage) (Fact, error)
}

func reader[T Fact]() entryReader {
	var zero T
	return entryReader{zero.Type(), func(raw json.RawMessage) (Fact, error) {
		var f T
		err := json.Unmarshal(raw, &f)
		return f, err
	}}
}

func table(all ...entryReader) map[string]func(json.RawMessage) (Fact, error) {
	m := make(map[string]func(json.RawMessage) (Fact, error), len(all))
	for _, r := range all {
		m[r.name] = r.read
	}
	return m
}
