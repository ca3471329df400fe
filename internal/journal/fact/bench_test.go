package fact

import (
	"testing"

	"guild"
)

// BenchmarkSeal compares the encoding of an entry with private members with that of one without encryption.
func BenchmarkSeal(b *testing.B) {
	e := Entry{V: Version, At: 1, By: "node", Facts: []Fact{JobClosed{Job: guild.JobID{1}, Ending: guild.JobRejected, Reason: "no delivery was accepted"}}}
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
