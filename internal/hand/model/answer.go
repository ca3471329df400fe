package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"sync"
)

// maxEvent limits the part of an answer that is kept to find its usage, in bytes: a whole JSON answer, or one event of a
// stream. The last event of OpenAI's responses repeats all of them.
const maxEvent = 16 << 20

// answer prepares an answer for the caller: it has no header of the owner's, and its body is counted while it is read.
func (j *Job) answer(req *http.Request, resp *http.Response, costs bool, held, sent int64) (*http.Response, error) {
	header := http.Header{}
	for _, name := range answerHeaders {
		if values := resp.Header.Values(name); len(values) > 0 {
			header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	m := &meter{
		job: j, body: resp.Body, held: held, sent: sent, costs: costs,
		isStream: kind == "text/event-stream", isPlain: resp.Header.Get("Content-Encoding") == "",
		failed: resp.StatusCode >= http.StatusBadRequest,
	}
	resp.Header, resp.Trailer, resp.Request = header, nil, req
	resp.Body = m
	if m.failed {
		if err := j.removeKey(resp); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// removeKey takes the key out of an answer that is an error. One that refuses the key may show a part of it, and is replaced.
func (j *Job) removeKey(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("the API %s: %w", j.base.Host, err)
	}
	switch {
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		text = []byte(keyRefused)
		resp.Header.Set("Content-Type", "application/json")
	case !j.api.Key.IsZero():
		text = bytes.ReplaceAll(text, j.api.Key.Reveal(), []byte(j.api.Key.String()))
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return nil
}

// maxError limits an answer that is an error, in bytes. The rest is left out.
const maxError = 1 << 20

// keyRefused replaces the body of an answer that refuses the owner's key. It has the form that both APIs share.
const keyRefused = `{"type":"error","error":{"type":"authentication_error","message":"the API refuses the key of this service's owner"}}`

// meter is the body of an answer. It finds the usage that the answer reports.
type meter struct {
	job        *Job
	body       io.ReadCloser
	held, sent int64 // tokens; bytes of the request
	costs      bool  // tokens
	isStream   bool  // of events
	isPlain    bool  // not compressed
	failed     bool  // the API says that it did nothing

	mu      sync.Mutex // of what follows: Close may be called during a Read
	read    int64      // bytes
	kept    []byte     // the whole answer, or the current line of a stream
	skip    bool       // the line or answer is too long to be kept
	ended   bool       // the answer is complete
	settled bool
	found   Usage
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	n, err := m.body.Read(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read += int64(n)
	if m.read > MaxAnswer {
		return 0, errors.Join(fmt.Errorf("the API's answer has more than %d bytes", MaxAnswer), m.settle())
	}
	m.observe(p[:n])
	if errors.Is(err, io.EOF) {
		m.parse()
		m.ended = true
		if failed := m.settle(); failed != nil {
			err = failed
		}
	}
	return n, err
}

// Close implements io.Closer. An answer that is not read to its end costs what was held for it, or more.
func (m *meter) Close() error {
	err := m.body.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isStream && json.Valid(m.kept) { // the caller read all of it, without its end
		m.parse()
		m.ended = true
	}
	return errors.Join(err, m.settle())
}

// observe keeps what may report the usage.
func (m *meter) observe(p []byte) {
	if !m.isPlain || !m.costs || m.settled {
		return
	}
	for m.isStream {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		m.keep(line)
		if !whole {
			return
		}
		m.parse()
		p = rest
	}
	m.keep(p)
}

// keep adds bytes to what is kept, unless that would be too long.
func (m *meter) keep(p []byte) {
	m.skip = m.skip || len(m.kept)+len(p) > maxEvent
	if m.skip {
		m.kept = nil
		return
	}
	m.kept = append(m.kept, p...)
}

// finalEvents are the types of the events that end a stream.
var finalEvents = []string{"message_stop", "response.completed", "response.incomplete", "response.failed"}

// parse reads the usage from what is kept: a line of a stream, or the whole answer.
func (m *meter) parse() {
	text := m.kept
	m.kept, m.skip = m.kept[:0], false
	if m.isStream {
		data, ok := bytes.CutPrefix(text, []byte("data:"))
		if !ok {
			return
		}
		text = bytes.TrimSpace(data)
		if string(text) == "[DONE]" { // of chat completions
			m.ended = true
			return
		}
	}
	var r struct {
		Type     string                     `json:"type"`
		Usage    *reported                  `json:"usage"`
		Message  *struct{ Usage *reported } `json:"message"`  // of Anthropic's message_start
		Response *struct{ Usage *reported } `json:"response"` // of the events of OpenAI's responses
	}
	err := json.Unmarshal(text, &r)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !other { // a member of another type is not the usage
		return
	}
	m.addUsage(r.Usage)
	if r.Message != nil {
		m.addUsage(r.Message.Usage)
	}
	if r.Response != nil {
		m.addUsage(r.Response.Usage)
	}
	m.ended = m.ended || m.isStream && slices.Contains(finalEvents, r.Type)
}

// reported is the usage in an answer, in the words of both APIs. Anthropic's input_tokens leaves out the other two kinds of
// input; OpenAI's includes what was cached.
type reported struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	Stored     int64 `json:"cache_creation_input_tokens"`
	Cached     int64 `json:"cache_read_input_tokens"`
}

// addUsage adds the usage of one event. Later events of a stream repeat or continue the earlier ones.
func (m *meter) addUsage(r *reported) {
	if r == nil {
		return
	}
	m.found.Input = max(m.found.Input, inRange(r.Prompt), inRange(r.Input)+inRange(r.Stored)+inRange(r.Cached))
	m.found.Output = max(m.found.Output, inRange(r.Completion), inRange(r.Output))
}

// inRange returns a reported number of tokens, or the bound of the possible ones that is closest to it.
func inRange(n int64) int64 { return min(max(0, n), maxTokens) }

// settle counts what the answer cost. It does so once.
func (m *meter) settle() error {
	if m.settled || !m.costs {
		return nil
	}
	m.settled = true
	m.kept = nil
	return m.job.settle(m.held, m.cost())
}

// cost returns what the answer reports. If it reports nothing, or was cut, the cost is an estimate.
func (m *meter) cost() Usage {
	cost := m.found
	cost.Requests = 1
	if m.failed || m.ended && cost.Tokens() > 0 {
		return cost
	}
	cost.Estimated = 1
	cost.Input = max(cost.Input, estimate(m.sent))
	cost.Output = max(cost.Output, estimate(m.read))
	if !m.ended {
		cost.Output = max(cost.Output, m.held-cost.Input)
	}
	return cost
}
