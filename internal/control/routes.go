package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/fact"
	"guild/internal/jobs"
	"guild/internal/journal"
	"guild/internal/sandbox"
	"guild/internal/typed"
	"guild/nutshell"
	"guild/oa"
)

// Bounds on what a customer may ask for.
const (
	maxBundle  = 64 << 20                     // bytes of a packed bundle
	maxTimeout = 366 * 24 * time.Hour         // for a job
	maxBid     = 21_000_000 * 100_000_000_000 // msat: all there will ever be
	maxTries   = 1000
)

func (s *Server) getStatus(w http.ResponseWriter, r *http.Request) { answer(w, s.c.Status()) }

func (s *Server) postJob(w http.ResponseWriter, r *http.Request) {
	order, err := s.order(w, r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "usage", hintFor(err), err)
		return
	}
	if err := s.c.Sandbox(r.Context()); err != nil {
		hint := ""
		if unusable, ok := errors.AsType[*sandbox.UnusableError](err); ok {
			hint = unusable.Remedy
		}
		refuse(w, http.StatusServiceUnavailable, "unsandboxed", hint, fmt.Errorf("a delivery could not be judged here: %w", err))
		return
	}
	s.c.Seek(r.Context(), order.Providers)
	id, err := s.c.Jobs.Open(r.Context(), order)
	if err != nil {
		fail(w, err)
		return
	}
	job, _ := s.c.Fold.Job(id)
	w.Header().Set("Location", "/v1/jobs/"+id.String())
	answer(w, s.job(job))
}

// taskError is a bundle that does not say which task it is.
type taskError struct{}

func (taskError) Error() string { return "which task is it?" }

func hintFor(err error) string {
	if errors.As(err, &taskError{}) {
		return `name one with --task, or in the bundle: "extensions": {"guild": {"task": "python"}}; guild market ls lists what is offered`
	}
	return ""
}

// order reads what a customer asks for: the bundle in the body, the rest in the query.
func (s *Server) order(w http.ResponseWriter, r *http.Request) (jobs.Order, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBundle))
	if err != nil {
		return jobs.Order{}, fmt.Errorf("read the bundle: %w", err)
	}
	b, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
	if err != nil {
		return jobs.Order{}, fmt.Errorf("not a bundle: %w", err)
	}
	q := params{r.URL.Query(), nil}
	o := jobs.Order{
		Task: q.Get("task"), Title: guild.Cut(b.Manifest().Task().Title, 200), Bundle: raw,
		Bid: guild.Msat(q.number("bid_msat", maxBid)), Tries: int(q.number("tries", maxTries)), Private: q.Get("private") == "true",
		Timeout: time.Duration(q.number("timeout_ms", maxTimeout.Milliseconds())) * time.Millisecond, Kind: int(q.number("kind", 65535)),
	}
	for _, p := range r.URL.Query()["provider"] {
		key, err := s.keyNamed(p)
		q.err = errors.Join(q.err, err)
		o.Providers = append(o.Providers, key)
	}
	if o.Hidden, err = s.hidden(q.Get("hidden")); err != nil {
		q.err = errors.Join(q.err, err)
	}
	if o.Release, err = s.release(q.Get("release")); err != nil {
		q.err = errors.Join(q.err, err)
	}
	if err := replication(&o, r.URL.Query()); err != nil {
		q.err = errors.Join(q.err, err)
	} else {
		q.err = errors.Join(q.err, CheckReplication(o.Criticality, o.Compare, o.Tries, len(o.Providers)), jobs.CheckBid(o))
	}
	o.Private, o.Quality = o.Private || holdsVault(b), jobs.QualityOf(b)
	if o.Task == "" {
		o.Task = taskOf(b.Manifest())
	}
	if o.Task == "" {
		return jobs.Order{}, taskError{}
	}
	q.err = errors.Join(q.err, typedAs(raw, o.Task, q.Get("task") != ""))
	if o.Class == "" {
		o.Class = s.c.Class(o.Task)
	}
	if !utf8.ValidString(o.Task) {
		q.err = errors.Join(q.err, fmt.Errorf("task %q is not text", o.Task))
	}
	if o.Kind == 0 {
		o.Kind = s.c.Kind(o.Task)
	}
	if o.Kind < 5000 || o.Kind > 5999 {
		q.err = errors.Join(q.err, fmt.Errorf("kind %d is not a job request (5000 to 5999)", o.Kind))
	}
	return o, q.err
}

