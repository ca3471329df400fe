package main

import (
	"context"
	"errors"
	"iter"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"guild/internal/control"
)

const frameTime = 100 * time.Millisecond

// screen draws a timeline and changes it with each message.
type screen struct {
	timeline timeline
	columns  int
	left     bool
	err      error
}

type tickMsg time.Time

// overMsg says that the updates have ended, with the error if one ended them.
type overMsg struct{ err error }

// live shows a job on a terminal until it ends or the person leaves.
func live(ctx context.Context, in, out *os.File, client *control.Client, job control.Job) (control.Job, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	updates := client.Watch(ctx, job.ID)
	program := tea.NewProgram(&screen{timeline: timeline{job: job}, columns: 80},
		tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		program.Send(overMsg{feed(program, updates)})
	}()
	model, err := program.Run()
	cancel()
	<-fed
	if errors.Is(err, tea.ErrProgramKilled) {
		return control.Job{}, errLeft
	}
	if err != nil {
		return control.Job{}, err
	}
	s := model.(*screen)
	if s.left {
		return control.Job{}, errLeft
	}
	return s.timeline.job, s.err
}

func feed(program *tea.Program, updates iter.Seq2[control.Update, error]) error {
	for u, err := range updates {
		if err != nil {
			return err
		}
		program.Send(u)
	}
	return nil
}

func tick() tea.Cmd { return tea.Tick(frameTime, func(t time.Time) tea.Msg { return tickMsg(t) }) }

// Init starts the clock.
func (s *screen) Init() tea.Cmd { return tick() }

// Update takes one message.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case control.Update:
		s.timeline.apply(msg)
	case overMsg:
		s.err = msg.err
		return s, tea.Quit
	case tickMsg:
		s.timeline.frame++
		s.timeline.now = max(s.timeline.now, time.Time(msg).UnixMilli())
		return s, tick()
	case tea.WindowSizeMsg:
		s.columns = msg.Width
	case tea.KeyPressMsg:
		if k := msg.String(); k == "q" || k == "ctrl+c" || k == "esc" {
			s.left = true
			return s, tea.Quit
		}
	}
	return s, nil
}

// View draws the timeline.
func (s *screen) View() tea.View { return tea.NewView(s.timeline.view(s.columns, colours())) }
