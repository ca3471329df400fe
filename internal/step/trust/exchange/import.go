package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
)

// Imported counts the entries of a document by their effect.
type Imported struct {
	Changed int      `json:"changed"`           // the value in force changed
	Noted   int      `json:"noted"`             // only the siblings changed
	Same    int      `json:"same"`              // known already
	Skipped []string `json:"skipped,omitempty"` // not imported, with the reason; at most 100
}

func (i *Imported) skip(what string, err error) {
	if len(i.Skipped) < 100 {
		i.Skipped = append(i.Skipped, fmt.Sprintf("%s: %v", what, err))
	}
}

// The reasons why an entry is not imported.
var (
	errOwner   = errors.New("the owner of this guild set it, so another guild cannot raise it")
	errFuture  = errors.New("it claims changes that this guild never made, and would raise it")
	errAhead   = errors.New("it claims more changes of this guild than there can have been")
	errTooMany = errors.New("too many guilds disagree")
)

// maxAhead limits how many more changes of this guild a document may include than the guild knows, for one value. A few
// more are possible if the guild was restored from a backup. A larger number is a lie that would use up the count.
const maxAhead = 1_000_000

// checkMerged returns an error if merged siblings cannot be stored. This guild's next change must still fit into a
// document.
func checkMerged(merged, ours, theirs []fact.VariableSibling) error {
	joined := joinClocks(merged)
	counted := joinClocks(ours)[here]
	joined[here]++
	switch {
	case joinClocks(theirs)[here] > counted+maxAhead:
		return errAhead
	case len(merged) > maxSiblings || len(joined) > maxGuilds:
		return errTooMany
	}
	return nil
}

