package trust

import (
	"cmp"
	"slices"

	"guild"
)

// Entry is the trust in one service for one task.
type Entry struct {
	Task    string
	Service guild.Service
	Standing
	Changed int64 // Unix ms of the latest change; 0 if none is kept
}

// All lists all trust by task, the most trusted services first.
func (f *Fold) All() []Entry {
	var all []Entry
	rows := f.rows()
	for _, r := range rows.All() {
		if !r.Met {
			continue
		}
		e := Entry{Task: r.Task, Service: r.Service, Standing: r.Standing}
		if n := len(r.Past); n > 0 {
			e.Changed = r.Past[n-1].At
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(b.Trust, a.Trust), slices.Compare(a.Service.PubKey[:], b.Service.PubKey[:]),
			cmp.Compare(a.Service.D, b.Service.D))
	})
	return all
}
