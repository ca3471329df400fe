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
	"slices"
	"strconv"
	"time"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/judging/sandbox"
	"guild/internal/step/jobs"
	"guild/internal/wallet"
	"guild/nutshell"
)

// maxBundle is the largest packed bundle that is taken, in bytes.
const maxBundle = 64 << 20

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
	// Nothing is looked up at relays for an order that is refused anyway.
	if faults := order.Check(); len(faults) > 0 {
		return Job{}, wrongUsage(HintFor(faults), faults)
	}
	if order.Settle != nil && order.Settle.Arbiter != nil {
		arbiter, err := s.c.Pay.Arbiter(ctx, order.Settle.Arbiter.PubKey)
		if err != nil {
			return Job{}, wrongUsage("the judge's owner runs guild wallet judge announce, at a relay that you share", err)
		}
		settle := *order.Settle
		settle.Arbiter, order.Settle = &arbiter, &settle
	}
	if err := s.payable(order.Settle); err != nil {
		return Job{}, err
	}
	if err := s.c.Sandbox(ctx); err != nil {
		hint := ""
		if unusable, ok := errors.AsType[*sandbox.UnusableError](err); ok {
			hint = unusable.Remedy
		}
		return Job{}, unsandboxed(hint, err)
	}
	if err := s.c.Judgeable(ctx, order.Bundle); err != nil {
		return Job{}, wrongUsage("docs/CRITERIA.md has each kind of criterion with an example; guild nut check says what a bundle lacks",
			fmt.Errorf("a delivery could not be judged: %w", err))
	}
	s.c.Seek(ctx, order.Providers)
	id, err := s.c.Jobs.Open(ctx, order)
	if faults, ok := errors.AsType[jobs.Faults](err); ok {
		return Job{}, wrongUsage(HintFor(faults), faults)
	}
	if err != nil {
		return Job{}, err
	}
	return s.jobNow(id), nil
}

// getProspect says who could be asked for a task, and for how much.
func (s *Server) getProspect(r *http.Request) (Prospect, error) {
	q := params{Values: r.URL.Query()}
	o := jobs.Order{Task: q.Get("task"), Urgency: q.Get("urgency")}
	if q.Get("target") != "0" {
		o.Target = q.target()
	}
	if q.err != nil {
		return Prospect{}, wrongUsage("", q.err)
	}
	o.Kind = s.c.Kind(o.Task)
	services, most := s.c.Jobs.Prospect(o)
	p := Prospect{Task: o.Task, Providers: len(services), Names: []string{}, Most: int64(most)}
	for _, service := range services[:min(len(services), mostNames)] {
		p.Names = append(p.Names, s.who(service))
	}
	return p, nil
}

// mostNames limits the names of a Prospect.
const mostNames = 20

// HintFor returns a hint for faults of an order, or "".
func HintFor(faults jobs.Faults) string {
	for _, f := range faults {
		switch f.Field {
		case "free":
			return "give one of --free and --bid"
		case "bid", "class", "urgency", "target":
			return "without --bid and --free the bid is computed from what such jobs cost; --class and --urgency move it"
		}
	}
	return ""
}

// unsandboxed refuses to hire where no sandbox could judge the delivery.
func unsandboxed(hint string, err error) error {
	err = fmt.Errorf("a delivery could not be judged here: %w", err)
	return &refusal{error: err, status: http.StatusServiceUnavailable, code: "unsandboxed", hint: hint}
}

// orderParams are the parameters of an order, as Hire.query writes them. A misspelt one is refused: without it the job could
// cost more, or be shown to more people, than was wanted.
var orderParams = []string{
	"task", "provider", "timeout_ms", "bid_msat", "tries", "private", "id", "kind", "hidden", "release", "criticality", "compare",
	"open", "free", "class", "urgency", "target", "most_msat", "input", "nudge", "settle",
}

