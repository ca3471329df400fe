package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/step/work"
)

// keptAddress returns a free address that stays reserved for the test while the relay is down: a bound socket that does
// not listen holds it. It is not of 127.0.0.1, where a server that asks for a certain port could take it meanwhile.
func keptAddress(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil { // so that the relay can bind it too
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 2}}); err != nil {
		t.Fatal(err)
	}
	held, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.2:%d", held.(*syscall.SockaddrInet4).Port)
}

// connected waits until a node is connected to its relay, or disconnected.
func connected(t *testing.T, c *control.Client, want bool) {
	t.Helper()
	eventually(t, "the connection changes", func() bool {
		s, err := control.NodeStatus.Call(t.Context(), c)
		return err == nil && len(s.Relays) == 1 && s.Relays[0].Connected == want
	})
}

// TestJobSurvivesRelayRestart stops the only relay while the worker works, and starts it again after the delivery.
func TestJobSurvivesRelayRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, stop := startRelayAt(t, dir, keptAddress(t))
	team := newCrew()
	provider, _ := start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: team.do}} })
	customer, _ := start(t, url, func(*Config) {})
	awaitProviders(t, customer, 1)
	id := open(t, customer, bundle(t), control.Hire{})
	eventually(t, "the worker works", func() bool { return team.busy() == 1 })

	stop()
	connected(t, provider, false)
	connected(t, customer, false)
	close(team.may)
	eventually(t, "the provider is done", func() bool {
		return slices.Contains(facts(t, provider, "request."), "request.finished")
	})
	startRelayAt(t, dir, strings.TrimPrefix(url, "ws://"))

	if job := finish(t, customer, id); job.Ending != guild.JobAccepted || len(job.Attempts) != 1 {
		t.Errorf("%s after %d attempts: %s", job.Ending, len(job.Attempts), job.Reason)
	}
	if team.jobs[id] != 1 {
		t.Errorf("the worker was called %d times", team.jobs[id])
	}
}

// TestJobOpenedWithoutRelay opens a job while the relay is down.
func TestJobOpenedWithoutRelay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, stop := startRelayAt(t, dir, keptAddress(t))
	start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, url, func(*Config) {})
	awaitProviders(t, customer, 1)
	stop()
	connected(t, customer, false)
	id := open(t, customer, bundle(t), control.Hire{})
	eventually(t, "the request is planned", func() bool {
		return slices.Contains(facts(t, customer, "job."+id), "attempt.planned")
	})
	startRelayAt(t, dir, strings.TrimPrefix(url, "ws://"))
	if job := finish(t, customer, id); job.Ending != guild.JobAccepted || len(job.Attempts) != 1 {
		t.Errorf("%s after %d attempts: %s", job.Ending, len(job.Attempts), job.Reason)
	}
}

// TestJobDeadline has a provider that reports progress and does not deliver.
func TestJobDeadline(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	p := newPeer(t, url)
	p.announce()
	customer, _ := start(t, url, func(*Config) {})
	awaitProviders(t, customer, 1)
	began := time.Now()
	const limit = 10 * time.Second
	id := open(t, customer, bundle(t), control.Hire{Timeout: patient(limit)})
	request := p.next(5000)
	p.publish(p.feedback(request, nostr.Tag{"status", "processing", "soon"}))
	job := finish(t, customer, id)
	if job.Ending != guild.JobTimedOut || only(t, job).State != string(guild.Expired) {
		t.Errorf("%s: %s: %+v", job.Ending, job.Reason, job.Attempts)
	}
	if took := time.Since(began); took < limit || took > limit+time.Minute {
		t.Errorf("it took %s", took)
	}
	checkDeletion(t, p.next(5), request)
}

