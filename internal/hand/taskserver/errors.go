package taskserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"guild"
)

// Why a task server could not be used.
var (
	ErrUnreachable   = errors.New("the server cannot be reached")
	ErrPlainHTTP     = errors.New("http leaves this machine unencrypted")
	ErrRedirect      = errors.New("the server redirects elsewhere")
	ErrStalled       = errors.New("the server stopped answering")
	ErrNotTaskServer = errors.New("the answer is not that of a task server")
	ErrTooLarge      = errors.New("the answer is too large")
)

// StatusError is an answer of the server that reports a failure.
type StatusError struct {
	Code    int    // the HTTP status
	Message string // the server's own words in one line, cleaned and cut; empty if it had none
}

func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the server says %d %s", e.Code, http.StatusText(e.Code))
	}
	return fmt.Sprintf("the server says %d: %s", e.Code, e.Message)
}

// IsStatus reports whether err is an answer of the server with one of these HTTP statuses.
func IsStatus(err error, codes ...int) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && slices.Contains(codes, status.Code)
}

// HashError reports a bundle with another hash than the one wanted.
type HashError struct{ Want, Got guild.Hash }

func (e *HashError) Error() string {
	return fmt.Sprintf("the bundle is not the one of the task: want %v, got %v", e.Want, e.Got)
}

// maxMessage limits the runes of a server's message that are repeated.
const maxMessage = 200

// message returns the words for a person in the body of an error: those in the JSON of the three forms that servers
// have, or a body that is not JSON and does not look like a page.
func message(body []byte) string {
	var answer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &answer) == nil {
		text = answer.Message
		if text == "" && json.Unmarshal(answer.Error, &text) != nil {
			_ = json.Unmarshal(answer.Error, &answer) // {"error":{"message":"…"}}
			text = answer.Message
		}
	} else if strings.HasPrefix(text, "<") || strings.HasPrefix(text, "{") || !utf8.ValidString(text) {
		text = ""
	}
	return clean(text)
}

// clean returns text as one line that cannot control a terminal.
func clean(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r), r == unicode.ReplacementChar:
			return '·'
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "…"
	}
	return text
}
