// Package verify checks the evidence of one job, written by `guild receipt export` as docs/VERIFY.md describes,
// without a node, a network or a clock. Every check gives one line of the report: passed, failed, or absent if there
// was nothing to check.
//
// A value that was changed later fails exactly one line, the one about it. For that, each check compares only with
// signed data. A file that does not match its signature or hash fails its own line; checks that could only compare
// with that file are absent.
package verify

import (
	"errors"
	"io/fs"
)

// Files of an export. All but the first two are optional.
const (
	FileReceipt      = "receipt.json"
	FileReceiptEvent = "receipt.event.json"
	FileRequest      = "request.event.json"
	FileRequestKey   = "request.key"
	FileResult       = "result.event.json"
	FileResultKey    = "result.key"
	FileQuote        = "quote.event.json"
	FileQuoteKey     = "quote.key"
	FileBundle       = "bundle.nut"
	FileDelivery     = "delivery.nut"
	FileVerdict      = "verdict.json"
	FileEvidence     = "evidence.json"
	FileReplay       = "REPLAY.jsonl"
	FilePolicy       = "policy.json"
	FileEntry        = "journal/entry"
	FileProof        = "journal/proof.json"
	FileCheckpoint   = "journal/checkpoint.event.json"
	FileWitness      = "journal/witness.event.json" // the provider's countersignature of the checkpoint
	DirReviews       = "reviews"                    // one file <event id>.json per review
	FileTransaction  = "payment/transaction"
	FileInclusion    = "payment/inclusion.json" // the block of the transaction
	FileHidden       = "hidden.json"            // only in an export that reveals the hidden tests
	FileWorker       = "worker/REPLAY.jsonl"    // the trajectory of the provider's worker, if the delivery had it
)

// State is the result of a check.
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
	Detail string `json:"detail"` // short description of the result; the fault if it failed
}

// Report is the result of checking one export.
type Report struct {
	Receipt string  `json:"receipt"` // receipt_id; "" if it cannot be read
	Grade   Grade   `json:"grade"`
	Summary string  `json:"summary"` // what it proves, in a sentence; texts of others in it are cut, and not cleaned
	Facts   Facts   `json:"facts"`
	Checks  []Check `json:"checks"`
}

// OK reports whether there are checks and none failed.
func (r Report) OK() bool {
	for _, c := range r.Checks {
		if c.State == Failed {
			return false
		}
	}
	return len(r.Checks) > 0
}

// line is one check. check returns what it found, or the reason of a failure, or, as an absence, why there was nothing
// to check.
type line struct {
	name  string
	check func(*export) (string, error)
}

// lines returns the checks in the order of the report.
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
		{"hidden tests", (*export).checkHidden},
		{"trajectory", (*export).checkTrajectory},
		{"worker trajectory", (*export).checkWorker},
		{"policy", (*export).checkPolicy},
		{"payment", (*export).checkPayment},
		{"journal entry", (*export).checkEntry},
		{"checkpoint", (*export).checkCheckpoint},
		{"witness", (*export).checkWitness},
		{"reviews", (*export).checkReviews},
		{"supersedes", (*export).checkSupersedes},
	}
}

// absence is an error that reports a check with nothing to check.
type absence string

func (a absence) Error() string { return string(a) }

func isAbsent(err error) bool {
	_, ok := errors.AsType[absence](err)
	return ok
}

// missing returns the absence of a file.
func missing(name string) error { return absence(name + " is not there") }

// Export checks an export in a directory or another file system.
func Export(files fs.FS) Report {
	return check(collect(files))
}

// check returns the report on the files of an export. It first parses each file after the one that authenticates it:
// the receipt's event vouches for the receipt, the receipt for the request, and the request for the customer.
func check(files contents) Report {
	x := &export{contents: files}
	x.readReceipt()
	if x.known {
		x.request.broken = x.readRequest()
		x.result.broken = x.readResult()
		x.verdict, x.unjudged = x.readVerdict()
		x.hasVerdict = x.unjudged == nil
		x.trajectory = x.compareTrajectory()
		x.sealing, x.unsealed = x.checkpoint()
		x.witnessedAt, x.unwitnessed = x.witness()
	}
	report := Report{}
	if x.known {
		report.Receipt = x.receipt.ID
	}
	for _, l := range lines() {
		report.Checks = append(report.Checks, x.run(l))
	}
	report.Grade, report.Facts = x.grade(report.Checks), x.facts()
	report.Summary = report.sentence()
	return report
}

// Broken returns the report on what was meant to be an export and cannot be opened.
func Broken(err error) Report {
	r := Report{Grade: Nothing, Checks: []Check{{Name: "files", State: Failed, Detail: err.Error()}}}
	r.Summary = r.sentence()
	return r
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
