package model

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Limits of what passes, in bytes.
const (
	MaxRequest = 32 << 20 // a whole request, as the APIs have it
	MaxAnswer  = 64 << 20 // a whole answer

	maxQuery = 1 << 10
)

// maxTokens is the largest number of tokens or choices in a request or an answer that is taken seriously.
const maxTokens = 1 << 30

// perToken is the number of bytes that an estimate takes for one token.
const perToken = 4

// The paths that requests may have, below the API's base URL and a "/v1". Others could cost what no answer says (batches,
// images, fine-tuning), show the owner's data, or manage its account.
var (
	completions = []string{"/chat/completions", "/completions", "/responses", "/messages", "/embeddings"}
	free        = []string{"/messages/count_tokens", "/responses/input_tokens"} // cost nothing
)

const models = "/models" // GET, also one of them

// requestHeaders are the headers of a request that go to the API. Others do not, because a credential has many names.
var requestHeaders = []string{"Accept", "Content-Type", "User-Agent", "Anthropic-Version", "Anthropic-Beta", "Openai-Beta"}

// answerHeaders are the headers of an answer that the caller gets. Others may name the owner's organization or set cookies.
var answerHeaders = []string{"Content-Type", "Date", "Request-Id", "X-Request-Id", "Retry-After", "Retry-After-Ms", "X-Should-Retry"}

// RoundTrip implements http.RoundTripper. It sends a request with the owner's key. The error is a *RefusedError or a
// *LimitError for a request that was not sent.
func (j *Job) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	costs, err := j.admit(req)
	if err != nil {
		return nil, err
	}
	body, err := readRequest(req)
	if err != nil {
		return nil, err
	}
	var held int64
	if costs {
		if held, err = maxCost(body); err != nil {
			return nil, err
		}
		if err := j.hold(held); err != nil {
			return nil, err
		}
	}
	resp, sent, err := j.send(req, body)
	if err != nil {
		cost := Usage{}
		if sent && costs {
			cost = Usage{Requests: 1, Input: held, Estimated: 1} // the API may have begun
		}
		return nil, errors.Join(fmt.Errorf("the API %s: %w", j.base.Host, j.hideKey(err)), j.settle(held, cost))
	}
	return j.answer(req, resp, costs, held, int64(len(body)))
}

// admit reports whether a request costs tokens, or why it is refused.
func (j *Job) admit(req *http.Request) (costs bool, err error) {
	u := req.URL
	if u.Scheme != j.base.Scheme || u.Host != j.base.Host || u.User != nil {
		return false, refuse("the host %.100q is not that of the API", u.Host)
	}
	below, ok := strings.CutPrefix(u.Path, j.base.Path)
	if !ok || u.RawPath != "" {
		return false, refuse("the path %.100q is not below that of the API", u.Path)
	}
	if !strings.HasSuffix(j.base.Path, "/v1") {
		below = strings.TrimPrefix(below, "/v1")
	}
	name, isModel := strings.CutPrefix(below, models)
	switch {
	case len(u.RawQuery) > maxQuery:
		return false, refuse("the query is longer than %d bytes", maxQuery)
	case req.Header.Get("Upgrade") != "" || req.Header.Get("Content-Encoding") != "":
		return false, refuse("a body that is compressed, or not HTTP, cannot be counted")
	case req.Method == http.MethodPost && slices.Contains(completions, below):
		return true, nil
	case req.Method == http.MethodPost && slices.Contains(free, below):
		return false, nil
	case req.Method == http.MethodGet && isModel && (name == "" || name[0] == '/' && !strings.Contains(name, "..")):
		return false, nil
	}
	return false, refuse("%.20s %.100q: only completions may be asked for", req.Method, below)
}

// readRequest returns the body of a request. One that is too large is a *RefusedError.
func readRequest(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, MaxRequest+1))
	if err == nil && len(body) > MaxRequest {
		err = refuse("it has more than %d bytes", MaxRequest)
	}
	return body, err
}

