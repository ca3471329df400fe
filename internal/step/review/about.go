package review

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip89"
	"guild/nipreview"
)

// Aggregate summarizes other reviewers' opinions of a provider, weighted by how much each reviewer counts here.
type Aggregate struct {
	Task    string          // "" for all tasks together
	Stars   nipreview.Stars // weighted mean; 0 if no review has a weight
	Trust   guild.Trust     // weighted mean, as trust; 0 if no review has a weight
	Count   int             // known reviews, at most one of each reviewer and task
	Counted int             // reviews with a weight above 0
	Weight  guild.Trust     // the sum of the weights; guild.Micro is one fresh, proven review by a followed reviewer
	Newest  nostr.Timestamp // of the reviews with a weight
	Reviews []Opinion       // by weight, then the newest first; at most 100
}

// Opinion is one review by another key.
type Opinion struct {
	ID       nostr.ID
	Reviewer nostr.PubKey
	Task     string
	Service  string // "" if the review is about the provider as a whole
	Stars    nipreview.Stars
	At       nostr.Timestamp
	Weight   guild.Trust // from 0 to guild.Micro
	Why      string      // explains Weight to a person
	Proven   bool        // its receipt was verified
	Summary  string      // the reviewer's words
}

// shown limits the reviews that About lists.
const shown = 100

// About aggregates other reviewers' opinions of a provider's work on a task, or on all tasks if task is "".
func (r *Review) About(provider nostr.PubKey, task string) Aggregate {
	a := Aggregate{Task: task}
	var stars, trust, weight int64
	for _, said := range r.others.of(provider, task) {
		a.Count++
		w := r.others.weigh(said, r.c.Now())
		if w.weight > 0 {
			a.Counted++
			a.Newest = max(a.Newest, said.at)
			weight += int64(w.weight)
			stars += int64(w.weight) * int64(said.stars)
			trust += int64(w.weight) * int64(said.stars.Trust())
		}
		a.Reviews = append(a.Reviews, Opinion{ID: said.id, Reviewer: said.reviewer, Task: said.task, Service: said.service,
			Stars: said.stars, At: said.at, Weight: w.weight, Why: w.why(r.others.follow[said.reviewer], said.proven), Proven: said.proven, Summary: said.summary})
	}
	if weight > 0 {
		a.Stars, a.Trust = nipreview.Stars(stars/weight), guild.Trust(trust/weight)
	}
	a.Weight = guild.Trust(weight)
	slices.SortFunc(a.Reviews, func(x, y Opinion) int {
		return cmp.Or(cmp.Compare(y.Weight, x.Weight), cmp.Compare(y.At, x.At), slices.Compare(x.ID[:], y.ID[:]))
	})
	a.Reviews = slices.Clip(a.Reviews[:min(len(a.Reviews), shown)])
	return a
}

// Tasks lists the tasks for which others have reviewed a provider, in alphabetical order.
func (r *Review) Tasks(provider nostr.PubKey) []string {
	tasks := map[string]bool{}
	for _, said := range r.others.of(provider, "") {
		if said.task != "" {
			tasks[said.task] = true
		}
	}
	return slices.Sorted(maps.Keys(tasks))
}

// known counts the reviews by others that are kept.
func (r *Review) known() int {
	r.others.mu.RLock()
	defer r.others.mu.RUnlock()
	return len(r.others.by)
}

// neutral is Order's value for a service without reviews that count.
const neutral guild.Trust = guild.Micro / 2

// Order returns a value for ordering the candidates for a benchmark, the highest first. It is the weighted mean of the
// reviews, together with one neutral review of full weight: a service without reviews is between a praised one and a
// criticized one, and a few reviews move it little. The value is not trust and changes none.
func (r *Review) Order(s guild.Service) guild.Trust {
	sum, weight := int64(neutral)*guild.Micro, int64(guild.Micro)
	for _, said := range r.others.of(s.PubKey, "") {
		if said.service != "" && said.service != s.D {
			continue // of another service of the provider
		}
		w := r.others.weigh(said, r.c.Now()).weight
		sum += int64(w) * int64(said.stars.Trust())
		weight += int64(w)
	}
	return guild.Trust(sum / weight)
}

// of lists the opinions of a provider's work on a task, or on all tasks if task is "".
func (o *others) of(provider nostr.PubKey, task string) (all []opinion) {
	task = nip89.Word(task)
	o.mu.RLock()
	defer o.mu.RUnlock()
	for p := range o.about[provider] {
		if said := o.by[p]; task == "" || nip89.Word(said.task) == task {
			all = append(all, *said)
		}
	}
	return all
}

// weighed holds the weight of one review and its factors, in micro-units.
type weighed struct {
	weight guild.Trust
	esteem guild.Trust // how much the reviewer counts
	age    int64       // ms
	faded  guild.Trust // the factor for the age
	proof  guild.Trust // guild.Micro with a receipt that verifies, less without
	self   bool        // reviewer and provider have the same owner, so it has no weight
}

// weigh returns the weight of a review: how much its reviewer counts, reduced by the review's age, and reduced further
// if no receipt of it verifies.
//
// A key counts only if the owner follows it or if it is trusted as a provider. Anybody can make any number of keys, so
// the number of reviewers says nothing, and reviews by unknown keys have no weight at all.
func (o *others) weigh(said opinion, now time.Time) (w weighed) {
	if o.c.SameOwner != nil && o.c.SameOwner(said.reviewer, said.subject) {
		w.self = true
		return w
	}
	w.esteem = guild.Micro
	if !o.follow[said.reviewer] {
		w.esteem = o.fold.Esteem(said.reviewer)
	}
	if w.esteem <= 0 {
		return w
	}
	rules := o.c.Policy().Review
	w.age = max(0, now.Sub(said.at.Time()).Milliseconds())
	w.faded, w.proof = fade(w.age, rules.HalfLife), guild.Micro
	if !said.proven {
		w.proof = rules.Unproven
	}
	w.weight = w.esteem * w.faded / guild.Micro * w.proof / guild.Micro
	return w
}

// why explains a weight to a person.
func (w weighed) why(followed, proven bool) string {
	who, proof := fmt.Sprintf("trusted as a provider with %s", w.esteem), "the receipt verifies"
	switch {
	case w.self:
		return "reviewer and provider have the same owner"
	case w.esteem <= 0:
		return "we do not know the reviewer"
	case followed:
		who = "a key that we follow"
	}
	if !proven {
		proof = fmt.Sprintf("no receipt that verifies: × %s", w.proof)
	}
	return fmt.Sprintf("%s, %d days old: × %s, %s", who, w.age/(24*time.Hour).Milliseconds(), w.faded, proof)
}

// eighths holds 2^(-n/8), in micro-units.
var eighths = [...]guild.Trust{1_000_000, 917_004, 840_896, 771_105, 707_107, 648_420, 594_604, 545_254, 500_000}

// fade returns the factor for a review's age: it halves with each half-life. Both arguments are in ms. Between eighths
// of a half-life it interpolates linearly, which is never off by more than a thousandth. It uses integers only, so that
// all machines compute the same weight.
func fade(age, half int64) guild.Trust {
	if age <= 0 || half <= 0 {
		return guild.Micro
	}
	halves, rest := age/half, age%half
	if halves >= 30 {
		return 0
	}
	n := rest * 8 / half
	over := rest*8 - n*half // how much of half is over, within the eighth
	left := eighths[n] - guild.Trust(int64(eighths[n]-eighths[n+1])*over/half)
	return left >> halves
}
