package exam

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"guild"
	"guild/internal/sandbox"
)

// forwarder is the program that starts a service inside and carries bytes to it.
//
//go:embed forwarder.py
var forwarder string

// maxAnswer bounds one answer of a service, in bytes.
const maxAnswer = 1 << 20

// api starts a service in a sandbox and asks it. The requests are written and the answers are read out here; what
// is inside, forwarder included, only ever has the requests.
func (j *examination) api(ctx context.Context, c Criterion, f *Finding) error {
	if c.Script != "" && len(c.Cases) == 0 && !c.asks() {
		return j.called(ctx, c, f)
	}
	f.Strength, f.Because = guild.Strong, "the judge made the requests, and compared the answers outside of the sandbox"
	argv, err := j.start(c.Service)
	if err != nil {
		return err
	}
	if !isFile(j.engine.python()) {
		return undecided("%s is not there: apt-get install python3", j.engine.python())
	}
	s := sandbox.Spec{
		Argv: append([]string{j.engine.python(), "-I", "-B", "-c", forwarder,
			strconv.Itoa(c.Port), strconv.Itoa(j.criteria.TimeLimit)}, argv...),
		Env:    environment("PORT=" + strconv.Itoa(c.Port)),
		Copies: j.layout.copies(true, nil), Limits: j.limits(),
	}
	if c.Script != "" {
		j.showTests(&s)
	}
	channel, theirs, err := newChannel()
	if err != nil {
		return err
	}
	defer channel.Close()
	asked := make(chan conversation, 1)
	go func() {
		talk := converse(channel, c)
		channel.Close() // which ends the forwarder, and with it everything inside
		asked <- talk
	}()
	run, err := j.runWith(ctx, f, s, sandbox.IO{Channel: theirs})
	if err != nil {
		theirs.Close() // it may not have come to be used; the conversation must end
		<-asked
		return err
	}
	talk := <-asked
	run.Argv = slices.Replace(slices.Clone(s.Argv), 4, 5, "forwarder.py") // its text would drown the evidence
	if talk.closed != "" {
		return undecided("this sandbox has no loopback for a service: %s", cut(talk.closed))
	}
	run.Channel = talk.transcript.String()
	f.Tests = talk.tests(c, f.Fault)
	return nil
}

// python is the interpreter that runs the judge's own programs.
func (e *Engine) python() string { return cmp.Or(e.Python, "/usr/bin/python3") }

// conversation is what came of asking a service.
type conversation struct {
	closed     string // why no service can listen there, said before anything of the delivery ran
	up         string // empty once the service listened, else why it did not
	list       []guild.Test
	transcript strings.Builder
}

// tests are those that were asked, and the others as missing.
func (t *conversation) tests(c Criterion, fault string) []guild.Test {
	cases := c.all()
	if t.up != "" && fault == "" {
		return failed(cases, t.up)
	}
	return append(t.list, unrun(cases[len(t.list):], cmp.Or(fault, "not asked: the conversation ended before"))...)
}

// converse asks every case of a criterion, in order, on the judge's end of a channel. It ends when the channel does.
func converse(channel io.ReadWriter, c Criterion) (t conversation) {
	frames := &frameReader{r: bufio.NewReader(channel)}
	if open, err := frames.whole(); err != nil {
		t.closed = "nothing was heard of the program that would start it"
		return t
	} else if string(open) != "open" {
		t.closed = string(open)
		return t
	}
	up, err := frames.whole()
	if err != nil {
		t.up = "nothing was heard of the service"
		return t
	}
	if t.up = string(up); t.up != "ready" {
		return t
	}
	t.up = ""
	for _, one := range c.all() {
		start := time.Now()
		a, err := ask(channel, frames, c, one)
		test := a.test(one, err)
		test.Micros = time.Since(start).Microseconds()
		t.list = append(t.list, test)
		fmt.Fprintf(&t.transcript, "%s\n%s\n", one.ID, quote(a.raw()))
		if frames.broken {
			break
		}
	}
	return t
}

