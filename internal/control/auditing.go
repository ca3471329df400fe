package control

import (
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/step/audit"
	"guild/internal/step/jobs"
)

func (s *Server) postSeal(r *http.Request) (audit.Sealed, error) {
	sealed, err := s.c.Audit.Seal(r.Context())
	return sealed, sealProblem(err)
}

// getProof proves an entry, named by its number, or the entry that names a receipt.
func (s *Server) getProof(r *http.Request) (audit.Proven, error) {
	id := r.PathValue("id")
	seq, err := strconv.ParseUint(id, 10, 64)
	// A number beyond the last entry may still be the beginning of a job's id.
	isJob := func(j *jobs.Job) bool { return strings.HasPrefix(j.Job.String(), id) }
	if err != nil || seq > s.c.Journal.Last() && slices.ContainsFunc(s.c.Fold.All(), isJob) {
		if seq, err = s.entryOfReceipt(r); err != nil {
			return audit.Proven{}, err
		}
	}
	proven, err := s.c.Audit.Prove(r.Context(), seq)
	return proven, sealProblem(err)
}

// getConsistency proves that the journal of one size grew into that of another; without the latter, into the latest seal's.
func (s *Server) getConsistency(r *http.Request) (audit.Consistency, error) {
	var sizes [2]uint64
	for i, name := range []string{"from", "to"} {
		text := r.URL.Query().Get(name)
		if text == "" && name == "to" {
			continue
		}
		var err error
		if sizes[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			return audit.Consistency{}, wrongUsage("from and to are sizes of checkpoints", fmt.Errorf("%s is %.80q, want a number of entries", name, text))
		}
	}
	proof, err := s.c.Audit.ProveConsistency(r.Context(), sizes[0], sizes[1])
	return proof, sealProblem(err)
}

// entryOfReceipt returns the number of the entry that names a receipt.
func (s *Server) entryOfReceipt(r *http.Request) (uint64, error) {
	job, stored, err := s.receiptOf(r)
	if err != nil {
		return 0, err
	}
	subject := fact.JobSubject(job)
	for _, entries := range []iter.Seq2[fact.Entry, error]{s.c.Journal.Of(r.Context(), subject), s.c.Journal.Archived(r.Context(), subject)} {
		for e, err := range entries {
			if err != nil {
				return 0, sealProblem(err)
			}
			for _, f := range e.Facts {
				if recorded, ok := f.(fact.AttemptRecorded); ok && recorded.Receipt == stored.Receipt {
					return e.Seq, nil
				}
			}
		}
	}
	return 0, fmt.Errorf("no entry names the receipt %s", stored.Receipt)
}

// sealProblem makes an error of sealing or proving a refusal where its owner can do something about it.
func sealProblem(err error) error {
	switch {
	case errors.Is(err, journal.ErrNoEntry):
		return missing("guild journal ls lists the entries", err)
	case errors.Is(err, journal.ErrArchiveGone):
		return missing(journal.Hint(err), err)
	case errors.Is(err, audit.ErrEmpty):
		return missing("there is nothing to seal before the first job", err)
	case errors.Is(err, audit.ErrUnsealed):
		return &refusal{error: err, status: http.StatusConflict, code: "unsealed", hint: "guild audit seal seals the journal up to now"}
	}
	return err
}
