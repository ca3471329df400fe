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

// Mark is the mark of a line of a report.
type Mark string

// The marks. Missing is a gap that keeps an agent from starting, or with Validate a fault.
const (
	OK      Mark = "ok"
	Missing Mark = "missing"
	Warning Mark = "warning"
)

// Item is one line of a report.
type Item struct {
	Field string `json:"field"` // the dotted path of a member of the manifest, as in "context.architecture"
	Mark  Mark   `json:"mark"`
	Text  string `json:"text"`          // as in "context/architecture.md: referenced but missing"
	Fix   string `json:"fix,omitempty"` // what to do about it: one line, or one line for each command

	Path  string       `json:"-"` // of the file that it is about; empty if it is not about a file
	Wants []Credential `json:"-"` // credentials that would fix it
}

// Credential is a credential that an agent needs and the bundle lacks.
type Credential struct{ Name, Type string }

// Report is the result of a check. Its items are in the specification's order of the sections.
type Report struct {
	Status   string // Draft, Incomplete or Ready
	Items    []Item
	Delivery bool // the bundle is a delivery, which no agent starts on
}

// Ready reports whether nothing is missing. There may be warnings.
func (r Report) Ready() bool { return r.Status == Ready }

// Missing returns the fields of the missing items, each once, in order, for completeness.missing.
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

// Verdict returns the text of the status line of section 4.
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

// Options are the options of a check. The zero value checks a directory of work, without looking at expiry.
type Options struct {
	Now time.Time // times of expiry are compared with it, unless it is zero

	Program string // the name of the program in fixes; "nutshell" if empty
	Packed  bool   // the tree is a packed bundle, which must not have hidden tests

	// Exclude reports whether packing leaves a path out. May be nil.
	Exclude func(path string) bool

	// Vault opens the sealed vault; form is credentials.encryption, or recognised from the bytes. Its error becomes a
	// warning. If it is nil, an encrypted vault is not opened.
	Vault func(sealed []byte, form string) (VaultState, error)
}

// VaultState lists the credentials in a vault, without their values.
type VaultState struct {
	Opened  bool     // a key at hand opens it
	Names   []string // of the credentials in it, if Opened
	Expired []string // those of them that have expired
}
