package main

import (
	"fmt"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"
)

// short is enough of an id for a person and for the verbs that take one.
func short(id string) string { return id[:min(8, len(id))] }

// npub is how a person writes a public key.
func npub(k nostr.PubKey) string { return nip19.EncodeNpub(k) }

// shortNpub shows both ends of an npub.
func shortNpub(npub string) string {
	if len(npub) < 20 {
		return npub
	}
	return npub[:9] + "…" + npub[len(npub)-4:]
}

// clock is the wall time of Unix milliseconds.
func clock(ms int64) string { return time.UnixMilli(ms).Format("15:04:05") }

// age is how long ago Unix milliseconds were, in one unit.
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
