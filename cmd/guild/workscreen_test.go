package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/cli"
	"guild/internal/journal/fact"
	"guild/internal/node"
	"guild/internal/step/work"
	"guild/nip90"
)

// request returns the id of a request of a test.
func request(n byte) nostr.ID { return nostr.ID{0: n, 31: 1} }

// customerKey is the key of a customer.
var customerKey = nostr.Generate().Public()

// day has the events of one provider, with times in ms after noon.
func day() []workEvent {
	w := newWorkEvents()
	entry := func(at int64, facts ...fact.Fact) { w.entry(fact.Entry{At: noon + at, Facts: facts}) }
	happens := func(at int64, stage work.Stage, n byte, text string) {
		w.update(work.Update{At: time.UnixMilli(noon + at), Stage: stage, Request: request(n), Customer: customerKey, Service: "python", Text: text})
	}
	received := func(at int64, n byte, service string) {
		entry(at, fact.RequestReceived{Request: request(n), Customer: customerKey, Service: service})
	}
	w.ready(node.Ready{PubKey: customerKey, Relays: []string{"wss://relay.example"}}, time.UnixMilli(noon))
	received(1000, 1, "python")
	happens(1100, work.Working, 1, "")
	happens(2000, work.Said, 1, "reading the requirements")
	received(3000, 2, "go")
	happens(3500, work.Waiting, 2, "2 of 2 jobs are running")
	entry(9000, fact.RequestFinished{Request: request(1), Ending: "delivered"})
	happens(9100, work.Working, 2, "")
	received(9500, 3, "python")
	happens(9600, work.Working, 3, "")
	happens(9700, work.Refused, 4, "busy: 30 requests of one customer in a minute, try again later")
	entry(11_000, fact.RequestJudged{Request: request(1), Outcome: guild.Success, Score: guild.Score(990_000)})
	entry(12_000, fact.RequestFinished{Request: request(2), Ending: "failed", Reason: "the worker failed with exit code 1"})
	happens(12_500, work.Said, 3, "writing \x1b[31msolution.py")
	entry(13_000, fact.ServicePaused{Service: "go"})
	received(14_000, 5, "go")
	happens(14_500, work.Waiting, 5, "the service is paused")
	entry(15_000, fact.RequestJudged{Request: request(9), Outcome: guild.Failure, Score: guild.Score(200_000), Text: "8 of 9 tests did not pass"})
	return w.take()
}

func screenOf(events []workEvent, now int64, columns, rows int) *workScreen {
	s := &workScreen{services: []string{"python", "go"}, states: map[string]string{}, counts: map[string]int{}, columns: columns, rows: rows}
	for _, e := range events {
		s.apply(e)
	}
	s.now = max(s.now, noon+now)
	return s
}

// anonymous replaces the key of the customer, which is another one in each run.
func anonymous(text string) string {
	npub := npub(customerKey)
	return strings.NewReplacer(npub, "npub1customer", npub[:10]+"…"+npub[len(npub)-4:], "npub1cust…omer").Replace(text)
}

func TestWorkScreen(t *testing.T) {
	golden(t, "provider", anonymous(screenOf(day(), 20_000, 80, 24).view(palette{})))
	golden(t, "provider-idle", anonymous(screenOf(day()[:1], 20_000, 80, 24).view(palette{})))
}

func TestWorkLines(t *testing.T) {
	var b bytes.Buffer
	show := printWork(&b)
	for _, e := range day() {
		if err := show(e); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "provider-lines", anonymous(b.String()))
}