// typedAs refuses the bundle of a typed job under the name of another task: its result is checked by its own type,
// and who offers the task would not know it.
func typedAs(bundle []byte, task string, asked bool) error {
	e, ok, err := typed.Requested(bundle)
	switch {
	case !ok || err != nil || e.JobType.String() == task:
		return err
	case asked:
		return fmt.Errorf("the bundle is the typed job %s, and the task is %.80q: leave the task out", e.JobType, task)
	}
	return fmt.Errorf("the bundle is the typed job %s, and its manifest says that the task is %.80q", e.JobType, task)
}

// replication reads how many providers do a job, how their deliveries are compared, what the work is worth, and what
// they get beside the bundle.
func replication(o *jobs.Order, q url.Values) (err error) {
	if o.Criticality, err = guild.ParseCriticality(q.Get("criticality")); err != nil {
		return err
	}
	o.Compare, o.Open = q.Get("compare"), q.Get("open") == "true"
	o.Free, o.Class, o.Urgency = q.Get("free") == "true", q.Get("class"), q.Get("urgency")
	if text := q.Get("target"); text != "" {
		t, err := strconv.ParseFloat(text, 64)
		if err != nil || !(t >= 0.1 && t <= 0.9) {
			return fmt.Errorf("target %.20q: want trust from 0.1 to 0.9", text)
		}
		o.Target = guild.Trust(t*guild.Micro + 0.5)
	}
	const most = 16
	if len(q["input"]) > most {
		return fmt.Errorf("%d inputs, and %d at most", len(q["input"]), most)
	}
	for _, text := range q["input"] {
		var in Input
		if err := json.Unmarshal([]byte(text), &in); err != nil {
			return fmt.Errorf("input %.80q: %w", text, err)
		}
		o.Inputs = append(o.Inputs, fact.Input(in))
	}
	return nil
}

// CheckReplication says what of how several providers do a job makes no sense together, or nil: an unknown comparer, or
// fewer providers than must agree. tries and providers are zero where the customer says nothing of them.
func CheckReplication(level guild.Criticality, compare string, tries, providers int) error {
	if err := jobs.CheckCompare(compare); err != nil {
		return err
	}
	switch quorum := oa.Adjudication(compare).Quorum(level); {
	case tries > 0 && tries < quorum:
		return fmt.Errorf("criticality %s: %d must agree, and only %d may be asked", level, quorum, tries)
	case providers > 0 && providers < quorum:
		return fmt.Errorf("criticality %s: %d must agree, and only %d are named", level, quorum, providers)
	}
	return nil
}

// CheckWorth says what of what a customer says of a job's worth makes no sense, or nil: its bid, class and urgency.
func CheckWorth(h Hire) error {
	return jobs.CheckBid(jobs.Order{Bid: guild.Msat(h.Bid), Free: h.Free, Class: h.Class, Urgency: h.Urgency})
}

// taskOf is the task that a bundle names: extensions.guild.task, else its first required skill.
func taskOf(m *nutshell.Manifest) string {
	var ours struct {
		Task string `json:"task"`
	}
	if ok, err := m.Extension("guild", &ours); ok && err == nil && ours.Task != "" {
		return ours.Task
	}
	if skills := m.Tags().SkillsRequired; len(skills) > 0 {
		return skills[0]
	}
	return ""
}

type params struct {
	values interface{ Get(string) string }
	err    error
}

// Get returns a parameter, or "".
func (q *params) Get(name string) string { return q.values.Get(name) }

// number returns a parameter that is a number from 0 to most, and 0 when it is absent.
func (q *params) number(name string, most int64) int64 {
	text := q.values.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		q.err = errors.Join(q.err, fmt.Errorf("%s %.40q: want a number from 0 to %d", name, text, most))
		return 0
	}
	return n
}

var errNoKey = errors.New("it names no key")

