package control

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/backup"
	"guild/internal/journal"
	"guild/internal/review"
	"guild/nipreview"
)

func (s *Server) serveReviews() {
	if s.c.Review == nil {
		return
	}
	s.mux.HandleFunc("GET /v1/reviews", s.getReviews)
	s.mux.HandleFunc("GET /v1/reviews/{key}", s.getReviewCards)
	if s.c.Jobs != nil { // a running node
		s.mux.HandleFunc("POST /v1/reviews/{key}/{act}", s.postReview)
	}
}

func (s *Server) getReviews(w http.ResponseWriter, r *http.Request) {
	answer(w, s.reviews(s.c.Review.Ours(r.URL.Query().Get("task"))))
}

func (s *Server) reviews(ours []review.Ours) []Review {
	all := []Review{}
	for _, o := range ours {
		view := Review{
			ID: shownID(o.Review), Task: o.Task, Npub: nip19.EncodeNpub(o.Service.PubKey), PubKey: o.Service.PubKey.Hex(), D: o.Service.D,
			Name: s.c.Registry.Name(o.Service), Rating: ofFive(o.Stars), State: o.State, At: o.At, Cause: o.Cause, Summary: o.Summary,
		}
		if o.Reason != "" {
			view.Cause = o.Reason
		}
		all = append(all, view)
	}
	return all
}

// getReviewCards shows what we and others say of the services of a provider.
func (s *Server) getReviewCards(w http.ResponseWriter, r *http.Request) {
	key, err := s.keyStarting(r.PathValue("key"))
	var services []guild.Service
	if err == nil {
		services, err = s.servicesNamed(key, nil)
	}
	if err != nil {
		fail(w, err)
		return
	}
	task := r.URL.Query().Get("task")
	cards := []ReviewCard{}
	for _, service := range services {
		card := ReviewCard{PubKey: key.Hex(), Npub: nip19.EncodeNpub(key), D: service.D, Name: s.c.Registry.Name(service), Ours: []Review{}, Others: []Aggregate{}}
		for _, ours := range s.reviews(s.c.Review.Ours(task)) {
			if ours.PubKey == card.PubKey && ours.D == service.D {
				card.Ours = append(card.Ours, ours)
			}
		}
		cards = append(cards, card)
	}
	tasks := []string{task}
	if task == "" {
		tasks = append(tasks, s.c.Review.Tasks(key)...)
	}
	for _, one := range tasks { // what others say is of the provider, so it is shown with its first service
		cards[0].Others = append(cards[0].Others, s.about(key, one))
	}
	answer(w, cards)
}

func (s *Server) about(key nostr.PubKey, task string) Aggregate {
	a := s.c.Review.About(key, task)
	view := Aggregate{Task: a.Task, Rating: ofFive(a.Stars), Count: a.Count, Counted: a.Counted, Weight: a.Weight.Float()}
	for _, o := range a.Reviews {
		view.Reviews = append(view.Reviews, Opinion{
			ID: o.ID.Hex(), Reviewer: nip19.EncodeNpub(o.Reviewer), Task: o.Task, Rating: ofFive(o.Stars), At: int64(o.At),
			Weight: o.Weight.Float(), Why: o.Why, Summary: guild.Cut(o.Summary, 500),
		})
	}
	return view
}

// postReview publishes, holds, resumes or retracts a review.
func (s *Server) postReview(w http.ResponseWriter, r *http.Request) {
	var how ReviewAct
	if !decode(w, r, maxWords, &how) {
		return
	}
	service, task, err := s.reviewed(r.PathValue("key"), how)
	if err == nil {
		err = s.review(r, r.PathValue("act"), service, task, how)
	}
	switch {
	case errors.Is(err, review.ErrOff):
		refuse(w, http.StatusConflict, "refused", "set publish = true in [review] of the configuration", err)
	case errors.Is(err, review.ErrHeld):
		refuse(w, http.StatusConflict, "refused", "guild review resume ends a hold", err)
	case errors.Is(err, review.ErrNothing) || errors.Is(err, review.ErrUnknown):
		refuse(w, http.StatusNotFound, "missing", "guild review ls lists your reviews", err)
	case err != nil:
		fail(w, err)
	default:
		answer(w, s.reviews(s.c.Review.OursOf(service, task)))
	}
}

// reviewed is the service and the task that are meant.
func (s *Server) reviewed(name string, how ReviewAct) (guild.Service, string, error) {
	key, err := s.keyNamed(name)
	if err != nil {
		return guild.Service{}, "", err
	}
	service, err := s.serviceNamed(key, how.D, how.Task)
	if err != nil || how.Task != "" {
		return service, how.Task, err
	}
	var tasks []string
	for _, e := range s.c.Trust.All() {
		if e.Service == service && !slices.Contains(tasks, e.Task) {
			tasks = append(tasks, e.Task)
		}
	}
	if len(tasks) != 1 {
		return service, "", &refusal{http.StatusConflict, "ambiguous", "name one with --task", fmt.Sprintf("it was judged on %d tasks", len(tasks))}
	}
	return service, tasks[0], nil
}

