package jobs

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/judging/opinion"
	"guild/internal/judging/typed"
	"guild/nip90"
	"guild/nutshell"
	"guild/oa"
)

// Order is a customer's order for a job. Zero values are allowed in every member but Kind and Bundle.
type Order struct {
	Task    string
	Title   string
	Bundle  []byte        // packed
	Hidden  []byte        // hidden tests as the files of a packed bundle, which never leaves this machine; nil without any
	Kind    int           // NIP-90 request kind
	Bid     guild.Msat    // most that is paid; computed for each request if zero, unless Free is set or it is a benchmark
	Timeout time.Duration // for the whole job; Patience.Job if zero
	Tries   int           // providers asked, at most; two more than are asked at once if zero, or as many as Providers
	Private bool

	Providers []nostr.PubKey // only these, in this order, whatever we think of them
	Release   *fact.Release  // credentials for whoever is asked, whose blobs are kept already; nil without any

	ID          guild.JobID       // opening the same one again does nothing; a random one if zero
	Criticality guild.Criticality // low if empty
	Compare     string            // hash, json, text, numbers:TOLERANCE, tests, or of a typed job its type, judge_model or merge; if empty, the bundle's, or by the kind of the deliveries
	Open        bool              // ask everybody for an offer first
	Inputs      []fact.Input      // beside the bundle
	Quality     *fact.Quality     // the bundle's criteria, in numbers
	Meeting     *fact.Benchmark   // the job is a benchmark: the provider's state does not matter

	Free    bool        // nothing is bid
	Class   string      // of the task, by which trust moves: one of guild.Classes, or none
	Nudges  []nostr.ID  // that the provider's agent is asked to work by (NIP-AE)
	Urgency string      // normal, urgent or critical, by which a computed bid rises; normal if empty
	Target  guild.Trust // trust that a computed bid is meant for; any if zero
	Most    guild.Msat  // limit of a computed bid; none if zero

	Settle *fact.Settlement // how providers are paid; those who want to be paid are not taken if nil
}

// Escrow is the settlement by ecash that is locked before the work, or by a payment over Lightning that is held, and released by the
// verdict.
const Escrow = "escrow"

// Prepaid is the settlement before the work, over Lightning or in ecash, whatever becomes of it.
const Prepaid = "prepaid"

// Onchain is the settlement before the work by a Bitcoin transaction, whatever becomes of it.
const Onchain = "onchain"

// Postpaid is the settlement over Lightning after the work, if the verdict says so.
const Postpaid = "postpaid"

// Bounds on an order.
const (
	maxTimeout             = 366 * 24 * time.Hour
	maxTries               = 1000
	leastTarget            = guild.Micro / 10
	mostTarget             = guild.Micro * 9 / 10
	mostBid     guild.Msat = 21_000_000 * 100_000_000 * 1_000 // all the money there is
)

// Fault says what is wrong with one field of an order.
type Fault struct {
	Field  string // the member of Order in lower case, which is also the word of the API and the command line
	Reason string // continues a sentence that begins with the field
}

// Faults lists everything that is wrong with an order. It is an error.
type Faults []Fault

// Error has a line for each fault.
func (f Faults) Error() string { return f.Naming(func(field string) string { return field }) }

// Naming is Error with other names for the fields.
func (f Faults) Naming(name func(field string) string) string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = name(one.Field) + " " + one.Reason
	}
	return strings.Join(lines, "\n")
}

