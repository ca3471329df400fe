package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
)

// An endpoint is declared once, in routes.go, and has two sides: the server answers with serve, and a client calls it.
// The pattern is one of http.ServeMux, followed by the names of the query parameters, as in
// "GET /v1/providers/{key}/story?task".
type endpoint struct {
	pattern string
	about   string // see Route
	serve   func(*Server, http.ResponseWriter, *http.Request)
}

// muxPattern returns the pattern without its query parameters.
func (e endpoint) muxPattern() string {
	pattern, _, _ := strings.Cut(e.pattern, "?")
	return pattern
}

// Query returns the names of the query parameters, in the order in which Call takes them.
func (e endpoint) Query() []string {
	_, names, _ := strings.Cut(e.pattern, "?")
	return strings.FieldsFunc(names, func(c rune) bool { return c == '&' })
}

// request fills in the parameters: first those of the path, which must all be there, then those of the query. Empty
// ones of the query are left out; further args repeat the last one.
func (e endpoint) request(args []string) (method, path string, query url.Values) {
	method, path, _ = strings.Cut(e.muxPattern(), " ")
	for strings.Contains(path, "{") {
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + url.PathEscape(args[0]) + after
		args = args[1:]
	}
	query = url.Values{}
	names := e.Query()
	for i, value := range args {
		if value != "" {
			query.Add(names[min(i, len(names)-1)], value)
		}
	}
	return method, path, query
}

// Resource is an endpoint that takes only its parameters and answers with a T as JSON.
type Resource[T any] struct{ endpoint }

func resource[T any](pattern, about string, get func(*Server, *http.Request) (T, error)) Resource[T] {
	return Resource[T]{endpoint{pattern, about, func(s *Server, w http.ResponseWriter, r *http.Request) {
		v, err := get(s, r)
		answer(w, v, err)
	}}}
}

// Call asks the node. The args are the parameters of the path and then those of the query, in the order of the pattern;
// the last ones may be left out if they are of the query.
func (r Resource[T]) Call(ctx context.Context, c *Client, args ...string) (T, error) {
	method, path, query := r.request(args)
	return call[T](ctx, c, method, path, query, nil)
}

// Action is an endpoint that takes an In as JSON and answers with an Out as JSON.
type Action[In, Out any] struct{ endpoint }

// action declares an Action whose request has at most so many bytes.
func action[In, Out any](pattern, about string, most int64, do func(*Server, *http.Request, In) (Out, error)) Action[In, Out] {
	return Action[In, Out]{endpoint{pattern, about, func(s *Server, w http.ResponseWriter, r *http.Request) {
		var out Out
		in, err := decode[In](w, r, most)
		if err == nil {
			out, err = do(s, r, in)
		}
		answer(w, out, err)
	}}}
}

// Call asks the node to do it. The args are as in Resource.Call.
func (a Action[In, Out]) Call(ctx context.Context, c *Client, in In, args ...string) (Out, error) {
	method, path, query := a.request(args)
	raw, err := json.Marshal(in)
	if err != nil {
		var none Out
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return call[Out](ctx, c, method, path, query, bytes.NewReader(raw))
}

// decode reads the body of a request: one JSON value of at most so many bytes, without unknown members.
func decode[T any](w http.ResponseWriter, r *http.Request, most int64) (value T, err error) {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	d.DisallowUnknownFields()
	err = d.Decode(&value)
	if err == nil && d.Decode(&struct{}{}) != io.EOF {
		err = errors.New("something follows the JSON value")
	}
	if err != nil {
		err = wrongUsage("guild help api says what it takes", fmt.Errorf("%s: %w", r.Pattern, err))
	}
	return value, err
}

// Upload is an endpoint that takes a file and answers with a T as JSON.
type Upload[T any] struct{ endpoint }

// upload declares an Upload of at most so many bytes.
func upload[T any](pattern, about string, most int64, take func(*Server, *http.Request) (T, error)) Upload[T] {
	return Upload[T]{endpoint{pattern, about, func(s *Server, w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, most)
		v, err := take(s, r)
		answer(w, v, err)
	}}}
}

// Call sends the file. The args are as in Resource.Call.
func (u Upload[T]) Call(ctx context.Context, c *Client, file io.Reader, args ...string) (T, error) {
	method, path, query := u.request(args)
	return call[T](ctx, c, method, path, query, file)
}

// Document is an endpoint that answers with a stored document, byte for byte.
type Document struct{ endpoint }

func document(pattern, about, mime string, get func(*Server, *http.Request) ([]byte, error)) Document {
	return Document{endpoint{pattern, about, func(s *Server, w http.ResponseWriter, r *http.Request) {
		b, err := get(s, r)
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", mime)
		w.Write(b)
	}}}
}

// Call reads the document. The args are as in Resource.Call.
func (d Document) Call(ctx context.Context, c *Client, args ...string) ([]byte, error) {
	method, path, query := d.request(args)
	body, err := c.open(ctx, method, path, query, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, maxExport+1))
	if err == nil && len(b) > maxExport {
		err = fmt.Errorf("%s: over %d MiB", path, maxExport>>20)
	}
	return b, err
}

// Stream is an endpoint that answers with one T on each line, as JSON.
type Stream[T any] struct{ endpoint }

// Lines reads the stream. The args are as in Resource.Call. If the node cannot complete the stream, its last value is
// followed by a ProblemError.
func (s Stream[T]) Lines(ctx context.Context, c *Client, args ...string) iter.Seq2[T, error] {
	method, path, query := s.request(args)
	return lines[T](ctx, c, method, path, query)
}

// Call reads the whole stream. The args are as in Resource.Call.
func (s Stream[T]) Call(ctx context.Context, c *Client, args ...string) (all []T, err error) {
	for value, err := range s.Lines(ctx, c, args...) {
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}
