package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
)

// timeline shows one job: its steps with when each ran and for how long, and the latest
// feedback. It is a fold of updates; drawing it reads no clock.
type timeline struct {
	job      control.Job
	steps    [len(control.Steps)]span
	attempts []string // ids, the newest last
	notes    []string // latest feedback, the newest last
	now      int64    // Unix ms
	frame    int      // of the spinner
	ended    bool
}

// span is one step of the timeline. Times are Unix ms.
type span struct {
	state      string // "", start, progress, done or failed
	start, end int64
	text       string
}

const (
	maxNotes   = 5
	barColumns = 24 // of the drawing of all spans
	meterWidth = 34 // of the progress bar
)

// apply adds an update.
func (t *timeline) apply(u control.Update) {
	t.now = max(t.now, u.At)
	if u.Ended != nil {
		t.end(*u.Ended)
		return
	}
	if u.IsWaiting() {
		t.wait(u)
		return
	}
	i := stepIndex(u.Step)
	if i < 0 {
		return
	}
	if u.State == "failed" || u.Event == "attempt.progressed" {
		t.note(u.Text)
	}
	if t.turn(u.Attempt) {
		t.steps[i].move(u)
		t.advance(u.At)
	}
}

// wait shows at the next step why the job waits, or removes that if the update has no reason.
func (t *timeline) wait(u control.Update) {
	i := slices.IndexFunc(t.steps[:], func(s span) bool { return s.state != "done" })
	if i < 0 {
		return
	}
	s := &t.steps[i]
	if s.state == "" {
		*s = span{state: "start", start: u.At, end: u.At}
	}
	switch {
	case u.Text != "":
		s.text = waits + cli.Clean(u.Text)
	case strings.HasPrefix(s.text, waits):
		s.text = ""
	}
}

// waits is the beginning of the text of a step that waits.
const waits = "waits: "

// turn reports whether an update belongs to the attempt that is drawn. A new attempt resets the steps that it repeats;
// later updates of an older one are not drawn.
func (t *timeline) turn(attempt string) bool {
	last := len(t.attempts) - 1
	if attempt == "" || last >= 0 && t.attempts[last] == attempt {
		return true
	}
	if slices.Contains(t.attempts, attempt) {
		return false
	}
	if last >= 0 {
		clear(t.steps[stepIndex("request"):])
	}
	t.attempts = append(t.attempts, attempt)
	return true
}

// move advances a step. One that is over stays over; a later update changes at most its text.
func (s *span) move(u control.Update) {
	over := s.state == "done" || s.state == "failed"
	if over && u.State == "progress" {
		return
	}
	s.text = cli.Clean(u.Text)
	if over && u.State == s.state {
		return
	}
	if s.start == 0 || u.State == "start" {
		s.start = u.At
	}
	s.state, s.end = u.State, u.At
}

// advance starts the first step that is not done, because facts record the end of steps and rarely the beginning.
func (t *timeline) advance(at int64) {
	for i := range t.steps {
		s := &t.steps[i]
		if s.state == "done" {
			continue
		}
		if s.state == "" {
			*s = span{state: "start", start: at, end: at}
		}
		return
	}
}

// end stops the steps that still run.
func (t *timeline) end(job control.Job) {
	t.job, t.ended = job, true
	for i := range t.steps {
		if s := &t.steps[i]; s.running() {
			s.state, s.end = "failed", t.now
		}
	}
}

func (s span) running() bool { return s.state == "start" || s.state == "progress" }

// note keeps feedback and failures, because later updates replace the step's own line.
func (t *timeline) note(text string) {
	t.notes = append(t.notes, cli.Clean(text))
	t.notes = t.notes[max(0, len(t.notes)-maxNotes):]
}

func stepIndex(name string) int {
	for i, s := range control.Steps {
		if s == name {
			return i
		}
	}
	return -1
}

// palette has the colours of the parts. The zero value colours nothing.
type palette struct{ title, faint, good, bad, bar, meter lipgloss.Style }

