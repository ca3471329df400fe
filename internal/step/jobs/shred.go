package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
)

// Reasons why a job is not shredded.
var (
	// ErrNotOver means that the job goes on, or one of its attempts has no record yet.
	ErrNotOver = errors.New("the job is not over")
	// ErrMoneyHeld means that money for an attempt is neither paid nor back.
	ErrMoneyHeld = errors.New("money is still held for it")
	// ErrInput means that a job that goes on takes its delivery as an input.
	ErrInput = errors.New("its delivery is an input of a job that goes on")
	// ErrBenchmark means that the job is a benchmark, whose words are not a person's.
	ErrBenchmark = errors.New("the job is a benchmark of a provider")
)

// Shred decides that a job that is over is forgotten: the private members of its facts, and its blobs but for the receipts. The
// erasing is due from here on, through any restart; Job.Erased says when it was done. A job that is shredded already does not
// change. The error may be one of the above, or journal.ErrArchiveGone.
func (j *Jobs) Shred(ctx context.Context, id guild.JobID) error {
	guard := fact.JobSubject(id)
	job, ok := j.fold.Job(id)
	if ok && job.Shredded == 0 { // an archive file that is not there is told before anything is decided
		if _, err := j.possessions(ctx, guard); err != nil {
			return fmt.Errorf("shred job %s: %w", id.Short(), err)
		}
	}
	err := j.c.Journal.Do(ctx, guard, "", func(tx *journal.Tx) error {
		job, ok := j.fold.Job(id)
		if !ok || job.Shredded != 0 {
			return nil
		}
		if err := j.shreddable(job); err != nil {
			return err
		}
		tx.Append(fact.JobShredded{Job: id})
		return nil
	})
	if err != nil {
		return fmt.Errorf("shred job %s: %w", id.Short(), err)
	}
	return nil
}

// shreddable returns why a job cannot be shredded, nil if it can.
func (j *Jobs) shreddable(job *Job) error {
	if job.Meeting != nil {
		return ErrBenchmark
	}
	if !j.fold.Finished(fact.JobSubject(job.Job)) {
		return ErrNotOver
	}
	for _, a := range job.Attempts {
		if a.Held != nil && a.Got == 0 && !a.Back {
			return ErrMoneyHeld
		}
	}
	for _, other := range j.fold.active() {
		for _, in := range other.Inputs {
			if in.Type == "job" && in.Data == job.Job.String() {
				return ErrInput
			}
		}
	}
	return nil
}

// shred removes what the fold knows of the words of a job. What a replay without the job's key would find instead is the same.
func (j *Job) shred() {
	j.Title, j.Reason, j.Release = "", "", nil
	for i := range j.Attempts {
		a := &j.Attempts[i]
		a.Reason, a.Broke = "", ""
		if a.Away != nil {
			a.Away = &fact.Place{}
		}
		if a.Verdict != nil {
			v := wordless(*a.Verdict)
			a.Verdict = &v
		}
	}
}

// wordless returns a verdict without the members that are private in fact.AttemptJudged.
func wordless(v guild.Verdict) guild.Verdict {
	v.Cause, v.Tests, v.Unproven, v.Hidden, v.Warnings, v.Breaches = "", nil, nil, nil, nil, nil
	if v.Quality != nil {
		q := *v.Quality
		q.Findings = nil
		v.Quality = &q
	}
	if v.Ruling != nil {
		r := *v.Ruling
		r.Note = ""
		v.Ruling = &r
	}
	if v.Opinion != nil {
		o := *v.Opinion
		o.Reason = ""
		v.Opinion = &o
	}
	return v
}

// erase carries out the shredding of a job. Every step can bear being done twice; the key goes last, because the names of some
// blobs are encrypted with it.
func (j *Jobs) erase(job *Job) due.Work {
	guard := fact.JobSubject(job.Job)
	return due.Work{Key: "shred " + job.Job.String(), Guard: guard, Free: true, Act: func(ctx context.Context) (due.Decision, error) {
		done, err := j.eraseBlobs(ctx, guard)
		if err == nil {
			err = j.c.Journal.Shred(ctx, guard)
		}
		if err != nil {
			return nil, fmt.Errorf("shred job %s: %w", job.Job.Short(), err)
		}
		return func(tx *journal.Tx) error {
			if now, ok := j.fold.Job(job.Job); ok && now.Erased == 0 {
				done.Job = job.Job
				tx.Append(done)
			}
			return nil
		}, nil
	}}
}

// eraseBlobs removes the blobs that only this job has.
func (j *Jobs) eraseBlobs(ctx context.Context, guard fact.Subject) (fact.JobErased, error) {
	j.storing.Lock() // no job may take over a blob that is about to be removed
	defer j.storing.Unlock()
	has, err := j.possessions(ctx, guard)
	if err != nil {
		return fact.JobErased{}, err
	}
	done := fact.JobErased{Exposed: has.exposed}
	for _, hash := range has.inOrder() {
		if has.blobs[hash] {
			done.Shared++
			continue
		}
		there, err := j.c.Blobs.Remove(hash)
		if err != nil {
			return fact.JobErased{}, err
		}
		if there {
			done.Blobs++
		}
	}
	return done, nil
}

