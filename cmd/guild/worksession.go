package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/nip90"
)

// isRequest reports whether text can be the start of a request's id.
func isRequest(text string) bool {
	return len(text) >= 8 && len(text) <= 64 && strings.Trim(strings.ToLower(text), "0123456789abcdef") == ""
}

// printDocument prints the record of the session in which a request was worked on, as it is stored.
func (p *program) printDocument(ctx context.Context, document control.Document, request string) error {
	return p.reading(ctx, func(client *control.Client, _ bool) error {
		b, err := document.Call(ctx, client, request)
		if err != nil {
			return err
		}
		_, err = p.out.Write(b)
		return err
	})
}

func (p *program) showRequest(r control.Request) error {
	line := p.line
	line("request", "%s", r.Request)
	line("customer", "%s", cli.ShortNpub(r.Customer))
	line("task", "%s, for the service %s", r.Task, r.Service)
	line("came", "%s ago", age(p.now(), r.At))
	if l := r.Locked; l != nil {
		line("locked", "%d %s until %s, without a verdict nothing", l.Amount, unitName(l.Unit), p.until(*l))
	}
	if r.Payout != nil {
		unit := ""
		if r.Locked != nil {
			unit = r.Locked.Unit
		}
		fmt.Fprintf(p.out, "%-9s %s\n", "verdict", payoutText(*r.Payout, unit, r.Payout.How == nip90.Postpaid, false)) // not cut
	}
	switch {
	case r.Taken:
		line("ended", "the customer took it back")
	case r.Ending == "":
		line("ended", "not yet")
	case r.Reason != "":
		fmt.Fprintf(p.out, "%-9s %s: %s\n", "ended", r.Ending, cli.Clean(r.Reason)) // not cut: the person wants all of it
	default:
		line("ended", "%s after %s", r.Ending, time.Duration(r.Ended-r.At)*time.Millisecond)
	}
	for _, one := range []struct {
		label string
		blob  guild.Hash
	}{{"bundle", r.Bundle}, {"delivery", r.Delivery}, {"replay", r.Replay}, {"session", r.Session}} {
		if !one.blob.IsZero() {
			fmt.Fprintf(p.out, "%-9s %s\n", one.label, one.blob)
		}
	}
	return nil
}
