package activity

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"golang.org/x/time/rate"

	"guild/internal/hand/door"
	"guild/nook"
)

// maxBody is the size limit of a report over HTTP, in bytes.
const maxBody = 1 << 20

// Reports over HTTP: so many a second, and so many at once.
const (
	perSecond = 50
	burst     = 200
)

// failure is the answer to a report that is refused.
type failure struct {
	Err  string `json:"error"`
	Hint string `json:"hint,omitempty"`
	Code string `json:"code"`

	status int
}

func (e *failure) Error() string { return e.Err }

func refuse(status int, code, hint, text string) *failure {
	return &failure{Err: text, Hint: hint, Code: code, status: status}
}

// Handler answers POST /api/nook/events of local programs that have the token: the body is one event, or an array of at
// most MaxReport, and the answer a Counted. The parameter root names the root identity, as for Step.Root.
func Handler(s *Step, token string, d door.Door) http.Handler {
	limit := rate.NewLimiter(perSecond, burst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var done Counted
		root, events, err := s.admit(w, r, token, d, limit)
		if err == nil {
			done, err = s.Report(r.Context(), root, events)
		}
		w.Header().Set("Content-Type", "application/json")
		if err == nil {
			json.NewEncoder(w).Encode(done) // the client is gone if this fails
			return
		}
		why := failureOf(err)
		w.WriteHeader(why.status)
		json.NewEncoder(w).Encode(why)
	})
}

// admit reads a report, if it may come in.
func (s *Step) admit(w http.ResponseWriter, r *http.Request, token string, d door.Door, limit *rate.Limiter) (root string, events []nook.Event, err error) {
	if status := d.Refuses(r); status != 0 {
		return "", nil, refuse(status, "refused", "a program on this machine names the address as Host, and sends no Origin", http.StatusText(status))
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1:
		return "", nil, refuse(http.StatusUnauthorized, "unauthorized",
			"send the content of the file token beside the file url: Authorization: Bearer TOKEN", "the token is missing or wrong")
	case r.URL.Path != "/api/nook/events":
		return "", nil, refuse(http.StatusNotFound, "missing", "POST /api/nook/events", "no such path")
	case r.Method != http.MethodPost:
		return "", nil, refuse(http.StatusMethodNotAllowed, "usage", "POST /api/nook/events", r.Method+" is not possible here")
	case !limit.Allow():
		w.Header().Set("Retry-After", "1")
		return "", nil, refuse(http.StatusTooManyRequests, "busy", fmt.Sprintf("send up to %d events in one report", MaxReport), "too many reports")
	}
	if root, err = s.Root(r.URL.Query().Get("root")); err != nil {
		return "", nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return "", nil, fmt.Errorf("read the report: %w", err)
	}
	events, err = ParseReport(body)
	return root, events, err
}

// ParseReport parses one event, or an array of at most MaxReport. The errors are those of nook.Parse, and ErrReport.
func ParseReport(body []byte) ([]nook.Event, error) {
	raw := []json.RawMessage{body}
	if trimmed := bytes.TrimSpace(body); len(trimmed) > 0 && trimmed[0] == '[' {
		if err := json.Unmarshal(trimmed, &raw); err != nil {
			return nil, &nook.FieldError{Problem: "not a JSON array of events"}
		}
	}
	if len(raw) > MaxReport {
		return nil, ErrReport
	}
	events := make([]nook.Event, 0, len(raw))
	for i, one := range raw {
		e, err := nook.Parse(one)
		if err != nil && len(raw) > 1 {
			return nil, fmt.Errorf("number %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

func failureOf(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, ErrReport) {
		return refuse(http.StatusRequestEntityTooLarge, "too-large", fmt.Sprintf("send at most %d events and 1 MB in one report", MaxReport), err.Error())
	}
	if _, ok := errors.AsType[*nook.FieldError](err); ok {
		return refuse(http.StatusBadRequest, "usage", "the Nook protocol, section 1, has the types of events and their members", err.Error())
	}
	if errors.Is(err, ErrRoot) {
		return refuse(http.StatusBadRequest, "usage", "leave out root for agents of this node", err.Error())
	}
	return refuse(http.StatusInternalServerError, "failed", "guild doctor finds what ails a node", err.Error())
}
