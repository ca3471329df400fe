package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"guild/internal/cli"
	"guild/replay"
)

// playedMoment is one line of a trajectory as it is shown.
type playedMoment struct {
	event replay.Event // nil for a faulty line
	raw   []byte
	fault *replay.LineError // of the line, or nil
	at    time.Time         // zero when it does not say
	since time.Duration     // the start
}

const (
	lineColumns = 160             // of a line that goes to no terminal
	maxWait     = 2 * time.Second // between two events that are played
)

// moments returns the lines of a trajectory with their times. Those that could not be read are among them.
func moments(lines iter.Seq2[replay.Line, error]) ([]playedMoment, error) {
	var all []playedMoment
	var start time.Time
	var since time.Duration
	for line, err := range lines {
		m := playedMoment{event: line.Event, raw: line.Raw}
		if err != nil {
			fault, ok := errors.AsType[*replay.LineError](err)
			if !ok {
				return all, err
			}
			m.fault = fault
		}
		if m.at = timeOf(line.Event); !m.at.IsZero() {
			if start.IsZero() {
				start = m.at
			}
			since = m.at.Sub(start)
		}
		m.since = since
		all = append(all, m)
	}
	return all, nil
}

// timeOf returns the time of an event, zero if it has none.
func timeOf(e replay.Event) time.Time {
	var said string
	switch e := e.(type) {
	case replay.ReplayHeader:
		said = e.CreatedAt
	case replay.SessionStart:
		said = e.T
	case replay.PlanStart:
		said = e.T
	case replay.ToolCall:
		said = e.T
	case replay.ToolResult:
		said = e.T
	case replay.StepComplete:
		said = e.T
	case replay.Verification:
		said = e.T
	case replay.SessionEnd:
		said = e.T
	case replay.Unknown:
		var head struct{ T string }
		if json.Unmarshal(e.Raw, &head) == nil {
			said = head.T
		}
	}
	t, err := time.Parse(time.RFC3339Nano, said)
	if err != nil {
		return time.Time{}
	}
	return t
}

// line returns a moment as "12:00:01   0:02.5 call     publish {"a":1}", cut to so many columns.
func (m playedMoment) line(style palette, columns int) string {
	at := ""
	if !m.at.IsZero() {
		at = clock(m.at.UnixMilli())
	}
	word, text, well := m.words()
	if m.fault != nil {
		word, text, well = "✗ line "+fmt.Sprint(m.fault.Number), strings.TrimSpace(m.fault.Err.Error()+" "+text), wentBadly
	}
	head := fmt.Sprintf("%8s %7s ", at, elapsed(m.since))
	text = cli.Cut(cli.Clean(text), max(20, columns-lipgloss.Width(head)-10))
	switch well {
	case wentWell:
		text = style.good.Render(text)
	case wentBadly:
		text = style.bad.Render(text)
	}
	return style.faint.Render(head) + style.title.Render(fmt.Sprintf("%-9s", cli.Cut(cli.Clean(word), 12))) + " " + text
}

// elapsed returns a duration as 1:02.5, in minutes.
func elapsed(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	return fmt.Sprintf("%s%d:%04.1f", sign, int64(d/time.Minute), (d % time.Minute).Truncate(100*time.Millisecond).Seconds())
}

// wellness says whether something succeeded.
type wellness int

const (
	unsaid wellness = iota
	wentWell
	wentBadly
)

func ofStatus(s replay.Status) wellness {
	switch s {
	case replay.Success:
		return wentWell
	case replay.Failed, replay.Timeout, replay.MaxIterationsReached:
		return wentBadly
	}
	return unsaid
}

// words returns the kind and the text of a moment. Both are untrusted and not clean.
func (m playedMoment) words() (word, text string, well wellness) {
	switch e := m.event.(type) {
	case replay.ReplayHeader:
		return "header", "by " + e.Producer, unsaid
	case replay.SessionStart:
		text = e.SessionID
		if e.IssueNumber != nil {
			text += fmt.Sprintf(", issue %d", *e.IssueNumber)
		}
		if e.PolicyBundleID != "" {
			text += ", policy " + e.PolicyBundleID
		}
		if e.BehaviourID != "" {
			text += ", behaviour " + e.BehaviourID
		}
		return "session", text, unsaid
	case replay.PlanStart:
		return "plan", cli.Count(e.StepCount, "step", "steps"), unsaid
	case replay.ToolCall:
		return "call", e.Tool + " " + string(e.Params), unsaid
	case replay.ToolResult:
		return resultWords(e)
	case replay.StepComplete:
		return "step", fmt.Sprintf("%s: %s, %s", e.StepID, e.Status, cli.Count(e.Iterations, "iteration", "iterations")), ofStatus(e.Status)
	case replay.Verification:
		return verificationWords(e)
	case replay.SessionEnd:
		return "end", fmt.Sprintf("%s, confidence %.2f, %s, %s", e.Status, float64(e.Confidence), cli.Count(e.TotalToolCalls, "call", "calls"), duration(e.TotalLatencyMs)), ofStatus(e.Status)
	case replay.Unknown:
		return e.Name, fieldWords(e.Raw), unsaid
	}
	return "", "", unsaid
}

func resultWords(e replay.ToolResult) (word, text string, well wellness) {
	text = duration(e.LatencyMs)
	if e.ExitCode != nil {
		text += fmt.Sprintf(", exit %d", *e.ExitCode)
		well = wentWell
		if *e.ExitCode != 0 {
			well = wentBadly
		}
	}
	if e.Preview != "" {
		text += ": " + e.Preview
	}
	return "result", text, well
}

func verificationWords(e replay.Verification) (word, text string, well wellness) {
	var parts []string
	well = wentWell
	for i, command := range e.Commands {
		if i < len(e.ExitCodes) {
			command += fmt.Sprintf(" → %d", e.ExitCodes[i])
		}
		parts = append(parts, command)
	}
	if len(e.Commands) == 0 || slices.ContainsFunc(e.ExitCodes, func(code int) bool { return code != 0 }) {
		well = wentBadly
	}
	return "verify", strings.Join(parts, ", "), well
}

// fieldWords returns the fields of an event that is not known, as a=1 b=x. Hashes are for machines, and left out; of an
// entry of a bundle's timeline the data counts.
func fieldWords(raw []byte) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return ""
	}
	var entry struct{ Data json.RawMessage }
	if json.Unmarshal(fields["entry"], &entry) == nil && len(entry.Data) > 0 { // of a bundle's timeline
		if entry.Data[0] != '{' {
			return jsonText(entry.Data)
		}
		return fieldWords(entry.Data)
	}
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool {
		return name == "event" || name == "t" || strings.HasSuffix(name, "_hash")
	})
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		parts = append(parts, name+"="+cli.Cut(cli.Clean(jsonText(fields[name])), 60))
	}
	return strings.Join(parts, " ")
}

// jsonText returns a string without its quotes, and anything else as it is written.
func jsonText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}
