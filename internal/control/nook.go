package control

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild/internal/step/activity"
	"guild/nook"
)

// maxHistory is the largest history that can be imported, in bytes.
const maxHistory = 64 << 20

// Nook describes a root identity.
type Nook struct {
	Root    string       `json:"root"`
	Own     bool         `json:"own"`    // it is this node's own
	Proven  bool         `json:"proven"` // it is a key: this node's, or one that has claimed its agents
	Roots   []string     `json:"roots"`  // all that have activity here
	Profile nook.Profile `json:"profile"`
}

// root returns the root identity that a request names, which has activity if it is not the node's own.
func (s *Server) root(r *http.Request) (string, error) {
	name := r.URL.Query().Get("root")
	root, err := s.c.Activity.Root(name)
	if err != nil {
		return "", nookProblem(err)
	}
	if root != activity.Own && !slices.Contains(s.c.Activity.Roots(), root) {
		return "", missing("guild nook status --json lists the roots", fmt.Errorf("no activity of %.80q", name))
	}
	return root, nil
}

func (s *Server) getNook(r *http.Request) (Nook, error) {
	root, err := s.root(r)
	if err != nil {
		return Nook{}, err
	}
	return Nook{Root: s.c.Activity.Name(root), Own: root == activity.Own, Proven: activity.IsProven(root), Roots: s.c.Activity.Roots(), Profile: s.c.Activity.Profile(root)}, nil
}

// getNookLog lists the latest events, the newest last.
func (s *Server) getNookLog(r *http.Request) ([]activity.Line, error) {
	q := params{Values: r.URL.Query()}
	most := int(q.number("most", 32))
	if q.err != nil || most < 0 {
		return nil, wrongUsage("", cmp.Or(q.err, errors.New("most: want at least 0")))
	}
	root, err := s.root(r)
	if err != nil {
		return nil, err
	}
	lines, err := s.c.Activity.Lines(r.Context(), root)
	if most > 0 {
		lines = lines[max(0, len(lines)-most):]
	}
	return lines, err
}

// getNookEvent returns the event with an id, or the only one whose id begins so.
func (s *Server) getNookEvent(r *http.Request) (activity.Line, error) {
	root, err := s.root(r)
	if err != nil {
		return activity.Line{}, err
	}
	lines, err := s.c.Activity.Lines(r.Context(), root)
	if err != nil {
		return activity.Line{}, err
	}
	id := r.PathValue("id")
	found := slices.DeleteFunc(lines, func(l activity.Line) bool { return !strings.HasPrefix(l.Event.ID, id) })
	if i := slices.IndexFunc(found, func(l activity.Line) bool { return l.Event.ID == id }); i >= 0 {
		return found[i], nil
	}
	switch len(found) {
	case 0:
		return activity.Line{}, missing("guild nook log lists the events", fmt.Errorf("no event %.80q", id))
	case 1:
		return found[0], nil
	}
	return activity.Line{}, ambiguous("give more of the id", fmt.Errorf("%d events begin with %.80q", len(found), id))
}

func (s *Server) postNookEvents(r *http.Request, raw []nook.Event) (activity.Counted, error) {
	root, err := s.c.Activity.Root(r.URL.Query().Get("root"))
	for i := range raw {
		err = cmp.Or(err, raw[i].Check())
	}
	if err != nil {
		return activity.Counted{}, nookProblem(err)
	}
	done, err := s.c.Activity.Report(r.Context(), root, raw)
	return done, nookProblem(err)
}

// postNookClaims records events by which a key and its agents name each other.
func (s *Server) postNookClaims(r *http.Request, claims []nostr.Event) (activity.Counted, error) {
	done, err := s.c.Activity.Claim(r.Context(), claims)
	return done, nookProblem(err)
}

func (s *Server) postEvolve(r *http.Request, choice string) (Nook, error) {
	root, err := s.root(r)
	if err == nil {
		err = s.c.Activity.Evolve(r.Context(), root, choice)
	}
	if err != nil {
		return Nook{}, nookProblem(err)
	}
	return s.getNook(r)
}

// postNookHistory imports the events of an events.json.
func (s *Server) postNookHistory(r *http.Request, file json.RawMessage) (Nook, error) {
	log, err := nook.DecodeEvents(file)
	if err != nil {
		return Nook{}, wrongUsage("guild nook export writes such a file", err)
	}
	root, err := s.c.Activity.Root(r.URL.Query().Get("root"))
	var history []nook.Event
	for _, l := range log {
		history = append(history, l.Event)
	}
	if err == nil {
		err = s.c.Activity.Import(r.Context(), root, history)
	}
	if err != nil {
		return Nook{}, nookProblem(err)
	}
	return s.getNook(r)
}

func (s *Server) getNookExports(r *http.Request) (map[string]string, error) {
	root, err := s.root(r)
	if err != nil {
		return nil, err
	}
	files, err := s.c.Activity.Exports(r.Context(), root)
	texts := map[string]string{}
	for name, b := range files {
		texts[name] = string(b)
	}
	return texts, err
}

// nookProblem makes an error of a report a refusal where its sender can do something about it.
func nookProblem(err error) error {
	hint := activity.Advice(err)
	switch {
	case errors.Is(err, nook.ErrHistory):
		return refused("a history is imported once, before any other activity", err)
	case errors.Is(err, nook.ErrChoice):
		return refused("guild nook status shows the stage, and what it can become", err)
	case hint != "":
		return wrongUsage(hint, err)
	}
	return err
}