// merge merges another guild's document (the partnership protocol, section 5.5.2). A value that includes ours in its
// clock replaces ours. Of concurrent values the careful one counts: the lowest trust, the longest timeout, the lowest
// parallelism.
func (f *Fold) merge(ctx context.Context, j *journal.Journal, d Signed) (Imported, error) {
	var sum Imported
	hash, err := f.policy.Hash()
	if err != nil {
		return sum, err
	}
	from := "a document that nobody signed"
	if d.By != nostr.ZeroPK {
		from = fmt.Sprintf("guild %.8s", d.By.Hex())
	}
	for task, entries := range chunksBy(d.Entries, func(e TrustEntry) string { return e.Task }) {
		err := f.record(ctx, j, fact.TrustSubject(task), &sum, func(tx *journal.Tx, sum *Imported) {
			for _, e := range entries {
				if c, ok := f.takeTrust(e, sum); ok {
					c.Policy, c.Reason = hash, "imported from "+from
					tx.Append(c)
				}
			}
		})
		if err != nil {
			return sum, err
		}
	}
	for name, entries := range chunksBy(incoming(d.Document), func(v variableRegister) string { return v.Name }) {
		err := f.record(ctx, j, fact.VariableSubject(name), &sum, func(tx *journal.Tx, sum *Imported) {
			for _, v := range entries {
				if c, ok := f.takeVariable(v, sum); ok {
					c.Policy, c.Rationale = hash, "imported from "+from
					tx.Append(c)
				}
			}
		})
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// record makes one decision. A decision may be tried several times, but its entries are counted in sum once.
func (f *Fold) record(ctx context.Context, j *journal.Journal, guard fact.Subject, sum *Imported, take func(*journal.Tx, *Imported)) error {
	var after Imported
	err := j.Do(ctx, guard, "", func(tx *journal.Tx) error {
		after = Imported{Changed: sum.Changed, Noted: sum.Noted, Same: sum.Same, Skipped: slices.Clone(sum.Skipped)}
		take(tx, &after)
		return nil
	})
	if err == nil {
		*sum = after
	}
	return err
}

// chunksBy yields runs of entries with the same name, each small enough for one decision.
func chunksBy[E any](all []E, name func(E) string) iter.Seq2[string, []E] {
	const most = 100 << 10 // bytes of facts
	return func(yield func(string, []E) bool) {
		for len(all) > 0 {
			n, size := 0, 0
			for ; n < len(all) && name(all[n]) == name(all[0]); n++ {
				b, err := json.Marshal(all[n])
				if size += 2*len(b) + 1024; err != nil || n > 0 && size > most {
					break
				}
			}
			n = max(n, 1)
			if !yield(name(all[0]), all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// incoming returns the variables of a document.
func incoming(d Document) []variableRegister {
	var all []variableRegister
	for _, e := range d.Timeouts {
		all = append(all, variableRegister{Name: fact.TimeoutConfig, Key: e.Task, Siblings: e.Siblings})
	}
	for _, e := range d.Parallelism {
		all = append(all, variableRegister{Name: fact.Parallelism, Key: e.PubKey.Hex(), Siblings: e.Siblings})
	}
	return all
}

// takeTrust decides on one entry of a document.
//
// It refuses a value that raises trust and whose clock includes changes that this guild does not know of itself. A
// guild could otherwise invent such changes, so that its own value replaces ours instead of being compared with it.
func (f *Fold) takeTrust(e TrustEntry, sum *Imported) (fact.TrustChanged, bool) {
	s := guild.Service{PubKey: e.PubKey, D: e.D}
	what := fmt.Sprintf("%s of %.12s…", e.Task, nip19.EncodeNpub(e.PubKey))
	e.Siblings = renamed(e.Siblings, f.key(), here, minimum)
	r := f.trustOf(e.Task, s)
	known := r.Trust != 0
	merged := mergeSiblings(r.Siblings, e.Siblings, minimum)
	to := resolveTrust(merged)
	if sameSiblings(merged, r.Siblings) {
		sum.Same++
		return fact.TrustChanged{}, false
	}
	if err := checkMerged(merged, r.Siblings, e.Siblings); err != nil {
		sum.skip(what, err)
		return fact.TrustChanged{}, false
	}
	if to == 0 && !known {
		sum.Same++
		return fact.TrustChanged{}, false
	}
	switch {
	case to == 0: // all guilds have withdrawn their values, so this guild keeps its own
		to = r.Trust
	case !r.Met:
		to = min(to, f.policy.Trust.Initial[1])
	}
	to = min(max(to, f.policy.Trust.Floor), f.policy.Trust.Ceiling)
	switch {
	case known && to > r.Trust && r.Owner:
		sum.skip(what, errOwner)
		return fact.TrustChanged{}, false
	case known && to > r.Trust && joinClocks(e.Siblings)[here] > joinClocks(r.Siblings)[here]:
		sum.skip(what, errFuture)
		return fact.TrustChanged{}, false
	}
	c := fact.TrustChanged{
		Task: e.Task, Service: s, From: r.Trust, To: to, EMA: to, Runs: r.Runs, First: !known,
		Rule: fact.RuleMerged, Siblings: trustSiblings(merged),
		Rationale: fmt.Sprintf("values of %d guilds that had not seen each other's merge to %s; it was %s", len(merged), to, r.Trust),
	}
	if known && to == r.Trust {
		c.EMA = r.EMA
		sum.Noted++
		return c, true
	}
	sum.Changed++
	return c, true
}

// takeVariable decides on one variable of a document.
func (f *Fold) takeVariable(v variableRegister, sum *Imported) (fact.VariableChanged, bool) {
	careful, least, most := maximum, int64(f.policy.Variables.TimeoutMin), int64(f.policy.Variables.TimeoutMax)
	if v.Name == fact.Parallelism {
		careful, least, most = minimum, 1, int64(f.policy.Variables.Parallel)
	}
	v.Siblings = renamed(v.Siblings, f.key(), here, careful)
	r, known := f.variableOf(v.Name, v.Key)
	merged := mergeSiblings(r.Siblings, v.Siblings, careful)
	if sameSiblings(merged, r.Siblings) {
		sum.Same++
		return fact.VariableChanged{}, false
	}
	if err := checkMerged(merged, r.Siblings, v.Siblings); err != nil {
		what := v.Key
		if key, err := nostr.PubKeyFromHexCheap(v.Key); err == nil && v.Name == fact.Parallelism {
			what = fmt.Sprintf("%.12s…", nip19.EncodeNpub(key))
		}
		sum.skip(v.Name+" of "+what, err)
		return fact.VariableChanged{}, false
	}
	to := min(max(resolveSiblings(merged, careful), least), most)
	c := fact.VariableChanged{Name: v.Name, Key: v.Key, To: fact.Number(to), Rule: fact.RuleMerged, Siblings: merged}
	if known {
		c.From = fact.Number(r.Value)
	}
	if known && to == r.Value {
		sum.Noted++
	} else {
		sum.Changed++
	}
	return c, true
}

func sameSiblings(a, b []fact.VariableSibling) bool {
	return slices.EqualFunc(a, b, func(a, b fact.VariableSibling) bool {
		return a.Value == b.Value && maps.Equal(a.Clock, b.Clock)
	})
}
