package node

import (
	"context"
	"strings"

	"guild"
	"guild/internal/journal"
)

// Repaired reports the result of Repair, and the jobs that it quarantined.
type Repaired struct {
	journal.Report
	Jobs []RepairedJob
}

// RepairedJob describes a job that lost entries, or may have lost some, from its remaining entries.
type RepairedJob struct {
	Job    guild.JobID
	Title  string       // "" if lost
	Ending guild.Ending // guild.Open if lost
	Known  bool         // the entry that opened it is intact
}

// Repair rebuilds the damaged journal of a stopped node.
//
// It makes the folds but opens no step: no step may act on a state that may lack entries.
func Repair(ctx context.Context, c Config) (Repaired, error) {
	n := &Node{c: c.withDefaults()}
	o, err := n.journalOptions()
	if err != nil {
		return Repaired{}, err
	}
	o.Renew = readAgain(n.c)
	report, err := journal.Repair(ctx, o)
	if err != nil {
		return Repaired{}, err
	}
	r := Repaired{Report: report}
	for _, guard := range report.Quarantined {
		id, isJob := strings.CutPrefix(string(guard), "job.")
		if !isJob {
			continue
		}
		one := RepairedJob{}
		if one.Job, err = guild.ParseJobID(id); err != nil {
			continue // a guard that a newer version wrote
		}
		if job, ok := n.folds.jobs.Job(one.Job); ok {
			one.Title, one.Ending, one.Known = job.Title, job.Ending, true
		}
		r.Jobs = append(r.Jobs, one)
	}
	return r, nil
}