// possessions lists the blobs and the unencrypted entries of one job.
type possessions struct {
	blobs   map[guild.Hash]bool // whether another job or request has it, too
	held    map[guild.Hash]bool // of blobs: verdicts that waited for a person, which name others
	exposed int                 // entries with words that are not encrypted
}

// inOrder lists the blobs in an order in which they can be removed: those that name others last.
func (p possessions) inOrder() []guild.Hash {
	all := slices.Collect(maps.Keys(p.blobs))
	return append(slices.DeleteFunc(slices.Clone(all), func(h guild.Hash) bool { return p.held[h] }),
		slices.DeleteFunc(all, func(h guild.Hash) bool { return !p.held[h] })...)
}

// possessions reads the entries of a job, and those of all others.
func (j *Jobs) possessions(ctx context.Context, guard fact.Subject) (possessions, error) {
	has := possessions{blobs: map[guild.Hash]bool{}, held: map[guild.Hash]bool{}}
	for e, err := range j.entries(ctx, guard) {
		if err != nil {
			return has, err
		}
		exposed, err := e.Exposed()
		if err != nil {
			return has, err
		}
		if exposed {
			has.exposed++
		}
		for _, hash := range j.blobsOf(e, true) {
			has.blobs[hash] = false
		}
		for _, one := range e.Facts {
			if undecided, ok := one.(fact.AttemptUndecided); ok {
				has.held[undecided.Held] = true
			}
		}
	}
	for _, noun := range []fact.Subject{"job", "request"} {
		for e, err := range j.entries(ctx, noun) {
			if err != nil {
				return has, err
			}
			if e.Subject == guard || j.isShredded(e.Subject) {
				continue
			}
			for _, hash := range j.blobsOf(e, false) {
				if _, both := has.blobs[hash]; both {
					has.blobs[hash] = true
				}
			}
		}
	}
	return has, nil
}

func (j *Jobs) isShredded(guard fact.Subject) bool {
	id, ok := jobOf(guard)
	job, known := j.fold.Job(id)
	return ok && known && job.Shredded != 0
}

// entries yields the entries of a subject or a noun, in the stream and then in the archive files.
func (j *Jobs) entries(ctx context.Context, subject fact.Subject) iter.Seq2[fact.Entry, error] {
	return func(yield func(fact.Entry, error) bool) {
		for _, some := range []iter.Seq2[fact.Entry, error]{j.c.Journal.Of(ctx, subject), j.c.Journal.Archived(ctx, subject)} {
			for e, err := range some {
				if !yield(e, err) || err != nil {
					return
				}
			}
		}
	}
}

// blobsOf lists the blobs that an entry names and that a shredded job must not leave behind: all but receipts, which have no
// words. With deep set it also reads verdicts that waited for a person, which name another blob.
func (j *Jobs) blobsOf(e fact.Entry, deep bool) (all []guild.Hash) {
	for _, one := range e.Facts {
		switch one := one.(type) {
		case fact.JobOpened:
			all = append(all, one.Bundle, one.Hidden)
			if one.Release != nil {
				if document, err := json.Marshal(one.Release); err == nil { // as it was stored before the order
					all = append(all, guild.Sum(document))
				}
				for _, v := range one.Release.Vaults {
					all = append(all, v.Vault)
				}
			}
			for _, in := range one.Inputs {
				if digits, ok := strings.CutPrefix(in.Data, blobScheme); ok {
					if hash, err := guild.ParseHash(digits); err == nil {
						all = append(all, hash)
					}
				}
			}
		case fact.AttemptDelivered:
			all = append(all, one.Event, one.Delivery)
		case fact.AttemptJudged:
			all = append(all, one.Stored, one.Whole, one.Verdict.Evidence)
		case fact.AttemptUndecided:
			all = append(all, one.Held, one.Whole)
			if deep {
				all = append(all, j.evidenceOf(one.Held))
			}
		case fact.AttemptRecorded:
			all = append(all, one.Replay)
		case fact.RequestFinished:
			all = append(all, one.Bundle, one.Delivery, one.Replay, one.Session)
		}
	}
	return all
}

// evidenceOf returns the evidence of a stored verdict, zero if it cannot be read.
func (j *Jobs) evidenceOf(stored guild.Hash) guild.Hash {
	var v guild.Verdict
	if stored.IsZero() {
		return guild.Hash{}
	}
	if raw, err := j.c.Blobs.ReadAll(stored, maxVerdict); err != nil || json.Unmarshal(raw, &v) != nil {
		return guild.Hash{}
	}
	return v.Evidence
}
