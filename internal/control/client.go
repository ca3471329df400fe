package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"syscall"
)

// maxLine is the longest line of a stream that a client reads, in bytes: an entry of the journal is at most
// 256 KB.
const maxLine = 1 << 20

// maxAnswer is the longest single answer that a client reads, in bytes.
const maxAnswer = 64 << 20

// ErrNotRunning says that no node listens on the socket.
var ErrNotRunning = errors.New("no node is running")

// ErrLost means that the connection ended before the node's answer was complete.
var ErrLost = errors.New("the connection to the node was lost")

// errForeign says that somebody else listens on the socket.
var errForeign = errors.New("the node that listens there is not yours")

// ProblemError is the node's answer that something cannot be done.
type ProblemError struct {
	Status  int // of HTTP
	Problem Problem
}

func (e *ProblemError) Error() string { return e.Problem.Error }

// Hint returns the node's hint, which may be empty.
func (e *ProblemError) Hint() string { return e.Problem.Hint }

// Client speaks to a node over its socket. It holds nothing: every call opens and closes its own connection.
type Client struct {
	socket string
	http   *http.Client
}

// Dial returns a client of the node that listens on socket. It connects on the first call, and each call fails
// with ErrNotRunning if no node listens.
func Dial(socket string) *Client {
	var d net.Dialer
	return &Client{socket, &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "unix", socket)
			if err == nil && !owns(conn) {
				conn.Close()
				return nil, fmt.Errorf("%s: %w", socket, errForeign)
			}
			return conn, err
		},
	}}}
}

// Socket returns the path that the client was made with.
func (c *Client) Socket() string { return c.socket }

// Hire is POST /v1/jobs: opens a job for the packed bundle.
func (c *Client) Hire(ctx context.Context, bundle io.Reader, h Hire) (Job, error) {
	method, path, _ := openJob.request(nil)
	return call[Job](ctx, c, method, path, h.query(), bundle)
}

func (h Hire) query() url.Values {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" && value != "0" && value != "false" {
			q.Set(name, value)
		}
	}
	set("task", h.Task)
	for _, p := range h.Providers {
		q.Add("provider", p)
	}
	set("timeout_ms", strconv.FormatInt(h.Timeout, 10))
	set("bid_msat", strconv.FormatInt(h.Bid, 10))
	set("tries", strconv.Itoa(h.Tries))
	set("private", strconv.FormatBool(h.Private))
	set("id", h.ID)
	set("kind", strconv.Itoa(h.Kind))
	set("hidden", h.Hidden)
	set("release", h.Release)
	set("criticality", h.Criticality)
	set("compare", h.Compare)
	set("open", strconv.FormatBool(h.Open))
	set("free", strconv.FormatBool(h.Free))
	set("class", h.Class)
	set("urgency", h.Urgency)
	for _, n := range h.Nudges {
		q.Add("nudge", n)
	}
	set("target", strconv.FormatFloat(h.Target, 'f', -1, 64))
	set("most_msat", strconv.FormatInt(h.Most, 10))
	if h.Settle != nil {
		raw, _ := json.Marshal(h.Settle) // strings and numbers cannot fail
		set("settle", string(raw))
	}
	for _, in := range h.Inputs {
		raw, _ := json.Marshal(in) // strings cannot fail
		q.Add("input", string(raw))
	}
	return q
}

// Watch calls GET /v1/jobs/{id}/watch: all updates of the job so far, then each as it happens. It ends
// after the update whose Event is "ended"; a stream that stops before that is an error.
func (c *Client) Watch(ctx context.Context, prefix string) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		ended := false
		for u, err := range jobUpdates.Lines(ctx, c, prefix) {
			if !yield(u, err) || err != nil {
				return
			}
			ended = u.Event == "ended"
		}
		if !ended {
			yield(Update{}, fmt.Errorf("watch %s: %w", prefix, lost(io.ErrUnexpectedEOF)))
		}
	}
}

func call[T any](ctx context.Context, c *Client, method, path string, q url.Values, body io.Reader) (T, error) {
	var answer T
	r, err := c.open(ctx, method, path, q, body)
	if err != nil {
		return answer, err
	}
	defer r.Close()
	if err := json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("%s: %w", path, lost(err))
	}
	return answer, nil
}

// lines reads a stream of one JSON value a line. A stream that the node could not end is a ProblemError after its last
// value.
func lines[T any](ctx context.Context, c *Client, method, path string, q url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		r, err := c.open(ctx, method, path, q, nil)
		if err != nil {
			yield(none, err)
			return
		}
		defer r.Close()
		scan := bufio.NewScanner(r)
		scan.Buffer(nil, maxLine)
		for scan.Scan() {
			if bytes.HasPrefix(scan.Bytes(), []byte(`{"problem":`)) { // as stream.fail writes it
				yield(none, failedWith(scan.Bytes()))
				return
			}
			var value T
			if err := json.Unmarshal(scan.Bytes(), &value); err != nil {
				if broken := scan.Err(); broken != nil {
					err = broken // half a line is no malformed one
				}
				yield(none, fmt.Errorf("%s: %w", path, lost(err)))
				return
			}
			if !yield(value, nil) {
				return
			}
		}
		if err := scan.Err(); err != nil {
			yield(none, fmt.Errorf("%s: %w", path, lost(err)))
		}
	}
}

// open sends a request and returns the body of a good answer. The host is one that the server allows: it checks
// Host even though nobody can reach a unix socket from a page.
func (c *Client) open(ctx context.Context, method, path string, q url.Values, body io.Reader) (io.ReadCloser, error) {
	target := "http://localhost" + path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-nutshell+gzip")
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		defer resp.Body.Close()
		return nil, problem(resp)
	}
	return resp.Body, nil
}

func (c *Client) unreachable(err error) error {
	if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%s: %w", c.socket, ErrNotRunning)
	}
	if cause, ok := errors.AsType[*url.Error](err); ok {
		err = cause.Err // without the made-up address
	}
	return fmt.Errorf("%s: %w", c.socket, lost(err))
}

// lost adds ErrLost to an error that means that the connection broke. It returns others as they are.
func lost(err error) error {
	for _, broken := range []error{io.ErrUnexpectedEOF, io.EOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, broken) {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
	}
	return err
}

// failedWith returns the error in the last line of a stream that the node could not go on with.
func failedWith(line []byte) error {
	var last failedLine
	if err := json.Unmarshal(line, &last); err != nil || last.Problem.Error == "" {
		last.Problem = Problem{Error: "the node ends the stream before it is complete"}
	}
	return &ProblemError{Status: http.StatusOK, Problem: last.Problem}
}

func problem(resp *http.Response) error {
	e := &ProblemError{Status: resp.StatusCode}
	err := json.NewDecoder(io.LimitReader(resp.Body, maxLine)).Decode(&e.Problem)
	if err != nil || e.Problem.Error == "" {
		e.Problem = Problem{Error: "the node answers " + resp.Status}
	}
	return e
}
