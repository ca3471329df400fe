package guild

// Outcome is the result of a verdict (the partnership protocol, section 4.2.4).
type Outcome string

// Outcomes of judging a delivery.
const (
	Success   Outcome = "SUCCESS"            // all functional tests passed, no violation
	Partial   Outcome = "PARTIAL"            // 80 to 99 % of them passed
	Failure   Outcome = "FAILURE"            // less than 80 % of them passed, or a smoke test failed
	Error     Outcome = "ERROR"              // the judged code crashed or exceeded a limit
	Violation Outcome = "SECURITY_VIOLATION" // the judged code tried to escape or to reach the network
)

// Strength tells what a verdict rests on. docs/JUDGE.md has the rule.
type Strength string

// Strengths, the best first. A test is strong if an answer of the delivery matters in it by a decision that was made
// outside the delivery's process, and no lie of the table passes it. Only a strong verdict permits a payout by itself.
const (
	Strong     Strength = "strong"
	Mixed      Strength = "mixed"      // of a verdict: only some of its criteria have strong tests
	Weak       Strength = "weak"       // a delivery that does not do the work could have passed
	Unverified Strength = "unverified" // nothing was run that could tell right from wrong
)

// Exposure tells what a provider could know of a test.
type Exposure string

// Exposures of tests.
const (
	Visible Exposure = "visible" // the provider had the test: a table of its answers would pass it
	Hidden  Exposure = "hidden"  // the provider had only its commitment
	Drawn   Exposure = "drawn"   // its inputs were chosen after the delivery's hash was fixed
)

// Blame tells whose fault it is that a test did not pass. Only the delivery's faults affect trust and money.
type Blame string

// Who can be blamed for a test that did not pass.
const (
	BlameDelivery Blame = "delivery"
	BlameTests    Blame = "tests"   // the customer's: it does not pass without the delivery either, or cannot
	BlameJudge    Blame = "judge"   // it needs what the judge cannot do
	BlameMachine  Blame = "machine" // a tool or library is missing here
)

// Test states.
const (
	TestPassed  = "passed"
	TestFailed  = "failed"
	TestSkipped = "skipped"
	TestMissing = "missing" // collected before the run, not reported after it
)

// Layers of tests (the partnership protocol, section 4.2.2). Smoke and correctness tests are the functional tests,
// which decide the outcome. A test without a layer counts as correctness.
const (
	LayerSmoke       = "smoke"       // a failure rejects the delivery at once
	LayerCorrectness = "correctness" // the core of the score
	LayerEdge        = "edge"        // failures lower the quality
	LayerPerformance = "performance" // determines the speed class
	LayerSecurity    = "security"    // like edge
)

// Test is one test, or one acceptance criterion with a single check.
type Test struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Message string `json:"message,omitempty"` // reason of a failure, cut to 500 bytes
	Layer   string `json:"layer,omitempty"`   // one of the Layer constants
	Micros  int64  `json:"us,omitempty"`      // duration in microseconds, by the judge's clock
	Decided int    `json:"decided,omitempty"` // questions in it that only the delivery's own objects could answer

	Strength Strength `json:"strength,omitempty"` // of a test that passed; empty in verdicts made before strength was found for each test
	Exposure Exposure `json:"exposure,omitempty"` // as for strength
	Blame    Blame    `json:"blame,omitempty"`    // of a test that did not pass
	Because  string   `json:"because,omitempty"`  // reason for the strength or the blame, cut to 500 bytes
}

// Breach is one observed attempt of judged code to do something forbidden.
type Breach struct {
	Syscall string `json:"syscall"` // or the attacked limit or file
	Detail  string `json:"detail"`
}

