package guild

// Outcome is what a verdict comes to (the partnership protocol, section 4.2.4).
type Outcome string

// The outcomes of judging a delivery.
const (
	Success   Outcome = "SUCCESS"            // every test passed, nothing violated
	Partial   Outcome = "PARTIAL"            // 80 to 99 % passed
	Failure   Outcome = "FAILURE"            // less than 80 % passed
	Error     Outcome = "ERROR"              // the judged code crashed or ran over a limit
	Violation Outcome = "SECURITY_VIOLATION" // the judged code tried to escape or to reach out
)

// Strength says how hard a verdict is to forge by the code it judges.
type Strength string

// Strong verdicts compare outside the process that ran the judged code; weak ones ran tests beside it, in one
// process, and are never enough alone for a payout.
const (
	Strong Strength = "strong"
	Weak   Strength = "weak"
)

// Test states.
const (
	TestPassed  = "passed"
	TestFailed  = "failed"
	TestSkipped = "skipped"
	TestMissing = "missing" // collected before the run, not reported after it
)

// Test is one test, or one acceptance criterion that is a single check.
type Test struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Message string `json:"message,omitempty"` // why it did not pass, cut to 500 bytes
}

// Breach is one observed attempt of judged code to do what it must not.
type Breach struct {
	Syscall string `json:"syscall"` // or the limit or file that was attacked
	Detail  string `json:"detail"`
}

// Usage is what a judged run consumed.
type Usage struct {
	WallMs     int64 `json:"wall_ms"`
	CPUMs      int64 `json:"cpu_ms"`
	MemoryPeak int64 `json:"memory_peak_bytes"`
}

// Verdict is what the judge found: bound to one delivery, and of the same form wherever it is shown, stored
// or hashed. It has no floats, so that its canonical hash is the same everywhere.
type Verdict struct {
	Outcome  Outcome  `json:"outcome"`
	Cause    string   `json:"cause,omitempty"` // a few words when the outcome is not SUCCESS
	Score    Score    `json:"score_micro"`
	Strength Strength `json:"strength"`
	Tier     string   `json:"tier"` // the sandbox that ran it, as "bubblewrap"

	Expected int    `json:"expected"` // tests fixed before the run
	Passed   int    `json:"passed"`
	Tests    []Test `json:"tests,omitempty"`

	Breaches []Breach `json:"violations,omitempty"`
	Usage    Usage    `json:"usage"`
	Evidence Hash     `json:"evidence,omitzero"` // blob: the judge's full output
}