// Check returns what is wrong with an order, as far as that does not depend on the node. Open checks the inputs, too,
// which name blobs and jobs of the node.
func (o Order) Check() (faults Faults) {
	refuse := func(field, format string, args ...any) {
		faults = append(faults, Fault{Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	if len(o.Task) > fact.MaxTask {
		refuse("task", "%.40q: %d bytes, at most %d", o.Task, len(o.Task), fact.MaxTask)
	}
	if !utf8.ValidString(o.Task) {
		refuse("task", "%q is not text", o.Task)
	}
	request, isTyped, err := typed.Requested(o.Bundle)
	switch {
	case err != nil:
		refuse("bundle", "of a typed job: %v", err)
	case isTyped && request.JobType.String() != o.Task:
		// Its type checks the result, and providers of another task do not know the type.
		refuse("task", "%.80q: the bundle is the typed job %s: leave the task out, or correct it in the manifest", o.Task, request.JobType)
	}
	if !nip90.IsRequest(o.Kind) {
		refuse("kind", "%d is not a job request: want 5000 to 5999", o.Kind)
	}
	if o.Timeout < 0 || o.Timeout > maxTimeout {
		refuse("timeout", "%v: want 0 to %v", o.Timeout, maxTimeout)
	}
	if o.Tries < 0 || o.Tries > maxTries {
		refuse("tries", "%d: want 0 to %d", o.Tries, maxTries)
	}

	if levels := []guild.Criticality{guild.Low, guild.Medium, guild.High, guild.Critical}; o.Criticality != "" && !slices.Contains(levels, o.Criticality) {
		refuse("criticality", "%.40q: want low, medium, high or critical", o.Criticality)
	}
	if _, ok := parseComparer(o.Compare); !ok {
		refuse("compare", "%.40q: want hash, json, text, numbers:TOLERANCE or tests", o.Compare)
	}
	adjudication := oa.Adjudication(o.Compare)
	if adjudication.Together() {
		if _, err := oa.ParseID(o.Task); err != nil {
			refuse("compare", "%s: only the results of typed jobs are compared together, and the task is %.40q", o.Compare, o.Task)
		} else if o.Compare == byMerging && !opinion.Merges(o.Task) {
			refuse("compare", "%s: %s: %v", o.Compare, o.Task, opinion.ErrNoMerge)
		}
	}
	quorum := adjudication.Quorum(o.Criticality)
	if o.Tries > 0 && o.Tries < quorum {
		refuse("criticality", "%s: %d must agree, and only %d may be asked", o.Criticality, quorum, o.Tries)
	}
	named := slices.Clone(o.Providers)
	slices.SortFunc(named, func(a, b nostr.PubKey) int { return slices.Compare(a[:], b[:]) })
	if n := len(slices.Compact(named)); n > 0 && n < quorum {
		refuse("criticality", "%s: %d must agree, and only %d are named", o.Criticality, quorum, n)
	}

	switch {
	case !o.Open:
	case o.Private:
		refuse("open", "shows everybody what the job is about, and private nobody: choose one")
	case o.Release != nil:
		refuse("open", "asks anybody, and credentials are released to named providers only")
	case o.Meeting != nil:
		refuse("open", "asks everybody, and a benchmark is for one provider")
	}

	if o.Bid < 0 || o.Bid > mostBid {
		refuse("bid", "%s: want 0 to %s", o.Bid, mostBid)
	}
	if o.Free && o.Bid > 0 {
		refuse("free", "excludes a bid of %s", o.Bid)
	}
	if s := o.Settle; s != nil {
		switch {
		case !slices.Contains([]string{Escrow, Prepaid, Postpaid, Onchain}, s.How):
			refuse("settle", "%.20q: want %s, %s, %s or %s", s.How, Escrow, Prepaid, Postpaid, Onchain)
		case s.Unit == "" || len(s.Unit) > 20:
			refuse("settle", "needs a bid with a unit, such as 1000sat")
		case s.Most == 0 || s.Most > uint64(mostBid)/1000:
			refuse("settle", "needs a bid: it is the most that is locked for one provider")
		case s.Arbiter != nil && s.How != Escrow:
			refuse("judge", "rules on what is locked in %s", Escrow)
		case s.How == Postpaid && !s.InBitcoin():
			refuse("settle", "%s is over Lightning, so it needs a bid in bitcoin", s.How)
		case s.How == Onchain && !s.InBitcoin():
			refuse("settle", "%s needs a bid in bitcoin", s.How)
		case s.How == Postpaid && (s.Mixed%100 != 0 || s.Partial%100 != 0):
			refuse("settle", "%s excludes shares of a part: an invoice is paid whole", s.How)
		case (s.How == Prepaid || s.How == Onchain) && (s.Mixed != 0 || s.Partial != 0 || s.Weak != 0):
			refuse("settle", "prepaid excludes shares by the verdict")
		case s.How == Escrow && o.Timeout > 24*time.Hour:
			refuse("settle", "needs a timeout of at most 24h: providers promise no longer")
		case s.Mixed < 0 || s.Mixed > 100:
			refuse("mixed-share", "%d per cent: want 0 to 100", s.Mixed)
		case s.Partial < 0 || s.Partial > 100:
			refuse("partial-share", "%d per cent: want 0 to 100", s.Partial)
		case o.Bid > 0 && s.Unit != "sat" && s.Unit != "msat":
			refuse("settle", "in %s excludes a bid in bitcoin", s.Unit)
		}
	}
	if o.Most < 0 || o.Most > mostBid || o.Most > 0 && (o.Free || o.Bid > 0) {
		refuse("most", "%s: want 0 to %s, and neither a bid nor free", o.Most, mostBid)
	}
	if o.Class != "" && !slices.Contains(guild.Classes(), o.Class) {
		refuse("class", "%.40q: want one of %s, or none", o.Class, strings.Join(guild.Classes(), ", "))
	}
	if urgencies := []string{unhurried, "urgent", "critical"}; o.Urgency != "" && !slices.Contains(urgencies, o.Urgency) {
		refuse("urgency", "%.40q: want %s", o.Urgency, strings.Join(urgencies, ", "))
	}
	if o.Target != 0 && (o.Target < leastTarget || o.Target > mostTarget) {
		refuse("target", "%s: want trust from 0.1 to 0.9", o.Target)
	}
	return faults
}

// Open takes an order. The job is due from here on, through any restart. An order that is wrong is Faults.
func (j *Jobs) Open(ctx context.Context, o Order) (guild.JobID, error) {
	if err := j.c.Journal.Free(); err != nil {
		return guild.JobID{}, fmt.Errorf("open a job: %w", err)
	}
	if o.Compare == byWhatTheyAre && o.Criticality.Quorum() > 1 {
		o.Compare = namedComparer(o.Bundle)
	}
	j.storing.RLock()
	defer j.storing.RUnlock()
	if faults := append(o.Check(), j.checkInputs(o)...); len(faults) > 0 {
		return guild.JobID{}, fmt.Errorf("open a job: %w", faults)
	}
	hash, err := j.c.Blobs.PutBytes(ctx, o.Bundle)
	if err != nil {
		return guild.JobID{}, fmt.Errorf("open a job: keep the bundle: %w", err)
	}
	var hidden guild.Hash
	if len(o.Hidden) > 0 {
		if hidden, err = j.c.Blobs.PutBytes(ctx, o.Hidden); err != nil {
			return guild.JobID{}, fmt.Errorf("open a job: keep the hidden tests: %w", err)
		}
	}
	id := o.ID
	if id == (guild.JobID{}) {
		id = guild.NewJobID()
	}
	tries := o.Criticality.Replicas() + 2
	opened := fact.JobOpened{
		Job: id, Task: o.Task, Title: o.Title, Bundle: hash, Hidden: hidden, Size: int64(len(o.Bundle)), Kind: o.Kind, Bid: o.Bid,
		Tries: cmp.Or(o.Tries, len(o.Providers), tries), Private: o.Private, Providers: o.Providers, Release: o.Release,
		Criticality: o.Criticality, Compare: o.Compare, Open: o.Open, Inputs: o.Inputs, Meeting: o.Meeting, Quality: o.Quality,
		Nudges: o.Nudges, Class: o.Class, Urgency: o.Urgency, Target: o.Target, Most: o.Most, Unbid: o.Bid == 0 && !o.Free && o.Meeting == nil && o.Settle == nil, Settle: o.Settle,
	}
	err = j.c.Journal.Do(ctx, fact.JobSubject(id), "", func(tx *journal.Tx) error {
		opened.Deadline = tx.Now().Add(cmp.Or(o.Timeout, j.c.Patience.Job)).UnixMilli()
		known, ok := j.fold.Job(id)
		switch {
		case !ok:
			tx.Append(opened)
		case known.Bundle != opened.Bundle || known.Hidden != opened.Hidden || known.Task != opened.Task:
			return Faults{{Field: "id", Reason: id.String() + ": is another job already"}}
		}
		return nil
	})
	if err != nil {
		return guild.JobID{}, fmt.Errorf("open a job: %w", err)
	}
	return id, nil
}

// namedComparer returns how a bundle wants its deliveries compared: extensions.guild.compare.
func namedComparer(bundle []byte) string {
	b, err := nutshell.Open(bytes.NewReader(bundle), int64(len(bundle)), nutshell.DefaultLimits())
	if err != nil {
		return byWhatTheyAre
	}
	var ours struct {
		Compare string `json:"compare"`
	}
	if ok, err := b.Manifest().Extension("guild", &ours); !ok || err != nil {
		return byWhatTheyAre
	}
	return ours.Compare
}
