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
	"time"
	"unicode/utf8"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/judging/sandbox"
	"guild/internal/judging/typed"
	"guild/internal/step/jobs"
	"guild/nip90"
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

func (s *Server) postJob(w http.ResponseWriter, r *http.Request) {
	var opened Job
	r.Body = http.MaxBytesReader(w, r.Body, maxBundle)
	order, err := s.order(r)
	if err == nil {
		opened, err = s.open(r.Context(), order)
	}
	if err == nil {
		w.Header().Set("Location", "/v1/jobs/"+opened.ID)
	}
	answer(w, opened, err)
}

func (s *Server) open(ctx context.Context, order jobs.Order) (Job, error) {
	if err := s.c.Sandbox(ctx); err != nil {
		hint := ""
		if unusable, ok := errors.AsType[*sandbox.UnusableError](err); ok {
			hint = unusable.Remedy
		}
		return Job{}, unsandboxed(hint, err)
	}
	s.c.Seek(ctx, order.Providers)
	id, err := s.c.Jobs.Open(ctx, order)
	if err != nil {
		return Job{}, err
	}
	return s.jobNow(id), nil
}

// unsandboxed refuses to hire where no sandbox could judge the delivery.
func unsandboxed(hint string, err error) error {
	err = fmt.Errorf("a delivery could not be judged here: %w", err)
	return &refusal{error: err, status: http.StatusServiceUnavailable, code: "unsandboxed", hint: hint}
}

// order reads an order: the bundle is the body, the rest is in the query. Whatever is wrong is refused as wrong usage.
func (s *Server) order(r *http.Request) (jobs.Order, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return jobs.Order{}, wrongUsage("", fmt.Errorf("read the bundle: %w", err))
	}
	b, err := nutshell.Open(bytes.NewReader(raw), int64(len(raw)), nutshell.DefaultLimits())
	if err != nil {
		return jobs.Order{}, wrongUsage("", fmt.Errorf("not a bundle: %w", err))
	}
	q := params{Values: r.URL.Query()}
	o := jobs.Order{
		Task: cmp.Or(q.Get("task"), taskOf(b.Manifest())), Title: guild.Cut(b.Manifest().Task().Title, 200), Bundle: raw,
		Quality: jobs.QualityOf(b), Private: q.flag("private") || holdsVault(b),
		Kind: int(q.number("kind", 65535)), Tries: int(q.number("tries", maxTries)),
		Timeout: time.Duration(q.number("timeout_ms", maxTimeout.Milliseconds())) * time.Millisecond,
		Compare: q.Get("compare"), Open: q.flag("open"),
		Bid: guild.Msat(q.number("bid_msat", maxBid)), Free: q.flag("free"), Class: q.Get("class"), Urgency: q.Get("urgency"),
		Target: q.target(), Inputs: q.inputs(),
	}
	if o.Task == "" {
		return o, wrongUsage(`name one with --task, or in the bundle: "extensions": {"guild": {"task": "python"}}; guild market ls lists what is offered`,
			errors.New("which task is it?"))
	}
	if o.Kind == 0 {
		o.Kind = s.c.Kind(o.Task)
	}
	if o.Class == "" {
		o.Class = s.c.Class(o.Task)
	}
	for _, name := range q.Values["provider"] {
		key, err := s.keyNamed(name)
		q.add(err)
		o.Providers = append(o.Providers, key)
	}
	o.Hidden, err = s.hidden(q.Get("hidden"))
	q.add(err)
	o.Release, err = s.release(q.Get("release"))
	q.add(err)
	o.Criticality, err = guild.ParseCriticality(q.Get("criticality"))
	q.add(err)
	if err == nil {
		q.add(checkReplication(o))
	}
	q.add(jobs.CheckBid(o))
	q.add(typedAs(raw, o.Task, q.Get("task") != ""))
	if !utf8.ValidString(o.Task) {
		q.add(fmt.Errorf("task %q is not text", o.Task))
	}
	if !nip90.IsRequest(o.Kind) {
		q.add(fmt.Errorf("kind %d is not a job request (5000 to 5999)", o.Kind))
	}
	if q.err != nil {
		return o, wrongUsage(HintForWorth(o), q.err)
	}
	return o, nil
}

// checkReplication refuses an unknown comparer, and fewer providers than must agree. jobs refuses these too; here they
// become wrong usage.
func checkReplication(o jobs.Order) error {
	if err := jobs.CheckCompare(o.Compare); err != nil {
		return err
	}
	quorum := oa.Adjudication(o.Compare).Quorum(o.Criticality)
	if o.Tries > 0 && o.Tries < quorum {
		return fmt.Errorf("criticality %s: %d must agree, and only %d may be asked", o.Criticality, quorum, o.Tries)
	}
	if n := len(o.Providers); n > 0 && n < quorum {
		return fmt.Errorf("criticality %s: %d must agree, and only %d are named", o.Criticality, quorum, n)
	}
	return nil
}

// HintForWorth returns what helps where jobs.CheckBid refuses an order.
func HintForWorth(o jobs.Order) string {
	switch {
	case jobs.CheckBid(o) == nil:
		return ""
	case o.Free && o.Bid > 0:
		return "give one of --free and --bid"
	}
	return "without --bid and --free the bid is computed from what such jobs cost; --class and --urgency move it"
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

// taskOf returns the task that a bundle names: extensions.guild.task, else its first required skill.
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

// params reads the parameters of a query and keeps what is wrong with them in err.
type params struct {
	url.Values
	err error
}

func (q *params) add(err error) { q.err = errors.Join(q.err, err) }

func (q *params) flag(name string) bool { return q.Get(name) == "true" }

// number returns a parameter that is a number from 0 to most, and 0 when it is absent.
func (q *params) number(name string, most int64) int64 {
	text := q.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		q.add(fmt.Errorf("%s %.40q: want a number from 0 to %d", name, text, most))
		return 0
	}
	return n
}

// target returns the trust that a computed bid is meant for, 0 for any.
func (q *params) target() guild.Trust {
	text := q.Get("target")
	if text == "" {
		return 0
	}
	t, err := strconv.ParseFloat(text, 64)
	if err != nil || !(t >= 0.1 && t <= 0.9) {
		q.add(fmt.Errorf("target %.20q: want trust from 0.1 to 0.9", text))
		return 0
	}
	return guild.Trust(t*guild.Micro + 0.5)
}

// inputs returns what the job works on beside its bundle.
func (q *params) inputs() (all []fact.Input) {
	const most = 16
	if n := len(q.Values["input"]); n > most {
		q.add(fmt.Errorf("%d inputs, and %d at most", n, most))
		return nil
	}
	for _, text := range q.Values["input"] {
		var in Input
		if err := json.Unmarshal([]byte(text), &in); err != nil {
			q.add(fmt.Errorf("input %.80q: %w", text, err))
		}
		all = append(all, fact.Input(in))
	}
	return all
}
