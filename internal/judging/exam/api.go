package exam

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"guild"
	"guild/internal/judging/sandbox"
)

// forwarder is a program that starts a service inside the sandbox and forwards bytes to it.
//
//go:embed forwarder.py
var forwarder string

// maxAnswer limits one answer of a service, in bytes.
const maxAnswer = 1 << 20

// defaultPort is the port of a service whose criterion gives none.
const defaultPort = 8080

// requestFields describes a request to a service.
type requestFields struct {
	Method   string            `json:"method,omitempty"`   // GET, or POST if there is a body
	Endpoint string            `json:"endpoint,omitempty"` // "/users?page=2", "POST /users" or "http://127.0.0.1:8080/users"
	Headers  map[string]string `json:"headers,omitempty"`
	Body     json.RawMessage   `json:"body,omitempty"` // a string is sent unchanged, any other value as JSON
}

// with returns the request of a case; r has the method, endpoint and headers that hold for all cases of the criterion.
func (r requestFields) with(one requestFields) requestFields {
	return requestFields{
		Method: cmp.Or(one.Method, r.Method), Endpoint: cmp.Or(one.Endpoint, r.Endpoint),
		Headers: overlay(r.Headers, one.Headers), Body: one.Body,
	}
}

// asks reports whether a case contains a request for the judge to send.
func (r requestFields) asks() bool { return r.Endpoint != "" || r.Method != "" }

// answerExpected is the expected answer of a service.
type answerExpected struct {
	StatusCode     int              `json:"status_code,omitempty"` // any 2xx if 0
	Body           *Match           `json:"body,omitempty"`
	BodyContains   Texts            `json:"body_contains,omitempty"`
	HeaderContains Texts            `json:"header_contains,omitempty"` // each must be in a line "Name: value" of the header; case is ignored
	Headers        map[string]Match `json:"headers,omitempty"`
}

func (e answerExpected) given() []string {
	return names(map[string]bool{
		"status_code": e.StatusCode != 0, "body": e.Body != nil, "body_contains": len(e.BodyContains) > 0,
		"header_contains": len(e.HeaderContains) > 0, "headers": len(e.Headers) > 0,
	})
}

// apiCriterion starts a service in a sandbox and sends it requests. The judge writes the requests and compares the
// answers outside the sandbox. Code inside, with the forwarder, sees only the requests, so it cannot read the expected
// answers.
type apiCriterion struct {
	service Service
	cases   []apiCase
}

type apiCase struct {
	caseName
	request *http.Request // sent once
	answerExpected
}

// readAPI determines the service of a criterion. A script without an expected answer is judged as a shell criterion. A
// script without a request sends the request itself.
func readAPI(e *Entry, all *Criteria) (criterion, error) {
	if e.Script != "" && len(e.Cases) == 0 && e.Endpoint == "" && len(e.Expected.answerExpected.given()) == 0 {
		e.Framework = "shell"
		return readProgram(e)
	}
	if e.Service.empty() && all.Service != nil && (e.Endpoint != "" || len(e.Cases) > 0) {
		e.Service = *all.Service
		if err := e.cleanScript(); err != nil {
			return nil, err
		}
	}
	e.Port = cmp.Or(e.Port, defaultPort)
	switch {
	case e.Port < 1 || e.Port > 65535:
		return nil, fmt.Errorf("port %d: want 1 to 65535", e.Port)
	case e.Service.empty() && e.Endpoint == "" && len(e.Cases) == 0:
		e.Unverifiable = "it has neither a script nor a command and an endpoint"
	case e.Service.empty():
		e.Unverifiable = "it has an endpoint, but neither a script nor a command that starts the service"
	}
	c := &apiCriterion{service: e.Service}
	for _, one := range e.all() {
		if len(e.Cases) > 0 && e.Script != "" && !one.asks() {
			return nil, fmt.Errorf("case %s has no endpoint to ask", one.ID)
		}
		request, err := one.request(e.Port)
		if err != nil {
			return nil, err
		}
		c.cases = append(c.cases, apiCase{caseName: one.caseName, request: request, answerExpected: one.Expected.answerExpected})
	}
	if err := e.only("status_code", "body", "body_contains", "header_contains", "headers"); err != nil {
		return nil, err
	}
	if e.Script != "" && len(e.Cases) == 0 && !e.asks() {
		return &printedCriterion{caseName: e.caseName, service: e.Service, answerExpected: e.Expected.answerExpected}, nil
	}
	return c, nil
}

func (c *apiCriterion) planned(*examination) map[string]int { return ids(c.cases) }

