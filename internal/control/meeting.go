package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/meet"
	"guild/internal/suite"
)

// Bench is what POST /v1/meetings takes: a provider that is to be met now, outside of the daily budget. The answer is
// the Meeting; one that goes on already with the same service for the same task is answered as it is.
type Bench struct {
	Provider string   `json:"provider"`          // npub or hex
	D        *string  `json:"d,omitempty"`       // of its service; the one that surest does the task when absent
	Task     string   `json:"task,omitempty"`    // any that it offers and there are benchmarks for when ""
	Type     string   `json:"type,omitempty"`    // standard, stress or correctness; standard when ""
	Modules  []string `json:"modules,omitempty"` // computation, memory, io; all when absent
}

// Meeting is one meeting with a provider: GET /v1/meetings lists them, the newest first, and GET /v1/meetings/{id}
// shows one; an unambiguous prefix of the id will do.
type Meeting struct {
	ID      string              `json:"id"`
	Npub    string              `json:"npub"`
	PubKey  string              `json:"pubkey"`
	D       string              `json:"d"`
	Name    string              `json:"name,omitempty"`
	Task    string              `json:"task"`
	Suite   string              `json:"suite"`
	Type    string              `json:"type"`
	Modules []string            `json:"modules"`
	Bid     int64               `json:"bid_msat"` // of one run
	Asked   bool                `json:"asked"`    // by a person
	Began   int64               `json:"began"`    // Unix ms
	Ended   int64               `json:"ended,omitempty"`
	To      guild.ProviderState `json:"to,omitempty"`    // what it came to; "" while it goes on, and when nothing was learned
	Score   *float64            `json:"score,omitempty"` // the median, once something was learned
	Cause   string              `json:"cause,omitempty"`
	Runs    []MeetingRun        `json:"runs"`
}

// MeetingRun is one benchmark of a meeting.
type MeetingRun struct {
	Job     string        `json:"job"`
	Opened  int64         `json:"opened"` // Unix ms
	Closed  int64         `json:"closed,omitempty"`
	Outcome guild.Outcome `json:"outcome,omitempty"` // "" without a verdict
	Score   *float64      `json:"score,omitempty"`
	Cause   string        `json:"cause,omitempty"` // why it was no success
}

// serveMeetings adds the routes of meetings.
func (s *Server) serveMeetings() {
	if s.c.Meet != nil {
		s.mux.HandleFunc("POST /v1/meetings", s.postMeeting)
	}
	s.mux.HandleFunc("GET /v1/meetings", s.getMeetings)
	s.mux.HandleFunc("GET /v1/meetings/{id}", s.getMeeting)
}

func (s *Server) postMeeting(w http.ResponseWriter, r *http.Request) {
	var asked Bench
	if !decode(w, r, maxWords, &asked) {
		return
	}
	key, err := s.keyNamed(asked.Provider)
	if err != nil {
		fail(w, err)
		return
	}
	if _, _, err := suite.Check(cmp.Or(asked.Task, suite.Tasks()[0]), asked.Type, asked.Modules); err != nil {
		refuseMeeting(w, err)
		return
	}
	if err := s.c.Sandbox(r.Context()); err != nil {
		refuse(w, http.StatusServiceUnavailable, "unsandboxed", "guild judge doctor says what is missing", fmt.Errorf("a delivery could not be judged here: %w", err))
		return
	}
	service, task, err := s.c.Meet.Find(key, asked.D, asked.Task)
	if errors.Is(err, meet.ErrUnoffered) {
		err = s.unoffered(key, asked, err)
	}
	if err != nil {
		refuseMeeting(w, err)
		return
	}
	id, err := s.c.Meet.Begin(r.Context(), service, task, asked.Type, asked.Modules)
	if err != nil {
		refuseMeeting(w, err)
		return
	}
	m, _ := s.c.Meetings.Meeting(id)
	w.Header().Set("Location", "/v1/meetings/"+id)
	answer(w, s.meeting(m))
}