// Usage is the resource usage of a judged run.
type Usage struct {
	WallMs     int64 `json:"wall_ms"`
	WaitedMs   int64 `json:"waited_ms,omitempty"` // of WallMs, in which the machine had too few processors; an upper bound
	CPUMs      int64 `json:"cpu_ms"`
	MemoryPeak int64 `json:"memory_peak_bytes"`
	DiskPeak   int64 `json:"disk_peak_bytes,omitempty"`
	PidsPeak   int64 `json:"pids_peak,omitempty"`
	Output     int64 `json:"output_bytes,omitempty"`
	Refused    int64 `json:"syscalls_refused,omitempty"` // calls that got ENOSYS or EPERM; they do not affect the verdict
}

// Add returns the usage of two runs together: the sum, or for peaks the maximum. If the runs overlapped, the sum of
// their wall times is only an upper bound.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		WallMs:     u.WallMs + v.WallMs,
		WaitedMs:   u.WaitedMs + v.WaitedMs,
		CPUMs:      u.CPUMs + v.CPUMs,
		MemoryPeak: max(u.MemoryPeak, v.MemoryPeak),
		DiskPeak:   max(u.DiskPeak, v.DiskPeak),
		PidsPeak:   max(u.PidsPeak, v.PidsPeak),
		Output:     u.Output + v.Output,
		Refused:    u.Refused + v.Refused,
	}
}

// Verdict is the judge's result for one delivery. It has the same form in memory, in storage and in its hash. It has
// no floats, so that its canonical hash is the same everywhere.
type Verdict struct {
	Outcome  Outcome  `json:"outcome"`
	Cause    string   `json:"cause,omitempty"` // short reason if the outcome is not SUCCESS
	Score    Score    `json:"score_micro"`
	Strength Strength `json:"strength"`
	Tier     string   `json:"tier"` // the sandbox of the run, such as "namespaces"

	Expected int    `json:"expected"` // number of tests of all layers, fixed before the run
	Passed   int    `json:"passed"`
	Tests    []Test `json:"tests,omitempty"`

	Dimensions  []Dimension `json:"dimensions,omitempty"`  // parts of the score
	Standing    Standing    `json:"standing,omitempty"`    // provider's state by the score alone
	Speed       Speed       `json:"speed,omitempty"`       // from the performance tests
	Annotations []string    `json:"annotations,omitempty"` // fast, reliable, efficient, thorough
	Quality     *Quality    `json:"quality,omitempty"`
	Decided     int         `json:"decided,omitempty"`   // sum over all tests; see Test
	Strengths   *Strengths  `json:"strengths,omitempty"` // of the functional tests
	Unproven    []string    `json:"unproven,omitempty"`  // delivered names that a lie can answer for, each with the lie, sorted
	Claims      *Claims     `json:"claims,omitempty"`    // stated by the delivery itself; does not affect the verdict
	Ruling      *Ruling     `json:"ruling,omitempty"`    // a person's decision, if the criteria ask for one
	Opinion     *Opinion    `json:"opinion,omitempty"`   // of a subjective job

	Box    *Box         `json:"box,omitempty"`    // limits and isolation of the runs
	Tools  []Tool       `json:"tools,omitempty"`  // programs used for judging
	Hidden []Commitment `json:"hidden,omitempty"` // tests hidden from the provider, each checked against its commitment

	Warnings []string `json:"warnings,omitempty"` // soft limits, name look-ups; they do not affect the outcome
	Breaches []Breach `json:"violations,omitempty"`
	Usage    Usage    `json:"usage"`
	Evidence Hash     `json:"evidence,omitzero"` // blob with the judge's full output
}

// Strengths counts the functional tests that passed, by strength and by exposure.
type Strengths struct {
	Strong  int `json:"strong"`
	Mixed   int `json:"mixed"`
	Weak    int `json:"weak"`
	Visible int `json:"visible"`
	Hidden  int `json:"hidden"`
	Drawn   int `json:"drawn"`
}

// Standing is the provider's state by a verdict's score alone (the partnership protocol, section 3.2.1).
type Standing string

