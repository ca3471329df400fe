package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"guild"
	"guild/internal/control"
)

const noon = 1_800_000_000_000 // Unix ms, on the second

// tale is the story of one job, as updates with the offset in ms from its opening.
func tale(steps ...control.Update) []control.Update {
	for i := range steps {
		steps[i].At += noon
		steps[i].Seq = uint64(i + 1)
	}
	return steps
}

func step(at int64, name, state, text string) control.Update {
	return control.Update{At: at, Step: name, State: state, Text: text}
}

func progress(at int64, text string) control.Update {
	u := step(at, "work", "progress", text)
	u.Event = "attempt.progressed"
	return u
}

func of(attempt string, u control.Update) control.Update {
	u.Attempt = attempt
	return u
}

// toldByFacts is a job with updates of facts only, which record the end of steps and not their beginning.
func toldByFacts() []control.Update {
	return []control.Update{
		step(0, "bundle", "done", "1.2 KB"), of("a1", step(400, "discover", "done", "able offers python")),
		of("a1", step(900, "request", "done", "asked able")), of("a1", progress(1500, "halfway")),
		of("a1", step(2000, "work", "done", "delivery 3 KB")),
	}
}

// begun is the beginning of every tale.
func begun() []control.Update {
	return []control.Update{
		step(0, "discover", "start", ""), step(400, "discover", "done", "14 providers, 5 fit python"),
		step(400, "bundle", "start", ""), step(800, "bundle", "done", "45.0 KB gz, sha256:9f3c…"),
		of("a1", step(800, "request", "start", "asked able")), of("a1", step(1200, "request", "done", "accepted in 390 ms")),
		of("a1", step(1200, "work", "start", "able works")),
	}
}

var python = control.Job{ID: "5f21c9aa000000000000000000000000", Task: "python", Title: "Build a REST API"}

func drawn(job control.Job, updates []control.Update, now int64, columns int) string {
	t := timeline{job: job}
	for _, u := range updates {
		t.apply(u)
	}
	t.now = max(t.now, noon+now)
	return t.view(columns, palette{})
}

func accepted() control.Job {
	job := python
	job.Ending, job.Closed = guild.JobAccepted, noon+3600
	job.Attempts = []control.Attempt{{Name: "able", Receipt: "r-8812", Verdict: &guild.Verdict{Outcome: guild.Success, Passed: 12, Expected: 12}}}
	return job
}

func TestTimeline(t *testing.T) {
	end := accepted()
	ended := control.Update{At: 3600, Event: "ended", Ended: &end}
	nobody := python
	nobody.Ending, nobody.Reason = guild.JobUnclaimed, "3 were asked"
	unclaimed := control.Update{At: 4200, Event: "ended", Ended: &nobody}
	for name, c := range map[string]struct {
		updates []control.Update
		now     int64
		columns int
	}{
		"start": {nil, 0, 80},
		"work":  {append(begun(), progress(1700, "processing"), progress(1900, "partial: scaffolded handlers")), 2000, 80},
		"end": {append(begun(), step(2400, "work", "done", "delivery of 18 files"), step(2400, "judge", "start", ""),
			step(3400, "judge", "done", "12 passed, 0 failed"), step(3400, "record", "start", ""),
			step(3600, "record", "done", "receipt r-8812"), step(3600, "trust", "start", ""),
			step(3600, "trust", "done", "able 0.71 → 0.74"), ended), 90_000, 80},
		"retry": {append(begun(), step(6200, "work", "failed", "silent said nothing for 5s"),
			of("b2", step(6300, "discover", "done", "able offers python")), of("a1", step(6350, "trust", "done", "silent 0.50 → 0.42")),
			of("b2", step(6400, "request", "done", "asked able")), of("b2", progress(6800, "able works"))), 7000, 80},
		"facts":     {toldByFacts(), 2500, 80},
		"unclaimed": {append(begun(), unclaimed), 90_000, 80},
		"narrow":    {append(begun(), progress(1700, strings.Repeat("long ", 40))), 2000, 60},
		"hostile":   {append(begun(), progress(1700, "\x1b[2J\x1b]0;owned\x07\r\nline\u202eevil")), 2000, 80},
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, drawn(python, tale(c.updates...), c.now, c.columns))
		})
	}
}

// golden compares got with a file under testdata, or rewrites it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "timeline", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestTimelineStaysInsideTheTerminal(t *testing.T) {
	text := strings.Repeat("wide 漢字 ", 50)
	for columns := 50; columns < 200; columns += 7 {
		job := python
		job.Title = text
		drawing := drawn(job, tale(append(begun(), progress(1700, text), step(1800, "work", "failed", text))...), 2000, columns)
		for line := range strings.Lines(drawing) {
			if w := lipgloss.Width(strings.TrimRight(line, "\n")); w > columns {
				t.Fatalf("%d columns in %d: %q", w, columns, line)
			}
		}
	}
}

func TestTimelineSurvivesATinyTerminal(t *testing.T) {
	for columns := range 50 {
		drawn(python, tale(append(begun(), progress(1700, "text"))...), 2000, columns) // must not panic
	}
}

func TestUpdatesOutOfOrder(t *testing.T) {
	line := timeline{}
	for _, u := range []control.Update{step(5, "trust", "done", ""), step(1, "nothing", "start", ""), step(-9, "work", "done", ""), {}} {
		line.apply(u)
		line.view(80, palette{})
	}
}

func TestTimelineSaysWhyAJobWaits(t *testing.T) {
	waiting := func(at int64, text string) control.Update {
		u := step(at, "discover", "progress", text)
		u.Event = "waiting"
		return u
	}
	offline := []control.Update{waiting(0, "no relay is connected")}
	if got := drawn(python, tale(offline...), noon+2000, 80); !strings.Contains(got, "discover") || !strings.Contains(got, "waits: no relay is connected") {
		t.Errorf("it does not say why:\n%s", got)
	}
	working := append(begun(), waiting(1500, "no relay is connected"))
	got := drawn(python, tale(working...), noon+2000, 80)
	if line := lineWith(got, "waits: "); !strings.Contains(line, "work") {
		t.Errorf("not at the step that runs:\n%s", got)
	}
	if got := drawn(python, tale(append(begun(), waiting(1500, "no relay is connected"), waiting(1800, ""))...), noon+2000, 80); strings.Contains(got, "waits") {
		t.Errorf("it still waits:\n%s", got)
	}
}

func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