// order reads an order: the bundle is the body, the rest is in the query. It fails with wrong usage if something cannot
// be read or found. Whether the order makes sense is for jobs to say, when it is opened.
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
	for name := range q.Values {
		if !slices.Contains(orderParams, name) {
			return jobs.Order{}, wrongUsage("docs/API.md lists them", fmt.Errorf("no such parameter: %.40q", name))
		}
	}
	o := jobs.Order{
		Task: cmp.Or(q.Get("task"), taskOf(b.Manifest())), Title: guild.Cut(b.Manifest().Task().Title, 200), Bundle: raw,
		Quality: jobs.QualityOf(b), Private: q.flag("private") || holdsVault(b),
		Kind: int(q.number("kind", 32)), Tries: int(q.number("tries", 32)),
		Timeout:     time.Duration(q.number("timeout_ms", 43)) * time.Millisecond, // with more bits it could overflow
		Criticality: cmp.Or(guild.Criticality(q.Get("criticality")), guild.Low),
		Compare:     q.Get("compare"), Open: q.flag("open"),
		Bid: guild.Msat(q.number("bid_msat", 64)), Free: q.flag("free"), Class: q.Get("class"), Urgency: q.Get("urgency"),
		Target: q.target(), Most: guild.Msat(q.number("most_msat", 64)), Inputs: q.inputs(), Settle: q.settlement(),
	}
	for _, name := range q.Values["nudge"] {
		id, err := s.c.Agents.NudgeNamed(name)
		if err != nil {
			return o, wrongUsage("guild agent nudge ls", err)
		}
		o.Nudges = append(o.Nudges, id)
	}
	if id := q.Get("id"); id != "" {
		if o.ID, err = guild.ParseJobID(id); err != nil {
			return o, wrongUsage("an id is 32 hex digits", err)
		}
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
	if q.err != nil {
		return o, wrongUsage("", q.err)
	}
	return o, nil
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

// params reads the parameters of a query and collects errors in err.
type params struct {
	url.Values
	err error
}

func (q *params) add(err error) { q.err = errors.Join(q.err, err) }

func (q *params) flag(name string) bool { return q.Get(name) == "true" }

// number returns a parameter that is a whole number of at most so many bits, and 0 if it is absent.
func (q *params) number(name string, bits int) int64 {
	text := q.Get(name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		q.add(fmt.Errorf("%s %.40q: want a whole number", name, text))
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
	if err != nil || !(t >= 0.1 && t <= 0.9) { // NaN is neither
		q.add(fmt.Errorf("target %.20q: want trust from 0.1 to 0.9", text))
		return 0
	}
	return guild.Trust(t*guild.Micro + 0.5)
}

// settlement returns how providers are paid, or nil.
func (q *params) settlement() *fact.Settlement {
	text := q.Get("settle")
	if text == "" {
		return nil
	}
	var s fact.Settlement
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		q.add(fmt.Errorf("settle %.80q: %w", text, err))
	}
	return &s
}

// inputs returns the inputs beside the bundle.
func (q *params) inputs() (all []fact.Input) {
	for _, text := range q.Values["input"] {
		var in Input
		if err := json.Unmarshal([]byte(text), &in); err != nil {
			q.add(fmt.Errorf("input %.80q: %w", text, err))
		}
		all = append(all, fact.Input(in))
	}
	return all
}

// payable returns why nothing in this wallet pays as an order says, or nil. Its providers would be asked in vain.
func (s *Server) payable(o *fact.Settlement) error {
	if o == nil {
		return nil
	}
	ecash := slices.ContainsFunc(s.c.Wallet.Fold().Mints(), func(a wallet.Asset) bool { return a.Unit == o.Unit })
	overLightning := o.InBitcoin() && s.c.Lightning.Wallet() != nil
	hint := "guild wallet add mint URL --unit " + o.Unit
	switch {
	case o.How == jobs.Onchain && s.c.Bitcoin.Wallet() == nil:
		return refused("guild wallet add bitcoind --help", errors.New("--settle onchain: no Bitcoin wallet is connected"))
	case o.How == jobs.Onchain:
	case o.How == jobs.Postpaid && !overLightning:
		return refused("guild wallet add nwc --help, or lnd", errors.New("--settle postpaid: no Lightning wallet is connected"))
	case ecash || overLightning:
	case o.InBitcoin():
		return refused(hint+", or guild wallet add nwc --help", fmt.Errorf("--settle %s: no mint of the wallet has %s, and no Lightning wallet is connected", o.How, o.Unit))
	default:
		return refused(hint, fmt.Errorf("--bid in %.20q: no mint of the wallet has this unit", o.Unit))
	}
	return nil
}
