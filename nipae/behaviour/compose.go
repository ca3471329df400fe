package behaviour

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/canon"
	"guild/nipae"
)

// Limits of a request.
const (
	DefaultBudget = 8000 // tokens of a prompt, if a request has none
	MaxAsked      = 16   // nudges that a customer can ask for
)

// maxMissed limits the lessons that are tried after they did not fit, because counting tokens takes time.
const maxMissed = 100

// Reasons why no behaviour is composed.
var (
	ErrUnknown = errors.New("not in the library")
	ErrBudget  = errors.New("over the budget")
	ErrTools   = errors.New("a nudge changes the worker's tools, which are not known")
)

// Policy says whom to trust.
type Policy struct {
	Owners  []nostr.PubKey // and the agents whose ownership by one of them is verified both ways
	Allow   []nostr.PubKey
	Without []nostr.ID // lessons that do not apply: retired ones and drafts
	Only    []nostr.ID // if not nil, the only lessons that apply
}

// Request describes the job for which a behaviour is composed.
type Request struct {
	Definition nostr.ID // the version to execute
	Policy     Policy

	Nudges []nostr.ID // chosen by the owner
	Asked  []nostr.ID // asked for by the customer

	Tools  []string // what the worker has; nil if not known
	Task   string
	Words  string // the text of the job
	Budget int64  // tokens of the prompt; 8,000 if zero
}

// Behaviour is how an agent does one job.
type Behaviour struct {
	Definition nostr.ID
	Prompt     string            // system prompt
	Tools      []string          // exactly these; nil means all that the worker has
	Files      []nipae.Reference // NIP-94 file metadata (1063) of the definition

	Sources []Source // where each part of the prompt is from, in its order
	LeftOut LeftOut  // what did not apply
}

// Source says where a part of the prompt is from.
type Source struct {
	From, To int // lines of the prompt, the first is 1; 0 if the event has no text there
	Event    nostr.ID
	Author   nostr.PubKey
	Why      string // one of the constants below
}

// Reasons why an event is part of a behaviour.
const (
	Executed = "definition"
	Owner    = "owner"
	OwnAgent = "agent of the owner"
	Allowed  = "allow-list"
	Chosen   = "chosen by the owner"
	Asked    = "asked for by the customer"
)

// LeftOut counts what did not apply.
type LeftOut struct {
	OtherDefinition int // lessons about a later version, or by trusted authors that do not execute this definition
	Stranger        int // lessons by authors that are not trusted, and comments of such authors on lessons that were tried
	Retired         int // lessons in Policy.Without or not in Policy.Only
	OverBudget      int // lessons, and texts of a customer's nudges
}

// Hash returns the hash of everything that the worker gets: the SHA-256 of a canonical JSON object with the members
// definition, prompt, tools (null for the worker's own) and files (event ids).
func (b Behaviour) Hash() (guild.Hash, error) {
	files := []string{}
	for _, file := range b.Files {
		files = append(files, file.ID.Hex())
	}
	return canon.HashValue(map[string]any{"definition": b.Definition.Hex(), "prompt": b.Prompt, "tools": b.Tools, "files": files})
}

// composer composes one behaviour.
type composer struct {
	*Library
	r       Request
	trusted map[nostr.PubKey]string // why; "" for a stranger
	claims  []nipae.Claims          // of the policy's owners
	agents  map[nostr.PubKey]bool   // that these name
	left    LeftOut
	tokens  int64 // that remain
	without map[nostr.ID]bool
	only    map[nostr.ID]bool

	inherits map[*nipae.Definition]bool // whether lessons about a version apply to the one that is executed
}

// composer prepares for a request. The lock must be held.
func (l *Library) composer(r Request) *composer {
	c := &composer{
		Library: l, r: r, tokens: cmp.Or(r.Budget, DefaultBudget), without: set(r.Policy.Without), only: set(r.Policy.Only), inherits: map[*nipae.Definition]bool{},
	}
	c.trust()
	return c
}

// Compose composes the behaviour for a request. The budget is spent on the definition and the owner's nudges, which are
// never cut; then on the customer's nudges, up to a quarter of the rest; then on lessons, each with its comments: first
// those whose category is the task or consists of words of the job, then the newest. A lesson that does not fit is left
// out and the next one tried, until 100 did not fit. Tokens are counted part by part.
//
// Errors match ErrUnknown, ErrBudget, ErrTools or nipae.ErrTooBig.
func (l *Library) Compose(r Request) (Behaviour, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, err := l.compose(r)
	if err != nil {
		return Behaviour{}, fmt.Errorf("compose %.8s: %w", r.Definition.Hex(), err)
	}
	return b, nil
}

