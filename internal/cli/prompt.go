package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"charm.land/huh/v2"
)

// Prompt asks a person questions on a terminal. Every answer may be empty, which means to leave things as they are.
type Prompt struct {
	ctx   context.Context
	in    io.Reader
	out   io.Writer
	plain bool // questions as lines of text, for dumb terminals and screen readers
}

// NewPrompt returns a prompt that reads answers from in and writes questions to out.
func NewPrompt(ctx context.Context, in io.Reader, out io.Writer) *Prompt {
	plain := os.Getenv("ACCESSIBLE") != "" || os.Getenv("TERM") == "dumb"
	return &Prompt{ctx: ctx, in: in, out: out, plain: plain}
}

// Yes asks whether to do something. The default is to do it.
func (p *Prompt) Yes(question string) (bool, error) {
	answer := true
	err := p.run(huh.NewConfirm().Title(Clean(question)).Value(&answer))
	return answer && err == nil, err
}

// Line asks for one line of text.
func (p *Prompt) Line(question, why string) (string, error) {
	var answer string
	input := huh.NewInput().Title(Clean(question)).Value(&answer)
	if !p.plain {
		input.Description(Clean(why))
	}
	err := p.run(input)
	return strings.TrimSpace(answer), err
}

// Lines asks for lines of text until an empty one.
func (p *Prompt) Lines(question string) ([]string, error) {
	var all []string
	for {
		answer, err := p.Line(question, "")
		if err != nil || answer == "" {
			return all, err
		}
		all = append(all, answer)
		question = "And what else? (empty: nothing)"
	}
}

// Choose asks for one of a few words.
func (p *Prompt) Choose(question, usual string, words ...string) (string, error) {
	answer := usual
	err := p.run(huh.NewSelect[string]().Title(Clean(question)).Options(huh.NewOptions(words...)...).Value(&answer))
	return answer, err
}

// run asks one question. Ctrl-C and the end of the input are context.Canceled; without a terminal it is ErrNoTerminal.
func (p *Prompt) run(field huh.Field) error {
	if p.plain {
		in := &answers{ctx: p.ctx, r: p.in}
		unstyled := huh.ThemeFunc(func(bool) *huh.Styles { return &huh.Styles{} })
		if err := field.WithTheme(unstyled).RunAccessible(p.out, in); err != nil {
			return err
		}
		return in.err
	}
	if !IsTerminal(p.in) { // the form would draw itself for ever
		return ErrNoTerminal
	}
	err := huh.NewForm(huh.NewGroup(field)).WithInput(p.in).WithOutput(p.out).WithShowHelp(false).RunWithContext(p.ctx)
	if errors.Is(err, huh.ErrUserAborted) {
		return context.Canceled
	}
	return err
}

// answers reads one byte at a time, so that a plain question does not read the answer to the next one. It keeps the error
// of a read, which the library drops.
type answers struct {
	ctx context.Context
	r   io.Reader
	err error
}

// Read implements io.Reader. A read from a terminal cannot be interrupted. When the context ends, so does the program, and
// the goroutine with it.
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
