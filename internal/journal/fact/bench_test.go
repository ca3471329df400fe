package fact

import (
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
)

// BenchmarkSeal compares the encoding of an entry with private members with that of one without encryption.
func BenchmarkSeal(b *testing.B) {
	e := Entry{V: Version, At: 1, By: "node", Facts: []Fact{JobClosed{Job: guild.JobID{1}, Ending: guild.JobRejected, Reason: "no delivery was accepted"}}}
	result := nostr.Event{Kind: 6000, Content: strings.Repeat("A", 1500), Tags: nostr.Tags{{"e", strings.Repeat("0", 64)}, {"encrypted"}}}
	delivered := Entry{V: Version, At: 1, By: "node", Facts: []Fact{AttemptDelivered{Answer: &result}}}
	plain, err := e.Encode()
	if err != nil {
		b.Fatal(err)
	}
	stored, err := e.Seal(same)
	if err != nil {
		b.Fatal(err)
	}
	for name, run := range map[string]func() error{
		"encode":         func() error { _, err := e.Encode(); return err },
		"seal":           func() error { _, err := e.Seal(same); return err },
		"seal a result":  func() error { _, err := delivered.Seal(same); return err },
		"decode plain":   func() error { _, err := Decode(plain, same); return err },
		"decode sealed":  func() error { _, err := Decode(stored, same); return err },
		"decode no keys": func() error { _, err := Decode(stored, nil); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