// terms is the part of a request that says what it can cost.
type terms struct {
	Tokens     int64          `json:"max_tokens"`
	Completion int64          `json:"max_completion_tokens"`
	Output     int64          `json:"max_output_tokens"`
	Choices    int64          `json:"n"`
	Background bool           `json:"background"`
	Tools      []tool         `json:"tools"`
	Servers    jsontext.Value `json:"mcp_servers"`
	Search     jsontext.Value `json:"web_search_options"` // of OpenAI's chat completions
	Input      jsontext.Value `json:"input"`              // of OpenAI's responses: a text, or items, which may bring more tools
}

// tool is a tool that the model may use. The caller runs it, or the API if its type is one of those.
type tool struct {
	Type  string `json:"type"`
	Tools []tool `json:"tools"` // of a namespace
}

// hostedTypes are the beginnings of the types of tools that run at the API. They have a price that no answer says in tokens,
// and connect a task to the Internet.
var hostedTypes = []string{"web_search", "web_fetch", "code_execution", "code_interpreter", "file_search", "image_generation", "mcp"}

// hostedTool returns the type of a tool that runs at the API, or "".
func hostedTool(tools []tool) string {
	for _, t := range tools {
		for _, kind := range hostedTypes {
			if strings.HasPrefix(t.Type, kind) {
				return t.Type
			}
		}
		if found := hostedTool(t.Tools); found != "" {
			return found
		}
	}
	return ""
}

// maxCost returns the most tokens that a request can cost: an estimate of its input, and the longest answer if the request
// limits it. A duplicate member is an error, because the API could read the other one.
func maxCost(body []byte) (int64, error) {
	var t terms
	lenient := jsontext.AllowInvalidUTF8(true) // agents cut texts within a letter
	err := json.Unmarshal(body, &t, lenient)
	longest := max(t.Tokens, t.Completion, t.Output)
	var items []struct {
		Tools []tool `json:"tools"`
	}
	if err == nil && t.Input.Kind() == '[' {
		err = json.Unmarshal(t.Input, &items, lenient)
	}
	for _, item := range items {
		t.Tools = append(t.Tools, item.Tools...)
	}
	hosted := hostedTool(t.Tools)
	switch {
	case err != nil:
		return 0, refuse("its body is not JSON of a completion")
	case hosted != "":
		return 0, refuse("the tool %.40q runs at the API, and its price is not counted", hosted)
	case isSet(t.Search):
		return 0, refuse("web_search_options has the API search the web, and its price is not counted")
	case isSet(t.Servers):
		return 0, refuse("mcp_servers would connect the model to other servers")
	case t.Background:
		return 0, refuse("its answer would come later, where nobody counts it (background)")
	case min(t.Tokens, t.Completion, t.Output, t.Choices) < 0 || longest > maxTokens || t.Choices > maxTokens:
		return 0, refuse("its number of tokens or choices is out of range")
	}
	return estimate(int64(len(body))) + longest*max(1, t.Choices), nil
}

// isSet reports whether a member is there and not null.
func isSet(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// estimate returns how many tokens a text may have.
func estimate(size int64) int64 { return (size + perToken - 1) / perToken }

// send sends a request of our own with the content of the caller's. sent reports whether a part of it may have arrived.
func (j *Job) send(req *http.Request, body []byte) (_ *http.Response, sent bool, err error) {
	var connected atomic.Bool
	ctx := httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	target := url.URL{Scheme: j.base.Scheme, Host: j.base.Host, Path: req.URL.Path, RawQuery: req.URL.RawQuery}
	out, err := http.NewRequestWithContext(ctx, req.Method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	for _, name := range requestHeaders {
		if values := req.Header.Values(name); len(values) > 0 {
			out.Header[name] = slices.Clone(values)
		}
	}
	key := string(j.api.Key.Reveal())
	switch {
	case j.api.Key.IsZero():
	case j.api.Header != "":
		out.Header.Set(j.api.Header, key)
	default:
		out.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := j.next.RoundTrip(out)
	return resp, connected.Load() || err == nil, err
}

// hideKey removes the key from an error, such as one about a header that cannot be sent.
func (j *Job) hideKey(err error) error {
	key := string(j.api.Key.Reveal())
	if key == "" || !strings.Contains(err.Error(), key) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), key, j.api.Key.String()))
}
