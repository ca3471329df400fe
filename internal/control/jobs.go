package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/step/jobs"
)

func (s *Server) getJobs(*http.Request) ([]Job, error) {
	views := []Job{}
	for _, j := range s.c.Fold.All() {
		view := s.job(j)
		view.Waits = s.waits(j)
		views = append(views, view)
	}
	return views, nil
}

// find returns the job that the path names by its id or the beginning of it.
func (s *Server) find(r *http.Request) (*jobs.Job, error) {
	prefix := strings.ToLower(r.PathValue("id"))
	var found []*jobs.Job
	for _, j := range s.c.Fold.All() {
		if strings.HasPrefix(j.Job.String(), prefix) {
			found = append(found, j)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 || prefix == "":
		return nil, missing("guild job ls lists the jobs", fmt.Errorf("no job %.40q", prefix))
	}
	return nil, ambiguous("give more digits", fmt.Errorf("%d jobs begin with %q", len(found), prefix))
}

func (s *Server) getJob(r *http.Request) (Job, error) {
	j, err := s.find(r)
	if err != nil {
		return Job{}, err
	}
	view := s.job(j)
	view.Waits = s.waits(j)
	return view, nil
}

// waits returns why nothing happens for an open job. It returns "" if something does, if only providers are awaited, and for the
// jobs of a journal without a running node.
func (s *Server) waits(j *jobs.Job) string {
	if s.c.Jobs == nil || j.Ending != guild.Open || slices.ContainsFunc(j.Attempts, func(a jobs.Attempt) bool { return a.State == guild.Delivered }) {
		return ""
	}
	return cmp.Or(s.c.Offline(), s.c.Jobs.Waits(j.Job))
}

func (s *Server) cancelJob(r *http.Request) (Job, error) {
	j, err := s.find(r)
	if err != nil {
		return Job{}, err
	}
	err = s.c.Jobs.Cancel(r.Context(), j.Job)
	return s.jobNow(j.Job), err
}

// jobNow shows a job that exists as it is by now.
func (s *Server) jobNow(id guild.JobID) Job {
	j, _ := s.c.Fold.Job(id)
	return s.job(j)
}

// watchJob tells a job from its first fact to its end, a line for each thing.
func (s *Server) watchJob(w http.ResponseWriter, r *http.Request) {
	j, err := s.find(r)
	if err != nil {
		fail(w, err)
		return
	}
	lines := newStream(w)
	if s.archived(r.Context(), j) {
		lines.out.Encode(s.end(j, fact.Entry{Seq: s.last(j), At: j.Closed}))
		return
	}
	var writing sync.Mutex
	stop := s.tellPassing(r.Context(), j.Job, lines, &writing)
	defer stop()
	for e, err := range s.c.Journal.Watch(r.Context(), j.Seq) {
		if err != nil {
			stop()
			lines.fail(err)
		}
		if !s.concerns(e, j.Job) {
			continue
		}
		now, _ := s.c.Fold.Job(j.Job)
		over := s.settled(now) && e.Seq >= s.last(now) // so that a late watcher hears all of it
		if over {                                      // an entry that is being applied may have reached the money, and not the job yet
			s.c.Journal.Applied()
			latest, _ := s.c.Fold.Job(j.Job)
			over = s.last(latest) == s.last(now)
		}
		if over {
			stop() // the end is the last line
		}
		writing.Lock()
		for _, u := range s.updates(e, j) {
			lines.out.Encode(u)
		}
		if over {
			lines.out.Encode(s.end(now, e))
		}
		lines.flush.Flush()
		writing.Unlock()
		if over {
			return
		}
	}
}

// tellPassing writes, each second that it changes, what the judge does with the deliveries of a job, and why the job waits. It
// ends when stop is called, which waits for a line that is being written. writing is held while something is written.
func (s *Server) tellPassing(ctx context.Context, id guild.JobID, lines stream, writing *sync.Mutex) (stop func()) {
	if s.c.Judge == nil || s.c.Jobs == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var gone sync.WaitGroup
	gone.Go(func() {
		told := map[nostr.ID]string{} // the zero id is for the job
		tell := func(about nostr.ID, u Update) {
			if u.Text == told[about] {
				return
			}
			told[about] = u.Text
			if u.Text == "" && u.Event != waitingEvent {
				return
			}
			u.At, u.Job, u.State = s.c.Now().UnixMilli(), id.String(), "progress"
			writing.Lock()
			defer writing.Unlock()
			lines.out.Encode(u)
			lines.flush.Flush()
		}
		for tick := time.Tick(time.Second); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick:
			}
			j, _ := s.c.Fold.Job(id)
			tell(nostr.ZeroID, Update{Step: "discover", Event: waitingEvent, Text: s.waits(j)})
			for _, a := range j.Attempts {
				tell(a.ID, Update{Step: "judge", Event: judgingEvent, Text: s.c.Judge.Doing(a.ID), Attempt: a.ID.Hex(),
					Provider: nip19.EncodeNpub(a.Provider.PubKey), Name: s.c.Registry.Name(a.Provider)})
			}
		}
	})
	return func() { cancel(); gone.Wait() }
}

// end returns the last update of a job.
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

// last returns the latest entry about a job.
func (s *Server) last(j *jobs.Job) uint64 { return max(j.Last, s.c.Trust.Last(j.Job)) }

func ended(j *jobs.Job) string {
	if j.Ending == guild.JobAccepted {
		return "done"
	}
	return "failed"
}
