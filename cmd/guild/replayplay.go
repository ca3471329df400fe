package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	tea "charm.land/bubbletea/v2"

	"guild/internal/cli"
)

// player plays a trajectory. Shown events stay above; the last line has the position and the keys.
type player struct {
	all     []playedMoment
	next    int // the first that was not shown
	speed   float64
	paused  bool
	step    bool // pause before each
	rest    bool // no more waiting
	turn    int  // waits that were begun before it are over
	columns int
	style   palette
	stopped bool // by Ctrl-C
}

// dueMsg says that a wait is over.
type dueMsg int

// play shows a trajectory on a terminal until it ends or the person leaves.
func play(ctx context.Context, in, out *os.File, all []playedMoment, o replayOptions) error {
	p := &player{all: all, speed: o.Speed, step: o.Step, paused: o.Step, rest: o.Speed == 0 && !o.Step, columns: 80, style: colours()}
	if p.speed == 0 {
		p.speed = 1
	}
	program := tea.NewProgram(p, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler())
	_, err := program.Run()
	if errors.Is(err, tea.ErrProgramKilled) || p.stopped {
		return cli.Shown(context.Canceled) // the person left
	}
	return err
}

// Init waits for the terminal to say how wide it is, but not for long.
func (p *player) Init() tea.Cmd {
	if p.paused {
		return nil
	}
	return p.wait(50 * time.Millisecond)
}

// Update takes one message.
func (p *player) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		p.columns = msg.Width
	case dueMsg:
		if int(msg) == p.turn && !p.paused {
			return p, p.show()
		}
	case tea.KeyPressMsg:
		return p, p.key(msg.String())
	}
	return p, nil
}

// key handles a key.
func (p *player) key(key string) tea.Cmd {
	switch key {
	case "ctrl+c":
		p.stopped, p.next = true, len(p.all)
		return tea.Quit
	case "q", "esc":
		p.next = len(p.all)
		return tea.Quit
	case "space", " ", "p":
		p.paused, p.step = !p.paused, false
		if p.paused {
			p.turn++
			return nil
		}
		return p.wait(0)
	case "n", "enter", "right", "down":
		return p.show()
	case "e", "end":
		p.rest, p.paused, p.step = true, false, false
		return p.show()
	case "+", "=":
		p.speed = min(1000, p.speed*2)
	case "-":
		p.speed = max(1.0/16, p.speed/2)
	}
	return nil
}

// show prints the next moment, or with rest all others, and waits for the one after.
func (p *player) show() tea.Cmd {
	p.turn++
	var lines []tea.Cmd
	for p.next < len(p.all) && (len(lines) == 0 || p.rest) {
		lines = append(lines, tea.Println(p.all[p.next].line(p.style, p.columns)))
		p.next++
	}
	if p.next == len(p.all) {
		return tea.Sequence(append(lines, tea.Quit)...)
	}
	if p.paused || p.step {
		return tea.Sequence(lines...)
	}
	return tea.Sequence(append(lines, p.wait(waitBefore(p.all, p.next, p.speed)))...)
}

// wait sends dueMsg after the wait.
func (p *player) wait(d time.Duration) tea.Cmd {
	turn := p.turn
	return tea.Tick(d, func(time.Time) tea.Msg { return dueMsg(turn) })
}

// waitBefore returns the wait before a moment: as long as it was then, divided by the speed, and at most maxWait.
func waitBefore(all []playedMoment, n int, speed float64) time.Duration {
	if n == 0 || speed == 0 {
		return 0
	}
	gap := min(maxWait, max(0, all[n].since-all[n-1].since))
	return time.Duration(float64(gap) / speed)
}

// View returns the last line.
func (p *player) View() tea.View {
	if p.next == len(p.all) {
		return tea.NewView("")
	}
	mark, halt := "▶", "pause"
	if p.paused {
		mark, halt = "⏸", "play"
	}
	var now time.Duration
	if p.next > 0 {
		now = p.all[p.next-1].since
	}
	text := fmt.Sprintf("%s %d/%d  %s of %s  ×%g   space %s · n next · + - speed · e end · q quit",
		mark, p.next, len(p.all), elapsed(now), elapsed(p.all[len(p.all)-1].since), p.speed, halt)
	return tea.NewView(p.style.faint.Render(cli.Cut(text, p.columns)))
}
