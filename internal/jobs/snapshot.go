package jobs

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/fold"
)

// state is the first line of a snapshot. Lists of jobs are the others, each short enough to be read beside others.
type state struct {
	Lists *int                           `json:"lists"` // lines
	Deals *fold.Table[string, []deal]    `json:"deals"`
	Bids  *fold.Table[turn, reservation] `json:"bids"`
	Used  *fold.Table[string, account]   `json:"used"`

	Strains *fold.Table[kept, strain] `json:"strains"`
}

// keptJob is a job as a snapshot has it. What its parts have in common with it is left out.
type keptJob struct {
	*Job
	Attempts []keptAttempt `json:"attempts,omitempty"`
}

type keptAttempt struct {
	*Attempt
	Provider kept    `json:"Provider"`
	Of       omitted `json:"Job,omitzero"`
}

// omitted hides a field of what is embedded beside it.
type omitted struct{}

// kept is a service as text: reading it does not find out whether there can be such a key, which takes longer than to
// read all the rest, and was known before.
type kept guild.Service

// MarshalText writes the key in hex, a space and the d tag.
func (k kept) MarshalText() ([]byte, error) { return []byte(k.PubKey.Hex() + " " + k.D), nil }

// UnmarshalText reads that.
func (k *kept) UnmarshalText(b []byte) error {
	digits, d, found := bytes.Cut(b, []byte{' '})
	if !found || len(digits) != hex.EncodedLen(len(k.PubKey)) {
		return fmt.Errorf("%.80q is no service", b)
	}
	k.D = string(d)
	_, err := hex.Decode(k.PubKey[:], digits)
	return err
}

// together is how many jobs are read at a time.
const together = 1000

// keep writes lines with all jobs.
func keep(jobs *fold.Table[guild.JobID, *Job]) (lines [][]byte, err error) {
	all := make([]keptJob, 0, jobs.Len())
	for _, job := range jobs.All() {
		k := keptJob{Job: job, Attempts: make([]keptAttempt, len(job.Attempts))}
		for i := range job.Attempts {
			k.Attempts[i] = keptAttempt{Attempt: &job.Attempts[i], Provider: kept(job.Attempts[i].Provider)}
		}
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b keptJob) int { return slices.Compare(a.Job.Job[:], b.Job.Job[:]) })
	for list := range slices.Chunk(all, together) {
		b, err := fold.Encode(list)
		if err != nil {
			return nil, err
		}
		lines = append(lines, b)
	}
	return lines, nil
}

// read is the other direction of keep.
func (f *Fold) read(lines [][]byte) error {
	found := make([][]keptJob, len(lines))
	var reading errgroup.Group
	reading.SetLimit(runtime.GOMAXPROCS(0))
	for i, line := range lines {
		reading.Go(func() error { return fold.Decode(line, &found[i]) })
	}
	if err := reading.Wait(); err != nil {
		return err
	}
	for _, list := range found {
		for _, k := range list {
			job, err := k.job()
			if err != nil {
				return err
			}
			f.jobs.Set(job.Job, job)
		}
	}
	return nil
}

// job is the job that was kept.
func (k keptJob) job() (*Job, error) {
	if k.Job == nil {
		return nil, errors.New("a job is empty")
	}
	k.Job.Attempts = make([]Attempt, len(k.Attempts))
	for i, a := range k.Attempts {
		if a.Attempt == nil {
			return nil, fmt.Errorf("an attempt of job %s is empty", k.Job.Job)
		}
		a.Attempt.Job, a.Attempt.Provider = k.Job.Job, guild.Service(a.Provider)
		k.Job.Attempts[i] = *a.Attempt
	}
	return k.Job, nil
}

// Freeze implements fold.Fold.
func (f *Fold) Freeze() func() ([]byte, error) {
	f.mu.Lock()
	jobs, deals, bids, used := f.jobs.Clone(), f.deals.Clone(), f.purse.open.Clone(), f.purse.used.Clone()
	strained := f.strains.of.Clone()
	f.mu.Unlock()
	return func() ([]byte, error) {
		lines, err := keep(&jobs)
		if err != nil {
			return nil, err
		}
		first, err := fold.Encode(state{new(len(lines)), &deals, &bids, &used, &strained})
		return bytes.Join(append([][]byte{first}, lines...), []byte{'\n'}), err
	}
}

// Restore implements fold.Fold.
func (f *Fold) Restore(b []byte) error {
	var s state
	lines := bytes.Split(b, []byte{'\n'})
	if err := fold.Decode(lines[0], &s); err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	if s.Lists == nil || *s.Lists != len(lines)-1 || s.Deals == nil || s.Bids == nil || s.Used == nil || s.Strains == nil {
		return errors.New("jobs: the snapshot is not whole")
	}
	fresh := NewFold()
	fresh.deals, fresh.purse = *s.Deals, purse{*s.Bids, *s.Used}
	fresh.strains.of = *s.Strains
	if err := fresh.read(lines[1:]); err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	fresh.derive()
	fresh.strains.derive()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs, f.deals, f.purse, f.strains = fresh.jobs, fresh.deals, fresh.purse, fresh.strains
	f.attempts, f.open, f.traffic = fresh.attempts, fresh.open, fresh.traffic
	f.turns, f.solicitations = fresh.turns, fresh.solicitations
	return nil
}

// derive makes everything anew that follows from the jobs.
func (f *Fold) derive() {
	var planned []*Attempt
	for id, job := range f.jobs.All() {
		for i := range job.Attempts {
			f.attempts.Set(job.Attempts[i].ID, id)
			planned = append(planned, &job.Attempts[i])
		}
		if f.traffic.changed(nil, job.Attempts); !job.quiet() {
			f.open[id] = true
		}
		if job.Solicited != nil {
			f.solicitations.Set(job.Solicited.Request.ID, id)
		}
	}
	slices.SortFunc(planned, func(a, b *Attempt) int { return cmp.Or(cmp.Compare(a.At, b.At), slices.Compare(a.ID[:], b.ID[:])) })
	since := latest(planned) - longest.Milliseconds()
	for _, a := range planned {
		f.takeTurn(a.Provider.PubKey, a.ID)
		if task := f.traffic.decided(f.taskOf(a.Job)); a.At > since {
			f.traffic.asked(task, a.Provider.PubKey, a.At)
		}
	}
}

// latest is when the last of some attempts was planned, Unix ms.
func latest(planned []*Attempt) int64 {
	if len(planned) == 0 {
		return 0
	}
	return planned[len(planned)-1].At
}
