// Package cli holds what the command lines of guild have in common: exit codes, errors that end in a hint, groups of
// verbs, questions to a person, and text that is safe for a terminal. It knows no verb and nothing of guild; the programs
// in cmd and the verbs below internal/nut are built with it.
package cli
