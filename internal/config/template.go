package config

import (
	"bytes"
	_ "embed" // for Template
)

// Template is the config file that guild init writes: every key, commented out, with its default.
//
//go:embed config.toml
var Template []byte

// WithMeetings returns a template with meeting.auto set: new providers are benchmarked without a command.
func WithMeetings(template []byte) []byte {
	return bytes.Replace(template, []byte("\n#auto = false\n"), []byte("\nauto = true\n"), 1)
}
