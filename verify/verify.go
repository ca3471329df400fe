// Package verify checks the evidence of one job without a node, a network or a clock: what `guild receipt export` wrote,
// as docs/VERIFY.md describes it. Every check has a line of its own, which passed, failed, or had nothing to look at.
//
// The lines are cut so that a value that was changed afterwards makes one of them fail, the one about it. What a line
// compares with is what was signed: a file that is not what its signature or hash says fails its own line, and what
// could only be compared with it has nothing to look at.
package verify

import (
	"errors"
	"io/fs"
)

// The files of an export. All but the first two may be absent.
const (
	FileReceipt      = "receipt.json"
	FileReceiptEvent = "receipt.event.json"
	FileRequest      = "request.event.json"
	FileRequestKey   = "request.key"
	FileResult       = "result.event.json"
	FileResultKey    = "result.key"
	FileQuote        = "quote.event.json"
	FileBundle       = "bundle.nut"
	FileDelivery     = "delivery.nut"
	FileVerdict      = "verdict.json"
	FileEvidence     = "evidence.json"
	FileReplay       = "REPLAY.jsonl"
	FilePolicy       = "policy.json"
	FileEntry        = "journal/entry"
	FileProof        = "journal/proof.json"
	FileCheckpoint   = "journal/checkpoint.event.json"
	DirReviews       = "reviews" // a file <event id>.json for each
	FileTransaction  = "payment/transaction"
)

// State is how a check came out.
type State string

// The states.
const (
	Passed State = "passed"
	Failed State = "failed"
	Absent State = "absent" // there is nothing to check
)

// Check is one line of a report.
type Check struct {
	Name   string `json:"name"`
	State  State  `json:"state"`
	Detail string `json:"detail"` // what was found, in a few words; of a failure, what is wrong
}

// Report is what was found of one export.
type Report struct {
	Receipt string  `json:"receipt"` // its id, "" if it cannot be read
	Checks  []Check `json:"checks"`
}

// OK reports whether nothing failed.
func (r Report) OK() bool {
	for _, c := range r.Checks {
		if c.State == Failed {
			return false
		}
	}
	return len(r.Checks) > 0
}

// line is one check: what it found, or the error why it failed or, as an absence, why there was nothing to look at.
type line struct {
	name  string
	check func(*export) (string, error)
}

// lines are the checks, in the order in which they are shown.
func lines() []line {
	return []line{
		{"files", (*export).checkFiles},
		{"receipt", (*export).checkReceipt},
		{"receipt signature", (*export).checkSignature},
		{"request", (*export).checkRequest},
		{"job hash", (*export).checkJobHash},
		{"result", (*export).checkResult},
		{"bundle", (*export).checkBundle},
		{"delivery", (*export).checkDelivery},
		{"verdict", (*export).checkVerdict},
		{"evidence", (*export).checkEvidence},
		{"trajectory", (*export).checkTrajectory},
		{"policy", (*export).checkPolicy},
		{"payment", (*export).checkPayment},
		{"journal entry", (*export).checkEntry},
		{"checkpoint", (*export).checkCheckpoint},
		{"reviews", (*export).checkReviews},
		{"supersedes", (*export).checkSupersedes},
	}
}

// absence is an error that is none: there is nothing to check.
type absence string

func (a absence) Error() string { return string(a) }

func isAbsent(err error) bool {
	_, ok := errors.AsType[absence](err)
	return ok
}

// missing is the absence of a file.
func missing(name string) error { return absence(name + " is not there") }

// Export checks an export that lies in a directory, or was opened as one.
func Export(files fs.FS) Report {
	return check(collect(files))
}

// check makes the report on the files of an export.
func check(files contents) Report {
	x := read(files)
	report := Report{}
	if x.known {
		report.Receipt = x.receipt.ID
	}
	for _, l := range lines() {
		report.Checks = append(report.Checks, x.run(l))
	}
	return report
}

func (x *export) run(l line) Check {
	detail, err := l.check(x)
	switch {
	case err == nil:
		return Check{l.name, Passed, detail}
	case isAbsent(err):
		return Check{l.name, Absent, err.Error()}
	default:
		return Check{l.name, Failed, err.Error()}
	}
}
