package control

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/market/route"
	"guild/internal/step/jobs"
)

// job shows one job.
func (s *Server) job(j *jobs.Job) Job {
	view := Job{
		ID: j.Job.String(), Task: j.Task, Title: j.Title, Opened: j.At, Deadline: j.Deadline, Closed: j.Closed,
		Ending: j.Ending, Reason: j.Reason, Bundle: j.Bundle.String(), Size: j.Size,
		Attempts: []Attempt{}, Criticality: j.Criticality, Compare: j.Compare,
		Quarantined: s.c.Journal.InQuarantine(fact.JobSubject(j.Job)),
		Shredded:    j.Shredded, Erased: j.Erased, Exposed: j.Exposed,
	}
	if j.Chosen != nostr.ZeroID {
		view.Chosen = j.Chosen.Hex()
	}
	if j.Release != nil {
		view.Released = j.Release.Names
	}
	for _, a := range j.Attempts {
		view.Attempts = append(view.Attempts, s.attempt(a))
	}
	return view
}

func (s *Server) attempt(a jobs.Attempt) Attempt {
	view := Attempt{
		ID: a.ID.Hex(), Provider: a.Provider.PubKey.Hex(), Npub: nip19.EncodeNpub(a.Provider.PubKey),
		Name: s.c.Registry.Name(a.Provider), D: a.Provider.D, State: string(a.Outcome()), Reason: a.Reason,
		Planned: a.At, Verdict: a.Verdict, Price: int64(a.Quote), Receipt: a.Receipt, NudgesLeftOut: a.LeftOut,
	}
	if a.Held != nil {
		view.Money = &AttemptMoney{Asset: a.Held.Asset, Held: int64(a.Held.Amount), Paid: int64(a.Got), State: "held"}
		switch {
		case a.Back:
			view.Money.State = string(guild.Refunded)
		case a.Got > 0 && (a.Held.Rail == "lightning" || a.Ahead):
			view.Money.State = string(guild.Paid)
		case a.Got > 0:
			view.Money.State = string(guild.Released)
		default:
			if o, ok := s.c.Pay.PayingFor(a.ID); ok {
				view.Money.Now, view.Money.Waits = o.State, o.Waits
				if !o.Until.IsZero() {
					view.Money.Until = o.Until.UnixMilli()
				}
			}
		}
	}
	if !a.Delivery.IsZero() {
		view.Delivery = a.Delivery.String()
	}
	if a.Agrees != nostr.ZeroID {
		view.Agrees = a.Agrees.Hex()
	}
	if change, ok := s.c.Trust.Change(a.ID); ok {
		if !change.First && !change.Unfounded {
			from := change.From.Float()
			view.TrustFrom, view.TrustFromMicro = &from, &change.From
		}
		if !change.Unfounded {
			to := change.To.Float()
			view.TrustTo, view.TrustToMicro = &to, &change.To
		}
	}
	return view
}

// settled reports whether nothing more will happen to a job: it is closed, all its attempts are recorded, and
// trust has learned from them; or it is held in quarantine.
func (s *Server) settled(j *jobs.Job) bool {
	if j.Ending == guild.Open {
		return false
	}
	if s.c.Journal.Held(fact.JobSubject(j.Job)) {
		return true
	}
	for _, a := range j.Attempts {
		if a.State != guild.Recorded && (a.Held == nil || a.State.Moved() || s.c.Pay.Busy(a.ID)) { // a refund may take until the locktime
			return false
		}
	}
	return s.c.Trust.Settled(j.Job)
}

// concerns reports whether an entry is about a job.
func (s *Server) concerns(e fact.Entry, job guild.JobID) bool {
	if e.Subject == fact.JobSubject(job) {
		return true
	}
	for _, f := range e.Facts {
		switch f := f.(type) {
		case fact.TrustChanged:
			if f.Job == job {
				return true
			}
		case fact.PaymentReleased: // the rest may come back much later
			if _, of, ok := s.c.Fold.Attempt(f.Attempt); ok && of.Job == job {
				return true
			}
		}
	}
	return false
}

// updates describes one entry of a job, with a line for each fact that tell puts into words.
func (s *Server) updates(e fact.Entry, job *jobs.Job) []Update {
	var lines []Update
	for _, f := range e.Facts {
		u, ok := s.tell(f, job)
		if !ok {
			continue
		}
		u.Seq, u.At, u.Job, u.Event = e.Seq, e.At, job.Job.String(), f.Type()
		if a, _, ok := s.c.Fold.Attempt(u.attempt); ok {
			u.Attempt, u.Provider = a.ID.Hex(), nip19.EncodeNpub(a.Provider.PubKey)
			u.Name = s.c.Registry.Name(a.Provider)
		}
		lines = append(lines, u.Update)
	}
	return lines
}

