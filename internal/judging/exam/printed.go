package exam

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"guild"
	"guild/internal/judging/sandbox"
)

// printedCriterion is an api_test without an endpoint: its script calls the service, in the same sandbox as the
// delivery, and prints the answer.
type printedCriterion struct {
	caseName
	service Service
	answerExpected
}

func (c *printedCriterion) planned(*examination) map[string]int { return map[string]int{c.ID: 1} }

// examine runs the script and compares the answer that it printed. The finding is weak, because the script runs beside
// the delivery.
func (c *printedCriterion) examine(ctx context.Context, j *examination, f *Finding) error {
	f.Because = "the script asked the service itself, beside the delivery"
	argv, err := j.start(c.service)
	if err != nil {
		return err
	}
	s := sandbox.Spec{
		Argv: argv, Env: environment("PORT=" + strconv.Itoa(c.service.Port)),
		Copies: j.layout.copies(true, nil), Limits: j.limits(),
	}
	j.showTestsBeside(&s)
	run, err := j.run(ctx, f, s, "")
	if err != nil {
		return err
	}
	why := f.Fault
	switch {
	case why != "":
	case run.Result.Exit != 0 || run.Result.Signal != "":
		why = fmt.Sprintf("the script ended with exit code %d; %s", run.Result.Exit, lastLine(run.Stderr))
	default:
		why = c.differs(printedAnswer(run.Stdout))
	}
	test := c.test(guild.TestPassed, "")
	if why != "" {
		test = c.test(guild.TestFailed, why)
	}
	f.Tests = []guild.Test{test}
	f.distrust(run.Result)
	return nil
}

// printedAnswer parses the answer that a script printed: the complete answer, as by curl -i, and the last one of
// several; or the body with the status code in a separate line before or after it, as by curl -w.
func printedAnswer(text string) (answer, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if i := strings.LastIndex("\n"+text, "\nHTTP/"); i >= 0 {
		return wholeAnswer(text[i:])
	}
	text = strings.Trim(text, "\n")
	first, after, _ := strings.Cut(text, "\n")
	if code := statusCode(first); code != 0 {
		return answer{status: code, body: after}, nil
	}
	last := lastLine(text)
	if code := statusCode(last); code != 0 {
		return answer{status: code, body: strings.TrimSuffix(text, last)}, nil
	}
	return answer{}, errors.New("the script printed no answer: it must print the whole of it, as curl -i does, or the criterion must have an endpoint")
}

// wholeAnswer parses an answer from its status line on. It ignores the length and encoding in the header, because the
// program that printed it has decoded the body.
func wholeAnswer(text string) (answer, error) {
	in := textproto.NewReader(bufio.NewReader(strings.NewReader(text)))
	line, err := in.ReadLine()
	if err != nil {
		return answer{}, err
	}
	words := strings.Fields(line)
	if len(words) < 2 || statusCode(words[1]) == 0 {
		return answer{}, fmt.Errorf("no answer: %s is not the first line of one", quote(line))
	}
	header, err := in.ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		return answer{}, fmt.Errorf("no answer: %w", err)
	}
	body, err := io.ReadAll(in.R)
	return answer{status: statusCode(words[1]), header: http.Header(header), body: string(body)}, err
}

// statusCode parses a line that contains only a status code; it returns 0 for any other line.
func statusCode(line string) int {
	code, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || code < 100 || code > 599 {
		return 0
	}
	return code
}
