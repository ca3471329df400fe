package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"golang.org/x/sync/errgroup"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/due"
	"guild/internal/journal/fact"
	"guild/nip89"
	"guild/nip90"
)

// Bounds on the offers for one job. Each offer is a fact, and anybody may send one. Providers that the registry does not
// know get half of the places, so that they cannot keep the others out.
const (
	maxOffers    = 64
	maxStrangers = maxOffers / 2
	maxChanges   = 3 // offers of one provider
	maxReach     = 8 // relays of others that a solicitation is sent to
	maxKinds     = 3 // of solicitations for one job, so that a provider of all of them does not reach maxChanges
)

// offerOf returns the price of a provider's latest offer for the job.
func (j *Job) offerOf(provider nostr.PubKey) (price guild.Msat, ok bool) {
	for _, o := range slices.Backward(j.Offers) {
		if o.Provider == provider {
			return o.Price, true
		}
	}
	return 0, false
}

// dueForOffers returns what is due for an open job until offers are no longer taken, and the deletion of the request for
// them. waits is false once the offers are in.
func (j *Jobs) dueForOffers(job *Job, now time.Time) (work []due.Work, waits bool) {
	goes := job.Ending == guild.Open && !job.Cancelled
	switch {
	case !job.Open:
		return nil, false
	case job.Solicited == nil && goes && now.Before(job.deadline()):
		return []due.Work{j.solicit(job)}, true
	case job.Solicited == nil:
		return nil, false
	}
	until := time.UnixMilli(job.Solicited.Until)
	waits = goes && now.Before(until)
	if waits && !job.Sought {
		work = append(work, j.seek(job))
	}
	if !job.Unsought {
		w := j.unseek(job)
		if goes {
			w.Ready = until
		}
		work = append(work, w)
	}
	return work, waits
}

// solicit signs the request for offers, in each kind in which providers may listen, and records it together with our claim on
// publishing it. It has the job's title and
// hashes, and never the bundle.
func (j *Jobs) solicit(job *Job) due.Work {
	return due.Work{
		Key: "ask for offers for " + job.Job.String(), Guard: fact.JobSubject(job.Job), Free: true,
		Act: func(ctx context.Context) (due.Decision, error) {
			var asked []nostr.Event
			for _, kind := range j.kindsAsked(job) {
				e, err := j.solicitation(ctx, job, kind)
				if err != nil {
					return nil, fmt.Errorf("ask for offers for job %s: %w", job.Job.Short(), err)
				}
				asked = append(asked, e)
			}
			return func(tx *journal.Tx) error {
				if now, ok := j.fold.Job(job.Job); !ok || now != job {
					return nil
				}
				until := min(tx.Now().Add(j.c.Patience.Offers).UnixMilli(), job.Deadline)
				tx.Append(fact.JobSolicited{Job: job.Job, Request: asked[0], Others: asked[1:], Until: until})
				due.Claim(tx, seeking+asked[0].ID.Hex(), j.c.Node)
				return nil
			}, nil
		},
	}
}

// kindsAsked lists the kinds in which offers for a job are asked for: the job's, that of NIP-90 for its task, and those in
// which known providers of the task are asked, the most frequent first.
func (j *Jobs) kindsAsked(job *Job) []int {
	kinds := []int{job.Kind}
	for _, kind := range nip89.KindsOf(job.Task) {
		if kind != job.Kind {
			kinds = append(kinds, kind)
		}
	}
	providers := map[int]int{}
	for o := range j.c.Market.Offers(job.Task, job.Kind) {
		if o.Kind != 0 && !slices.Contains(kinds, o.Kind) {
			providers[o.Kind]++
		}
	}
	kinds = append(kinds, slices.SortedFunc(maps.Keys(providers), func(a, b int) int {
		return cmp.Or(cmp.Compare(providers[b], providers[a]), cmp.Compare(a, b))
	})...)
	return kinds[:min(len(kinds), maxKinds)]
}