func (l *Library) compose(r Request) (Behaviour, error) {
	d, ok := get[nipae.Definition](l, r.Definition)
	if !ok {
		return Behaviour{}, fmt.Errorf("definition: %w", ErrUnknown)
	}
	c := l.composer(r)
	ours, theirs, why, err := c.nudges()
	if err != nil {
		return Behaviour{}, err
	}
	b := Behaviour{Definition: d.ID, Files: slices.Clone(d.Files)}
	if b.Tools, err = tools(d, r.Tools, ours, theirs); err != nil {
		return Behaviour{}, err
	}

	definition := part{l.events[d.ID], Executed}
	nudges, customer := section{intro: nudgeIntro}, section{intro: customerIntro}
	c.tokens -= l.count(definition)
	for i, n := range ours {
		nudges.parts = append(nudges.parts, part{l.events[n.ID], why[i]})
	}
	c.tokens -= l.size(nudges)
	if c.tokens < 0 {
		return Behaviour{}, fmt.Errorf("definition and nudges: %w of %d tokens by %d", ErrBudget, cmp.Or(r.Budget, DefaultBudget), -c.tokens)
	}
	quarter := c.tokens / 4
	for _, n := range theirs {
		more := section{customerIntro, append(slices.Clip(customer.parts), part{l.events[n.ID], Asked})}
		if l.size(more) <= quarter {
			customer = more
		} else {
			c.left.OverBudget++
		}
	}
	c.tokens -= l.size(customer)
	advice := c.lessons(d)

	var w writer
	w.part(definition)
	for _, s := range []section{advice, nudges, customer} {
		w.section(s)
	}
	b.Prompt, b.Sources, b.LeftOut = w.prompt.String(), w.sources, c.left
	return b, nil
}

// trust collects the keys that the policy trusts, and the agents that its owners claim.
func (c *composer) trust() {
	c.trusted, c.agents = map[nostr.PubKey]string{}, map[nostr.PubKey]bool{}
	for _, key := range c.r.Policy.Allow {
		c.trusted[key] = Allowed
	}
	for _, owner := range c.r.Policy.Owners {
		c.trusted[owner] = Owner
		if claims, ok := newest[nipae.Claims](c.Library, owner, nipae.KindClaims); ok {
			c.claims = append(c.claims, claims)
			for _, agent := range claims.Agents() {
				c.agents[agent] = true
			}
		}
	}
}

// why returns why an author is trusted; "" for a stranger.
func (c *composer) why(author nostr.PubKey) string {
	if why, known := c.trusted[author]; known || !c.agents[author] {
		return why
	}
	profile, _ := newest[nipae.Profile](c.Library, author, nipae.KindProfile)
	for _, o := range nipae.Verify(profile, c.claims) {
		if o.Err == nil {
			c.trusted[author] = OwnAgent
			return OwnAgent
		}
	}
	c.trusted[author] = ""
	return ""
}

// nudges returns the nudges of a request, each once: those that the owner chose, with the reasons, and those that only the
// customer wants. Whoever wrote one that only the customer wants, it can undo nothing that the owner chose.
func (c *composer) nudges() (ours, theirs []nipae.Nudge, why []string, err error) {
	if len(c.r.Asked) > MaxAsked {
		return nil, nil, nil, fmt.Errorf("%d nudges of the customer: %w: at most %d", len(c.r.Asked), nipae.ErrTooBig, MaxAsked)
	}
	seen := map[nostr.ID]bool{}
	for i, id := range slices.Concat(c.r.Nudges, c.r.Asked) {
		n, ok := get[nipae.Nudge](c.Library, id)
		switch {
		case !ok:
			return nil, nil, nil, fmt.Errorf("nudge %.8s: %w", id.Hex(), ErrUnknown)
		case seen[id]:
		case i < len(c.r.Nudges):
			ours, why = append(ours, n), append(why, cmp.Or(c.why(n.PubKey), Chosen))
		default:
			theirs = append(theirs, n)
		}
		seen[id] = true
	}
	return ours, theirs, why, nil
}

