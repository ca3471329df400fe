package mint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/cashu"
)

// Error is the refusal of a mint. Code is 0 if the answer has none: it may be that of another server on the way, and the mint
// may have done what it was asked.
type Error struct {
	Status int    // of HTTP
	Code   int64  // of the NUTs' error_codes.md
	Detail string // one line, cut
}

func (e *Error) Error() string {
	switch {
	case e.Code != 0:
		return fmt.Sprintf("refused: %s (code %d)", e.Detail, e.Code)
	case e.Detail != "":
		return fmt.Sprintf("HTTP status %d: %s", e.Status, e.Detail)
	}
	return fmt.Sprintf("HTTP status %d", e.Status)
}

// Final reports whether the mint itself refused, for a reason in the request. Else it may do it later, or has done it: it is
// busy, it failed, another request for the same is under way (11002, 11004, 20005), or another server answered.
func (e *Error) Final() bool {
	return e.Status == http.StatusBadRequest && e.Code != 0 && e.Code != 11002 && e.Code != 11004 && e.Code != 20005
}

// Refusals that callers act on. An *Error is one of them by its code, for errors.Is. Older mints use ErrSpent for proofs that are
// pending, so ask for the states before proofs are given up.
var (
	ErrSpent  = errors.New("the proofs are spent")
	ErrSigned = errors.New("the outputs are signed already")
	ErrUnpaid = errors.New("the quote is not paid")
	ErrIssued = errors.New("the quote was issued already")

	ErrInactive = errors.New("the keyset of the outputs signs no more")
)

// Is implements the comparison of errors.Is.
func (e *Error) Is(target error) bool {
	switch e.Code {
	case 11001:
		return target == ErrSpent
	case 11003, 10002: // 10002 is from before 11003 was specified
		return target == ErrSigned
	case 20001:
		return target == ErrUnpaid
	case 12002:
		return target == ErrInactive
	case 20002:
		return target == ErrIssued
	}
	return false
}

// LieError means that an answer contradicts the request, an earlier answer or the mint's own keys. What the mint did is unknown.
type LieError struct{ What string }

func (e *LieError) Error() string { return "the mint lies: " + e.What }

func lie(format string, args ...any) error { return &LieError{fmt.Sprintf(format, args...)} }

// begin limits the time of an operation if the context does not. The returned function ends it, and names the mint and the
// operation in its error.
func (m *Mint) begin(ctx context.Context, operation string, err *error) (context.Context, func()) {
	const patience = 20 * time.Second
	cancel := func() {}
	if _, limited := ctx.Deadline(); !limited {
		ctx, cancel = context.WithTimeout(ctx, patience)
	}
	return ctx, func() {
		cancel()
		if *err != nil {
			*err = fmt.Errorf("mint at %s: %s: %w", m.base.Host, operation, *err)
		}
	}
}

// maxAnswer limits an answer in bytes. The longest is that of MaxProofs states with a witness each.
const maxAnswer = 4 << 20

// call makes a request below /v1, and decodes the answer. Without a request it is a GET.
func (m *Mint) call(ctx context.Context, request, answer any, path ...string) error {
	method, body := http.MethodGet, io.Reader(nil)
	if request != nil {
		b, err := json.Marshal(request)
		if err != nil {
			return err
		}
		method, body = http.MethodPost, bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, m.base.JoinPath(append([]string{"v1"}, path...)...).String(), body)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if request != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := m.http.Do(req)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		return failed.Err // without the URL, which may have the id of a quote: a secret
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer: %w", err)
	case len(b) > maxAnswer:
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case resp.StatusCode/100 == 3:
		return errors.New("it redirects, which is not followed")
	case resp.StatusCode/100 != 2:
		return refusal(resp.StatusCode, b)
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return fmt.Errorf("the answer is malformed: %.300w", err)
	}
	return nil
}

// refusal reads the body of a refusal.
func refusal(status int, body []byte) *Error {
	var wire struct {
		Detail jsontext.Value `json:"detail"`
		Code   int64          `json:"code"`
	}
	e := &Error{Status: status}
	if json.Unmarshal(body, &wire) != nil {
		return e
	}
	e.Code = wire.Code
	var text string
	if json.Unmarshal(wire.Detail, &text) != nil {
		text = string(wire.Detail) // some mints have an object here
	}
	e.Detail = oneLine(text)
	return e
}

// oneLine returns a text of the mint as it may be shown and logged.
func oneLine(s string) string {
	const longest = 200
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, guild.Cut(s, 4*longest))
	return guild.Cut(strings.Join(strings.Fields(s), " "), longest)
}

// list decodes an array of at most cashu.MaxProofs elements, so that a short answer does not fill the memory.
type list[T any] []T

// UnmarshalJSONFrom implements json.UnmarshalerFrom.
func (l *list[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	*l = nil
	token, err := d.ReadToken()
	if err != nil || token.Kind() == 'n' {
		return err
	}
	if token.Kind() != '[' {
		return errors.New("not an array")
	}
	for d.PeekKind() != ']' {
		if len(*l) == cashu.MaxProofs {
			return fmt.Errorf("over %d elements", cashu.MaxProofs)
		}
		var element T
		if err := json.UnmarshalDecode(d, &element); err != nil {
			return err
		}
		*l = append(*l, element)
	}
	_, err = d.ReadToken()
	return err
}
