package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/oa"
)

// summary describes a job in one line.
func summary(job control.Job) string {
	text := string(job.Ending)
	if job.Ending == guild.Open {
		text = "open"
	}
	if a, ok := decisive(job); ok {
		text += fmt.Sprintf(" by %s: %d of %d passed", cli.Clean(nameOf(a)), a.Verdict.Passed, a.Verdict.Expected)
		if a.Receipt != "" {
			text += ", receipt " + cli.Clean(a.Receipt)
		}
		if job.Reason != "" && job.Criticality.Replicas() > 1 {
			text += "; " + cli.Clean(job.Reason)
		}
		return text
	}
	if job.Reason != "" {
		text += ": " + cli.Clean(job.Reason)
	}
	return text
}

// decisive returns the attempt whose verdict is the ending of a job.
func decisive(job control.Job) (control.Attempt, bool) {
	for _, a := range job.Attempts {
		isIt := a.ID == job.Chosen || job.Chosen == "" && job.Ending == endingOf(a)
		if a.Verdict != nil && isIt {
			return a, true
		}
	}
	return control.Attempt{}, false
}

// sentence says in one line what came of a job, and what it cost.
func sentence(job control.Job) string {
	text := endingWord(job.Ending)
	if took := time.Duration(job.Closed-job.Opened) * time.Millisecond; job.Opened > 0 && took > 0 {
		text += " after " + took.Round(100*time.Millisecond).String()
	}
	price := guild.Msat(0)
	a, judged := decisive(job)
	if judged {
		v := a.Verdict
		text += fmt.Sprintf(": %s passed %d of %d tests", cli.Clean(nameOf(a)), v.Passed, v.Expected)
		if v.Strength != "" {
			text += ", " + string(v.Strength)
		}
		price = guild.Msat(a.Price)
	}
	if job.Reason != "" && (!judged || job.Criticality.Replicas() > 1) {
		text += ": " + cli.Clean(job.Reason)
	}
	told := false
	for _, other := range job.Attempts {
		m := other.Money
		switch {
		case m == nil || other.ID == a.ID:
			continue
		case m.Paid > 0:
			text += fmt.Sprintf("; %s were paid to %s", amountOf(m.Paid, m.Asset), cli.Clean(nameOf(other)))
		default:
			text += fmt.Sprintf("; %s: %s", cli.Clean(nameOf(other)), moneyText(*m))
		}
		told = true
	}
	switch {
	case a.Money != nil:
		return text + "; " + moneyText(*a.Money)
	case told:
		return text
	case price > 0:
		return text + "; it asked for " + price.String() + ", and nothing was paid"
	}
	return text + "; nothing was paid"
}

// moneyText says what became of the money for an attempt.
func moneyText(m control.AttemptMoney) string {
	paid, held := amountOf(m.Paid, m.Asset), amountOf(m.Held, m.Asset)
	switch {
	case m.State == "released", m.State == "paid":
		return paid + " were paid"
	case m.State == "refunded":
		return held + " came back, and nothing was paid"
	}
	until := ""
	if m.Until > 0 {
		until = time.UnixMilli(m.Until).Format("2006-01-02 15:04")
	}
	switch {
	case m.Waits && until != "":
		return fmt.Sprintf("%s are locked until you decide (guild wallet approve), or until %s", held, until)
	case m.Waits:
		return fmt.Sprintf("%s: %s (guild wallet approve)", held, cli.Clean(m.Now))
	case m.Now == "coming back" && until != "":
		return fmt.Sprintf("nothing was paid, and %s are locked until they come back, by %s", held, until)
	case m.Now == "coming back":
		return "nothing was paid, and " + held + " are coming back"
	case until != "":
		return fmt.Sprintf("%s are locked until %s at the latest (%s)", held, until, cli.Clean(m.Now))
	case m.Now != "":
		return held + ": " + cli.Clean(m.Now)
	}
	return held + " are held (guild wallet balance)"
}

// amountOf writes an amount of an asset, which is in thousandths: of bitcoin in msat, of others in their unit.
func amountOf(thousandths int64, asset string) string {
	ticker, _, _ := strings.Cut(asset, "_")
	if ticker == "BTC" {
		return guild.Msat(thousandths).String()
	}
	return fmt.Sprintf("%d %s", thousandths/1000, unitName(strings.ToLower(ticker)))
}

// showEnding says how a job has ended, and where its work is.
func (p *program) showEnding(job control.Job) {
	if _, _, live := p.terminal(); !live {
		fmt.Fprintln(p.out, sentence(job)) // else the timeline ends with it
	}
	p.showWork(job)
}

// showWork says by which commands the work of a job is taken over.
func (p *program) showWork(job control.Job) {
	_, typed := oa.ParseID(job.Task)
	delivered := slices.ContainsFunc(job.Attempts, func(a control.Attempt) bool { return a.Delivery != "" })
	id := short(job.ID)
	switch {
	case typed == nil || !delivered:
	case job.Ending == guild.JobAccepted:
		fmt.Fprintf(p.out, "the work:  guild job diff %s            shows what it changes\n", id)
		fmt.Fprintf(p.out, "           guild job apply %s           commits it in the repository here\n", id)
		fmt.Fprintf(p.out, "           guild job fetch %s --to DIR  writes its files\n", id)
	default:
		fmt.Fprintf(p.out, "the delivery:  guild judge explain %s          shows what was found\n", id)
		fmt.Fprintf(p.out, "               guild job fetch %s --rejected   writes its files all the same\n", id)
	}
}

// endingOf returns the ending of a job with only this attempt.
func endingOf(a control.Attempt) guild.Ending {
	if a.Verdict == nil {
		return guild.Open
	}
	return guild.EndingOf([]guild.Attempt{{State: guild.StateFor(a.Verdict.Outcome)}})
}

// nameOf returns the name of an attempt's provider, or its npub without one.
func nameOf(a control.Attempt) string {
	if a.Name != "" {
		return a.Name
	}
	return cli.ShortNpub(a.Npub)
}
