package config

import _ "embed" // for Template

// Template is the config file that guild init writes: every key, commented out, with its default.
//
//go:embed config.toml
var Template []byte
