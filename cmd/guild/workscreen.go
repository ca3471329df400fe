package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"guild"
	"guild/internal/cli"
	"guild/internal/step/work"
)

// workScreen shows the services of a node and the latest requests to them. It is a fold of events; drawing it reads no clock.
type workScreen struct {
	npub     string
	relays   []string
	services []string          // their names
	states   map[string]string // of services that are not open
	jobs     []workJob         // the newest last
	notes    []string          // events of requests that are not shown, the newest last
	counts   map[string]int    // of events
	accepted int               // verdicts
	now      int64             // Unix ms
	frame    int               // of the spinner
	columns  int
	rows     int
	stopping bool
	killed   bool               // Ctrl-C was pressed again, so the node is not waited for
	stop     context.CancelFunc // ends the node
}

// workJob is one request on the screen.
type workJob struct {
	came  workEvent
	state string // received, waiting, working, or how it ended
	since int64  // Unix ms, when a worker began or the request came
	end   int64  // Unix ms; 0 while it is open
	text  string
	judge string // the customer's verdict
	good  bool   // a favourable one
}

const (
	maxShown     = 50 // requests that are kept for the screen
	maxWorkNotes = 3
)

// apply adds an event.
func (s *workScreen) apply(e workEvent) {
	s.now = max(s.now, e.At)
	s.counts[e.Event]++
	switch e.Event {
	case "ready":
		s.npub, s.relays = e.Npub, e.Relays
		return
	case "paused", "draining":
		s.states[e.Service] = e.Event
		return
	case "resumed":
		delete(s.states, e.Service)
		return
	case "received":
		s.jobs = append(s.jobs, workJob{came: e, state: e.Event, since: e.At})
		s.jobs = latest(s.jobs, maxShown)
		return
	}
	i := slices.IndexFunc(s.jobs, func(j workJob) bool { return j.came.Request == e.Request })
	if e.Event == "judged" && e.Outcome == guild.Success {
		s.accepted++
	}
	if i < 0 {
		s.notes = append(s.notes, strings.TrimSpace(short(e.Request)+" "+e.Event+" "+workText(e)))
		s.notes = s.notes[max(0, len(s.notes)-maxWorkNotes):]
		return
	}
	s.jobs[i].apply(e)
}

// apply adds an event of the request.
func (j *workJob) apply(e workEvent) {
	switch e.Event {
	case string(work.Working):
		j.state, j.since, j.text = e.Event, e.At, ""
	case string(work.Waiting), string(work.Said):
		if j.end == 0 {
			j.text = cli.Clean(e.Text)
		}
		if e.Event == string(work.Waiting) {
			j.state = e.Event
		}
	case "judged":
		j.judge, j.good = workText(e), e.Outcome == guild.Success
	default:
		j.state, j.end, j.text = e.Event, e.At, cli.Clean(e.Text)
	}
}

// view draws the screen.
func (s *workScreen) view(p palette) string {
	var b strings.Builder
	head := "offering " + cli.Count(len(s.services), "service", "services")
	rest := cli.ShortNpub(s.npub) + "  " + strings.Join(s.relays, " ")
	b.WriteString(p.title.Render(head) + "  " + p.faint.Render(cli.Cut(cli.Clean(rest), s.columns-len(head)-2)) + "\n")
	b.WriteString("  " + cli.Cut(cli.Clean(strings.Join(s.offers(), ", ")), s.columns-2) + "\n\n")
	shown := latest(s.jobs, s.room())
	for _, j := range shown {
		b.WriteString(s.line(j, p) + "\n")
	}
	if len(shown) == 0 {
		b.WriteString("  " + p.faint.Render("no request yet") + "\n")
	}
	b.WriteString("\n")
	for _, note := range s.notes {
		b.WriteString("  " + p.faint.Render("│ "+cli.Cut(note, s.columns-4)) + "\n")
	}
	b.WriteString("  " + p.faint.Render(cli.Cut(s.totals(), s.columns-2)) + "\n")
	return b.String()
}

// latest returns at most so many jobs, in their order: those that go on before those that have ended, and of each the newest.
func latest(jobs []workJob, most int) []workJob {
	over := len(jobs) - most
	for _, ended := range []bool{true, false} {
		jobs = slices.DeleteFunc(slices.Clone(jobs), func(j workJob) bool {
			drop := over > 0 && (j.end != 0) == ended
			if drop {
				over--
			}
			return drop
		})
	}
	return jobs
}

