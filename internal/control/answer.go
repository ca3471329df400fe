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

// fail answers with an error: a refusal says how, a full disk is told as such, and all else is trouble of the node's.
func fail(w http.ResponseWriter, err error) {
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case ok:
		refuse(w, refused.status, refused.code, refused.hint, err)
	case errors.Is(err, journal.ErrFull):
		refuse(w, http.StatusInsufficientStorage, "full", journal.Hint(err), err)
	default:
		refuse(w, http.StatusInternalServerError, "internal", journal.Hint(err), err)
	}
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
