// Package record is the step that writes the documents of an attempt once it has ended: the trajectory of the job so
// far (REPLAY.jsonl) and, if there was a verdict or money was set aside, the receipt that binds request, delivery, verdict, policy and
// what became of the money. It publishes receipts if the owner wants that. It owns the facts attempt.recorded and receipt.published. Both documents
// are computed from facts, the policy and the program's version, and from no clock, so that computing them again gives
// the same bytes. It never changes a record: a verdict after a dispute has its own receipt, which names the first one.
package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/canon"
	"guild/internal/hand/blob"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/receipt"
	"guild/replay"
)

// Config configures the step.
type Config struct {
	Blobs    *blob.Store
	Policy   func() guild.Hash // returns the hash of this node's trust policy
	Producer string            // program and version, as "guild@0.1.0"

	// Publish publishes receipts, which Signer signs. If nil, they are not published.
	Publish func(ctx context.Context, e guild.Verified, relays []string) error
	Signer  nostr.Signer
}

// Record is the step.
type Record struct {
	c    Config
	fold *Fold
}

// New returns the step on its fold.
func New(c Config, f *Fold) *Record { return &Record{c, f} }

// Due lists the attempts whose record has to be written now, and the receipts to publish. It implements due.Source.
func (r *Record) Due(time.Time) []due.Work {
	var work []due.Work
	for _, ended := range r.fold.ended() {
		work = append(work, r.write(ended))
	}
	if r.c.Publish != nil {
		for _, u := range r.fold.unpublished() {
			work = append(work, r.publish(u))
		}
	}
	return work
}

// write returns the effect that writes an attempt's record. It is free of claims: two tries write the same documents,
// and only the first records the fact.
func (r *Record) write(s session) due.Work {
	return due.Work{
		Key: "record " + s.Attempt.Hex(), Guard: fact.JobSubject(s.Job), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			recorded, err := r.documents(ctx, s)
			if err != nil {
				return nil, fmt.Errorf("record attempt %.8s: %w", s.Attempt.Hex(), err)
			}
			return func(tx *journal.Tx) error {
				if r.fold.due(s.Attempt) {
					tx.Append(recorded)
				}
				return nil
			}, nil
		},
	}
}

// documents writes both documents and returns the fact that names them.
func (r *Record) documents(ctx context.Context, s session) (fact.AttemptRecorded, error) {
	var trajectory bytes.Buffer
	policy := r.c.Policy().String() // the same in both documents
	hash, err := r.replay(&trajectory, s, policy)
	if err != nil {
		return fact.AttemptRecorded{}, err
	}
	recorded := fact.AttemptRecorded{Attempt: s.Attempt, Trajectory: hash}
	if recorded.Replay, err = r.c.Blobs.PutBytes(ctx, trajectory.Bytes()); err != nil {
		return fact.AttemptRecorded{}, err
	}
	if s.Judged == nil && s.Held == nil {
		return recorded, nil
	}
	document, err := r.receipt(s, hash, policy)
	if err != nil {
		return fact.AttemptRecorded{}, err
	}
	raw, err := document.Encode()
	if err != nil {
		return fact.AttemptRecorded{}, err
	}
	recorded.Receipt, recorded.Public, recorded.Unjudged = document.ID, r.c.Publish != nil, s.Judged == nil
	if !s.Plain && s.Result != (nostr.ID{}) {
		recorded.Provider = s.Provider.PubKey
	}
	recorded.Stored, err = r.c.Blobs.PutBytes(ctx, raw)
	return recorded, err
}

// receipt computes the receipt of a session. Its time is the end of the attempt and not the time of writing, so that a
// receipt that is written late has the same bytes.
func (r *Record) receipt(s session, trajectory guild.Hash, policy string) (receipt.Receipt, error) {
	document := receipt.Receipt{
		ID:             receipt.NewID(s.Job, s.Attempt, s.Result, s.Earlier),
		Supersedes:     s.Earlier,
		SessionID:      s.Job.String(),
		TrajectoryHash: trajectory,
		PolicyBundleID: policy,
		JobHash:        s.JobHash,
		ProviderID:     nip19.EncodeNpub(s.Provider.PubKey),
		ProviderPubKey: s.Provider.PubKey,
		Timestamp:      time.UnixMilli(s.Ended).UTC().Format(time.RFC3339Nano),
		Task:           s.Task, Job: s.Job, Attempt: s.Attempt,
		RequestEvent: s.Attempt, ResultEvent: s.Result,
		BundleHash: s.Bundle, DeliveryHash: s.Delivery, Behaviour: s.Claimed,
		IdempotencyKey: s.Key,
	}
	if v := s.Judged; v != nil {
		document.Outcome, document.VerdictHash = v.Verdict.Outcome, v.Hash
		if v.Verdict.Strengths != nil {
			score := v.Verdict.Score
			document.Score, document.Strength, document.Strengths = &score, v.Verdict.Strength, v.Verdict.Strengths
		}
	}
	if s.Held != nil {
		document.QuoteEvent, document.AmountMsats, document.ApprovalRuleID = s.Held.Quote, s.Paid.Amount, &s.Paid.Rule
		if s.Paid.Amount > 0 {
			document.Rail, document.AssetID = &s.Held.Rail, &s.Held.Asset
			document.PaymentProof = &receipt.PaymentProof{Type: "cashu_proof", Value: s.Paid.Proof}
			switch s.Held.Rail {
			case "onchain":
				document.PaymentProof.Type = "onchain_txid"
			case "lightning":
				document.PaymentProof.Type, document.Bolt11 = "lightning_preimage", s.Held.Invoice
			}
		} else {
			document.Refund = &receipt.Refund{Rail: s.Held.Rail, AssetID: s.Held.Asset, AmountMsats: s.Held.Amount, Proof: s.Paid.Proof}
		}
	}
	return document, document.Validate()
}