// unoffered says what a provider offers instead of what it was to be tried with.
func (s *Server) unoffered(key nostr.PubKey, asked Bench, err error) error {
	var tasks []string
	for _, o := range s.c.Registry.Offers("", 0) {
		if o.Service.PubKey == key && (asked.D == nil || o.Service.D == *asked.D) {
			tasks = append(tasks, o.Tasks...)
		}
	}
	slices.Sort(tasks)
	offers := guild.Cut(strings.Join(slices.Compact(tasks), ", "), 200)
	switch name := shortNpub(key); {
	case offers == "":
		return fmt.Errorf("%s: %w", name, meet.ErrUnoffered)
	case asked.Task == "":
		return fmt.Errorf("%s offers %s, and there is a benchmark for none of these: %w", name, offers, meet.ErrUnoffered)
	default:
		return fmt.Errorf("%w; it offers %s", err, offers)
	}
}

func refuseMeeting(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, suite.ErrUnknown):
		refuse(w, http.StatusBadRequest, "usage", "", err)
	case errors.Is(err, meet.ErrSelf):
		refuse(w, http.StatusBadRequest, "usage", "nobody learns anything from trying itself", err)
	case errors.Is(err, meet.ErrUnoffered):
		refuse(w, http.StatusNotFound, "missing", "guild market ls lists who offers what; there are benchmarks for "+strings.Join(suite.Tasks(), ", "), err)
	case errors.Is(err, meet.ErrRemoved):
		refuse(w, http.StatusConflict, "refused", "guild trust history tells why; guild trust set --state allowed makes it a stranger again", err)
	default:
		fail(w, err)
	}
}

func (s *Server) getMeetings(w http.ResponseWriter, _ *http.Request) {
	views := []Meeting{}
	for _, m := range s.c.Meetings.All() {
		views = append(views, s.meeting(m))
	}
	answer(w, views)
}

func (s *Server) getMeeting(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	var found []*meet.Meeting
	for _, m := range s.c.Meetings.All() {
		if strings.HasPrefix(m.Meeting, id) {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		answer(w, s.meeting(found[0]))
	case 0:
		refuse(w, http.StatusNotFound, "missing", "guild market bench --ls lists them", fmt.Errorf("no meeting %.80q", id))
	default:
		refuse(w, http.StatusConflict, "ambiguous", "give more digits", fmt.Errorf("%d meetings begin with %.80q", len(found), id))
	}
}

// meeting shows a meeting.
func (s *Server) meeting(m *meet.Meeting) Meeting {
	v := Meeting{
		ID: m.Meeting, Npub: nip19.EncodeNpub(m.Service.PubKey), PubKey: m.Service.PubKey.Hex(), D: m.Service.D, Name: s.c.Registry.Name(m.Service),
		Task: m.Task, Suite: m.Suite, Type: m.Variant, Modules: m.Modules, Bid: int64(m.Bid), Asked: m.Asked, Began: m.At,
		Runs: []MeetingRun{},
	}
	for _, r := range m.Runs {
		run := MeetingRun{Job: r.Job.String(), Opened: r.Opened, Closed: r.Closed, Outcome: r.Outcome, Cause: r.Cause}
		if r.Outcome != "" {
			run.Score = scoreOf(r.Score)
		}
		v.Runs = append(v.Runs, run)
	}
	if m.Ended != nil {
		v.Ended, v.To, v.Cause = m.Until, m.Ended.To, m.Ended.Cause
		if m.Ended.To != "" {
			v.Score = scoreOf(m.Ended.Score)
		}
	}
	return v
}

func scoreOf(s guild.Score) *float64 {
	f := float64(s) / guild.Micro
	return &f
}

// Bench is POST /v1/meetings.
func (c *Client) Bench(ctx context.Context, b Bench) (Meeting, error) {
	return post[Meeting](ctx, c, "/v1/meetings", b)
}

// Meetings is GET /v1/meetings: all meetings, the newest first.
func (c *Client) Meetings(ctx context.Context) ([]Meeting, error) {
	return get[[]Meeting](ctx, c, "/v1/meetings", nil)
}

// Meeting is GET /v1/meetings/{id}. An unambiguous prefix of the id will do.
func (c *Client) Meeting(ctx context.Context, prefix string) (Meeting, error) {
	return get[Meeting](ctx, c, "/v1/meetings/"+url.PathEscape(prefix), nil)
}
