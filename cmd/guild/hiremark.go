package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/durable"
)

// hireMark is a file with the id of a job, which stays until its end was shown: so the same hire is the same job, whatever
// was interrupted or killed meanwhile. The node that opens a job by an id that it has does nothing.
type hireMark struct {
	id    guild.JobID
	file  string // empty if the person names the id
	known bool   // it may be that of before
}

// markHire returns the mark of a hire, that of before if there is one. Of two hires at a time the second gets the mark of
// the first.
func (p *program) markHire(o hireOptions, bundle []byte) (m hireMark, err error) {
	if o.ID != "" {
		m.id, err = guild.ParseJobID(o.ID)
		m.known = true // if the node has such a job
		return m, err
	}
	c, err := p.config()
	if err != nil {
		return m, err
	}
	dir := filepath.Join(c.Paths.State, "hires")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return m, err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%x %q", sha256.Sum256(bundle), o.Task)
	m.file = filepath.Join(dir, hex.EncodeToString(sum.Sum(nil)))
	m.id = guild.NewJobID()
	err = durable.Create(m.file, []byte(m.id.String()+"\n"))
	if !errors.Is(err, fs.ErrExist) {
		return m, err
	}
	text, err := os.ReadFile(m.file)
	if err != nil {
		return m, err
	}
	if m.id, err = guild.ParseJobID(strings.TrimSpace(string(text))); err != nil {
		return m, cli.WithHint(fmt.Errorf("%s: %w", m.file, err), "remove this file")
	}
	m.known = true
	return m, nil
}

// job returns the job of a hire if the node has it already.
func (m hireMark) job(ctx context.Context, client *control.Client) (job control.Job, known bool) {
	if !m.known {
		return job, false
	}
	job, err := control.OneJob.Call(ctx, client, m.id.String())
	return job, err == nil
}

// repeats says how the job stands that a hire repeats.
func (m hireMark) repeats(job control.Job) string {
	text := fmt.Sprintf("this is job %s, which goes on as it was sent", m.id.Short())
	if isEnded(job) {
		text = fmt.Sprintf("this is job %s, which has ended: %s", m.id.Short(), sentence(job))
	}
	if m.file == "" {
		return text
	}
	return text + "; --id gives this hire another"
}

// unsent forgets the id of a hire that was not sent, and returns why it was not.
func (m hireMark) unsent(err error) error {
	if !m.known {
		m.remove()
	}
	if errors.Is(err, context.Canceled) {
		return cli.WithCode(errors.New("interrupted: nothing was sent"), exitInterrupted)
	}
	return err
}

// refused returns the error for an order that the node did not answer with a job. Only one that makes no sense opens none
// for sure, and is forgotten.
func (m hireMark) refused(err error) error {
	if problem, ok := errors.AsType[*control.ProblemError](err); ok && problem.Problem.Code == "usage" {
		err = m.unsent(err)
	}
	if isLost(err) {
		return cli.WithHint(fmt.Errorf("the node died before it answered: %w", err), "hire again: it is the same job")
	}
	return err
}

// remove forgets the id.
func (m hireMark) remove() {
	if m.file != "" {
		_ = os.Remove(m.file) // one that stays is of a job that has ended
	}
}