// room returns how many requests fit.
func (s *workScreen) room() int {
	const others = 6
	return max(3, s.rows-others-len(s.notes))
}

// offers lists the services with their states.
func (s *workScreen) offers() (all []string) {
	for _, d := range s.services {
		if state := s.states[d]; state != "" {
			d += " (" + state + ")"
		}
		all = append(all, d)
	}
	return all
}

// line draws one request: a mark, its id, its service, how long it took, and its state.
func (s *workScreen) line(j workJob, p palette) string {
	end := j.end
	if end == 0 {
		end = max(s.now, j.since)
	}
	took := (time.Duration(end-j.since) * time.Millisecond).Truncate(time.Second).String()
	text := j.state
	switch {
	case j.judge != "":
		text = j.judge
	case j.state == "delivered":
		text = "delivered; not judged yet"
	case j.text != "" && j.state != string(work.Working):
		text += ": " + j.text
	case j.text != "":
		text = j.text
	}
	line := fmt.Sprintf(" %s  %-12s%7s  ", short(j.came.Request), cli.Cut(cli.Clean(j.came.Service), 12), took)
	return "  " + s.mark(j, p) + line + cli.Cut(text, s.columns-len(line)-3)
}

func (s *workScreen) mark(j workJob, p palette) string {
	switch {
	case j.judge != "" && j.good, j.state == "delivered" && j.judge == "":
		return p.good.Render("✓")
	case j.end != 0:
		return p.bad.Render("✗")
	case j.state == string(work.Working):
		frames := []rune(spinner)
		return p.bar.Render(string(frames[s.frame%len(frames)]))
	}
	return p.faint.Render("·")
}

// totals says what came of all requests since the start.
func (s *workScreen) totals() string {
	if s.stopping {
		return "stopping: running jobs are finished or handed back; Ctrl-C kills"
	}
	text := fmt.Sprintf("%d delivered, %d failed, %d refused; %d of %d accepted; nothing paid", s.counts["delivered"], s.counts["failed"],
		s.counts[string(work.Refused)], s.accepted, s.counts["judged"])
	return text + " · Ctrl-C stops"
}

// Init implements tea.Model.
func (s *workScreen) Init() tea.Cmd { return tick() }

// Update implements tea.Model.
func (s *workScreen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case workEvent:
		s.apply(msg)
	case overMsg:
		return s, tea.Quit
	case tickMsg:
		s.frame++
		s.now = max(s.now, time.Time(msg).UnixMilli())
		return s, tick()
	case tea.WindowSizeMsg:
		s.columns, s.rows = msg.Width, msg.Height
	case tea.KeyPressMsg:
		if msg.String() != "ctrl+c" {
			break
		}
		if s.stopping {
			s.killed = true
			return s, tea.Quit
		}
		s.stopping = true
		s.stop()
	}
	return s, nil
}

// View implements tea.Model.
func (s *workScreen) View() tea.View { return tea.NewView(s.view(colours())) }

// showWork shows the events of a node on a terminal while run runs it. stop has run end. The log of run is printed above the
// screen.
func showWork(in, out *os.File, services []string, events *workEvents, stop context.CancelFunc, run func(log io.Writer) error) error {
	s := &workScreen{services: services, states: map[string]string{}, counts: map[string]int{}, columns: 80, rows: 24, stop: stop}
	program := tea.NewProgram(s, tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	ended := make(chan struct{})
	var failed error
	go func() {
		defer close(ended)
		failed = run(above{program})
	}()
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		events.pass(ended, func(e workEvent) error { program.Send(e); return nil })
		program.Send(overMsg{})
	}()
	_, err := program.Run()
	if s.killed {
		return cli.Shown(cli.WithCode(errors.New("killed"), exitInterrupted)) // the process ends now
	}
	stop() // if the screen failed, the node ends too
	<-ended
	<-passed
	if errors.Is(err, tea.ErrProgramKilled) {
		err = nil
	}
	return errors.Join(failed, err)
}

// above is a writer of lines above a program's screen.
type above struct{ *tea.Program }

// Write implements io.Writer.
func (a above) Write(p []byte) (int, error) {
	a.Println(cli.Clean(string(bytes.TrimRight(p, "\n"))))
	return len(p), nil
}