// The standings.
const (
	StandingActive      Standing = "active"      // at least 0.8
	StandingConditional Standing = "conditional" // at least 0.6; at most this if a functional test failed
	StandingRejected    Standing = "rejected"
)

// Speed is a delivery's class in performance tests.
type Speed string

// Speed classes, by the share of performance tests that passed and their time relative to the baseline.
const (
	Fast   Speed = "FAST"
	Steady Speed = "STANDARD"
	Slow   Speed = "SLOW"
)

// Dimension is one part of the score (the partnership protocol, section 3.2.1). A dimension that does not apply to the
// task is excluded from the sum; Reason says why.
type Dimension struct {
	Name   string `json:"name"`   // correctness, performance, resources, quality
	Weight int64  `json:"weight"` // percent
	Value  Score  `json:"value_micro"`
	Known  bool   `json:"known"`
	Reason string `json:"reason,omitempty"` // why it is not known, or why it is lower
}

// Counts reports whether a verdict tells something about the provider: unless nothing was verified and no person ruled.
// Other verdicts move neither trust nor standing.
func (v Verdict) Counts() bool { return v.Strength != Unverified || v.Ruling != nil }

// Quality is the result of static analysis and coverage. It can lower the score, but is never a violation.
type Quality struct {
	Pylint   int64    `json:"pylint_milli"` // pylint's grade, 0 to 10, in thousandths
	Linted   bool     `json:"linted"`       // there was Python code to grade
	Lines    Score    `json:"lines_micro"`  // share of lines that the tests ran; reported by the delivery's process
	Branches Score    `json:"branches_micro"`
	Covered  bool     `json:"covered"`            // coverage was measured
	Types    int      `json:"types"`              // errors of the type checker; they do not lower the score
	Findings []Notice `json:"findings,omitempty"` // the worst 50
}

// Notice is one finding of static analysis.
type Notice struct {
	Tool     string `json:"tool"`     // bandit, pattern, pylint, mypy
	Code     string `json:"code"`     // the tool's code, such as B301
	Severity string `json:"severity"` // low, medium, high
	File     string `json:"file"`
	Line     int    `json:"line"`
	Text     string `json:"text"`
}

// Claims is a delivery's own acceptance_results (the Nutshell specification, section 6).
type Claims struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// Ruling is a person's decision where no program can verify the criteria.
type Ruling struct {
	By   string `json:"by"` // public key, hex
	Note string `json:"note,omitempty"`
	At   int64  `json:"at"` // Unix seconds
}

// Opinion describes the comparison of the results of a subjective job.
type Opinion struct {
	Adjudication string   `json:"adjudication"` // none, majority_vote, judge_model, merge
	Voters       int      `json:"voters"`
	Agreeing     int      `json:"agreeing"`
	Models       []string `json:"models,omitempty"`
	Reason       string   `json:"reason,omitempty"`
}

// Box describes the isolation and the limits of a verdict's runs, so that the delivery can be judged again.
type Box struct {
	MAC     string   `json:"mac,omitempty"` // active mandatory access control, such as "landlock 7"
	Rootfs  string   `json:"rootfs"`        // "host", or the hash of the image
	Profile string   `json:"profile"`       // system call profile with its hash
	Gaps    []string `json:"gaps,omitempty"`
	CPUs    int      `json:"cpus"`
	Memory  int64    `json:"memory_bytes"`
	Disk    int64    `json:"disk_bytes"`
	Pids    int      `json:"pids"`
	CPUMs   int64    `json:"cpu_ms"`
	WallMs  int64    `json:"wall_ms"`
}

// Tool is a program that was used for judging.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Commitment is the salted hash of a hidden test, as in the request. In verdicts it has no salt: with the salt a guess of
// the test could be confirmed.
type Commitment struct {
	Path string `json:"path"`
	Hash Hash   `json:"hash"`           // of the salt followed by the file
	Salt string `json:"salt,omitempty"` // hex
}
