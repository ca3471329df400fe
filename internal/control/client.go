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

// ErrForeign says that somebody else listens on the socket.
var ErrForeign = errors.New("the node that listens there is not yours")

// ProblemError is the node's answer that something cannot be done.
type ProblemError struct {
	Status  int // of HTTP
	Problem Problem
}

func (e *ProblemError) Error() string { return e.Problem.Error }

// Hint is what the node suggests, possibly empty.
func (e *ProblemError) Hint() string { return e.Problem.Hint }

// Client speaks to a node over its socket. It holds nothing: every call opens and closes its own connection.
type Client struct {
	socket string
	http   *http.Client
}

// Dial returns a client of the node that listens on socket. It connects on the first call, and each call fails
// with ErrNotRunning when nobody listens.
func Dial(socket string) *Client {
	var d net.Dialer
	return &Client{socket, &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "unix", socket)
			if err == nil && !owns(conn) {
				conn.Close()
				return nil, fmt.Errorf("%s: %w", socket, ErrForeign)
			}
			return conn, err
		},
	}}}
}

// Socket is the path that the client was made with.
func (c *Client) Socket() string { return c.socket }

// Status is GET /v1/status.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/v1/status", nil)
}

// Hire is POST /v1/jobs: opens a job for the packed bundle.
func (c *Client) Hire(ctx context.Context, bundle io.Reader, h Hire) (Job, error) {
	return call[Job](ctx, c, http.MethodPost, "/v1/jobs", h.query(), bundle)
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
	set("kind", strconv.Itoa(h.Kind))
	set("hidden", h.Hidden)
	set("release", h.Release)
	set("criticality", h.Criticality)
	set("compare", h.Compare)
	set("open", strconv.FormatBool(h.Open))
	set("free", strconv.FormatBool(h.Free))
	set("class", h.Class)
	set("urgency", h.Urgency)
	set("target", strconv.FormatFloat(h.Target, 'f', -1, 64))
	for _, in := range h.Inputs {
		raw, _ := json.Marshal(in) // strings cannot fail
		q.Add("input", string(raw))
	}
	return q
}

// Jobs is GET /v1/jobs: all jobs, the newest first.
func (c *Client) Jobs(ctx context.Context) ([]Job, error) {
	return get[[]Job](ctx, c, "/v1/jobs", nil)
}

// Job is GET /v1/jobs/{id}. An unambiguous prefix of the id will do.
func (c *Client) Job(ctx context.Context, prefix string) (Job, error) {
	return get[Job](ctx, c, "/v1/jobs/"+url.PathEscape(prefix), nil)
}

// Watch is GET /v1/jobs/{id}/watch: what happened to the job so far, then each thing as it happens. It ends
// after the update whose Event is "ended"; a stream that stops before that is an error.
func (c *Client) Watch(ctx context.Context, prefix string) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		ended := false
		for u, err := range lines[Update](ctx, c, "/v1/jobs/"+url.PathEscape(prefix)+"/watch", nil) {
			if !yield(u, err) || err != nil {
				return
			}
			ended = u.Event == "ended"
		}
		if !ended {
			yield(Update{}, fmt.Errorf("watch %s: %w", prefix, io.ErrUnexpectedEOF))
		}
	}
}

// Cancel is POST /v1/jobs/{id}/cancel.
func (c *Client) Cancel(ctx context.Context, prefix string) (Job, error) {
	return call[Job](ctx, c, http.MethodPost, "/v1/jobs/"+url.PathEscape(prefix)+"/cancel", nil, nil)
}

// Hide is POST /v1/hidden: it leaves a packed bundle of hidden tests with the node, and returns what names it in
// Hire.Hidden.
func (c *Client) Hide(ctx context.Context, bundle io.Reader) (string, error) {
	stored, err := call[struct{ Hash string }](ctx, c, http.MethodPost, "/v1/hidden", nil, bundle)
	return stored.Hash, err
}

// Recipient is GET /v1/recipient: whom to seal credentials for, so that the node can seal them again for the
// provider that it asks.
func (c *Client) Recipient(ctx context.Context) (string, error) {
	own, err := get[struct{ Recipient string }](ctx, c, "/v1/recipient", nil)
	return own.Recipient, err
}

// Release is POST /v1/releases: it leaves sealed credentials with the node, and returns what names them in
// Hire.Release.
func (c *Client) Release(ctx context.Context, r Release) (string, error) {
	stored, err := post[struct{ Hash string }](ctx, c, "/v1/releases", r)
	return stored.Hash, err
}

