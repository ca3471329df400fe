package jobs

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"guild"
)

// Trust below which a provider gets no ordinary work, and below which it gets none at all.
const (
	ordinary guild.Trust = guild.Micro / 2
	none     guild.Trust = 3 * guild.Micro / 10
)

// choose picks who is asked next: the trusted before the unmet, then by trust, price and load. Without a
// choice it says why.
func (j *Jobs) choose(job *Job, now time.Time) (*guild.Offer, string) {
	type candidate struct {
		guild.Offer
		turn  int // in the customer's own order
		trust guild.Trust
		load  int
		order guild.Hash
	}
	if job.lapsed(now) {
		return nil, "the credentials have expired"
	}
	offers := j.c.Offers(job.Task, job.Kind)
	load := j.fold.load()
	var fit []candidate
	excluded := ""
	for _, o := range offers {
		trust, met := j.c.Trust(job.Task, o.Service)
		if reason := j.excludes(job, o, trust, met, now); reason != "" {
			excluded = reason
			continue
		}
		if trust < ordinary {
			trust = 0 // below the threshold all are alike: they get the first tries of unimportant work
		}
		order := guild.Sum(append(job.Job[:], o.Service.PubKey[:]...))
		turn := slices.Index(job.Providers, o.Service.PubKey)
		fit = append(fit, candidate{o, turn, trust, load[o.Service] / max(o.Slots, 1), order})
	}
	if len(fit) == 0 {
		return nil, nobody(job, len(offers), excluded)
	}
	best := slices.MinFunc(fit, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.turn, b.turn), -cmp.Compare(a.trust, b.trust), cmp.Compare(a.Price, b.Price),
			cmp.Compare(a.load, b.load), slices.Compare(a.order[:], b.order[:]))
	})
	return &best.Offer, ""
}

// excludes says why a provider must not be asked, or "".
func (j *Jobs) excludes(job *Job, o guild.Offer, trust guild.Trust, met bool, now time.Time) string {
	name := fmt.Sprintf("%s (%.8s)", cmp.Or(o.Name, "a provider"), o.Service.PubKey.Hex())
	asked := slices.ContainsFunc(job.Attempts, func(a Attempt) bool { return a.Provider.PubKey == o.Service.PubKey })
	switch {
	case o.Service.PubKey == j.c.PubKey:
		return "nobody hires itself"
	case len(job.Providers) > 0 && !slices.Contains(job.Providers, o.Service.PubKey):
		return name + " was not to be asked"
	case asked:
		return name + " was asked already"
	case (job.Private || job.Release != nil) && !o.Encrypts:
		return name + " does not read encrypted requests"
	case job.Release != nil && sealedFor(job.Release, o) == nil:
		return "the credentials are not sealed for " + name
	case len(job.Providers) > 0:
		return "" // the customer's own choice
	case !slices.Contains(eligible[:], o.State):
		return fmt.Sprintf("%s is %s", name, o.State)
	case o.Until > now.UnixMilli():
		return fmt.Sprintf("%s is %s until %s", name, o.State, time.UnixMilli(o.Until).UTC().Format(time.RFC3339))
	case met && trust < none:
		return fmt.Sprintf("%s is trusted %s only", name, trust)
	case job.Bid > 0 && o.Price > job.Bid:
		return fmt.Sprintf("%s asks %s, the bid is %s", name, o.Price, job.Bid)
	}
	return ""
}

var eligible = [...]guild.ProviderState{guild.Seen, guild.Active, guild.Conditional, guild.Warned, guild.Reduced}

func nobody(job *Job, offers int, excluded string) string {
	if offers == 0 {
		return fmt.Sprintf("nobody offers the task %q", job.Task)
	}
	return fmt.Sprintf("of %d who offer the task %q none is left: %s", offers, job.Task, excluded)
}
