package main

import (
	"fmt"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild/internal/cli"
)

// short returns the start of an id, which is enough for people and for verbs.
func short(id string) string { return id[:min(8, len(id))] }

// npub returns a public key as an npub.
func npub(k nostr.PubKey) string { return nip19.EncodeNpub(k) }

// waiting shows on a terminal what is being done, and for how long already, until done is called. what is asked again
// each second.
func (p *program) waiting(what func() string) (done func()) {
	if !cli.IsTerminal(p.err) {
		return func() {}
	}
	began, over, gone := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			fmt.Fprintf(p.err, "\r%s, %s\x1b[K", cli.Cut(cli.Clean(what()), 100), time.Since(began).Truncate(time.Second))
			select {
			case <-over:
				fmt.Fprint(p.err, "\r\x1b[K")
				return
			case <-time.After(time.Second):
			}
		}
	}()
	return func() { close(over); <-gone }
}

// clock returns the local time of Unix milliseconds: "12:00:01".
func clock(ms int64) string { return time.UnixMilli(ms).Format("15:04:05") }

// age returns the time since Unix milliseconds in one unit: "5m".
func age(now time.Time, ms int64) string {
	d := max(0, now.Sub(time.UnixMilli(ms)))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
