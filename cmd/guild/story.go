package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"guild/internal/cli"
)

// storyColumns is the width of a story, and took the column of its durations.
const storyColumns, took = 79, 71

// story prints lines that stay, and on a terminal below them one that says what happens now.
type story struct {
	out    io.Writer
	live   bool // there is a line of now
	colour palette

	mu    sync.Mutex
	now   string // what happens, "" if nothing is shown
	since time.Time
	frame int
	stop  chan struct{}
}

// newStory tells on standard output, or with --json on standard error.
func newStory(p *program, asJSON bool) *story {
	s := &story{out: p.out, colour: colours()}
	_, _, s.live = p.terminal()
	if asJSON {
		s.out, s.live = p.err, false
	}
	return s
}

// say prints a line that stays.
func (s *story) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	line(s.out, "%s", cli.Cut(text, storyColumns))
}

// end prints how something has ended, and after which time.
func (s *story) end(good bool, who, text string, after time.Duration) {
	mark := s.colour.bad.Render("✗")
	if good {
		mark = s.colour.good.Render("✓")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	text = fmt.Sprintf("%-9s %s", who, cli.Cut(text, took-14))
	line(s.out, "  %s %s", mark, text+strings.Repeat(" ", max(1, took-4-len([]rune(text))))+s.colour.faint.Render(fmt.Sprintf("%6.1fs", after.Seconds())))
	s.since = time.Now()
}

// turn says what happens now, until something else does.
func (s *story) turn(text string) {
	if !s.live {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = text
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

// rest ends what turn has begun.
func (s *story) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	s.now = ""
	if s.stop != nil {
		close(s.stop)
		s.stop = nil
	}
}

func (s *story) draw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == "" {
		return
	}
	s.frame++
	frames := []rune(spinner)
	elapsed := time.Since(s.since).Truncate(time.Second)
	fmt.Fprintf(s.out, "\r\x1b[K  %s %s", s.colour.bar.Render(string(frames[s.frame%len(frames)])),
		cli.Cut(fmt.Sprintf("%s  %s", s.now, elapsed), storyColumns-4))
}

// wipe removes the line of now.
func (s *story) wipe() {
	if s.live {
		fmt.Fprint(s.out, "\r\x1b[K")
	}
}