// TestWorkerDeadline checks that the deadline also applies at the provider.
func TestWorkerDeadline(t *testing.T) {
	t.Parallel()
	url, stopped := startRelay(t), make(chan struct{})
	provider, _ := start(t, url, func(c *Config) {
		c.Workers = []Worker{{Task: "echo", Do: func(ctx context.Context, a work.Assignment) error {
			<-ctx.Done()
			close(stopped)
			return ctx.Err()
		}}}
	})
	customer, _ := start(t, url, func(*Config) {})
	awaitProviders(t, customer, 1)
	job := finish(t, customer, open(t, customer, bundle(t), control.Hire{Timeout: patient(10 * time.Second)}))
	if job.Ending == guild.JobAccepted {
		t.Errorf("%s: %+v", job.Ending, job.Attempts)
	}
	t.Logf("%s: %s: %s", job.Ending, job.Reason, only(t, job).Reason)
	<-stopped
	eventually(t, "the provider has nothing to do", func() bool {
		s := service(t, provider)
		return s.Running == 0 && s.Queued == 0 && s.Done == 0
	})
}

// TestSilentProvider has a first provider that sends nothing at all.
func TestSilentProvider(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	silent := newPeer(t, url)
	silent.announce()
	_, able := start(t, url, func(c *Config) { c.Workers = []Worker{{Task: "echo", Do: echo}} })
	customer, _ := start(t, url, func(c *Config) { c.Hiring.Patience.Silence, c.Hiring.Patience.Extend = 10*time.Second, 10*time.Second }) // for the second provider too
	awaitProviders(t, customer, 2)
	id := open(t, customer, bundle(t), control.Hire{Providers: []string{silent.pubkey.Hex(), able.Hex()}})
	request := silent.next(5000)
	job := finish(t, customer, id)
	if job.Ending != guild.JobAccepted || len(job.Attempts) != 2 || job.Attempts[0].State != string(guild.Expired) ||
		job.Attempts[0].Reason != "no answer" {
		t.Errorf("%s: %+v", job.Ending, job.Attempts)
	}
	checkDeletion(t, silent.next(5), request)
}

// TestCancelStopsWorker checks that a cancellation stops the provider's worker.
func TestCancelStopsWorker(t *testing.T) {
	t.Parallel()
	url, begun, stopped := startRelay(t), make(chan struct{}), make(chan struct{})
	provider, _ := start(t, url, func(c *Config) {
		c.Workers = []Worker{{Task: "echo", Do: func(ctx context.Context, a work.Assignment) error {
			close(begun)
			<-ctx.Done()
			close(stopped)
			return ctx.Err()
		}}}
	})
	customer, _ := start(t, url, func(*Config) {})
	id := open(t, customer, bundle(t), control.Hire{})
	<-begun
	if _, err := control.CancelJob.Call(t.Context(), customer, id); err != nil {
		t.Fatal(err)
	}
	job := finish(t, customer, id)
	if job.Ending != guild.JobCancelled || only(t, job).State != string(guild.Cancelled) {
		t.Errorf("%s: %+v", job.Ending, job.Attempts)
	}
	<-stopped
	eventually(t, "the provider has nothing to do", func() bool {
		s := service(t, provider)
		return s.Running == 0 && s.Queued == 0 && s.Done == 0
	})
	if answered := facts(t, provider, "request."); slices.Contains(answered, "request.finished") {
		t.Errorf("the provider answered all the same: %q", answered)
	}
}

// TestCancelKillsCommand does the same with an endless command in the sandbox.
func TestCancelKillsCommand(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	url := startRelay(t)
	provider, _ := start(t, url, func(c *Config) {
		c.Workers = []Worker{{Task: "echo", Command: "while :; do echo on it; sleep 0.1; done"}}
	})
	customer, _ := start(t, url, func(*Config) {})
	id := open(t, customer, bundle(t), control.Hire{})
	eventually(t, "the command has spoken", func() bool {
		all := strings.Join(facts(t, customer, "job."+id), " ")
		return strings.Count(all, "attempt.progressed") >= 2
	})
	if _, err := control.CancelJob.Call(t.Context(), customer, id); err != nil {
		t.Fatal(err)
	}
	if job := finish(t, customer, id); job.Ending != guild.JobCancelled {
		t.Errorf("%s: %s", job.Ending, job.Reason)
	}
	eventually(t, "the command has ended", func() bool { s := service(t, provider); return s.Running == 0 && s.Queued == 0 })
}
