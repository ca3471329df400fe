package opinion

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Bounds of a conversation.
const (
	defaultPatience = time.Minute
	maxAnswer       = 256 << 10 // bytes of a response, envelope and all
)

// Endpoint is an OpenAI-compatible API. The zero value of every field but URL works.
type Endpoint struct {
	URL string // its base, as "https://host/v1"
	Key Key

	Client   *http.Client  // one that follows no redirects if nil: a key goes where its owner sent it
	Patience time.Duration // for one answer; a minute if zero
}

// Check refuses an endpoint that cannot be asked, or that would carry the key in clear across a network.
func (e Endpoint) Check() error {
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("opinion: invalid address of the endpoint: want one like https://host/v1")
	case u.User != nil || u.RawQuery != "":
		return errors.New("opinion: the endpoint's address has a user or a query: put a secret into the key")
	case u.Scheme == "http" && !e.Key.IsZero() && !isLoopback(u.Hostname()):
		return errors.New("opinion: the key would be sent in clear: use https")
	default:
		return nil
	}
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// mostModels bounds the models that are tried for one question.
const mostModels = 4

// Models returns the models to ask for a task, in turn: the named one or, where that is empty or Auto, those that prefer
// returns (see Chat.Prefer), the best first and at most four. It is an error if there are none.
func Models(named string, prefer func(task string) []string, task string) ([]string, error) {
	if named != "" && named != Auto {
		return []string{named}, nil
	}
	var models []string
	if prefer != nil {
		models = prefer(task)
	}
	if len(models) == 0 {
		return nil, errors.New("opinion: no preferred model yet: name one")
	}
	return models[:min(len(models), mostModels)], nil
}

// Prompt is one request to a model. User may hold what strangers wrote, and should hold it as JSON, which escapes <, >
// and &, so that no marker of a model's own format survives.
type Prompt struct {
	Model     string
	System    string // the instruction
	User      string // the data
	MaxTokens int    // of the answer
}

// Reply is the answer of a model.
type Reply struct {
	Text          string
	Input, Output int64 // tokens, as the endpoint counts them; 0 if it does not
}

// Complete asks for one answer that is a JSON object (POST /chat/completions). More than one choice, or one that was
// cut, is no answer. That the text is JSON is for the caller to check.
func (e Endpoint) Complete(ctx context.Context, p Prompt) (Reply, error) {
	raw, err := e.Post(ctx, "/chat/completions", map[string]any{
		"model": p.Model, "temperature": 0, "max_tokens": p.MaxTokens, "stream": false,
		"response_format": map[string]string{"type": "json_object"},
		"messages":        []message{{"system", p.System}, {"user", p.User}},
	}, max(maxAnswer, 32*p.MaxTokens))
	if err != nil {
		return Reply{}, err
	}
	return readCompletion(raw)
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// readCompletion returns the answer in a response.
func readCompletion(raw []byte) (Reply, error) {
	var r struct {
		Choices []struct {
			Message message `json:"message"`
			Finish  string  `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			Prompt     int64 `json:"prompt_tokens"`
			Completion int64 `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return Reply{}, errors.New("the response is not JSON")
	}
	if len(r.Choices) != 1 || r.Choices[0].Finish == "length" {
		return Reply{}, errors.New("the response has no complete answer")
	}
	return Reply{Text: r.Choices[0].Message.Content, Input: r.Usage.Prompt, Output: r.Usage.Completion}, nil
}

// Post sends body as JSON to a path below the endpoint's address and returns the response, at most most bytes of it.
func (e Endpoint) Post(ctx context.Context, path string, body any, most int) ([]byte, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(e.Patience, defaultPatience))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(e.URL, "/")+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if !e.Key.IsZero() {
		req.Header.Set("Authorization", "Bearer "+e.Key.reveal())
	}
	client := e.Client
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, &EndpointError{unreached(err), err}
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, int64(most)+1))
	switch {
	case err != nil:
		return nil, &EndpointError{unreached(err), err}
	case len(raw) > most:
		return nil, fmt.Errorf("the response is longer than %d bytes", most)
	case resp.StatusCode != http.StatusOK:
		says := fmt.Sprintf("the endpoint says %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
		return nil, &EndpointError{says, fmt.Errorf("%s: %s", says, brief(e.hide(string(raw))))}
	default:
		return raw, nil
	}
}

// EndpointError means that an endpoint did not answer. Its text is for the endpoint's owner: it may have the address and
// what the endpoint wrote. Discreet is for others.
type EndpointError struct {
	says  string // without either
	cause error
}

// Error implements error.
func (e *EndpointError) Error() string { return e.cause.Error() }

// Unwrap returns what went wrong.
func (e *EndpointError) Unwrap() error { return e.cause }

// unreached says why a connection failed, without an address.
func unreached(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the endpoint did not answer in time"
	}
	return "the endpoint could not be reached"
}

// Discreet returns an error that a stranger may read: without an endpoint's address and what the endpoint wrote.
func Discreet(err error) error {
	if e, ok := errors.AsType[*EndpointError](err); ok {
		return errors.New(e.says)
	}
	return err
}

// hide removes the key from a text of the endpoint.
func (e Endpoint) hide(text string) string {
	if e.Key.IsZero() {
		return text
	}
	return strings.ReplaceAll(text, e.Key.reveal(), redacted)
}
