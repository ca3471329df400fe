// Package model sends requests to a language model's API with the owner's key, and counts what they cost in tokens. The key
// is in the requests to the API's own host and nowhere else. So a program that makes the requests, such as an agent in a
// sandbox, does not need it.
//
// An API makes a Job for each job, which is an http.RoundTripper. A Job passes on requests for completions only, without
// any credential of the caller, and refuses what would go over the limit of the job or of the day. The count errs to the
// owner's side: before a request is sent, the most that it can cost is held; the answer's own usage replaces that.
//
// The package never decides what is asked, and never logs.
package model

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"guild/internal/hand/dial"
	"guild/nutshell/vault"
)

// DefaultJobTokens is the limit of one job if its API has none.
const DefaultJobTokens = 2_000_000

// DefaultDayTokens is the limit of one day if a Day has none.
const DefaultDayTokens = 20_000_000

// API is an API of OpenAI's or Anthropic's form, and the key for it. Only URL is required.
type API struct {
	URL    string // base URL, as "https://api.openai.com/v1"; requests to other places are refused
	Key    vault.Secret
	Header string // that has the key, as "X-Api-Key"; with "Authorization: Bearer" if empty

	JobTokens int64 // limit of one job, input and output together; DefaultJobTokens if zero
	Day       *Day  // the count that all jobs of the key share; nil for no limit of a day

	Transport http.RoundTripper // makes the connections; one with time limits if nil
}

// Check returns an error if the API is not usable, or the key would be sent unencrypted over a network.
func (a API) Check() error {
	u, err := url.Parse(a.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return errors.New("the API's address is not one like https://host/v1")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return errors.New("the API's address has a user, a query or a fragment: a secret belongs into the key")
	case u.Scheme == "http" && !a.Key.IsZero() && !dial.IsLoopback(u.Hostname()):
		return errors.New("the key would be sent in clear to the API: use https")
	case a.JobTokens < 0:
		return fmt.Errorf("the limit of a job is %d tokens: want 0 or more", a.JobTokens)
	}
	return nil
}

// Job returns the API for one job, with a count of its own.
func (a API) Job() (*Job, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	base, err := url.Parse(strings.TrimRight(a.URL, "/"))
	if err != nil {
		return nil, err
	}
	j := &Job{api: a, base: base, limit: cmp.Or(a.JobTokens, DefaultJobTokens), next: a.Transport}
	if j.next == nil {
		j.next = transport()
	}
	return j, nil
}

// transport waits long for the beginning of an answer, because a model may think before it.
func transport() *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dial.Any, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 10 * time.Minute,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute,
	}
}

// Job is an http.RoundTripper for one job. Its methods may be called concurrently.
type Job struct {
	api   API
	base  *url.URL
	limit int64
	next  http.RoundTripper

	mu      sync.Mutex
	used    Usage
	held    int64 // of requests without their whole answer
	limited error // why the first request that hold refused was not sent
}

// Usage counts the tokens that the requests of a job cost.
type Usage struct {
	Requests      int // that were sent
	Input, Output int64
	Estimated     int // requests of which the cost is an estimate, because the answer does not say it
}

// Tokens returns the sum of input and output. Limits apply to it.
func (u Usage) Tokens() int64 { return u.Input + u.Output }

// Used returns what the job cost so far, without requests that are under way.
func (j *Job) Used() Usage {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.used
}

// LimitError means that a request was not sent because it could go over a limit.
type LimitError struct {
	Per   string // "job" or "day"
	Limit int64  // tokens
	Used  int64  // tokens, with those held for requests under way
	Asked int64  // tokens that the request could cost
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the limit of %d tokens per %s is reached: %d are used, and this request could cost %d", e.Limit, e.Per, e.Used, e.Asked)
}

// RefusedError means that a request was not sent because it is not one for a completion, or not to this API.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the request is refused: " + e.Reason }

func refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

// hold takes tokens from the job's and the day's limit before a request is sent.
func (j *Job) hold(tokens int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if used := j.used.Tokens() + j.held; used+tokens > j.limit {
		return j.keepRefusal(&LimitError{Per: "job", Limit: j.limit, Used: used, Asked: tokens})
	}
	if err := j.api.Day.add(tokens, true); err != nil {
		return j.keepRefusal(err)
	}
	j.held += tokens
	return nil
}

// keepRefusal keeps the first error of hold, and returns err. The job is locked.
func (j *Job) keepRefusal(err error) error {
	if j.limited == nil {
		j.limited = err
	}
	return err
}

// Limited returns why the first request that was refused for its tokens was not sent: a *LimitError, or an error of the file
// with the count of the day. It returns nil if there was none.
func (j *Job) Limited() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.limited
}

// settle replaces what was held for a request by what it cost.
func (j *Job) settle(held int64, cost Usage) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held -= held
	j.used.Requests += cost.Requests
	j.used.Input += cost.Input
	j.used.Output += cost.Output
	j.used.Estimated += cost.Estimated
	return j.api.Day.add(cost.Tokens()-held, false)
}
