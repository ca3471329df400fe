package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/judging/suite"
	"guild/internal/step/meet"
)

// Bench is the body of POST /v1/meetings: a provider that is to be met now, outside of the daily budget. The answer is
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
	To      guild.ProviderState `json:"to,omitempty"`          // its result; "" while it goes on, and if nothing was learned
	Score   *float64            `json:"score,omitempty"`       // Micro in decimal form, deprecated
	Micro   *guild.Score        `json:"score_micro,omitempty"` // the median, once something was learned
	Cause   string              `json:"cause,omitempty"`
	Runs    []MeetingRun        `json:"runs"`
}

// MeetingRun is one benchmark of a meeting.
type MeetingRun struct {
	Job     string        `json:"job"`
	Opened  int64         `json:"opened"` // Unix ms
	Closed  int64         `json:"closed,omitempty"`
	Outcome guild.Outcome `json:"outcome,omitempty"` // "" without a verdict
	Score   *float64      `json:"score,omitempty"`   // Micro in decimal form, deprecated
	Micro   *guild.Score  `json:"score_micro,omitempty"`
	Cause   string        `json:"cause,omitempty"` // why it was no success
}

func (s *Server) postMeeting(w http.ResponseWriter, r *http.Request) {
	var began Meeting
	asked, err := decode[Bench](w, r, maxWords)
	if err == nil {
		began, err = s.beginMeeting(r.Context(), asked)
	}
	if err == nil {
		w.Header().Set("Location", "/v1/meetings/"+began.ID)
	}
	answer(w, began, err)
}

func (s *Server) beginMeeting(ctx context.Context, asked Bench) (Meeting, error) {
	key, err := s.keyNamed(asked.Provider)
	if err != nil {
		return Meeting{}, err
	}
	if _, _, err := suite.Check(cmp.Or(asked.Task, suite.Tasks()[0]), asked.Type, asked.Modules); err != nil {
		return Meeting{}, meetingProblem(err)
	}
	if err := s.c.Sandbox(ctx); err != nil {
		return Meeting{}, unsandboxed("guild judge doctor says what is missing", err)
	}
	service, task, err := s.c.Meet.Find(key, asked.D, asked.Task)
	if errors.Is(err, meet.ErrUnoffered) {
		err = s.unoffered(key, asked, err)
	}
	if err != nil {
		return Meeting{}, meetingProblem(err)
	}
	id, err := s.c.Meet.Begin(ctx, service, task, asked.Type, asked.Modules)
	if err != nil {
		return Meeting{}, meetingProblem(err)
	}
	m, _ := s.c.Meetings.Meeting(id)
	return s.meeting(m), nil
}

// unoffered returns the error for a benchmark of a task that the provider does not offer. It lists those that it offers.
func (s *Server) unoffered(key nostr.PubKey, asked Bench, err error) error {
	var tasks []string
	for _, o := range s.c.Registry.OffersOf(key, "", 0) {
		if asked.D == nil || o.Service.D == *asked.D {
			tasks = append(tasks, o.Tasks...)
		}
	}
	slices.Sort(tasks)
	offers := guild.Cut(strings.Join(slices.Compact(tasks), ", "), 200)
	name := shortNpub(key)
	switch {
	case offers == "":
		return fmt.Errorf("%s: %w", name, meet.ErrUnoffered)
	case asked.Task == "":
		return fmt.Errorf("%s offers only tasks without a benchmark, %s: %w", name, offers, meet.ErrUnoffered)
	default:
		return fmt.Errorf("%w; it offers %s", err, offers)
	}
}

func meetingProblem(err error) error {
	switch {
	case errors.Is(err, suite.ErrUnknown):
		return wrongUsage("", err)
	case errors.Is(err, meet.ErrSelf):
		return wrongUsage("nobody learns anything from trying itself", err)
	case errors.Is(err, meet.ErrUnoffered):
		return missing("guild market ls lists who offers what; a benchmark that --task names is sent all the same: "+strings.Join(suite.Tasks(), ", "), err)
	case errors.Is(err, meet.ErrRemoved):
		return refused("guild trust history tells why; guild trust set --state allowed makes it a stranger again", err)
	}
	return err
}

func (s *Server) getMeetings(*http.Request) ([]Meeting, error) {
	views := []Meeting{}
	for _, m := range s.c.Meetings.All() {
		views = append(views, s.meeting(m))
	}
	return views, nil
}

func (s *Server) getMeeting(r *http.Request) (Meeting, error) {
	id := r.PathValue("id")
	var found []*meet.Meeting
	for _, m := range s.c.Meetings.All() {
		if strings.HasPrefix(m.Meeting, id) {
			found = append(found, m)
		}
	}
	switch len(found) {
	case 1:
		return s.meeting(found[0]), nil
	case 0:
		return Meeting{}, missing("guild market bench --ls lists them", fmt.Errorf("no meeting %.80q", id))
	}
	return Meeting{}, ambiguous("give more digits", fmt.Errorf("%d meetings begin with %.80q", len(found), id))
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
			run.Score, run.Micro = scoreOf(r.Score), &r.Score
		}
		v.Runs = append(v.Runs, run)
	}
	if m.Ended != nil {
		v.Ended, v.To, v.Cause = m.Until, m.Ended.To, m.Ended.Cause
		if m.Ended.To != "" {
			v.Score, v.Micro = scoreOf(m.Ended.Score), &m.Ended.Score
		}
	}
	return v
}

func scoreOf(s guild.Score) *float64 {
	f := float64(s) / guild.Micro
	return &f
}