// solicitation signs the request for offers in one kind. Those of one job differ in nothing else.
func (j *Jobs) solicitation(ctx context.Context, job *Job, kind int) (nostr.Event, error) {
	r := j.describe(job)
	r.Kind = kind
	r.Inputs = []nip90.Input{{Data: cmp.Or(job.Title, job.Task), Type: "text"}} // no more, because everybody reads it
	r.Solicit()
	hash, err := r.JobHash()
	if err != nil {
		return nostr.Event{}, err
	}
	r.Set(nip90.ParamJobHash, hash.Hex())
	e, err := r.Event()
	if err != nil {
		return nostr.Event{}, err
	}
	return j.outbox.Sign(ctx, e)
}

// Keys of the two effects of a solicitation.
const (
	seeking   = "publish the solicitation "
	unseeking = "take back the solicitation "
)

// seek publishes the solicitations of all kinds on our relays and those of known providers of the task.
func (j *Jobs) seek(job *Job) due.Work {
	request := job.Solicited.Request
	return due.Work{
		Key: seeking + request.ID.Hex(), Guard: fact.JobSubject(job.Job),
		Act: func(ctx context.Context) (due.Decision, error) {
			ctx, cancel := context.WithTimeout(ctx, j.c.Patience.Ladder[0])
			defer cancel()
			relays := j.reach(job)
			var publishing errgroup.Group
			for _, request := range job.Solicited.Requests() {
				e, err := j.outbox.Own(request)
				if err != nil {
					return nil, fmt.Errorf("the solicitation: %w", err)
				}
				publishing.Go(func() error { return j.c.Network.Publish(ctx, e, relays) })
			}
			return func(*journal.Tx) error { return nil }, publishing.Wait()
		},
	}
}

// reach lists our relays and the best relays of some providers that announce the task.
func (j *Jobs) reach(job *Job) []string {
	relays := slices.Clone(j.c.Network.Relays())
	most := len(relays) + maxReach
	for o := range j.c.Market.Offers(job.Task, job.Kind) {
		if len(relays) == most {
			break
		}
		best := j.c.Network.Rank(o.Relays)
		if len(best) > 0 && !slices.Contains(relays, best[0]) {
			relays = append(relays, best[0])
		}
	}
	return relays
}

// unseek takes the solicitations back by a kind 5 event, so that no more offers are made.
func (j *Jobs) unseek(job *Job) due.Work {
	request := job.Solicited.Request
	return due.Work{
		Key: unseeking + request.ID.Hex(), Guard: fact.JobSubject(job.Job), Tries: 2,
		Act: func(ctx context.Context) (due.Decision, error) {
			var tags nostr.Tags
			for _, request := range job.Solicited.Requests() {
				tags = append(tags, nostr.Tag{"e", request.ID.Hex()}, nostr.Tag{"k", strconv.Itoa(int(request.Kind))})
			}
			deletion, err := j.outbox.Sign(ctx, nostr.Event{Kind: 5, Content: "no more offers are wanted", Tags: tags})
			if err != nil {
				return nil, err
			}
			e, err := j.outbox.Own(deletion)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, j.c.Patience.Ladder[0])
			defer cancel()
			return func(*journal.Tx) error { return nil }, j.c.Network.Publish(ctx, e, j.reach(job))
		},
	}
}

// sought notes that one of the two effects is done or given up.
func (s *state) sought(effect string, done bool) {
	for _, prefix := range []string{seeking, unseeking} {
		digits, ok := strings.CutPrefix(effect, prefix)
		if !ok {
			continue
		}
		id, err := nostr.IDFromHex(digits)
		if err != nil {
			continue
		}
		s.change(s.solicitations.Of(id), func(j *Job) {
			j.Sought = j.Sought || prefix == seeking && done
			j.Unsought = j.Unsought || prefix == unseeking
		})
	}
}

// solicitation returns the job that a solicitation is for.
func (f *Fold) solicitation(id nostr.ID) (job *Job, ok bool) {
	f.View(func(s *state) { job, ok = s.Jobs.Get(s.solicitations.Of(id)) })
	return job, ok
}

