// Package ask puts questions to a person on a terminal. It decides nothing: no answer is an answer, and what it means
// is the caller's affair.
package ask

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"charm.land/huh/v2"

	"guild/internal/cli"
)

// ErrNobody is that questions would have nobody to answer them.
var ErrNobody = errors.New("there is no terminal to ask on")

// Person asks a person. Every answer may be empty, which means to leave things as they are.
type Person struct {
	ctx   context.Context
	in    io.Reader
	out   io.Writer
	plain bool // questions as lines of text, for dumb terminals and screen readers
}

// New asks on a terminal.
func New(ctx context.Context, in io.Reader, out io.Writer) *Person {
	plain := os.Getenv("ACCESSIBLE") != "" || os.Getenv("TERM") == "dumb"
	return &Person{ctx: ctx, in: in, out: out, plain: plain}
}

// Yes asks whether to do something. The default is to do it.
func (a *Person) Yes(question string) (bool, error) {
	answer := true
	err := a.run(huh.NewConfirm().Title(cli.Clean(question)).Value(&answer))
	return answer && err == nil, err
}

// Line asks for one line of text.
func (a *Person) Line(question, why string) (string, error) {
	var answer string
	input := huh.NewInput().Title(cli.Clean(question)).Value(&answer)
	if !a.plain {
		input.Description(cli.Clean(why))
	}
	err := a.run(input)
	return strings.TrimSpace(answer), err
}

// Lines asks for lines of text until an empty one.
func (a *Person) Lines(question string) ([]string, error) {
	var all []string
	for {
		answer, err := a.Line(question, "")
		if err != nil || answer == "" {
			return all, err
		}
		all = append(all, answer)
		question = "And what else? (empty: nothing)"
	}
}

// Choose asks for one of a few words.
func (a *Person) Choose(question, usual string, words ...string) (string, error) {
	answer := usual
	err := a.run(huh.NewSelect[string]().Title(cli.Clean(question)).Options(huh.NewOptions(words...)...).Value(&answer))
	return answer, err
}

// run asks one question. Ctrl-C and the end of the input are context.Canceled.
func (a *Person) run(field huh.Field) error {
	if a.plain {
		in := &answers{ctx: a.ctx, r: a.in}
		unstyled := huh.ThemeFunc(func(bool) *huh.Styles { return &huh.Styles{} })
		if err := field.WithTheme(unstyled).RunAccessible(a.out, in); err != nil {
			return err
		}
		return in.err
	}
	err := huh.NewForm(huh.NewGroup(field)).WithInput(a.in).WithOutput(a.out).WithShowHelp(false).RunWithContext(a.ctx)
	if errors.Is(err, huh.ErrUserAborted) {
		return context.Canceled
	}
	return err
}

// answers gives a plain question one byte at a time, so that it does not read the answer to the next one, and
// remembers that nobody answered.
type answers struct {
	ctx context.Context
	r   io.Reader
	err error
}

// Read implements io.Reader. A terminal cannot be told to stop waiting: when the context ends, so does the program,
// and with it the goroutine.
func (a *answers) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	var one [1]byte
	done := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(a.r, one[:])
		done <- err
	}()
	var err error
	select {
	case err = <-done:
	case <-a.ctx.Done():
		err = a.ctx.Err()
	}
	if err != nil {
		a.err = context.Canceled
		return 0, io.EOF
	}
	p[0] = one[0]
	return 1, nil
}
