package control

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"guild"
	"guild/internal/evidence"
	"guild/internal/journal"
	"guild/internal/step/record"
	"guild/verify"
)

// maxExport is the largest export that a client reads, in bytes: all that package verify takes, and the archive's own.
const maxExport = 257 << 20

// getReceiptExport packs the evidence of a receipt, or of the last receipt of a job.
func (s *Server) getReceiptExport(r *http.Request) ([]byte, error) {
	job, stored, err := s.receiptOf(r)
	if err != nil {
		return nil, err
	}
	reveal, err := revealing(r.URL.Query().Get("reveal"))
	if err != nil {
		return nil, err
	}
	now, _ := s.c.Fold.Job(job)
	files, err := s.c.Evidence.Of(r.Context(), job, stored,
		evidence.Options{Without: r.URL.Query()["without"], Reveal: reveal, Shredded: now.Shredded != 0})
	if err != nil {
		return nil, exportProblem(err)
	}
	return verify.Pack(files)
}

// revealing parses the parameter reveal.
func revealing(text string) (bool, error) {
	switch text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, wrongUsage("reveal is true or false", fmt.Errorf("reveal %.40q", text))
}

// exportProblem adds a hint how to make the export possible.
func exportProblem(err error) error {
	without := ""
	if file, ok := errors.AsType[*evidence.Error](err); ok {
		without = "leave it out with --without " + file.File
	}
	switch {
	case errors.Is(err, evidence.ErrNoFile):
		return wrongUsage("there are "+strings.Join(evidence.Optional(), ", "), err)
	case errors.Is(err, journal.ErrArchiveGone):
		hint := "put the file back there, and export again"
		if without != "" {
			hint += "; or " + without
		}
		return missing(hint, err)
	case without != "":
		return refused(without, err)
	}
	return err
}

// receiptOf finds a receipt by its id or the beginning of it, or the last receipt of a job. That of money for which nothing came is the
// job's only if there is no other: it can be written a day later.
func (s *Server) receiptOf(r *http.Request) (guild.JobID, record.Stored, error) {
	id := strings.ToLower(r.PathValue("id"))
	if !strings.HasPrefix(id, "r-") {
		j, err := s.find(r)
		if err != nil {
			return guild.JobID{}, record.Stored{}, err
		}
		var last record.Stored
		for _, stored := range s.c.Record.Of(j.Job) {
			if stored.Receipt != "" && (last.Receipt == "" || last.Unjudged || !stored.Unjudged) {
				last = stored
			}
		}
		if last.Receipt == "" {
			err = missing("a receipt is written once a delivery was judged, or money was set aside and has gone its way", fmt.Errorf("no receipt of job %s", j.Job.Short()))
		}
		return j.Job, last, err
	}
	if job, stored, ok := s.c.Record.Receipt(id); ok {
		return job, stored, nil
	}
	alike := 0
	for _, j := range s.c.Fold.All() {
		for _, stored := range s.c.Record.Of(j.Job) {
			if strings.HasPrefix(stored.Receipt, id) {
				alike++
			}
		}
	}
	if alike > 1 {
		return guild.JobID{}, record.Stored{}, ambiguous("give more digits", fmt.Errorf("%d receipts begin with %.40q", alike, id))
	}
	return guild.JobID{}, record.Stored{}, missing("guild job show JOB names the receipts of a job", fmt.Errorf("no receipt %.40q", id))
}
