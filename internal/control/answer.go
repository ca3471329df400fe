package control

import (
	"encoding/json"
	"errors"
	"net/http"

	"guild/internal/journal"
)

// maxWords is the largest body of a request without a file, in bytes.
const maxWords = 64 << 10

// maxTokenBody limits a request with a token, in bytes.
const maxTokenBody = 2 << 20

// refusal is an error that determines how a request is answered.
type refusal struct {
	error
	status     int
	code, hint string
}

func (e *refusal) Unwrap() error { return e.error }

// wrongUsage refuses a request that makes no sense.
func wrongUsage(hint string, err error) error {
	return &refusal{error: err, status: http.StatusBadRequest, code: "usage", hint: hint}
}

// missing refuses a request for something that does not exist, or not yet.
func missing(hint string, err error) error {
	return &refusal{error: err, status: http.StatusNotFound, code: "missing", hint: hint}
}

// ambiguous refuses a request that fits several things.
func ambiguous(hint string, err error) error {
	return &refusal{error: err, status: http.StatusConflict, code: "ambiguous", hint: hint}
}

// refused refuses a request that cannot be done in the present state.
func refused(hint string, err error) error {
	return &refusal{error: err, status: http.StatusConflict, code: "refused", hint: hint}
}

// answer sends v as JSON, or the error.
func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // the client is gone if this fails
}

// fail answers with an error as a Problem.
func fail(w http.ResponseWriter, err error) {
	status, p := problemOf(err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(p)
}

// problemOf returns the status and the body for an error. One that is not a refusal, a quarantine or a full disk is
// an internal error.
func problemOf(err error) (status int, p Problem) {
	p = Problem{Error: err.Error(), Hint: journal.Hint(err)}
	wanted, ok := errors.AsType[*refusal](err)
	switch {
	case ok:
		status, p.Code, p.Hint = wanted.status, wanted.code, wanted.hint
	case errors.Is(err, journal.ErrQuarantined):
		status, p.Code = http.StatusConflict, "quarantined"
	case errors.Is(err, journal.ErrFull):
		status, p.Code = http.StatusInsufficientStorage, "full"
	default:
		status, p.Code = http.StatusInternalServerError, "internal"
	}
	return status, p
}

// stream answers with lines of JSON as they come. The status is sent with the first line, so an error that ends the
// stream is sent in a last line and the connection is cut: a client that does not know that line sees no proper end.
type stream struct {
	out   *json.Encoder
	flush *http.ResponseController
}

func newStream(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "application/x-ndjson")
	return stream{json.NewEncoder(w), http.NewResponseController(w)}
}

// failedLine is the last line of a stream that an error ended.
type failedLine struct {
	Problem Problem `json:"problem"`
}

// fail ends the stream and the handler. A node that is stopping cuts the connection without a last line.
func (s stream) fail(err error) {
	if !errors.Is(err, journal.ErrClosed) {
		_, p := problemOf(err)
		s.out.Encode(failedLine{p}) // the client is gone if this fails
		s.flush.Flush()
	}
	panic(http.ErrAbortHandler)
}
