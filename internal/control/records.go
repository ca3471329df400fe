package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/step/jobs"
	"guild/internal/step/record"
)

// maxDocument is the largest receipt or trajectory, in bytes.
const maxDocument = 64 << 20

// ListedReceipt is a receipt in the list of GET /v1/receipts.
type ListedReceipt struct {
	Receipt  string         `json:"receipt"`
	Job      string         `json:"job"`
	Attempt  string         `json:"attempt"`
	Task     string         `json:"task"`
	Provider string         `json:"provider"` // npub
	Name     string         `json:"name,omitempty"`
	Outcome  guild.Outcome  `json:"outcome,omitempty"` // absent without a verdict, of money alone
	Score    guild.Score    `json:"score_micro"`
	Strength guild.Strength `json:"strength,omitempty"`
	At       int64          `json:"at_ms"` // of the request, Unix ms
}

func (s *Server) getReceipts(*http.Request) ([]ListedReceipt, error) {
	all := []ListedReceipt{}
	for _, j := range s.c.Fold.All() {
		for _, a := range j.Attempts {
			if a.Receipt == "" {
				continue
			}
			v := s.attempt(a)
			one := ListedReceipt{Receipt: v.Receipt, Job: j.Job.String(), Attempt: v.ID, Task: j.Task, Provider: v.Npub, Name: v.Name, At: v.Planned}
			if a.Verdict != nil {
				one.Outcome, one.Score, one.Strength = a.Verdict.Outcome, a.Verdict.Score, a.Verdict.Strength
			}
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b ListedReceipt) int { return cmp.Compare(b.At, a.At) })
	return all, nil
}

// getReceipt returns a receipt, or the last one of a job, as it is stored.
func (s *Server) getReceipt(r *http.Request) ([]byte, error) {
	_, stored, err := s.receiptOf(r)
	if err != nil {
		return nil, err
	}
	return s.c.Blobs.ReadAll(stored.Blob, maxDocument)
}

// getReplay returns the trajectory that a receipt names, or that of a job up to the end of one attempt: the one asked
// for, or the last one that is recorded.
func (s *Server) getReplay(r *http.Request) ([]byte, error) {
	var stored record.Stored
	var err error
	if strings.HasPrefix(strings.ToLower(r.PathValue("id")), "r-") {
		_, stored, err = s.receiptOf(r)
	} else {
		var j *jobs.Job
		if j, err = s.findWhole(r); err == nil {
			stored, err = recordedAttempt(s.c.Record.Of(j.Job), strings.ToLower(r.URL.Query().Get("attempt")))
			if err != nil {
				err = missing("a trajectory is written when an attempt has ended", fmt.Errorf("job %s: %w", j.Job.Short(), err))
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return s.c.Blobs.ReadAll(stored.Replay, maxDocument)
}

// recordedAttempt returns the stored record of the attempt whose id begins with prefix, or of the last one if prefix is
// empty.
func recordedAttempt(all []record.Stored, prefix string) (stored record.Stored, err error) {
	if prefix == "" {
		if len(all) == 0 {
			return stored, errors.New("no trajectory yet")
		}
		return all[len(all)-1], nil
	}
	var ids []string
	for _, one := range all {
		id := one.Attempt.Hex()
		if !strings.HasPrefix(id, prefix) {
			continue
		}
		if !slices.Contains(ids, id) { // a dispute records an attempt again: then the last record counts
			ids = append(ids, id)
		}
		stored = one
	}
	switch len(ids) {
	case 0:
		return stored, fmt.Errorf("no trajectory of an attempt %.64q", prefix)
	case 1:
		return stored, nil
	}
	return stored, fmt.Errorf("%d attempts begin with %q", len(ids), prefix)
}

// getJournal lists entries from a sequence or a time on, of subjects with a prefix.
func (s *Server) getJournal(w http.ResponseWriter, r *http.Request) {
	from, after, err := since(r.URL.Query().Get("since"), s.c.Now())
	if err != nil {
		fail(w, wrongUsage("give a sequence, a duration like 1h, or a time like 2026-11-20T06:00:00Z", err))
		return
	}
	subject := r.URL.Query().Get("subject")
	lines := newStream(w)
	for e, err := range s.c.Journal.Entries(r.Context(), from) {
		if err != nil {
			lines.fail(err)
		}
		if e.At >= after && strings.HasPrefix(string(e.Subject), subject) {
			lines.out.Encode(toRecord(e))
		}
	}
}

// since reads a sequence, a duration before now, or a time.
func since(text string, now time.Time) (from uint64, after int64, err error) {
	if text == "" {
		return 0, 0, nil
	}
	if seq, err := strconv.ParseUint(text, 10, 64); err == nil {
		return seq, 0, nil
	}
	if d, err := time.ParseDuration(text); err == nil {
		return 0, now.Add(-d).UnixMilli(), nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, 0, fmt.Errorf("since %.40q: not a sequence, a duration or a time", text)
	}
	return 0, t.UnixMilli(), nil
}

func toRecord(e fact.Entry) Record {
	raw, err := json.Marshal(e)
	if err != nil {
		raw = []byte("null")
	}
	return Record{Seq: e.Seq, Subject: string(e.Subject), Entry: raw}
}

func (s *Server) getRecord(r *http.Request) (Record, error) {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
	if err != nil || seq == 0 {
		return Record{}, wrongUsage("guild journal ls lists the sequences", fmt.Errorf("entry %.40q: not a number from 1 on", r.PathValue("seq")))
	}
	e, err := s.c.Journal.Entry(r.Context(), seq)
	if errors.Is(err, journal.ErrNoEntry) {
		err = missing("guild journal ls lists the sequences", err)
	}
	return toRecord(e), err
}

// getRejected lists the events that changed nothing, the newest last.
func (s *Server) getRejected(w http.ResponseWriter, r *http.Request) {
	lines := newStream(w)
	for m, err := range s.c.Journal.Rejected(r.Context()) {
		if err != nil {
			lines.fail(err)
		}
		var d Dropped
		if json.Unmarshal(m.Data, &d) == nil {
			d.At, d.Reason = m.At.UnixMilli(), cmp.Or(d.Reason, m.Reason)
			lines.out.Encode(d)
		}
	}
}