func (s *Server) review(r *http.Request, act string, service guild.Service, task string, how ReviewAct) error {
	ctx := r.Context()
	switch act {
	case "publish":
		return s.c.Review.Publish(ctx, service, task)
	case "hold":
		return s.c.Review.Hold(ctx, service, task, how.Reason)
	case "resume":
		return s.c.Review.Resume(ctx, service, task, how.Reason)
	case "retract":
		id, err := s.retractable(service, task, how.ID)
		if err != nil {
			return err
		}
		return s.c.Review.Retract(ctx, id, how.Reason)
	}
	return &refusal{http.StatusNotFound, "missing", "there are publish, hold, resume and retract", fmt.Sprintf("no act %.40q", act)}
}

// retractable is the review that is meant: the one named, or the latest that is public.
func (s *Server) retractable(service guild.Service, task, named string) (nostr.ID, error) {
	if named != "" {
		id, err := nostr.IDFromHex(named)
		if err != nil {
			return id, &refusal{http.StatusBadRequest, "usage", "guild review ls --json has the ids", fmt.Sprintf("%.80q is no id of an event", named)}
		}
		return id, nil
	}
	for _, o := range s.c.Review.OursOf(service, task) {
		if o.State == review.Published {
			return o.Review, nil
		}
	}
	return nostr.ID{}, review.ErrUnknown
}

func (s *Server) serveBackups() {
	if s.c.Backups != nil {
		s.mux.HandleFunc("GET /v1/backups", s.getBackups)
	}
	if s.c.Backup == nil {
		return
	}
	s.mux.HandleFunc("POST /v1/backups", s.postBackup)
	s.mux.HandleFunc("POST /v1/backups/restore", s.postRestore)
}

func (s *Server) getBackups(w http.ResponseWriter, r *http.Request) {
	all := []Backup{}
	for _, b := range s.c.Backups.List() {
		all = append(all, shownBackup(b))
	}
	answer(w, all)
}

func (s *Server) postBackup(w http.ResponseWriter, r *http.Request) {
	b, err := s.c.Backup.Now(r.Context())
	switch {
	case errors.Is(err, backup.ErrEmpty):
		refuse(w, http.StatusNotFound, "missing", "guild market bench tries a provider, and guild hire learns from each job", err)
	case errors.Is(err, backup.ErrRestoring):
		refuse(w, http.StatusConflict, "refused", "", err)
	case err != nil:
		refuse(w, http.StatusBadGateway, "unsaved", "guild status shows the relays; the configuration names the Blossom servers", err)
	default:
		answer(w, shownBackup(b))
	}
}

func (s *Server) postRestore(w http.ResponseWriter, r *http.Request) {
	var how struct {
		Force bool `json:"force"`
	}
	if !decode(w, r, maxWords, &how) {
		return
	}
	report, read, err := s.c.RestoreBackup(r.Context(), how.Force)
	switch {
	case errors.Is(err, backup.ErrNotEmpty):
		refuse(w, http.StatusConflict, "refused", "--force lets the backup win", err)
	case errors.Is(err, backup.ErrNewer) || errors.Is(err, backup.ErrRestoring):
		refuse(w, http.StatusConflict, "refused", "", err)
	case errors.Is(err, backup.ErrNone) || errors.Is(err, backup.ErrGone):
		refuse(w, http.StatusNotFound, "missing", "name the relays and Blossom servers of the lost node in the configuration", err)
	case err != nil:
		refuse(w, http.StatusBadGateway, "unrestored", journal.Hint(err), err)
	default:
		answer(w, Restored{Backup: report.Backup, Made: report.Made, Matrix: report.Matrix.String(), Services: report.Services,
			Unclaimed: report.Unclaimed, Messages: read, Exact: report.Exact})
	}
}

func shownBackup(b backup.Backup) Backup {
	view := Backup{ID: b.ID, At: b.Made, Matrix: b.Matrix.String(), Through: b.Through, Size: b.Size, URLs: b.URLs, Cause: b.Cause,
		State: "made", Reason: b.Failed}
	switch {
	case b.Sent > 0:
		view.State = "sent"
	case b.Failed != "":
		view.State = "failed"
	}
	return view
}

// ofFive is a rating as a number of stars.
func ofFive(s nipreview.Stars) float64 { return float64(s) / guild.Micro }