// The screen shows what a node does, and its log above; Ctrl-C ends the node, and the screen ends with it.
func TestWorkScreenEndsWithItsNode(t *testing.T) {
	person, screen := terminal(t)
	ctx, stop := context.WithCancel(t.Context())
	events, ended := newWorkEvents(), make(chan error, 1)
	broken := errors.New("the node broke at its end")
	go func() {
		ended <- showWork(screen, screen, []string{"python"}, events, stop, func(log io.Writer) error {
			fmt.Fprintln(log, "level=WARN msg=careful")
			events.update(work.Update{At: time.UnixMilli(noon), Stage: work.Refused, Request: request(1), Customer: customerKey, Service: "python", Text: "busy"})
			<-ctx.Done()
			return broken
		})
	}()
	read(t, person, "careful")
	read(t, person, "busy")
	if _, err := person.WriteString("\x03"); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		io.Copy(io.Discard, person)
	}()
	if err := <-ended; !errors.Is(err, broken) {
		t.Errorf("it ended with %v", err)
	}
	person.Close()
	<-drained
}

func TestRunningJobsStayOnTheScreen(t *testing.T) {
	events := []workEvent{{At: noon, Event: "received", Request: "running", Service: "python"}}
	for n := range byte(100) {
		id := request(n).Hex()
		events = append(events, workEvent{At: noon, Event: "received", Request: id, Service: "python"}, workEvent{At: noon, Event: "delivered", Request: id, Service: "python"})
	}
	drawing := screenOf(events, 0, 80, 24).view(palette{})
	for _, id := range []string{"running", short(request(99).Hex())} {
		if !strings.Contains(drawing, id) {
			t.Errorf("%s is not in\n%s", id, drawing)
		}
	}
	if strings.Contains(drawing, short(request(0).Hex())) {
		t.Errorf("the oldest is in\n%s", drawing)
	}
}