// examine runs the forwarder with the service in a sandbox, and asks it from a goroutine. The goroutine closes the
// channel after the last answer, which ends the run; the end of the run closes the other end, which ends the
// conversation. So neither waits for the other after a failure.
func (c *apiCriterion) examine(ctx context.Context, j *examination, f *Finding) error {
	f.Strength, f.Because = guild.Strong, "the judge made the requests, and compared the answers outside of the sandbox"
	argv, err := j.start(c.service)
	if err != nil {
		return err
	}
	if !isFile(j.engine.python()) {
		return undecided("%s does not exist: apt-get install python3", j.engine.python())
	}
	port := strconv.Itoa(c.service.Port)
	s := sandbox.Spec{
		Argv: append([]string{j.engine.python(), "-I", "-B", "-c", forwarder, port, strconv.Itoa(j.criteria.TimeLimit)}, argv...),
		Env:  environment("PORT=" + port), Copies: j.layout.copies(true, nil), Limits: j.limits(),
	}
	if c.service.Script != "" {
		j.showTestsBeside(&s)
	}
	channel, theirs, err := newChannel()
	if err != nil {
		return err
	}
	defer channel.Close()
	asked := make(chan conversation, 1)
	go func() {
		talk := converse(channel, c.cases)
		channel.Close() // this ends the forwarder, and with it everything inside
		asked <- talk
	}()
	run, err := j.runWith(ctx, f, s, sandbox.IO{Channel: theirs})
	if err != nil {
		theirs.Close() // the runner may not have closed it, and the conversation must end
		<-asked
		return err
	}
	talk := <-asked
	run.Argv = slices.Replace(slices.Clone(s.Argv), 4, 5, "forwarder.py") // the program's text would hide the rest of the evidence
	if talk.closed != "" {
		return undecided("this sandbox has no loopback for a service: %s", cut(talk.closed))
	}
	run.Channel = talk.transcript.String()
	f.Tests = talk.tests(c.cases, f.Fault)
	f.proveCases(theService, c.lies(talk.answers), c.idle)
	return nil
}

// prove says what the cases can show if the service passes all.
func (c *apiCriterion) prove() Finding { return proven(theService, c.cases, c.lies(nil), c.idle) }

// theService is the name of what answers requests.
const theService = "the service"

// idle reports whether a case passes whatever the service answers with status code 200.
func (c *apiCriterion) idle(i int) bool {
	e := c.cases[i].answerExpected
	return e.differs(answer{status: http.StatusOK}, nil) == "" && e.differs(answer{status: http.StatusOK, body: odd}, nil) == ""
}

// lies returns what lies say about the status code, the body and the header. got has the answers of the service in the
// cases that passed.
func (c *apiCriterion) lies(got []answer) iter.Seq[part] {
	var bodies, expected []string
	headers := []http.Header{{}, {"Content-Type": {"application/json"}}, {"Content-Type": {"text/plain; charset=utf-8"}}, {"Content-Type": {"text/html"}}}
	for _, a := range got {
		bodies = append(bodies, a.body)
	}
	for _, one := range c.cases {
		expected = append(expected, one.Body.sample(), strings.Join(one.BodyContains, "\n"))
	}
	if len(c.cases) > 1 {
		headers = append(headers, sameHeaders(got, c.cases)...)
	}
	return func(yield func(part) bool) {
		var header part
		for _, h := range headers {
			header = append(header, lie{"", func(i int) bool {
				e := answerExpected{HeaderContains: c.cases[i].HeaderContains, Headers: c.cases[i].Headers}
				return e.differs(answer{status: http.StatusOK, header: h}, nil) == ""
			}})
		}
		_ = yield(c.statuses()) && yield(header) &&
			yield(texts("body", slices.Concat(c.sent(), same(len(c.cases), bodies, expected)), func(i int, text string) bool {
				e := answerExpected{Body: c.cases[i].Body, BodyContains: c.cases[i].BodyContains}
				return e.differs(answer{status: http.StatusOK, body: text}, nil) == ""
			}))
	}
}

// sameHeaders returns headers that may be the same in all answers: those of the first answers, and one with all that the
// cases expect.
func sameHeaders(got []answer, cases []apiCase) []http.Header {
	var list []http.Header
	all := http.Header{}
	for _, a := range got {
		if len(list) < mostSame {
			list = append(list, a.header)
		}
		maps.Copy(all, a.header)
	}
	for i, one := range cases {
		for name, match := range one.Headers {
			all.Set(name, match.sample())
		}
		for k, text := range one.HeaderContains {
			if name, value, ok := strings.Cut(text, ":"); ok {
				all.Set(name, strings.TrimSpace(value))
			} else {
				all.Set(fmt.Sprintf("X-%d-%d", i, k), text)
			}
		}
	}
	return append(list, all)
}

