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
	"guild/internal/journal"
	"guild/nook"
)

// MaxBody is the size limit of a report over HTTP, in bytes.
const MaxBody = 1 << 20

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

// Handler answers local programs that have the token. To POST /api/nook/events the body is one event, or an array of at most
// MaxReport, and the parameter root names the root identity, as for Step.Root. To POST /api/nook/claims the body is that of
// ParseClaims. The answer is a Counted.
func Handler(s *Step, token string, d door.Door) http.Handler {
	limit := rate.NewLimiter(perSecond, burst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		done, err := s.take(w, r, token, d, limit)
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

// take records a report or claims, if they may come in.
func (s *Step) take(w http.ResponseWriter, r *http.Request, token string, d door.Door, limit *rate.Limiter) (Counted, error) {
	if status := d.Refuses(r); status != 0 {
		return Counted{}, refuse(status, "refused", "a program on this machine names the address as Host, and sends no Origin", http.StatusText(status))
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1:
		return Counted{}, refuse(http.StatusUnauthorized, "unauthorized",
			"send the content of the file token beside the file url: Authorization: Bearer TOKEN", "the token is missing or wrong")
	case r.URL.Path != "/api/nook/events" && r.URL.Path != "/api/nook/claims":
		return Counted{}, refuse(http.StatusNotFound, "missing", "POST /api/nook/events", "no such path")
	case r.Method != http.MethodPost:
		return Counted{}, refuse(http.StatusMethodNotAllowed, "usage", "POST /api/nook/events", r.Method+" is not possible here")
	case !limit.Allow():
		w.Header().Set("Retry-After", "1")
		return Counted{}, refuse(http.StatusTooManyRequests, "busy", fmt.Sprintf("send up to %d events in one report", MaxReport), "too many reports")
	}
	root, err := s.Root(r.URL.Query().Get("root"))
	if err != nil {
		return Counted{}, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		return Counted{}, fmt.Errorf("read the report: %w", err)
	}
	if r.URL.Path == "/api/nook/claims" {
		claims, err := ParseClaims(body)
		if err != nil {
			return Counted{}, err
		}
		return s.Claim(r.Context(), claims)
	}
	events, err := ParseReport(body)
	if err != nil {
		return Counted{}, err
	}
	return s.Report(r.Context(), root, events)
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
	_, long := errors.AsType[*http.MaxBytesError](err)
	hint := Advice(err)
	switch {
	case long || errors.Is(err, ErrReport):
		return refuse(http.StatusRequestEntityTooLarge, "too-large", fmt.Sprintf("send at most %d events and 1 MB in one report", MaxReport), err.Error())
	case errors.Is(err, ErrRoot):
		return refuse(http.StatusBadRequest, "root", hint, err.Error())
	case hint != "":
		return refuse(http.StatusBadRequest, "usage", hint, err.Error())
	case errors.Is(err, journal.ErrQuarantined):
		return refuse(http.StatusConflict, "quarantined", journal.Hint(err), err.Error())
	case errors.Is(err, journal.ErrFull):
		return refuse(http.StatusInsufficientStorage, "full", journal.Hint(err), err.Error())
	}
	return refuse(http.StatusInternalServerError, "failed", "guild doctor finds what ails a node", err.Error())
}

// Advice returns what the sender can do about a report or claim that was refused, or "" if it is not to blame.
func Advice(err error) string {
	if _, ok := errors.AsType[*nook.FieldError](err); ok {
		return "the Nook protocol, section 1, has the types of events and their members"
	}
	switch {
	case errors.Is(err, ErrRoot):
		return "leave out the root for agents of this node; guild nook claim takes the proof for another key"
	case errors.Is(err, ErrClaim):
		return "send kind 14199 of the owner and kind 0 of the agent, which name each other"
	case errors.Is(err, ErrReport):
		return "send it in parts"
	}
	return ""
}
