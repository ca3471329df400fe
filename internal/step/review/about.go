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

// Aggregate is what others say of a provider, as far as this node trusts them.
type Aggregate struct {
	Task    string          // "" for all tasks together
	Stars   nipreview.Stars // weighted mean; 0 when nobody counts
	Trust   guild.Trust     // weighted mean, as trust; 0 when nobody counts
	Count   int             // reviews that are known, one of each reviewer for each task
	Counted int             // of them, those with a weight
	Weight  guild.Trust     // of all together; guild.Micro is that of one reviewer whom we follow, who says it now and proves it
	Newest  nostr.Timestamp // of those that count
	Reviews []Opinion       // the weightiest first, then the newest; at most 100
}

// Opinion is one review by somebody else.
type Opinion struct {
	ID       nostr.ID
	Reviewer nostr.PubKey
	Task     string
	Service  string // "" when it is about the provider as a whole
	Stars    nipreview.Stars
	At       nostr.Timestamp
	Weight   guild.Trust // from 0 to guild.Micro
	Why      string      // it weighs that much
	Proven   bool        // its receipt was verified
	Summary  string      // the reviewer's words
}

// shown is how many reviews are listed.
const shown = 100

// About says what others say of a provider's work on a task, or on all if it is "".
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

// known is how many reviews by others are kept.
func (r *Review) known() int {
	r.others.mu.RLock()
	defer r.others.mu.RUnlock()
	return len(r.others.by)
}

// neutral is what Order gives whom nobody that counts has reviewed.
const neutral guild.Trust = guild.Micro / 2

// Order is a value by which candidates for a benchmark may be ordered, the highest first: between whom others praise
// and whom they warn of is everybody of whom nobody that counts speaks. It is the weighted mean, drawn to the middle by
// the weight of one full review. It is no trust, and moves none.
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

// of lists what is said of a provider's work on a task, or on all.
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

// weighed is how much a review counts here, and what that is made of, in micro-units.
type weighed struct {
	weight guild.Trust
	esteem guild.Trust // of the reviewer
	age    int64       // ms
	faded  guild.Trust // what age has left
	proof  guild.Trust // one, or less without a receipt that verifies
}

// weigh finds out how much a review counts here: as much as its reviewer does, less the older it is, and less without a
// receipt that verifies.
func (o *others) weigh(said opinion, now time.Time) (w weighed) {
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

// why says it for a person.
func (w weighed) why(followed, proven bool) string {
	who, proof := fmt.Sprintf("trusted as a provider with %s", w.esteem), "the receipt verifies"
	switch {
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

// eighths are 2^(-n/8), in micro-units.
var eighths = [...]guild.Trust{1_000_000, 917_004, 840_896, 771_105, 707_107, 648_420, 594_604, 545_254, 500_000}

// fade is what is left of one after a time, both in ms, of which each half-life takes half: between eighths of a
// half-life along a straight line, which is never off by more than a thousandth.
func fade(age, half int64) guild.Trust {
	if age <= 0 || half <= 0 {
		return guild.Micro
	}
	halves, rest := age/half, age%half
	if halves >= 30 {
		return 0
	}
	n := rest * 8 / half
	over := rest*8 - n*half // of half, within the eighth
	left := eighths[n] - guild.Trust(int64(eighths[n]-eighths[n+1])*over/half)
	return left >> halves
}