// statuses returns what lies say about the status code: always the same, or the usual one of the method.
func (c *apiCriterion) statuses() part {
	codes := []int{http.StatusOK, http.StatusNotFound, http.StatusInternalServerError}
	for _, one := range c.cases {
		if !slices.Contains(codes, one.StatusCode) && one.StatusCode != 0 {
			codes = append(codes, one.StatusCode)
		}
	}
	passes := func(i, code int) bool {
		return answerExpected{StatusCode: c.cases[i].StatusCode}.differs(answer{status: code}, nil) == ""
	}
	var p part
	for _, code := range codes {
		p = append(p, lie{fmt.Sprintf("always status code %d", code), func(i int) bool { return passes(i, code) }})
	}
	usual := map[string]int{http.MethodPost: http.StatusCreated, http.MethodPut: http.StatusOK, http.MethodDelete: http.StatusNoContent}
	return append(p, lie{"the usual status code of the method", func(i int) bool {
		return passes(i, cmp.Or(usual[c.cases[i].request.Method], http.StatusOK))
	}})
}

// sent returns the rules that repeat what the judge sends, in this request or an earlier one.
func (c *apiCriterion) sent() []rule {
	var own, last []string // bodies of the requests; and the last one of those so far
	first := ""
	for i, one := range c.cases {
		own = append(own, body(one.request))
		last = append(last, own[i])
		if i > 0 && own[i] == "" {
			last[i] = last[i-1]
		}
		first = cmp.Or(first, last[i])
	}
	target := func(i int) *url.URL { return c.cases[i].request.URL }
	repeats := func(says string, text func(i int) string) rule {
		return rule{says, func(i int) (string, bool) { return text(i), true }}
	}
	return []rule{
		repeats("that of the request", func(i int) string { return own[i] }),
		repeats("the one sent last", func(i int) string { return last[i] }),
		repeats("the one sent last, in a list", func(i int) string { return "[" + last[i] + "]" }),
		repeats("the one sent first", func(int) string { return first }),
		repeats("the path", func(i int) string { return target(i).Path }),
		repeats("the last part of the path", func(i int) string { return path.Base(target(i).Path) }),
		repeats("the query", func(i int) string { return target(i).RawQuery }),
		repeats("the last value of the query", func(i int) string {
			value, _ := url.QueryUnescape(target(i).RawQuery[strings.LastIndexByte(target(i).RawQuery, '=')+1:])
			return value
		}),
	}
}

// body returns the body of a request that the judge sends.
func body(r *http.Request) string {
	b, err := r.GetBody()
	if err != nil {
		return ""
	}
	text, _ := io.ReadAll(b) // from memory
	return string(text)
}

// python returns the interpreter that runs the judge's own programs.
func (e *Engine) python() string { return cmp.Or(e.Python, "/usr/bin/python3") }

// conversation holds the answers of a service.
type conversation struct {
	closed     string // why no service can listen, if the forwarder reported that before the delivery ran
	up         string // why the service did not listen; empty if it did
	list       []guild.Test
	answers    []answer // of the cases that passed
	transcript strings.Builder
}

// tests returns the tests of the requests that were sent, and the others as missing. fault is the reason why the run
// was interrupted, or empty.
func (t *conversation) tests(cases []apiCase, fault string) []guild.Test {
	if t.up != "" && fault == "" {
		return tests(cases, guild.TestFailed, t.up)
	}
	rest := tests(cases[len(t.list):], guild.TestMissing, cmp.Or(fault, "not asked: the conversation ended before"))
	return append(t.list, rest...)
}

// converse sends the requests of all cases, in order, through the judge's end of a channel. It returns early if the
// channel is closed.
func converse(channel io.ReadWriter, cases []apiCase) (t conversation) {
	frames := &frameReader{r: bufio.NewReader(channel)}
	if open, err := frames.whole(); err != nil {
		t.closed = "the program that starts the service did not report"
		return t
	} else if string(open) != "open" {
		t.closed = string(open)
		return t
	}
	up, err := frames.whole()
	if err != nil {
		t.up = "the service did not report"
		return t
	}
	if string(up) != "ready" {
		t.up = string(up)
		return t
	}
	for _, one := range cases {
		start := time.Now()
		a, err := ask(channel, frames, one.request)
		test := one.test(guild.TestPassed, "")
		if why := one.differs(a, err); why != "" {
			test = one.test(guild.TestFailed, why)
		} else {
			t.answers = append(t.answers, a)
		}
		test.Micros = time.Since(start).Microseconds()
		t.list = append(t.list, test)
		fmt.Fprintf(&t.transcript, "%s\n%s\n", one.ID, quote(fmt.Sprintf("%d\n%s\n%s", a.status, a.lines(), a.body)))
		if frames.broken {
			break
		}
	}
	return t
}

