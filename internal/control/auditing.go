package control

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"guild/internal/audit"
	"guild/internal/fact"
	"guild/internal/jobs"
	"guild/internal/journal"
)

func (s *Server) serveSeals() {
	if s.c.Audit == nil {
		return
	}
	s.mux.HandleFunc("POST /v1/seals", s.postSeal)
	s.mux.HandleFunc("GET /v1/proofs/{id}", s.getProof)
}

func (s *Server) postSeal(w http.ResponseWriter, r *http.Request) {
	sealed, err := s.c.Audit.Seal(r.Context())
	if err != nil {
		refuseProof(w, err)
		return
	}
	answer(w, sealed)
}

// getProof answers with the proof of an entry, by its number, or of the entry that names a receipt.
func (s *Server) getProof(w http.ResponseWriter, r *http.Request) {
	seq, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil || seq > s.c.Journal.Last() && s.beginsAJob(r.PathValue("id")) {
		var ok bool
		if seq, ok = s.entryOfReceipt(w, r); !ok {
			return
		}
	}
	proven, err := s.c.Audit.Prove(r.Context(), seq)
	if err != nil {
		refuseProof(w, err)
		return
	}
	answer(w, proven)
}

// beginsAJob reports whether there is a job whose id begins so.
func (s *Server) beginsAJob(digits string) bool {
	return slices.ContainsFunc(s.c.Fold.All(), func(j *jobs.Job) bool { return strings.HasPrefix(j.Job.String(), digits) })
}

// entryOfReceipt finds the entry that names a receipt, and answers itself when there is none.
func (s *Server) entryOfReceipt(w http.ResponseWriter, r *http.Request) (uint64, bool) {
	job, stored, ok := s.receiptOf(w, r)
	if !ok {
		return 0, false
	}
	subject := fact.JobSubject(job)
	for _, entries := range []iter.Seq2[fact.Entry, error]{s.c.Journal.Of(r.Context(), subject), s.c.Journal.Archived(r.Context(), subject)} {
		for e, err := range entries {
			if err != nil {
				refuseProof(w, err)
				return 0, false
			}
			for _, f := range e.Facts {
				if said, ok := f.(fact.AttemptRecorded); ok && said.Receipt == stored.Receipt {
					return e.Seq, true
				}
			}
		}
	}
	fail(w, fmt.Errorf("no entry names the receipt %s", stored.Receipt))
	return 0, false
}

func refuseProof(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, journal.ErrNoEntry):
		refuse(w, http.StatusNotFound, "missing", "guild journal ls lists the entries", err)
	case errors.Is(err, journal.ErrArchiveGone):
		refuse(w, http.StatusNotFound, "missing", journal.Hint(err), err)
	case errors.Is(err, audit.ErrEmpty):
		refuse(w, http.StatusNotFound, "missing", "there is nothing to seal before the first job", err)
	case errors.Is(err, audit.ErrUnsealed):
		refuse(w, http.StatusConflict, "unsealed", "guild audit seal seals the journal up to now", err)
	default:
		fail(w, err)
	}
}

// Seal is POST /v1/seals: seals the journal now, unless nothing was added since the latest seal, and returns that.
func (c *Client) Seal(ctx context.Context) (audit.Sealed, error) {
	return post[audit.Sealed](ctx, c, "/v1/seals", struct{}{})
}

// Proof is GET /v1/proofs/{id}: the proof that an entry is in the sealed journal. id is the number of the entry, or a
// receipt or job of which it is.
func (c *Client) Proof(ctx context.Context, id string) (audit.Proven, error) {
	return get[audit.Proven](ctx, c, "/v1/proofs/"+url.PathEscape(id), nil)
}
