package registry

import (
	"slices"
	"strings"

	"guild"
	"guild/nip89"
)

// OfferOf is what Offers says of one service; ok is false when it does not name it.
func (r *Registry) OfferOf(s guild.Service, task string, kind int) (offer guild.Offer, ok bool) {
	i, now, task := IDOf(s), r.c.Now(), nip89.Word(task)
	r.mu.RLock()
	defer r.mu.RUnlock()
	c := r.index.find(i)
	if c == nil {
		return guild.Offer{}, false
	}
	fit := nip89.None
	if task != "" {
		if fit = unpack(c.said).fits(task, kind, r.synonyms[task]); fit == nip89.None {
			return guild.Offer{}, false
		}
	}
	p, _ := r.standing(c, now)
	return r.offer(c, p, fit, kind), p.State != guild.Archived
}

// fits is how sure it is that a service does a task under a kind: what index.matches says of all.
func (s said) fits(task string, kind int, synonyms []string) nip89.Confidence {
	fit := nip89.None
	for _, word := range s.tasks {
		pattern, open := strings.CutSuffix(word, "*")
		switch {
		case word == task:
			fit = nip89.Exact
		case slices.Contains(synonyms, word), open && pattern != "" && strings.HasPrefix(task, pattern):
			fit = max(fit, nip89.Synonym)
		}
	}
	if s.performs && slices.Contains(s.kinds, kind) {
		fit = max(fit, nip89.Inferred)
	}
	if s.noK {
		fit = min(fit, nip89.Inferred)
	}
	return fit
}
