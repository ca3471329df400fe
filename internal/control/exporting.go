package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"guild"
	"guild/internal/evidence"
	"guild/internal/journal"
	"guild/internal/record"
	"guild/verify"
)

// maxExport is the largest export that a client reads, in bytes: all that package verify takes, and the archive's own.
const maxExport = 257 << 20

// getReceiptExport answers with the evidence of a receipt, by its id or by its job: then of the last one.
func (s *Server) getReceiptExport(w http.ResponseWriter, r *http.Request) {
	job, stored, ok := s.receiptOf(w, r)
	if !ok {
		return
	}
	files, err := s.c.Evidence.Of(r.Context(), job, stored, evidence.Options{Without: r.URL.Query()["without"]})
	if err != nil {
		refuseExport(w, err)
		return
	}
	packed, err := verify.Pack(files)
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/zip")
	w.Write(packed)
}

// refuseExport says what is to be done for an export after all.
func refuseExport(w http.ResponseWriter, err error) {
	without := ""
	if file, ok := errors.AsType[*evidence.Error](err); ok {
		without = "leave it out with --without " + file.File
	}
	switch {
	case errors.Is(err, evidence.ErrNoFile):
		refuse(w, http.StatusBadRequest, "usage", "there are "+strings.Join(evidence.Optional(), ", "), err)
	case errors.Is(err, journal.ErrArchiveGone):
		hint := "put the file back there, and export again"
		if without != "" {
			hint += "; or " + without
		}
		refuse(w, http.StatusNotFound, "missing", hint, err)
	case without != "":
		refuse(w, http.StatusConflict, "refused", without, err)
	default:
		fail(w, err)
	}
}

// receiptOf finds a receipt by its id or the beginning of it, or the last one of a job, and answers itself when there is
// none.
func (s *Server) receiptOf(w http.ResponseWriter, r *http.Request) (guild.JobID, record.Stored, bool) {
	id := strings.ToLower(r.PathValue("id"))
	if !strings.HasPrefix(id, "r-") {
		return s.receiptOfJob(w, r)
	}
	if job, stored, ok := s.c.Record.Receipt(id); ok {
		return job, stored, true
	}
	if alike := s.receiptsLike(id); len(alike) > 1 {
		refuse(w, http.StatusConflict, "ambiguous", "give more digits", fmt.Errorf("%d receipts begin with %.40q", len(alike), id))
	} else {
		refuse(w, http.StatusNotFound, "missing", "guild job show JOB names the receipts of a job", fmt.Errorf("no receipt %.40q", id))
	}
	return guild.JobID{}, record.Stored{}, false
}

func (s *Server) receiptOfJob(w http.ResponseWriter, r *http.Request) (guild.JobID, record.Stored, bool) {
	j, found := s.find(w, r)
	if !found {
		return guild.JobID{}, record.Stored{}, false
	}
	stored, ok := lastReceipt(s.c.Record.Of(j.Job))
	if !ok {
		refuse(w, http.StatusNotFound, "missing", "a receipt is written once a delivery was judged", fmt.Errorf("no receipt of job %s", j.Job.Short()))
	}
	return j.Job, stored, ok
}

// receiptsLike lists the receipts whose ids begin so.
func (s *Server) receiptsLike(prefix string) (ids []string) {
	for _, j := range s.c.Fold.All() {
		for _, stored := range s.c.Record.Of(j.Job) {
			if strings.HasPrefix(stored.Receipt, prefix) {
				ids = append(ids, stored.Receipt)
			}
		}
	}
	return ids
}

// ExportReceipt is GET /v1/receipts/{id}/export: the evidence of a receipt, or of a job's last one, as one ZIP archive. Files
// named in without are left out.
func (c *Client) ExportReceipt(ctx context.Context, id string, without []string) ([]byte, error) {
	body, err := c.open(ctx, http.MethodGet, "/v1/receipts/"+url.PathEscape(id)+"/export", url.Values{"without": without}, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, maxExport+1))
	if err == nil && len(b) > maxExport {
		err = fmt.Errorf("the export is over %d MiB", maxExport>>20)
	}
	return b, err
}