// parsePubKey reads npub or hex.
func parsePubKey(text string) (nostr.PubKey, error) {
	if strings.HasPrefix(text, "npub1") {
		_, value, err := nip19.Decode(text)
		key, ok := value.(nostr.PubKey)
		if err != nil || !ok {
			return nostr.PubKey{}, fmt.Errorf("provider %.80q is not an npub: %w", text, cmp.Or(err, errNoKey))
		}
		text = key.Hex() // nip19 does not check that it is a key
	}
	key, err := nostr.PubKeyFromHex(text)
	if err != nil {
		return nostr.PubKey{}, fmt.Errorf("provider %.80q is neither an npub nor a key in hex: %w", text, err)
	}
	return key, nil
}

func (s *Server) getJobs(w http.ResponseWriter, r *http.Request) {
	views := []Job{}
	for _, j := range s.c.Fold.All() {
		views = append(views, s.job(j))
	}
	answer(w, views)
}

// find returns the job that the path names by its id or a prefix of it, or answers why there is none.
func (s *Server) find(w http.ResponseWriter, r *http.Request) (*jobs.Job, bool) {
	prefix := strings.ToLower(r.PathValue("id"))
	var found []*jobs.Job
	for _, j := range s.c.Fold.All() {
		if strings.HasPrefix(j.Job.String(), prefix) {
			found = append(found, j)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], true
	case len(found) == 0 || prefix == "":
		refuse(w, http.StatusNotFound, "missing", "guild job ls lists the jobs", fmt.Errorf("no job %.40q", prefix))
	default:
		refuse(w, http.StatusConflict, "ambiguous", "give more digits", fmt.Errorf("%d jobs begin with %q", len(found), prefix))
	}
	return nil, false
}

func (s *Server) getJob(w http.ResponseWriter, r *http.Request) {
	if j, ok := s.find(w, r); ok {
		view := s.job(j)
		if s.c.Jobs != nil {
			view.Waits = s.c.Jobs.Waits(j.Job)
		}
		answer(w, view)
	}
}

func (s *Server) cancelJob(w http.ResponseWriter, r *http.Request) {
	j, ok := s.find(w, r)
	if !ok {
		return
	}
	if err := s.c.Jobs.Cancel(r.Context(), j.Job); err != nil {
		fail(w, err)
		return
	}
	j, _ = s.c.Fold.Job(j.Job)
	answer(w, s.job(j))
}

// watchJob tells a job from its first fact to its end, a line for each thing.
func (s *Server) watchJob(w http.ResponseWriter, r *http.Request) {
	j, ok := s.find(w, r)
	if !ok {
		return
	}
	lines := newStream(w)
	if s.archived(r.Context(), j) {
		lines.out.Encode(s.end(j, fact.Entry{Seq: s.last(j), At: j.Closed}))
		return
	}
	for e, err := range s.c.Journal.Watch(r.Context(), j.Seq) {
		if err != nil {
			lines.fail(err)
		}
		if !about(e, j.Job) {
			continue
		}
		for _, u := range s.updates(e, j) {
			lines.out.Encode(u)
		}
		now, _ := s.c.Fold.Job(j.Job)
		over := s.settled(now) && e.Seq >= s.last(now) // so that a late watcher hears all of it
		if over {
			lines.out.Encode(s.end(now, e))
		}
		lines.flush.Flush()
		if over {
			return
		}
	}
}

// end is the last update of a job.
func (s *Server) end(j *jobs.Job, e fact.Entry) Update {
	view := s.job(j)
	return Update{Seq: e.Seq, At: e.At, Job: view.ID, Step: "trust", Event: "ended", State: ended(j),
		Text: fmt.Sprintf("the job is %s", j.Ending), Ended: &view}
}

// archived reports whether a job is over and nothing about it is in the journal any more.
func (s *Server) archived(ctx context.Context, j *jobs.Job) bool {
	if !s.settled(j) {
		return false
	}
	_, err := s.c.Journal.Entry(ctx, s.last(j))
	return errors.Is(err, journal.ErrNoEntry)
}

// last is the latest entry about a job.
func (s *Server) last(j *jobs.Job) uint64 { return max(j.Last, s.c.Trust.Last(j.Job)) }

func ended(j *jobs.Job) string {
	if j.Ending == guild.JobAccepted {
		return "done"
	}
	return "failed"
}