// Evidence is GET /v1/jobs/{id}/evidence.
func (c *Client) Evidence(ctx context.Context, prefix string) ([]Exam, error) {
	return get[[]Exam](ctx, c, "/v1/jobs/"+url.PathEscape(prefix)+"/evidence", nil)
}

// Rule is POST /v1/jobs/{id}/rule.
func (c *Client) Rule(ctx context.Context, prefix string, r Rule) (Job, error) {
	return post[Job](ctx, c, "/v1/jobs/"+url.PathEscape(prefix)+"/rule", r)
}

// Receipt is GET /v1/receipts/{id}: the receipt with that id, or of the job that has that id.
func (c *Client) Receipt(ctx context.Context, id string) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/v1/receipts/"+url.PathEscape(id), nil)
}

// Replay is GET /v1/replays/{job}: the job's REPLAY.jsonl.
func (c *Client) Replay(ctx context.Context, job string) ([]byte, error) {
	return c.raw(ctx, "/v1/replays/"+url.PathEscape(job), nil)
}

// raw is the body of an answer that is no JSON.
func (c *Client) raw(ctx context.Context, path string, query url.Values) ([]byte, error) {
	body, err := c.open(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	b, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err == nil && len(b) > maxAnswer {
		err = fmt.Errorf("the answer is over %d MiB", maxAnswer>>20)
	}
	return b, err
}

// Providers is GET /v1/providers. An empty task means all.
func (c *Client) Providers(ctx context.Context, task string) ([]Provider, error) {
	return get[[]Provider](ctx, c, "/v1/providers", query("task", task))
}

// Journal is GET /v1/journal: the entries since a sequence number or a time (RFC 3339), whose subject starts
// with subject. Both may be empty.
func (c *Client) Journal(ctx context.Context, since, subject string) iter.Seq2[Record, error] {
	return lines[Record](ctx, c, "/v1/journal", query("since", since, "subject", subject))
}

// Record is GET /v1/journal/{seq}.
func (c *Client) Record(ctx context.Context, seq uint64) (Record, error) {
	return get[Record](ctx, c, "/v1/journal/"+strconv.FormatUint(seq, 10), nil)
}

// Rejected is GET /v1/rejected: events that changed nothing, the newest last.
func (c *Client) Rejected(ctx context.Context) ([]Dropped, error) {
	var all []Dropped
	for d, err := range lines[Dropped](ctx, c, "/v1/rejected", nil) {
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// query makes a query of name, value pairs, without the empty ones.
func query(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

func get[T any](ctx context.Context, c *Client, path string, q url.Values) (T, error) {
	return call[T](ctx, c, http.MethodGet, path, q, nil)
}

// post sends a value as JSON.
func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", path, err)
	}
	return call[T](ctx, c, http.MethodPost, path, nil, bytes.NewReader(raw))
}

func call[T any](ctx context.Context, c *Client, method, path string, q url.Values, body io.Reader) (T, error) {
	var answer T
	r, err := c.open(ctx, method, path, q, body)
	if err != nil {
		return answer, err
	}
	defer r.Close()
	if err := json.NewDecoder(io.LimitReader(r, maxAnswer)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("%s: %w", path, err)
	}
	return answer, nil
}

// lines reads a stream of one JSON value a line. A stream that the node could not end is a ProblemError after its last
// value.
func lines[T any](ctx context.Context, c *Client, path string, q url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		r, err := c.open(ctx, http.MethodGet, path, q, nil)
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
				yield(none, fmt.Errorf("%s: %w", path, err))
				return
			}
			if !yield(value, nil) {
				return
			}
		}
		if err := scan.Err(); err != nil {
			yield(none, fmt.Errorf("%s: %w", path, err))
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
		err = cause.Err // without the address that nobody knows
	}
	return fmt.Errorf("%s: %w", c.socket, err)
}

// failedWith is the error in the last line of a stream that the node could not go on with.
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

// Cards is GET /v1/providers/{key}: the services of one provider in full, or only the one of d.
func (c *Client) Cards(ctx context.Context, key, d string) ([]Card, error) {
	q := url.Values{}
	if d != "" {
		q.Set("d", d)
	}
	return get[[]Card](ctx, c, "/v1/providers/"+url.PathEscape(key), q)
}

// Changes is GET /v1/market/watch: what is new about providers, until ctx ends.
func (c *Client) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return lines[Change](ctx, c, "/v1/market/watch", nil)
}