// observeOffer records an offer: feedback with a price, or one that accepts without a price.
func (j *Jobs) observeOffer(ctx context.Context, e nostr.Event, open nip90.Opener, job *Job, solicitation nostr.ID) error {
	if e.Kind != nip90.KindFeedback {
		return guild.Drop(guild.Unrequested, "kind %d answers a solicitation: an offer was asked for and no work", e.Kind)
	}
	f, err := nip90.ParseFeedback(e, open)
	if err != nil {
		return guild.Drop(guild.Malformed, "%v", err)
	}
	switch f.Status {
	case nip90.PaymentRequired:
		if f.Amount == 0 {
			return guild.Drop(guild.Malformed, "the offer of %.8s names no price", e.PubKey.Hex())
		}
	case nip90.Processing:
	case nip90.Other: // an unknown status may mean no: only a price makes it an offer
		if f.Amount == 0 {
			return guild.Drop(guild.Unrequested, "%.40q without a price is not an offer", f.RawStatus)
		}
	default:
		return guild.Drop(guild.Unrequested, "%s is not an offer", f.Status)
	}
	offer := fact.JobOffered{Job: job.Job, Provider: e.PubKey, Event: e.ID, Price: f.Amount,
		Text: guild.Cut(wordsOf(f), 500), Said: int64(e.CreatedAt)}
	for _, other := range job.Solicited.Others {
		if other.ID == solicitation {
			offer.Kind = int(other.Kind)
		}
	}
	known := func(p nostr.PubKey) bool { return j.announces(p, job.Task, job.Kind) }
	var dropped error
	err = j.c.Journal.Do(ctx, fact.JobSubject(job.Job), e.ID.Hex(), func(tx *journal.Tx) error {
		now, ok := j.fold.Job(job.Job)
		if !ok {
			now = job
		}
		dropped = now.takes(offer, known, tx.Now())
		if dropped == nil && !now.has(offer.Event) {
			tx.Append(offer)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("offer %.8s: %w", e.ID.Hex(), err)
	}
	return dropped
}

// wordsOf returns the text of feedback.
func wordsOf(f nip90.Feedback) string {
	if f.Text != "" {
		return f.Text
	}
	return f.Content
}

func (j *Job) has(offer nostr.ID) bool {
	return slices.ContainsFunc(j.Offers, func(o fact.JobOffered) bool { return o.Event == offer })
}

// announces reports whether a service of a provider offers a task.
func (j *Jobs) announces(p nostr.PubKey, task string, kind int) bool {
	return slices.ContainsFunc(j.c.Market.OffersOf(p, task, kind), func(o guild.Offer) bool { return task == "" || o.Confidence > 0 })
}

// takes returns why an offer does not count, nil if it does.
func (j *Job) takes(offer fact.JobOffered, known func(nostr.PubKey) bool, now time.Time) error {
	strangers, changes := 0, 0
	for _, o := range j.Offers {
		switch {
		case o.Event == offer.Event:
			return nil // a relay sends it again
		case o.Provider == offer.Provider && o.Said > offer.Said:
			return guild.Drop(guild.Outdated, "%.8s has made a later offer", o.Provider.Hex())
		case o.Provider == offer.Provider:
			changes++
		}
		if !known(o.Provider) {
			strangers++
		}
	}
	switch {
	case j.Ending != guild.Open || j.Cancelled || j.Solicited == nil || now.UnixMilli() >= j.Solicited.Until:
		return guild.Drop(guild.Late, "the offers for job %s are in", j.Job.Short())
	case len(j.Offers) >= maxOffers, changes >= maxChanges, strangers >= maxStrangers && !known(offer.Provider):
		return guild.Drop(guild.Flood, "offers for job %s", j.Job.Short())
	}
	return nil
}

// unannounced returns the offer of a provider that made one and never announced itself. It is asked in the kind in which
// it was asked for the offer.
func (j *Jobs) unannounced(job *Job, said fact.JobOffered) guild.Offer {
	price, _ := job.offerOf(said.Provider)
	kind := cmp.Or(said.Kind, job.Kind)
	o := guild.Offer{Service: guild.Service{PubKey: said.Provider}, Tasks: []string{job.Task}, Kinds: []int{kind}, Kind: kind, Price: price,
		Relays: j.c.Network.Relays(), Plain: true, Confidence: 0.6, Confirmed: true}
	p := j.c.Market.Provider(o.Service)
	o.State, o.Until = p.State, p.Until
	return o
}

// nobodyOffered says for a person why there are no offers to choose from.
func nobodyOffered(job *Job) string {
	if !job.Sought {
		return "no relay took the request for offers"
	}
	if len(job.Offers) > 0 {
		return fmt.Sprintf("the offers came from providers that are not known, and the job is %s", job.Criticality)
	}
	return "no provider made an offer"
}
