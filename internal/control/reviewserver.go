package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal"
	"guild/internal/step/backup"
	"guild/internal/step/review"
	"guild/nipreview"
)

func (s *Server) getReviews(r *http.Request) ([]Review, error) {
	return s.reviews(s.c.Review.Ours(r.URL.Query().Get("task"))), nil
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

// getReviewCards returns our reviews and those of others of a provider's services.
func (s *Server) getReviewCards(r *http.Request) ([]ReviewCard, error) {
	key, err := s.keyStarting(r.PathValue("key"))
	var services []guild.Service
	if err == nil {
		services, err = s.servicesNamed(key, nil)
	}
	if err != nil {
		return nil, err
	}
	task := r.URL.Query().Get("task")
	cards := []ReviewCard{}
	for _, service := range services {
		card := ReviewCard{PubKey: key.Hex(), Npub: nip19.EncodeNpub(key), D: service.D, Name: s.c.Registry.Name(service), Ours: []Review{}, Others: []Aggregate{}}
		if s.c.Agents != nil {
			card.Owners = s.c.Agents.Ownership(key)
		}
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
	for _, one := range tasks { // reviews of others are about the provider, so they are shown with its first service
		cards[0].Others = append(cards[0].Others, s.about(key, one))
	}
	return cards, nil
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
func (s *Server) postReview(r *http.Request, how ReviewAct) ([]Review, error) {
	service, task, err := s.reviewed(r.PathValue("key"), how)
	if err == nil {
		err = s.review(r.Context(), r.PathValue("act"), service, task, how)
	}
	switch {
	case err == nil:
		return s.reviews(s.c.Review.OursOf(service, task)), nil
	case errors.Is(err, review.ErrOff):
		return nil, refused("set publish = true in [review] of the configuration", err)
	case errors.Is(err, review.ErrHeld):
		return nil, refused("guild review resume ends a hold", err)
	case errors.Is(err, review.ErrNothing) || errors.Is(err, review.ErrUnknown):
		return nil, missing("guild review ls lists your reviews", err)
	}
	return nil, err
}

// reviewed returns the service and the task that a request names.
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
		return service, "", ambiguous("name one with --task", fmt.Errorf("it was judged on %d tasks", len(tasks)))
	}
	return service, tasks[0], nil
}

func (s *Server) review(ctx context.Context, act string, service guild.Service, task string, how ReviewAct) error {
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
	return missing("there are publish, hold, resume and retract", fmt.Errorf("no act %.40q", act))
}

// retractable returns the review to retract: the named one, or the latest public one.
func (s *Server) retractable(service guild.Service, task, named string) (nostr.ID, error) {
	if named != "" {
		id, err := nostr.IDFromHex(named)
		if err != nil {
			return id, wrongUsage("guild review ls --json has the ids", fmt.Errorf("%.80q is not an event id", named))
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

func (s *Server) getBackups(*http.Request) ([]Backup, error) {
	all := []Backup{}
	for _, b := range s.c.Backups.List() {
		all = append(all, shownBackup(b))
	}
	return all, nil
}

func (s *Server) postBackup(r *http.Request) (Backup, error) {
	b, err := s.c.Backup.Now(r.Context())
	switch {
	case err == nil:
		return shownBackup(b), nil
	case errors.Is(err, backup.ErrEmpty):
		return Backup{}, missing("guild market bench tries a provider, and guild hire learns from each job", err)
	case errors.Is(err, backup.ErrRestoring):
		return Backup{}, refused("", err)
	}
	hint := "guild status shows the relays; the configuration names the Blossom servers"
	return Backup{}, &refusal{error: err, status: http.StatusBadGateway, code: "unsaved", hint: hint}
}

func (s *Server) postRestore(r *http.Request, how Restore) (Restored, error) {
	report, read, err := s.c.RestoreBackup(r.Context(), how.Force)
	switch {
	case err == nil:
		return Restored{Backup: report.Backup, Made: report.Made, Matrix: report.Matrix.String(), Services: report.Services,
			Unclaimed: report.Unclaimed, Messages: read, Exact: report.Exact}, nil
	case errors.Is(err, backup.ErrNotEmpty):
		return Restored{}, refused("--force lets the backup win", err)
	case errors.Is(err, backup.ErrNewer) || errors.Is(err, backup.ErrRestoring):
		return Restored{}, refused("", err)
	case errors.Is(err, backup.ErrNone) || errors.Is(err, backup.ErrGone):
		return Restored{}, missing("name the relays and Blossom servers of the lost node in the configuration", err)
	}
	return Restored{}, &refusal{error: err, status: http.StatusBadGateway, code: "unrestored", hint: journal.Hint(err)}
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

// ofFive returns a rating as a number of stars.
func ofFive(s nipreview.Stars) float64 { return float64(s) / guild.Micro }