// ask sends one request and reads the answer to it.
func ask(channel io.Writer, frames *frameReader, c Criterion, one Case) (answer, error) {
	req, err := c.request(one)
	if err != nil {
		return answer{}, err
	}
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
	return readAnswer(frames, req)
}

// answer is what a service said.
type answer struct {
	status int
	header http.Header
	body   string
}

// readAnswer reads one answer, past those that only say that there will be one.
func readAnswer(r io.Reader, req *http.Request) (answer, error) {
	in := bufio.NewReader(io.LimitReader(r, 2*maxAnswer))
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
		return answer{res.StatusCode, res.Header, string(body)}, nil
	}
	return answer{}, fmt.Errorf("no answer, only the promise of one")
}

// test holds an answer against what was expected.
func (a answer) test(one Case, err error) guild.Test {
	t := guild.Test{ID: one.ID, State: guild.TestPassed, Layer: one.Layer}
	why := ""
	if err != nil {
		why = err.Error()
	} else {
		why = one.Expected.answered(a)
	}
	if why != "" {
		t.State, t.Message = guild.TestFailed, cut(why)
	}
	return t
}

// raw shows an answer in the evidence.
func (a answer) raw() string {
	var b strings.Builder
	fmt.Fprintln(&b, a.status)
	a.header.Write(&b)
	return b.String() + "\n" + a.body
}

// lines are the header's lines, to look for texts in.
func (a answer) lines() string {
	var b strings.Builder
	a.header.Write(&b)
	return b.String()
}

// answered says how an answer differs from what was expected. Without a status code, it is one that went well.
func (e Expected) answered(a answer) string {
	switch {
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

// request is what a case of an api_test asks.
func (c *Criterion) request(one Case) (*http.Request, error) {
	method, target := one.Method, one.Endpoint
	if verb, rest, ok := strings.Cut(one.Endpoint, " "); ok {
		method, target = verb, strings.TrimSpace(rest)
	}
	u, err := c.target(cmp.Or(target, "/"))
	if err != nil {
		return nil, err
	}
	body, isJSON, err := one.body()
	if err != nil {
		return nil, err
	}
	usual := http.MethodGet
	if len(body) > 0 {
		usual = http.MethodPost
	}
	req, err := http.NewRequest(strings.ToUpper(cmp.Or(method, usual)), u, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Close = true
	req.Header.Set("User-Agent", "guild-judge")
	if isJSON {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range one.Headers {
		if !plainHeader(name) || strings.ContainsAny(value, "\r\n\x00") {
			return nil, fmt.Errorf("header %q cannot be sent", name)
		}
		req.Header.Set(name, value)
	}
	return req, nil
}

// target is the address of an endpoint: a path, or an address on the loopback at the criterion's port.
func (c *Criterion) target(endpoint string) (string, error) {
	port := strconv.Itoa(cmp.Or(c.Port, defaultPort))
	if strings.HasPrefix(endpoint, "/") {
		endpoint = "http://127.0.0.1:" + port + endpoint
	}
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return "", err
	case u.Scheme != "http" || !slices.Contains([]string{"127.0.0.1", "localhost", "::1"}, u.Hostname()):
		return "", fmt.Errorf("endpoint %q: the judge only asks the sandbox's own loopback, by http", endpoint)
	case u.Port() != "" && u.Port() != port:
		return "", fmt.Errorf("endpoint %q: the service is on port %s", endpoint, port)
	}
	return u.String(), nil
}

// body is what is sent, and whether it is JSON.
func (c Case) body() (b []byte, isJSON bool, err error) {
	if len(c.Body) == 0 || string(c.Body) == "null" {
		return nil, false, nil
	}
	if c.Body[0] != '"' {
		return c.Body, true, nil
	}
	var text string
	err = json.Unmarshal(c.Body, &text)
	return []byte(text), false, err
}

// plainHeader reports whether a name can be that of a header.
func plainHeader(name string) bool {
	return name != "" && strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