// ask sends one request and reads its answer. It skips informational answers such as 100 Continue, up to four.
func ask(channel io.Writer, frames *frameReader, req *http.Request) (answer, error) {
	var raw bytes.Buffer
	if err := req.Write(&raw); err != nil {
		return answer{}, err
	}
	if err := writeFrame(channel, raw.Bytes()); err != nil {
		return answer{}, fmt.Errorf("the service could not be asked: %w", err)
	}
	if err := frames.next(); err != nil {
		return answer{}, err
	}
	in := bufio.NewReader(io.LimitReader(frames, 2*maxAnswer))
	for range 5 {
		res, err := http.ReadResponse(in, req)
		if err != nil {
			return answer{}, fmt.Errorf("no answer: %w", err)
		}
		if res.StatusCode < 200 && res.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
		if err != nil {
			return answer{}, fmt.Errorf("the answer breaks off: %w", err)
		}
		if len(body) > maxAnswer {
			return answer{}, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
		}
		return answer{status: res.StatusCode, header: res.Header, body: string(body)}, nil
	}
	return answer{}, errors.New("no answer, only the promise of one")
}

// answer is the answer of a service.
type answer struct {
	status int
	header http.Header
	body   string
}

// lines returns the header as lines.
func (a answer) lines() string {
	var b strings.Builder
	a.header.Write(&b)
	return b.String()
}

// differs returns how an answer differs from the expected one, or "". err is the reason if there is no answer.
func (e answerExpected) differs(a answer, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case e.StatusCode != 0 && a.status != e.StatusCode:
		return fmt.Sprintf("status code %d, want %d; body %s", a.status, e.StatusCode, quote(a.body))
	case e.StatusCode == 0 && (a.status < 200 || a.status > 299):
		return fmt.Sprintf("status code %d, want 2xx; body %s", a.status, quote(a.body))
	}
	if why := e.Body.differs("body", a.body); why != "" {
		return why
	}
	if why := e.BodyContains.missing("body", a.body); why != "" {
		return why
	}
	for _, text := range e.HeaderContains {
		if !strings.Contains(strings.ToLower(a.lines()), strings.ToLower(text)) {
			return fmt.Sprintf("header %s does not contain %s", quote(a.lines()), quote(text))
		}
	}
	for name, match := range e.Headers {
		if why := match.differs(name, strings.Join(a.header.Values(name), ", ")); why != "" {
			return why
		}
	}
	return ""
}

// request builds the request to the service on a port of the loopback address. The endpoint may include that port.
func (r requestFields) request(port int) (*http.Request, error) {
	method, target := r.Method, r.Endpoint
	if verb, rest, ok := strings.Cut(r.Endpoint, " "); ok {
		method, target = verb, strings.TrimSpace(rest)
	}
	target = cmp.Or(target, "/")
	if strings.HasPrefix(target, "/") {
		target = fmt.Sprintf("http://127.0.0.1:%d%s", port, target)
	}
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "http" || !slices.Contains([]string{"127.0.0.1", "localhost", "::1"}, u.Hostname()):
		return nil, fmt.Errorf("endpoint %q: the judge only asks the sandbox's own loopback, by http", target)
	case u.Port() != "" && u.Port() != strconv.Itoa(port):
		return nil, fmt.Errorf("endpoint %q: the service is on port %d", target, port)
	}
	body, isJSON := []byte(r.Body), len(r.Body) > 0 && r.Body[0] != '"' && string(r.Body) != "null"
	if !isJSON {
		var text string // stays empty for null
		if len(body) > 0 {
			err = json.Unmarshal(body, &text)
		}
		if err != nil {
			return nil, err
		}
		body = []byte(text)
	}
	usual := http.MethodGet
	if len(body) > 0 {
		usual = http.MethodPost
	}
	req, err := http.NewRequest(strings.ToUpper(cmp.Or(method, usual)), u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Close = true
	req.Header.Set("User-Agent", "guild-judge")
	if isJSON {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.Headers {
		// A line break in a name or value would end the header, so that the rest is another request.
		plain := name != "" && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
		if !plain || strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("header %q cannot be sent", name)
		}
		req.Header.Set(name, value)
	}
	return req, nil
}