// line is an update in the making.
type line struct {
	Update
	attempt nostr.ID
}

func say(step, state, format string, args ...any) line {
	return line{Update: Update{Step: step, State: state, Text: fmt.Sprintf(format, args...)}}
}

func (l line) of(attempt nostr.ID) (line, bool) { l.attempt = attempt; return l, true }

// tell puts a fact into words, and reports whether it does so for facts of that type. TestToldFacts lists those that it
// leaves out because they tell a person nothing new.
func (s *Server) tell(f fact.Fact, job *jobs.Job) (line, bool) {
	switch f := f.(type) {
	case fact.JobOpened:
		return say("bundle", "done", "%s, %s%s", size(f.Size), f.Bundle, releases(f)), true
	case fact.JobCancelled:
		return say("request", "progress", "cancelling"), true
	case fact.JobClosed:
		return s.closed(f), true
	case fact.JobShredded:
		return say("record", "progress", "shredding what it said"), true
	case fact.JobErased:
		return say("record", "done", "shredded: %s", erased(f)), true
	case fact.JournalClosed:
		return say("request", "failed", "closed in quarantine, since entries of it are lost"), true
	case fact.JobSolicited:
		return say("discover", "progress", "asked everybody for an offer"), true
	case fact.JobOffered:
		return say("discover", "progress", "%s offers to do it%s", s.whose(f.Provider, job), forPrice(f.Price)), true
	case fact.AttemptCompared:
		return s.agreed(f).of(f.Attempt)
	case fact.AttemptPlanned:
		return say("discover", "done", "%s offers %q%s%s", s.who(f.Provider), job.Task, unmet(f), form(f)).of(f.Attempt)
	case fact.AttemptRequested:
		return say("request", "done", "asked %s, taken by %s", s.who(s.provider(f.Attempt)), strings.Join(f.Relays, ", ")).of(f.Attempt)
	case fact.AttemptDeferred:
		return say("request", "progress", "the price of %d %s waits for you: guild wallet approve %.8s %d%s, or 0%s",
			f.Amount, unitWords(f.Unit), f.Attempt.Hex(), f.Amount, f.Unit, f.Unit).of(f.Attempt)
	case fact.AttemptProgressed:
		return say("work", "progress", "%s", cmp.Or(f.Text, f.Status)).of(f.Attempt)
	case fact.AttemptDelivered:
		took := time.Duration(f.LatencyMs) * time.Millisecond
		left := ""
		if f.NudgesLeftOut > 0 {
			left = fmt.Sprintf(", without %d of your nudges", f.NudgesLeftOut)
		}
		return say("work", "done", "delivery %s, %s after the request%s", size(f.Size), took.Round(time.Millisecond), left).of(f.Attempt)
	case fact.AttemptFetched:
		return say("work", "progress", "delivery fetched").of(f.Attempt)
	case fact.AttemptJudged:
		return judged(f.Verdict).of(f.Attempt)
	case fact.AttemptUndecided:
		if !f.Held.IsZero() {
			return say("judge", "progress", "waits for a person: %s: guild judge rule %s accept", f.Reason, job.Job.Short()).of(f.Attempt)
		}
		return say("judge", "failed", "undecided: %s", f.Reason).of(f.Attempt)
	case fact.AttemptRefused:
		return say("request", "failed", "refused: %s", f.Reason).of(f.Attempt)
	case fact.AttemptExpired:
		return say("work", "failed", "expired: %s", f.Reason).of(f.Attempt)
	case fact.AttemptCancelled:
		return say("request", "failed", "taken back").of(f.Attempt)
	case fact.AttemptParked:
		return say("judge", "failed", "parked: %s", f.Reason).of(f.Attempt)
	case fact.AttemptRecorded:
		return say("record", "done", "%s", recorded(f)).of(f.Attempt)
	case fact.TrustChanged:
		return say("trust", "done", "%s %s%s", s.who(f.Service), moved(f), s.excluded(f.Service)).of(f.Attempt)
	}
	return line{}, false
}

