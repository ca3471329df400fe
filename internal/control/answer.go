package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"guild/internal/journal"
)

// maxWords is the largest body of a request that only says what is wanted, in bytes.
const maxWords = 64 << 10

// refusal is an error that says how a request is answered.
type refusal struct {
	status     int
	code, hint string
	text       string
}

func (e *refusal) Error() string { return e.text }

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) // the client is gone if this fails
}

// answerRaw answers with a document that is JSON already.
func answerRaw(w http.ResponseWriter, document []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(document)
}

// refuse answers with a Problem.
func refuse(w http.ResponseWriter, status int, code, hint string, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(Problem{Error: err.Error(), Hint: hint, Code: code})
}

// fail answers with an error: a refusal says how, a quarantine and a full disk are told as such, and all else is trouble
// of the node's.
func fail(w http.ResponseWriter, err error) {
	status, p := problemOf(err)
	refuse(w, status, p.Code, p.Hint, err)
}

// problemOf returns the status and the body with which fail answers.
func problemOf(err error) (status int, p Problem) {
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case ok:
		return refused.status, Problem{Error: err.Error(), Hint: refused.hint, Code: refused.code}
	case errors.Is(err, journal.ErrQuarantined):
		return http.StatusConflict, Problem{Error: err.Error(), Hint: journal.Hint(err), Code: "quarantined"}
	case errors.Is(err, journal.ErrFull):
		return http.StatusInsufficientStorage, Problem{Error: err.Error(), Hint: journal.Hint(err), Code: "full"}
	}
	return http.StatusInternalServerError, Problem{Error: err.Error(), Hint: journal.Hint(err), Code: "internal"}
}

// stream answers with lines of JSON as they come. The status is sent with the first of them, so an error that ends the
// stream is told in a last line, and the connection is cut: a client that does not know the line sees no proper end.
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

// fail ends the stream and the handler. A node that is stopping cuts the connection without a word.
func (s stream) fail(err error) {
	if !errors.Is(err, journal.ErrClosed) {
		_, p := problemOf(err)
		s.out.Encode(failedLine{p}) // the client is gone if this fails
		s.flush.Flush()
	}
	panic(http.ErrAbortHandler)
}

// decode reads the body of a request, which is one JSON value of at most so many bytes and names nothing unknown. It
// answers what is wrong with any other, and returns false.
func decode[T any](w http.ResponseWriter, r *http.Request, most int64, into *T) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("something follows the JSON value")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "usage", "docs/API.md says what it takes", fmt.Errorf("%s: %w", r.Pattern, err))
	}
	return err == nil
}
