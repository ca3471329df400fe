package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"golang.org/x/term"

	"guild/internal/cli"
	"guild/internal/control"
)

// errLeft says that the person left a job that goes on.
var errLeft = errors.New("left")

// watch shows a job until it ends, in the form that suits the output, and returns an error with the exit code
// of its ending. The job is that which has ended, if its end was shown.
func (p *program) watch(ctx context.Context, client *control.Client, job control.Job, asJSON bool) (control.Job, error) {
	ended, err := p.follow(ctx, client, job, asJSON)
	if err == nil && isEnded(ended) && !asJSON {
		p.showEnding(ended)
	}
	if errors.Is(err, errLeft) || ctx.Err() != nil && !isEnded(ended) {
		return control.Job{}, interrupted(job.ID)
	}
	if isLost(err) {
		lost := fmt.Errorf("the connection to the node was lost; job %s goes on when the node is started again", short(job.ID))
		return control.Job{}, cli.WithHint(cli.WithCode(lost, exitNoNode), "guild up, then guild job watch "+short(job.ID))
	}
	if err != nil {
		return control.Job{}, err
	}
	return ended, endingError(ended)
}

// stay follows a job that the person has left, as this process is its node, and shows how it ends. Ctrl-C leaves it open: the
// second, if the first was a signal, kills the process.
func (p *program) stay(ctx context.Context, client *control.Client, job control.Job, asJSON bool) (control.Job, error) {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	fmt.Fprintln(p.err, "guild: this process is the node, and stays until the job ends; Ctrl-C ends it, guild up goes on with the job")
	ended, err := writeUpdates(client.Watch(ctx, job.ID), func(u control.Update) error {
		if u.Ended == nil || !asJSON {
			return nil
		}
		return cli.PrintLine(p.out, u)
	})
	if ctx.Err() != nil {
		return control.Job{}, cli.WithHint(interrupted(job.ID), "guild up goes on with it")
	}
	if err != nil {
		return control.Job{}, err
	}
	if !asJSON {
		fmt.Fprintln(p.out, sentence(ended))
		p.showWork(ended)
	}
	return ended, endingError(ended)
}

// isLost reports whether the connection to the node was lost.
func isLost(err error) bool {
	return errors.Is(err, control.ErrLost) || errors.Is(err, control.ErrNotRunning)
}

func isEnded(job control.Job) bool { return job.Closed != 0 || job.Ending != "" }

func (p *program) follow(ctx context.Context, client *control.Client, job control.Job, asJSON bool) (control.Job, error) {
	if in, out, ok := p.terminal(); ok && !asJSON {
		return live(ctx, in, out, client, job)
	}
	updates := client.Watch(ctx, job.ID)
	if asJSON {
		return writeUpdates(updates, func(u control.Update) error { return cli.PrintLine(p.out, u) })
	}
	fmt.Fprintf(p.out, "job %s  %s\n", short(job.ID), cli.Clean(job.Task))
	return writeUpdates(updates, printEvents(p.out, ""))
}

// printEvents returns a function that prints updates, each with before at the beginning of its line. What the judge is at
// is left out; why the job waits is not.
func printEvents(w io.Writer, before string) func(control.Update) error {
	return func(u control.Update) error {
		if u.IsPassing() && (!u.IsWaiting() || u.Text == "") {
			return nil
		}
		_, err := fmt.Fprintln(w, before+eventLine(u))
		return err
	}
}

// writeUpdates writes each update and returns the job as it ended.
func writeUpdates(updates iter.Seq2[control.Update, error], write func(control.Update) error) (control.Job, error) {
	for u, err := range updates {
		if err != nil {
			return control.Job{}, err
		}
		if err := write(u); err != nil {
			return control.Job{}, err
		}
		if u.Ended != nil {
			return *u.Ended, nil
		}
	}
	return control.Job{}, io.ErrUnexpectedEOF
}

// eventLine returns one update as "12:00:01 request  asked npub1…".
func eventLine(u control.Update) string {
	text := cli.Clean(u.Text)
	if u.Ended != nil && text == "" {
		text = summary(*u.Ended)
	}
	mark := ""
	switch {
	case u.State == "failed":
		mark = "✗ "
	case u.IsWaiting():
		mark = waits
	}
	return fmt.Sprintf("%s %-9s %s%s", clock(u.At), cli.Clean(u.Step), mark, text)
}

// terminal returns both streams when a person sits at them.
func (p *program) terminal() (in, out *os.File, ok bool) {
	in, okIn := p.in.(*os.File)
	out, okOut := p.out.(*os.File)
	if !okIn || !okOut || os.Getenv("TERM") == "dumb" {
		return nil, nil, false
	}
	return in, out, term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}
