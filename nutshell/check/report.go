package check

import (
	"slices"
	"strings"
	"time"
)

// States of a bundle, as completeness.status has them.
const (
	Draft      = "draft"      // it has no title yet
	Incomplete = "incomplete" // something is missing without which an agent cannot start
	Ready      = "ready"
)

// Mark is how a line of a report is meant.
type Mark string

// The marks. A line that is Missing is a gap that keeps an agent from starting, or with Validate a fault.
const (
	OK      Mark = "ok"
	Missing Mark = "missing"
	Warning Mark = "warning"
)

// Item is one line of a report.
type Item struct {
	Field string `json:"field"` // the dotted path in the manifest that it is about, as in "context.architecture"
	Mark  Mark   `json:"mark"`
	Text  string `json:"text"`          // as in "context/architecture.md: referenced but missing"
	Fix   string `json:"fix,omitempty"` // what to do about it: one line, or one line for each command

	Path  string       `json:"-"` // the file of the tree that it is about, if it is about one
	Wants []Credential `json:"-"` // the credentials that would mend it
}

// Credential is one that an agent needs and does not get.
type Credential struct{ Name, Type string }

// Report is what was found, in the order in which the specification lists the sections of a manifest.
type Report struct {
	Status   string // Draft, Incomplete or Ready
	Items    []Item
	Delivery bool // it is about a delivery, which no agent starts on
}

// Ready reports whether nothing is missing. There may be warnings.
func (r Report) Ready() bool { return r.Status == Ready }

// Missing returns the fields of what is missing, for completeness.missing: each once, in order.
func (r Report) Missing() []string {
	fields := []string{}
	for _, i := range r.Items {
		if i.Mark == Missing && !slices.Contains(fields, i.Field) {
			fields = append(fields, i.Field)
		}
	}
	return fields
}

// Warnings returns the texts of the warnings, for completeness.warnings.
func (r Report) Warnings() []string {
	texts := []string{}
	for _, i := range r.Items {
		if i.Mark == Warning {
			texts = append(texts, i.Text)
		}
	}
	return texts
}

// Count returns how many items have a mark.
func (r Report) Count(m Mark) int {
	n := 0
	for _, i := range r.Items {
		if i.Mark == m {
			n++
		}
	}
	return n
}

// Verdict is what the status line of section 4 says.
func (r Report) Verdict() string {
	goal := "agent can start"
	if r.Delivery {
		goal = "it can be delivered"
	}
	if !r.Ready() {
		return strings.ToUpper(r.Status) + " — " + plural(r.Count(Missing), "item needs", "items need") + " attention before " + goal
	}
	if n := r.Count(Warning); n > 0 {
		goal += ", with " + plural(n, "warning", "warnings")
	}
	return "READY — " + goal
}

// Options say how to look at a tree. The zero value looks at a directory in which somebody works, at a time at which
// nothing has expired.
type Options struct {
	Now time.Time // what expires is held against it; not at all if zero

	Program string // how a person calls the program, for the commands in fixes; "nutshell" if empty
	Packed  bool   // the tree is that of a packed bundle: what stays with the customer must not be in it

	// Exclude reports whether packing leaves a path out, so that a reference to it would lead nowhere. Nil: it does not.
	Exclude func(path string) bool

	// Vault is asked about the sealed vault; form is credentials.encryption, or what the bytes look like. Nil: only the
	// outside of the vault is looked at. An error becomes a warning.
	Vault func(sealed []byte, form string) (VaultState, error)
}

// VaultState is what somebody with keys knows of a vault. It holds no values.
type VaultState struct {
	Opened  bool     // a key at hand opens it
	Names   []string // of the credentials in it, if Opened
	Expired []string // those of them that have expired
}