// replay writes REPLAY.jsonl, with a tool call and its result for each act, and returns its canonical hash.
func (r *Record) replay(to *bytes.Buffer, s session, policy string) (guild.Hash, error) {
	if len(s.Acts) == 0 {
		return guild.Hash{}, errors.New("the job has no recorded acts")
	}
	w := replay.NewWriter(to)
	start := moment(s.Acts[0].At)
	events := []replay.Event{
		replay.ReplayHeader{Version: 1, Producer: r.c.Producer, CreatedAt: start},
		replay.SessionStart{SessionID: s.Job.String(), PolicyBundleID: policy, T: start},
	}
	for i, act := range s.Acts {
		call, result, err := act.events(fmt.Sprintf("tc_%03d", i+1))
		if err != nil {
			return guild.Hash{}, err
		}
		events = append(events, call, result)
	}
	confidence := 0.0
	if s.Judged != nil {
		events = append(events, verification(s))
		confidence = s.Judged.Verdict.Score.Float()
	}
	events = append(events, replay.SessionEnd{
		Status: status(s), Confidence: replay.Float(confidence), TotalToolCalls: len(s.Acts),
		TotalLatencyMs: s.Ended - s.Acts[0].At, T: moment(s.Ended),
	})
	for _, e := range events {
		e, err := replay.Redact(e)
		if err != nil {
			return guild.Hash{}, err
		}
		if err := w.Write(e); err != nil {
			return guild.Hash{}, err
		}
	}
	return w.Close()
}

func verification(s session) replay.Verification {
	exit := 1
	if s.Judged.Verdict.Outcome == guild.Success {
		exit = 0
	}
	return replay.Verification{
		Commands:  []string{fmt.Sprintf("guild judge %s %s", s.Bundle, s.Delivery)},
		ExitCodes: []int{exit}, Delta: s.Judged.Verdict.Passed, T: moment(s.Ended),
	}
}

func status(s session) replay.Status {
	switch {
	case s.State == guild.Accepted:
		return replay.Success
	case s.State == guild.Expired:
		return replay.Timeout
	case s.State == guild.Cancelled:
		return replay.Cancelled
	}
	return replay.Failed
}

func moment(ms int64) string { return replay.Time(time.UnixMilli(ms)) }

// act is one action of the node for a job, or one event.
type act struct {
	At     int64           `json:"at"` // Unix ms
	Ms     int64           `json:"ms"` // since the act before
	Tool   string          `json:"tool"`
	Params json.RawMessage `json:"params"`
	Output string          `json:"output"`
	Exit   int             `json:"exit"`
}

// events returns the tool call and the result that describe an act in a trajectory.
func (a act) events(id string) (replay.ToolCall, replay.ToolResult, error) {
	hash, err := canon.Hash(a.Params)
	if err != nil {
		return replay.ToolCall{}, replay.ToolResult{}, fmt.Errorf("%s: %w", a.Tool, err)
	}
	call := replay.ToolCall{ID: id, Tool: a.Tool, Params: a.Params, ParamsHash: hash.String(), StepID: a.step(),
		T: moment(a.At - a.Ms)}
	utility := replay.Float(0)
	if a.Exit == 0 {
		utility = 1
	}
	result := replay.ToolResult{ID: id, OutputHash: guild.Sum([]byte(a.Output)).String(),
		Preview: a.Output, ExitCode: &a.Exit, StepUtility: utility, LatencyMs: a.Ms,
		T: moment(a.At)}
	return call, result, nil
}

// Stored holds the places of a record's documents.
type Stored struct {
	Attempt nostr.ID
	Receipt string
	Blob    guild.Hash // the receipt; zero if there is none
	Replay  guild.Hash

	Unjudged bool // the receipt is of money alone
}
