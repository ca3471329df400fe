package trust

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// maxDecision limits the facts of one decision about many standings, in bytes.
const maxDecision = 90_000

// UsageError reports a request of a person that cannot be fulfilled. Nothing was changed.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// Set sets trust in a service for a task to the owner's value, which must be within the policy's bounds. It is not
// charged to the daily limit. The reason is shown in the history. Set returns a *UsageError for invalid arguments.
func (t *Trust) Set(ctx context.Context, task string, s guild.Service, value guild.Trust, reason string) error {
	if p := t.fold.policy.Trust; value < p.Floor || value > p.Ceiling {
		return &UsageError{fmt.Sprintf("trust %s: want %s to %s", value, p.Floor, p.Ceiling)}
	}
	if len(task) > fact.MaxTask || len(s.D) > maxD {
		return &UsageError{fmt.Sprintf("trust for %.40q: want a task of 1 to %d bytes, and a service named by at most %d", task, fact.MaxTask, maxD)}
	}
	if strings.TrimSpace(task) == "" || !utf8.ValidString(task) || strings.ContainsFunc(task, unicode.IsControl) {
		return &UsageError{fmt.Sprintf("trust for %.40q: a task is text without control characters", task)}
	}
	_, err := t.put(ctx, task, []wanted{{Task: task, Service: s, Trust: value}}, fact.RuleOwner, guild.Cut(reason, 500))
	return err
}

// maxD limits the name of a service that trust is set for, in bytes.
const maxD = 1024

// wanted is the standing that a service should get.
type wanted struct {
	Task    string        `json:"task"`
	Service guild.Service `json:"service"`
	Trust   guild.Trust   `json:"trust_micro"`
	EMA     guild.Trust   `json:"ema_micro"` // 0 if equal to Trust
	Runs    int           `json:"runs"`
	Samples int           `json:"samples"`
	Gone    bool          `json:"-"` // trust is to be removed
}

// is reports whether a row is as wanted. A rollback wants trust only, and leaves the rest to follow from it.
func (w wanted) is(r row, rule string) bool {
	switch {
	case w.Gone || !r.Met:
		return w.Gone && !r.Met
	case rule == fact.RuleRestored:
		return r.Trust == w.Trust && r.EMA == w.EMA && r.Runs == w.Runs && r.Samples == w.Samples
	case rule == fact.RuleRollback:
		return r.Trust == w.Trust
	}
	return false
}

// put sets the standings of one task and returns how many it changed. It writes as many in one decision as fit, and
// skips those that are as wanted already, so that it can be called again after the process died in the middle.
func (t *Trust) put(ctx context.Context, task string, all []wanted, rule, reason string) (changed int, err error) {
	if err := t.adopt(ctx); err != nil {
		return 0, fmt.Errorf("trust for %s: %w", task, err)
	}
	for len(all) > 0 {
		var looked, made int
		err := t.c.Journal.Do(ctx, fact.TrustSubject(task), "", func(tx *journal.Tx) (err error) {
			looked, made, err = t.decidePut(tx, all, rule, reason)
			return err
		})
		if err != nil {
			return changed, fmt.Errorf("trust for %s: %w", task, err)
		}
		all, changed = all[looked:], changed+made
	}
	return changed, nil
}

// decidePut appends the changes of as many standings as fit into one decision. It returns how many it looked at and how
// many it changed.
func (t *Trust) decidePut(tx *journal.Tx, all []wanted, rule, reason string) (looked, made int, err error) {
	size := 0
	for looked < len(all) && size < maxDecision {
		w := all[looked]
		looked++
		r := t.fold.rowOf(w.Task, w.Service)
		if w.is(r, rule) {
			continue
		}
		c := fact.TrustChanged{
			Task: w.Task, Service: w.Service, From: r.Trust, To: w.Trust, EMA: w.EMA, Runs: w.Runs, Samples: w.Samples,
			First: !r.Met, Unfounded: w.Gone, Policy: t.fold.hash, Reason: reason, Rule: rule, Confidence: guild.Micro,
			Rationale: fmt.Sprintf("set outright: %s → %s", dec(r.Trust), dec(w.Trust)),
		}
		if c.EMA == 0 {
			c.EMA = c.To
		}
		b, err := json.Marshal(c)
		if err != nil {
			return 0, 0, err
		}
		size += len(b)
		tx.Append(c)
		made++
	}
	return looked, made, nil
}

// Rollback restores trust as it was at a time, for one task or for all if task is "". It returns how many standings it
// changed. Averages and rows of successes begin anew from the restored values. Trust that did not exist then is
// removed. Evidence that trust has not followed yet will still be followed. Rollback may be called again after the
// process died in the middle.
//
// The journal must reach back to that time, because Rollback reads the old values there and not in the archive.
func (t *Trust) Rollback(ctx context.Context, to time.Time, task string) (changed int, err error) {
	if to.After(t.c.Now()) {
		return 0, &UsageError{fmt.Sprintf("trust as it was at %s: that is in the future", to.UTC().Format(time.RFC3339))}
	}
	was, err := t.was(ctx, to.UnixMilli(), task)
	if err != nil {
		return 0, fmt.Errorf("trust as it was at %s: %w", to.UTC().Format(time.RFC3339), err)
	}
	reason := "as it was at " + to.UTC().Format(time.RFC3339)
	for _, task := range sortedTasks(was) {
		n, err := t.put(ctx, task, was[task], fact.RuleRollback, reason)
		changed += n
		if err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// was returns the standings at a time, by task.
func (t *Trust) was(ctx context.Context, to int64, task string) (map[string][]wanted, error) {
	if err := t.reaches(ctx, to); err != nil {
		return nil, err
	}
	subject := fact.Subject("trust")
	if task != "" {
		subject = fact.TrustSubject(task)
	}
	then := map[string]fact.TrustChanged{}
	for e, err := range t.c.Journal.Of(ctx, subject) {
		if err != nil {
			return nil, err
		}
		for _, one := range e.Facts {
			if c, ok := one.(fact.TrustChanged); ok && e.At <= to {
				then[key(c.Task, c.Service)] = c
			}
		}
	}
	was := map[string][]wanted{}
	rows := t.fold.rows()
	for k, r := range rows.All() {
		if task != "" && r.Task != task {
			continue
		}
		c, ok := then[k]
		w := wanted{Task: r.Task, Service: r.Service, Trust: c.To, Gone: !ok || c.Unfounded}
		was[r.Task] = append(was[r.Task], w)
	}
	for _, all := range was {
		slices.SortFunc(all, byService)
	}
	return was, nil
}

// reaches returns an error unless the journal begins before a time.
func (t *Trust) reaches(ctx context.Context, to int64) error {
	for e, err := range t.c.Journal.Entries(ctx, 1) {
		switch {
		case err != nil:
			return err
		case e.At > to && e.Seq == 1:
			return &UsageError{"nothing was known before " + time.UnixMilli(e.At).UTC().Format(time.RFC3339)}
		case e.At > to:
			return &UsageError{"what was before " + time.UnixMilli(e.At).UTC().Format(time.RFC3339) + " is archived"}
		}
		return nil
	}
	return nil
}
