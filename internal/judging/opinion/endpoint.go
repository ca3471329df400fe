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

// Limits of a conversation.
const (
	defaultPatience = time.Minute
	maxAnswer       = 256 << 10 // bytes of a whole response
)

// Endpoint is an OpenAI-compatible API. Only URL is required.
type Endpoint struct {
	URL string // base URL, as "https://host/v1"
	Key Key

	Client   *http.Client  // nil means a client that follows no redirects, so that the key is sent only to the configured host
	Patience time.Duration // for one answer; a minute if zero
}

// Check returns an error if the endpoint is not usable, or the key would be sent unencrypted over a network.
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

// mostModels limits the models that are tried for one question.
const mostModels = 4

// Models returns the models to try for a task, in order: the named one or, if that is empty or Auto, those that prefer
// returns (see Chat.Prefer), at most four. It returns an error if there are none.
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

// Prompt is one request to a model. User may contain text of strangers. It should be JSON, which escapes <, > and &, so
// that the text can contain no control marker of a model's own format.
type Prompt struct {
	Model     string
	System    string // the instruction
	User      string // the data
	MaxTokens int    // limit of the answer
}

// Reply is the answer of a model.
type Reply struct {
	Text          string
	Input, Output int64 // tokens, as counted by the endpoint; 0 if it does not
}

// Complete requests one answer that is a JSON object (POST /chat/completions). It returns an error if the response has
// several choices or was cut. The caller must check that the text is JSON.
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

// Post sends body as JSON to a path below the endpoint's URL and returns the response. More than most bytes are an
// error.
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

// EndpointError means that an endpoint did not answer. Its text is for the endpoint's owner: it may contain the address
// and the endpoint's text. Discreet returns a text for others.
type EndpointError struct {
	says  string // without the address and the endpoint's text
	cause error
}

// Error implements error.
func (e *EndpointError) Error() string { return e.cause.Error() }

// Unwrap returns the cause.
func (e *EndpointError) Unwrap() error { return e.cause }

// unreached returns why a connection failed, without the address.
func unreached(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "the endpoint did not answer in time"
	}
	return "the endpoint could not be reached"
}

// Discreet returns an error that a stranger may read: without an endpoint's address and text.
func Discreet(err error) error {
	if e, ok := errors.AsType[*EndpointError](err); ok {
		return errors.New(e.says)
	}
	return err
}

// hide removes the key from a text of the endpoint.
//
// An endpoint may repeat the key in an error message, and that message is logged.
func (e Endpoint) hide(text string) string {
	if e.Key.IsZero() {
		return text
	}
	return strings.ReplaceAll(text, e.Key.reveal(), redacted)
}
