package main

import (
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
	id   guild.JobID
	file string // empty if the person names the id
}

// markHire returns the mark of a hire, that of before if there is one.
func (p *program) markHire(o hireOptions, bundle []byte) (m hireMark, err error) {
	if o.ID != "" {
		m.id, err = guild.ParseJobID(o.ID)
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
	text, err := os.ReadFile(m.file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if m.id, err = guild.ParseJobID(strings.TrimSpace(string(text))); err == nil {
		if !o.asJSON {
			fmt.Fprintf(p.err, "guild: this is job %s, whose end you have not seen; --id gives it another\n", m.id.Short())
		}
		return m, nil
	}
	m.id = guild.NewJobID()
	return m, durable.WriteBytes(m.file, []byte(m.id.String()+"\n"))
}

// refused returns the error for an order that the node did not answer with a job. Only one that makes no sense opens none
// for sure, and is forgotten.
func (m hireMark) refused(err error) error {
	if problem, ok := errors.AsType[*control.ProblemError](err); ok && problem.Problem.Code == "usage" {
		m.remove()
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
