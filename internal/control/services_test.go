package control_test

import (
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild/internal/control"
	"guild/internal/journal/journaltest"
	"guild/internal/step/jobs"
	"guild/internal/step/work"
)

// shop is a client of a node that offers these services.
func shop(t *testing.T, services ...work.Service) *control.Client {
	t.Helper()
	fold := work.NewFold()
	step := work.New(work.Config{
		Journal: journaltest.Open(t, fold), Now: time.Now, Services: services, Log: slog.New(slog.DiscardHandler),
	}, fold)
	return node(t, control.NewServer(control.ServerConfig{Parts: control.Parts{Jobs: new(jobs.Jobs), Work: step}, Log: slog.New(slog.DiscardHandler)}))
}

func TestServicesAreShownPausedAndResumed(t *testing.T) {
	key := nostr.GetPublicKey(nostr.SecretKey{31: 2})
	c := shop(t,
		work.Service{Task: "python", Network: work.NetworkFull, Walls: "namespaces", Terms: work.Terms{Allow: []nostr.PubKey{key}, PoW: 8}},
		work.Service{D: "a/b c?", Tasks: []string{"go", "rust"}})
	all, err := control.Services.Call(t.Context(), c)
	if err != nil || len(all) != 2 || all[0].D != "python" || all[0].State != "open" || all[0].Network != "full" || all[0].Walls != "namespaces" ||
		len(all[0].Settings.Allow) != 1 || all[0].Settings.PoW != 8 || all[1].Network != "none" || len(all[1].Settings.Tasks) != 2 || all[1].Success != nil {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, turn := range []struct {
		do   control.Resource[control.Service]
		want string
	}{{control.PauseService, "paused"}, {control.DrainService, "draining"}, {control.ResumeService, "open"}} {
		if s, err := turn.do.Call(t.Context(), c, "a/b c?"); err != nil || s.State != turn.want || s.D != "a/b c?" {
			t.Errorf("%+v, %v, want it %s", s, err, turn.want)
		}
	}
	if s, err := control.OneService.Call(t.Context(), c, "python"); err != nil || s.State != "open" {
		t.Errorf("the other one: %+v, %v", s, err)
	}
}

func TestUnofferedServiceIsMissing(t *testing.T) {
	c := shop(t)
	if all, err := control.Services.Call(t.Context(), c); err != nil || all == nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
	_, shown := control.OneService.Call(t.Context(), c, "x")
	_, paused := control.PauseService.Call(t.Context(), c, "x")
	_, resumed := control.ResumeService.Call(t.Context(), c, "x")
	for _, err := range []error{shown, paused, resumed} {
		p, ok := errors.AsType[*control.ProblemError](err)
		if !ok || p.Status != http.StatusNotFound || p.Problem.Code != "missing" || p.Hint() != "guild work ls lists the services" {
			t.Errorf("%v", err)
		}
	}
}
