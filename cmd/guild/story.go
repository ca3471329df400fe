package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"guild/internal/cli"
)

// Columns of a story.
const (
	storyColumns = 79
	timeColumn   = 71 // where the time of a step begins
)

// story prints the steps of a demo as lines. On a terminal the line below them says what is under way. Its methods may be called
// concurrently.
type story struct {
	out    io.Writer
	live   bool // what is under way is shown
	colour palette

	mu    sync.Mutex
	doing string        // what is under way; "" for nothing
	since time.Time     // when it began
	frame int           // of the spinner
	stop  chan struct{} // ends the drawing; nil if nothing is drawn
}

// newStory returns a story on standard output, or with --json on standard error.
func newStory(p *program, asJSON bool) *story {
	s := &story{out: p.out, colour: colours()}
	_, _, s.live = p.terminal()
	if asJSON {
		s.out, s.live = p.err, false
	}
	return s
}

// say prints a line.
func (s *story) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLine()
	line(s.out, "%s", cli.Cut(text, storyColumns))
}

// end prints how a step has ended, and how long it took.
func (s *story) end(good bool, who, text string, after time.Duration) {
	mark := s.colour.bad.Render("✗")
	if good {
		mark = s.colour.good.Render("✓")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLine()
	text = fmt.Sprintf("%-9s %s", who, cli.Cut(text, timeColumn-14))
	line(s.out, "  %s %s", mark, text+strings.Repeat(" ", max(1, timeColumn-4-len([]rune(text))))+s.colour.faint.Render(fmt.Sprintf("%6.1fs", after.Seconds())))
	s.since = time.Now()
}

// begin shows that something is under way, until something else is or finish is called.
func (s *story) begin(text string) {
	if !s.live {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doing = text
	if s.stop != nil {
		return
	}
	s.since, s.stop = time.Now(), make(chan struct{})
	go func(stop chan struct{}) {
		for tick := time.Tick(frameTime); ; {
			select {
			case <-stop:
				return
			case <-tick:
				s.draw()
			}
		}
	}(s.stop)
}

// finish shows nothing as under way.
func (s *story) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearLine()
	s.doing = ""
	if s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
}

// draw draws the line of what is under way.
func (s *story) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.doing == "" {
		return
	}
	s.frame++
	frames := []rune(spinner)
	elapsed := time.Since(s.since).Truncate(time.Second)
	fmt.Fprintf(s.out, "\r\x1b[K  %s %s", s.colour.bar.Render(string(frames[s.frame%len(frames)])),
		cli.Cut(fmt.Sprintf("%s  %s", s.doing, elapsed), storyColumns-4))
}

// clearLine removes the line of what is under way.
func (s *story) clearLine() {
	if s.live {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
}