// tools returns the effective tools; nil for all that the worker has. The nudges that only the customer wants can remove
// tools and add none.
func tools(d nipae.Definition, worker []string, ours, theirs []nipae.Nudge) ([]string, error) {
	have := worker
	if len(d.Tools) > 0 {
		have = d.Tools
	}
	isOnly := func(n nipae.Nudge) bool { return len(n.Only) > 0 }
	narrowed := slices.ContainsFunc(theirs, func(n nipae.Nudge) bool { return len(n.Only)+len(n.Deny) > 0 })
	changed := narrowed || slices.ContainsFunc(ours, func(n nipae.Nudge) bool { return len(n.Only)+len(n.Allow)+len(n.Deny) > 0 })
	switch {
	case len(d.Tools) == 0 && !changed:
		return nil, nil
	case have == nil && !slices.ContainsFunc(ours, isOnly):
		return nil, ErrTools
	}
	have = nipae.Tools(have, ours)
	if !narrowed {
		return have, nil
	}
	// What theirs allow is not in have.
	return slices.DeleteFunc(nipae.Tools(have, theirs), func(tool string) bool { return !slices.Contains(have, tool) }), nil
}

// lessons returns the lessons that apply, in the order of their dates.
func (c *composer) lessons(d nipae.Definition) section {
	index := c.indexed()
	task, about := strings.ToLower(c.r.Task), set(words(c.r.Task+" "+c.r.Words))
	matches := map[*category]bool{}
	var first, rest []*held
	for _, l := range index.lessons[d.Address()] {
		why, applies := c.standing(l, d)
		switch {
		case why == OtherDefinition:
			c.left.OtherDefinition++
		case why == Stranger:
			c.left.Stranger++
		case !applies:
			c.left.Retired++
		case memo(matches, l.about, func() bool { return l.about.matches(task, about) }):
			first = append(first, l.held)
		default:
			rest = append(rest, l.held)
		}
	}
	var chosen [][]part // each lesson with its comments
	c.tokens -= c.config.Count(adviceIntro)
	for tried, l := range slices.Concat(first, rest) {
		if tried-len(chosen) == maxMissed {
			break
		}
		thread := c.thread(l, index)
		if size := c.count(thread...); size <= c.tokens {
			c.tokens -= size
			chosen = append(chosen, thread)
		}
	}
	c.left.OverBudget += len(first) + len(rest) - len(chosen)
	slices.SortFunc(chosen, func(a, b []part) int { return byDate(a[0], b[0]) })
	return section{adviceIntro, slices.Concat(chosen...)}
}

// standing returns why a lesson applies to a definition, or why it does not.
func (c *composer) standing(l candidate, d nipae.Definition) (why string, applies bool) {
	why = c.why(l.by.key)
	switch {
	case why == "": // whatever the profile says, which need not be known
		return Stranger, false
	case l.by.executes != d.Address() || !memo(c.inherits, l.named, func() bool { return d.Inherits(*l.named) }):
		return OtherDefinition, false
	case c.without[l.id] || c.r.Policy.Only != nil && !c.only[l.id]:
		return Retired, false
	}
	return why, true
}

// matches reports whether a category is the task, or consists of words of the job.
func (c *category) matches(task string, about map[string]bool) bool {
	return c.text != "" && c.text == task ||
		len(c.words) > 0 && !slices.ContainsFunc(c.words, func(word string) bool { return !about[word] })
}

// thread returns a lesson and the comments on it that apply, in the order of their dates. Comments are found from the
// lesson downwards, so those that reply to each other in a circle are never reached.
func (c *composer) thread(lesson *held, x *index) []part {
	all := []part{{lesson, c.why(lesson.author)}}
	for i := 0; i < len(all); i++ {
		for _, reply := range x.replies[all[i].id] {
			if reply.value.(nipae.Comment).Lesson.ID != lesson.id {
				continue
			}
			if why := c.why(reply.author); why != "" {
				all = append(all, part{reply, why})
			} else {
				c.left.Stranger++
			}
		}
	}
	slices.SortFunc(all[1:], byDate)
	return all
}

func byDate(a, b part) int {
	return cmp.Or(cmp.Compare(a.at, b.at), bytes.Compare(a.id[:], b.id[:]))
}

func set[T comparable](all []T) map[T]bool {
	s := make(map[T]bool, len(all))
	for _, x := range all {
		s[x] = true
	}
	return s
}

// Choose returns the index of the definition that answers a request: the one with the largest share of the words of its
// use-criteria, each counted once, in the text of the request. Of several it is the first. Without definitions it is -1.
func Choose(definitions []nipae.Definition, text string) int {
	request := set(words(text))
	best, bestHits, bestOf := -1, 0, 1
	for i, d := range definitions {
		criteria := set(words(d.UseCriteria))
		hits := 0
		for word := range criteria {
			if request[word] {
				hits++
			}
		}
		if best < 0 || hits*bestOf > bestHits*len(criteria) {
			best, bestHits, bestOf = i, hits, max(1, len(criteria))
		}
	}
	return best
}
