package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"guild"
	"guild/internal/fact"
	"guild/internal/journal"
	"guild/internal/record"
)

// maxDocument is the largest receipt or trajectory, in bytes.
const maxDocument = 64 << 20

// getReceipt answers with a receipt as it is stored, by its id, or by its job: then the last one.
func (s *Server) getReceipt(w http.ResponseWriter, r *http.Request) {
	if _, stored, ok := s.receiptOf(w, r); ok {
		s.document(w, stored.Blob, "application/json")
	}
}

func lastReceipt(all []record.Stored) (last record.Stored, ok bool) {
	for _, s := range all {
		if s.Receipt != "" {
			last, ok = s, true
		}
	}
	return last, ok
}

// getReplay answers with the trajectory of a job up to its last recorded attempt, or up to the one that is asked for; or
// with the one that a receipt names.
func (s *Server) getReplay(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(strings.ToLower(r.PathValue("id")), "r-") {
		if _, stored, ok := s.receiptOf(w, r); ok {
			s.document(w, stored.Replay, "application/x-ndjson")
		}
		return
	}
	j, ok := s.find(w, r)
	if !ok {
		return
	}
	stored, err := recordedAttempt(r, s.c.Record.Of(j.Job))
	if err != nil {
		refuse(w, http.StatusNotFound, "missing", "a trajectory is written when an attempt has ended", fmt.Errorf("job %s: %w", j.Job.Short(), err))
		return
	}
	s.document(w, stored.Replay, "application/x-ndjson")
}

func (s *Server) document(w http.ResponseWriter, h guild.Hash, mime string) {
	raw, err := s.c.Blobs.ReadAll(h, maxDocument)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", mime)
	w.Write(raw)
}

// getJournal lists entries from a sequence or a time on, of subjects with a prefix.
func (s *Server) getJournal(w http.ResponseWriter, r *http.Request) {
	from, after, err := since(r.URL.Query().Get("since"), s.c.Now())
	if err != nil {
		refuse(w, http.StatusBadRequest, "usage", "give a sequence, a duration like 1h, or a time like 2026-11-20T06:00:00Z", err)
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

func (s *Server) getRecord(w http.ResponseWriter, r *http.Request) {
	seq, err := strconv.ParseUint(r.PathValue("seq"), 10, 64)
	if err != nil || seq == 0 {
		refuse(w, http.StatusBadRequest, "usage", "guild journal ls lists the sequences", fmt.Errorf("entry %.40q: not a number from 1 on", r.PathValue("seq")))
		return
	}
	e, err := s.c.Journal.Entry(r.Context(), seq)
	switch {
	case errors.Is(err, journal.ErrNoEntry):
		refuse(w, http.StatusNotFound, "missing", "guild journal ls lists the sequences", err)
	case err != nil:
		fail(w, err)
	default:
		answer(w, toRecord(e))
	}
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