func colours() palette {
	fg := func(c string) lipgloss.Style {
		if os.Getenv("NO_COLOR") != "" {
			return lipgloss.NewStyle()
		}
		return lipgloss.NewStyle().Foreground(lipgloss.Color(c))
	}
	return palette{
		title: lipgloss.NewStyle().Bold(true), faint: fg("8"),
		good: fg("2"), bad: fg("1"), bar: fg("75"), meter: fg("63"),
	}
}

// view draws the timeline in so many columns.
func (t *timeline) view(columns int, p palette) string {
	var b strings.Builder
	head := "job " + short(t.job.ID)
	b.WriteString(p.title.Render(head) + "  " + p.faint.Render(cli.Cut(t.describe(), columns-len(head)-2)) + "\n\n")
	for i := range t.steps {
		b.WriteString(t.stepLine(i, columns, p) + "\n")
	}
	done := t.done()
	full := meterWidth * done / len(t.steps)
	fmt.Fprintf(&b, "\n  %s%s %d/%d\n", p.meter.Render(strings.Repeat("▌", full)),
		p.faint.Render(strings.Repeat("░", meterWidth-full)), done, len(t.steps))
	for _, note := range t.notes {
		b.WriteString("  " + p.faint.Render("│ "+cli.Cut(note, columns-4)) + "\n")
	}
	b.WriteString(t.lastLine(columns, p))
	return b.String()
}

func (t *timeline) describe() string {
	parts := []string{t.job.Task}
	if t.job.Title != "" {
		parts = append(parts, t.job.Title)
	}
	return cli.Clean(strings.Join(parts, " · "))
}

func (t *timeline) lastLine(columns int, p palette) string {
	if !t.ended {
		return "  " + p.faint.Render("q leaves, the job goes on") + "\n"
	}
	style := p.bad
	if t.job.Ending == guild.JobAccepted {
		style = p.good
	}
	return "  " + style.Render(cli.Cut(sentence(t.job), columns-2)) + "\n"
}

func (t *timeline) done() int {
	n := 0
	for _, s := range t.steps {
		if s.state == "done" {
			n++
		}
	}
	return n
}

func (t *timeline) stepLine(i, columns int, p palette) string {
	s := t.steps[i]
	line := "  " + t.mark(s, p) + " " + fmt.Sprintf("%-10s", control.Steps[i])
	if s.state == "" {
		return strings.TrimRight(line, " ")
	}
	at, width := t.place(s)
	line += strings.Repeat(" ", at) + p.bar.Render(strings.Repeat("━", width)) + strings.Repeat(" ", barColumns-at-width)
	took := fmt.Sprintf("%.1fs", float64(s.end-s.start)/1000)
	if s.running() {
		took = (time.Duration(max(0, t.now-s.start)) * time.Millisecond).Truncate(time.Second).String()
	}
	line += fmt.Sprintf("%7s  ", took)
	return strings.TrimRight(line+cli.Cut(s.text, columns-barColumns-23), " ")
}

// spinner turns while a step runs.
const spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

func (t *timeline) mark(s span, p palette) string {
	switch s.state {
	case "done":
		return p.good.Render("✓")
	case "failed":
		return p.bad.Render("✗")
	case "":
		return p.faint.Render("·")
	}
	frames := []rune(spinner)
	return p.bar.Render(string(frames[t.frame%len(frames)]))
}

// place returns where the bar of a span begins and how long it is, in columns of the whole job so far.
func (t *timeline) place(s span) (at, width int) {
	begin, total := t.extent()
	end := s.end
	if s.running() {
		end = max(end, t.now)
	}
	at = int(max(0, s.start-begin) * barColumns / total)
	at = min(at, barColumns-1)
	width = int((end - s.start) * barColumns / total)
	return at, min(max(1, width), barColumns-at)
}

// extent returns the beginning of the drawn part of the job, Unix ms, and its length in ms.
func (t *timeline) extent() (begin, total int64) {
	end := int64(0)
	for _, s := range t.steps {
		if s.start != 0 && (begin == 0 || s.start < begin) {
			begin = s.start
		}
		end = max(end, s.end)
	}
	if !t.ended {
		end = max(end, t.now)
	}
	return begin, max(1, end-begin)
}
