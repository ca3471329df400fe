package taskserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"guild"
)

// Why a task server could not be used.
var (
	ErrUnreachable   = errors.New("nothing answers there")
	ErrPlainHTTP     = errors.New("http leaves this machine unencrypted")
	ErrRedirect      = errors.New("the server redirects elsewhere")
	ErrStalled       = errors.New("the server stopped answering")
	ErrNotTaskServer = errors.New("the answer is not that of a task server")
	ErrTooLarge      = errors.New("the answer is too large")
)

// StatusError is an answer of the server that is not a success.
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
	if !ok {
		return false
	}
	for _, code := range codes {
		if status.Code == code {
			return true
		}
	}
	return false
}

// HashError is a bundle that is not the one that was wanted.
type HashError struct{ Want, Got guild.Hash }

func (e *HashError) Error() string {
	return fmt.Sprintf("the bundle is not the one of the task: want %v, got %v", e.Want, e.Got)
}

// maxMessage is how much of a server's words is repeated, in runes.
const maxMessage = 200

// message finds the words for a person in the body of an error.
func message(body []byte) string {
	var answer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return plainMessage(body)
	}
	var text string
	if json.Unmarshal(answer.Error, &text) == nil && answer.Message == "" {
		return clean(text)
	}
	if answer.Message == "" {
		_ = json.Unmarshal(answer.Error, &answer) // {"error":{"message":"…"}}
	}
	return clean(answer.Message)
}

// plainMessage is a body that is not JSON, if it looks like a line for a person and not like a page.
func plainMessage(body []byte) string {
	text := strings.TrimSpace(string(body))
	if strings.HasPrefix(text, "<") || strings.HasPrefix(text, "{") || !utf8.ValidString(text) {
		return ""
	}
	return clean(text)
}

// clean puts text into one line that drives no terminal.
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