func TestReasonOfVerdict(t *testing.T) {
	for text, want := range map[string]string{
		"Your delivery for request 0a010000 (python) was judged FAILURE, with the score 0.30: 7 of 10 tests did not pass. If you think that this is wrong, answer this message with your reason before 2026-11-27 10:00 UTC: then it is judged again, once.": "7 of 10 tests did not pass",
		"Your delivery for request 0a010000 (python) was judged SUCCESS, with the score 0.99. If you think that this is wrong, answer this message before 2026-11-27 10:00 UTC: then it is judged again, once.":                                              "",
		"Your delivery for request 0a010000 (python) was judged again: FAILURE, with the score 0.20: it crashed or ran over a limit. This verdict is final.":                                                                                                 "it crashed or ran over a limit",
		"too slow": "too slow", "": "",
	} {
		if got := verdictReason(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestWorkScreenStaysInsideTheTerminal(t *testing.T) {
	events := day()
	for n := range byte(60) {
		long := strings.Repeat("wide 漢字 ", 50)
		events = append(events, workEvent{At: noon, Event: "received", Request: request(n).Hex(), Service: long, Customer: npub(customerKey)},
			workEvent{At: noon, Event: "said", Request: request(n).Hex(), Text: long}, workEvent{At: noon, Event: "refused", Request: "ff", Service: long, Text: long})
	}
	for columns := 40; columns < 200; columns += 9 {
		s := screenOf(events, 20_000, columns, 24)
		drawing := s.view(palette{})
		if n := strings.Count(drawing, "\n"); n > 24 {
			t.Fatalf("%d lines", n)
		}
		for line := range strings.Lines(drawing) {
			if w := lipgloss.Width(strings.TrimRight(line, "\n")); w > columns {
				t.Fatalf("%d columns in %d: %q", w, columns, line)
			}
		}
	}
	for columns := range 40 {
		screenOf(events, 20_000, columns, columns/2).view(palette{}) // must not panic
	}
}

// TestPaidBeforeInWords says at the delivery what a customer has paid before the work.
func TestPaidBeforeInWords(t *testing.T) {
	r := request(1)
	coins := fact.CoinsReceived{Request: r, TxID: "a", Amount: 5000, Exact: true}
	for want, facts := range map[string][]fact.Fact{
		"after 0s; nothing was paid":          {},
		"after 0s; 5000 sat were paid before": {coins},
		"after 0s; 7 sat were paid before":    {fact.InvoiceSettled{Request: r, Msat: 6001}},
		"after 0s; 9 sat are locked for it":   {fact.InvoiceHeld{Request: r, Msat: 9000}, fact.InvoiceSettled{Request: r, Msat: 9000}},
	} {
		w := newWorkEvents()
		w.entry(fact.Entry{Facts: []fact.Fact{fact.RequestReceived{Request: r, Service: "python"}}})
		w.entry(fact.Entry{Facts: facts})
		w.entry(fact.Entry{Facts: []fact.Fact{fact.RequestFinished{Request: r, Ending: "delivered"}}})
		all := w.take()
		if got := workText(all[len(all)-1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	w := newWorkEvents()
	w.entry(fact.Entry{Facts: []fact.Fact{
		fact.RequestReceived{Request: r, Service: "python"}, coins,
		fact.CoinsLost{Request: r, TxID: "a", Amount: 5000}, fact.RequestFinished{Request: r, Ending: "delivered"},
	}})
	var lines []string
	for _, e := range w.take()[1:] {
		lines = append(lines, e.Event+" "+workText(e))
	}
	want := []string{"paid 5000 sat", "unlocked the block with its payment is not in the chain any more", "delivered after 0s; nothing was paid"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q", lines)
	}
}

// TestLockInWords says before the work what a verdict pays.
func TestLockInWords(t *testing.T) {
	r, end := request(1), time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)
	deadline := end.Add(-25 * time.Hour).UnixMilli()
	lock := []fact.Fact{fact.LockOffered{Request: r, Unit: "sat"}, fact.LockAccepted{Request: r, Amount: 300, Locktime: end.Unix()}}
	held := []fact.Fact{fact.InvoiceHeld{Request: r, Msat: 300_000}}
	promised := &nip90.Payout{How: nip90.Escrow, Mixed: 40, Weak: 500_000}
	for want, c := range map[string]struct {
		received fact.RequestReceived
		then     []fact.Fact
	}{
		"300 sat until 2026-11-30 12:00, without a verdict nothing; SUCCESS strong pays all, mixed 40 %, weak up to 500, PARTIAL what the customer decides": {
			fact.RequestReceived{Payout: promised}, lock,
		},
		"300 sat until 2026-11-30 12:00, without a verdict nothing; SUCCESS strong pays what you claim of it, mixed nothing, weak what the customer decides, PARTIAL 25 %": {
			fact.RequestReceived{Payout: &nip90.Payout{Partial: 25}}, append([]fact.Fact{fact.RequestQuoted{Request: r, Metered: true}}, lock...),
		},
		"300 sat until 2026-11-30 12:00, without a verdict nothing; SUCCESS strong pays all, mixed what the customer decides, weak up to 500, PARTIAL what the customer decides": {
			fact.RequestReceived{Payout: promised, Deadline: deadline}, held,
		},
		"300 sat until 2026-11-30 12:00, and by the verdict yours; the order does not say how much": {fact.RequestReceived{}, lock},
		"python, for nobody; paid after the work: SUCCESS strong pays all, mixed nothing, weak up to 9, PARTIAL what the customer decides": {
			fact.RequestReceived{Service: "python", Payout: &nip90.Payout{How: nip90.Postpaid, Weak: 9000}}, nil,
		},
	} {
		w := newWorkEvents()
		c.received.Request = r
		w.entry(fact.Entry{Facts: append([]fact.Fact{c.received}, c.then...)})
		all := w.take()
		last := all[len(all)-1]
		if got := strings.Replace(workText(last), cli.ShortNpub(last.Customer), "nobody", 1); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWorkEventsAfterAnErrorAreDropped(t *testing.T) {
	w := newWorkEvents()
	for i := range 3 {
		w.update(work.Update{Stage: work.Said, Text: fmt.Sprint(i)})
	}
	done, n := make(chan struct{}), 0
	close(done)
	err := w.pass(done, func(workEvent) error { n++; return io.ErrClosedPipe })
	if !errors.Is(err, io.ErrClosedPipe) || n != 1 || len(w.take()) != 0 {
		t.Errorf("%v after %d events", err, n)
	}
}