func (s *Server) closed(f fact.JobClosed) line {
	if f.Ending == guild.JobUnclaimed {
		return say("discover", "failed", "%s", f.Reason)
	}
	text := "the job is " + string(f.Ending)
	if _, job, ok := s.c.Fold.Attempt(f.Chosen); ok && job.Criticality.Replicas() > 1 {
		text += " by what " + s.who(s.provider(f.Chosen)) + " delivered"
	}
	if f.Reason != "" {
		text += ": " + f.Reason
	}
	return say("record", "progress", "%s", text)
}

func judged(v guild.Verdict) line {
	state := "failed"
	if v.Outcome == guild.Success {
		state = "done"
	}
	text := fmt.Sprintf("%s: %d of %d passed, score %s, %s, %s", v.Outcome, v.Passed, v.Expected, v.Score, v.Strength, v.Tier)
	if v.Cause != "" {
		text += ": " + v.Cause
	}
	return say("judge", state, "%s", text)
}

func recorded(f fact.AttemptRecorded) string {
	if f.Receipt == "" {
		return "trajectory " + f.Trajectory.String()
	}
	return "receipt " + f.Receipt
}

// erased says what a shredded job has lost, and what could not be erased.
func erased(f fact.JobErased) string {
	text := fmt.Sprintf("its words and %d blobs are erased", f.Blobs)
	if f.Shared > 0 {
		text += fmt.Sprintf("; %d blobs stay, since other jobs have them, too", f.Shared)
	}
	if f.Exposed > 0 {
		text += fmt.Sprintf("; %d entries stay as they are, since an older program stored them unencrypted", f.Exposed)
	}
	return text
}

func moved(f fact.TrustChanged) string {
	switch {
	case f.Unfounded:
		return "does not change trust: " + f.Reason
	case f.First:
		return "now trusted " + f.To.String()
	}
	return f.From.String() + " → " + f.To.String()
}

// excluded adds the state of a service that is not asked now, whatever the trust in it.
func (s *Server) excluded(p guild.Service) string {
	state := s.c.Providers.Provider(p).State
	switch state {
	case guild.Suspended, guild.Removed:
		return ", " + string(state)
	}
	return ""
}

func releases(f fact.JobOpened) string {
	if f.Release == nil {
		return ""
	}
	return ", with the credentials " + strings.Join(f.Release.Names, ", ")
}

func unmet(f fact.AttemptPlanned) string {
	if f.Unmet {
		return ", not met before"
	}
	return ""
}

// form tells what a provider gets that reads no bundles, and that the customer named one that does not offer the task.
func form(f fact.AttemptPlanned) (text string) {
	if f.Plain {
		text = fmt.Sprintf("; reads no bundles: gets the requirements and the files as plain text, in kind %d", f.Request.Kind)
	}
	if f.Choice != nil {
		for _, rule := range f.Choice.Relaxed {
			if why, ok := strings.CutPrefix(rule, route.ByFit+": "); ok {
				text += "; " + why
			}
		}
	}
	return text
}

// agreed tells whether a delivery is like an earlier one.
func (s *Server) agreed(f fact.AttemptCompared) line {
	if f.With == f.Attempt {
		return say("judge", "progress", "no accepted delivery before was like it")
	}
	return say("judge", "progress", "agrees with %s", s.who(s.provider(f.With)))
}

func forPrice(m guild.Msat) string {
	if m == 0 {
		return ""
	}
	return " for " + m.String()
}

// whose names a key by the service of it that offers a task.
func (s *Server) whose(key nostr.PubKey, job *jobs.Job) string {
	for _, o := range s.c.Registry.OffersOf(key, job.Task, job.Kind) {
		if job.Task == "" || o.Confidence > 0 {
			return s.who(o.Service)
		}
	}
	return s.who(guild.Service{PubKey: key})
}

func (s *Server) provider(attempt nostr.ID) guild.Service {
	a, _, _ := s.c.Fold.Attempt(attempt)
	return a.Provider
}

// who returns the name of a provider for a person.
func (s *Server) who(p guild.Service) string {
	short := shortNpub(p.PubKey)
	if name := s.c.Registry.Name(p); name != "" {
		return guild.Cut(name, 40) + " (" + short + ")"
	}
	return short
}

// shortNpub shows both ends of a key, as the verbs take it.
func shortNpub(key nostr.PubKey) string {
	npub := nip19.EncodeNpub(key)
	return npub[:10] + "…" + npub[len(npub)-4:]
}

// size writes a number of bytes for a person.
func size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}
