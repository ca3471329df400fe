package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"guild/internal/cli"
	"guild/internal/control"
)

// claimsBeside returns a table of what a provider claims and what was measured.
func claimsBeside(c control.Card) [][]string {
	said, seen := c.Claimed, c.Observed
	if seen == nil {
		seen = &control.Observed{}
	}
	rows := [][]string{{"", "CLAIMS", "MEASURED"}}
	add := func(name, claimed, measured string) {
		rows = append(rows, []string{"  " + name, orDash(claimed), orDash(measured)})
	}
	add("success", share(said.SuccessRate), acceptedOf(seen))
	add("latency", millis(said.LatencyMs), latency(seen))
	add("price", price(said.Price, said.PriceText), price(seen.Quoted, ""))
	add("kinds", numbers(said.Kinds), numbers(seen.Kinds))
	add("encrypted", strings.Join(said.Encryption, ", "), sealedAnswers(seen))
	add("jobs", whole(said.JobsCompleted), endings(seen))
	for i := range max(len(said.Relays), len(seen.Relays)) {
		claimed, measured := "", ""
		if i < len(said.Relays) {
			claimed = cli.Cut(cli.Clean(said.Relays[i]), 28)
		}
		if i < len(seen.Relays) {
			path := seen.Relays[i]
			measured = fmt.Sprintf("%s %d/%d", cli.Cut(cli.Clean(path.URL), 24), path.Worked, path.Worked+path.Lost)
		}
		name := "relays"
		if i > 0 {
			name = ""
		}
		add(name, claimed, measured)
	}
	return rows
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func share(rate *float64) string {
	if rate == nil {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100**rate)
}

func acceptedOf(o *control.Observed) string {
	if o.SuccessRate == nil {
		return ""
	}
	return fmt.Sprintf("%s, %d of %d", share(o.SuccessRate), o.Accepted, o.Asked)
}

func millis(ms *float64) string {
	if ms == nil {
		return ""
	}
	return duration(int64(*ms))
}

// duration writes milliseconds for a person.
func duration(ms int64) string {
	d := time.Duration(min(ms, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond // of somebody else, perhaps
	switch {
	case d < time.Second:
		return d.String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func latency(o *control.Observed) string {
	if o.P50 == 0 {
		return ""
	}
	return fmt.Sprintf("%s, at worst %s", duration(o.P50), duration(o.P95))
}

func price(msat int64, text string) string {
	if msat > 0 {
		return fmt.Sprintf("%d msat", msat)
	}
	return cli.Cut(cli.Clean(text), 28)
}

func numbers(all []int) string {
	words := make([]string, len(all))
	for i, n := range all {
		words[i] = strconv.Itoa(n)
	}
	return cli.Cut(strings.Join(words, ", "), 28)
}

func sealedAnswers(o *control.Observed) string {
	if o.Encrypted+o.InClear == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d answers", o.Encrypted, o.Encrypted+o.InClear)
}

func whole(n *float64) string {
	if n == nil {
		return ""
	}
	return fmt.Sprintf("%.0f", *n)
}

// endings counts the requests to a provider by their endings.
func endings(o *control.Observed) string {
	if o.Asked == 0 {
		return ""
	}
	text := fmt.Sprintf("%d delivered", o.Delivered)
	for _, other := range []struct {
		n    int
		what string
	}{{o.Expired, "silent"}, {o.Refused, "refused"}, {o.Faults, "faulty"}} {
		if other.n > 0 {
			text += fmt.Sprintf(", %d %s", other.n, other.what)
		}
	}
	return text
}
