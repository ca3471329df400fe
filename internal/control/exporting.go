package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"guild"
	"guild/internal/evidence"
	"guild/internal/record"
	"guild/verify"
)

// getReceiptExport answers with the evidence of a receipt, by its id or by its job: then of the last one.
func (s *Server) getReceiptExport(w http.ResponseWriter, r *http.Request) {
	job, stored, ok := s.receiptOf(w, r)
	if !ok {
		return
	}
	files, err := s.c.Evidence.Of(r.Context(), job, stored, evidence.Options{Without: r.URL.Query()["without"]})
	if errors.Is(err, evidence.ErrArchived) {
		refuse(w, http.StatusNotFound, "missing", "unpack the archive files and export from there; guild journal archive says where they are", err)
		return
	}
	if err != nil {
		fail(w, err)
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

// receiptOf finds a receipt by its id, or the last one of a job, and answers itself when there is none.
func (s *Server) receiptOf(w http.ResponseWriter, r *http.Request) (guild.JobID, record.Stored, bool) {
	id := r.PathValue("id")
	if job, stored, ok := s.c.Record.Receipt(id); ok {
		return job, stored, true
	}
	if !strings.HasPrefix(id, "r-") {
		j, found := s.find(w, r)
		if !found {
			return guild.JobID{}, record.Stored{}, false
		}
		if stored, ok := lastReceipt(s.c.Record.Of(j.Job)); ok {
			return j.Job, stored, true
		}
	}
	refuse(w, http.StatusNotFound, "missing", "a receipt is written once a delivery was judged", fmt.Errorf("no receipt %.40q", id))
	return guild.JobID{}, record.Stored{}, false
}

// ExportReceipt is GET /v1/receipts/{id}/export: the evidence of a receipt, or of a job's last one, as one ZIP archive. Files
// named in without are left out.
func (c *Client) ExportReceipt(ctx context.Context, id string, without []string) ([]byte, error) {
	return c.raw(ctx, "/v1/receipts/"+url.PathEscape(id)+"/export", url.Values{"without": without})
}
