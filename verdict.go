package guild

// Outcome is what a verdict comes to (the partnership protocol, section 4.2.4).
type Outcome string

// The outcomes of judging a delivery.
const (
	Success   Outcome = "SUCCESS"            // every functional test passed, nothing violated
	Partial   Outcome = "PARTIAL"            // 80 to 99 % of them passed
	Failure   Outcome = "FAILURE"            // less than 80 % of them passed, or a smoke test did not
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

// Layers of tests (the partnership protocol, section 4.2.2). Smoke and correctness tests are the functional ones,
// which decide the outcome. A test without a layer counts as correctness.
const (
	LayerSmoke       = "smoke"       // a failure rejects at once
	LayerCorrectness = "correctness" // the core of the score
	LayerEdge        = "edge"        // failures lower the quality
	LayerPerformance = "performance" // set the speed class
	LayerSecurity    = "security"    // as edge
)

// Test is one test, or one acceptance criterion that is a single check.
type Test struct {
	ID      string `json:"id"`
	State   string `json:"state"`
	Message string `json:"message,omitempty"` // why it did not pass, cut to 500 bytes
	Layer   string `json:"layer,omitempty"`   // one of the Layer constants
	Micros  int64  `json:"us,omitempty"`      // how long it took, in microseconds, by the judge's clock
	Decided int    `json:"decided,omitempty"` // questions in it that only the delivery's own objects could answer
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
	DiskPeak   int64 `json:"disk_peak_bytes,omitempty"`
	PidsPeak   int64 `json:"pids_peak,omitempty"`
	Output     int64 `json:"output_bytes,omitempty"`
	Refused    int64 `json:"syscalls_refused,omitempty"` // calls that got ENOSYS or EPERM and decide nothing
}

// Add sums what two runs consumed; of peaks it takes the higher one. If they ran at one time, the sum of their wall
// times is only an upper bound.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		WallMs:     u.WallMs + v.WallMs,
		CPUMs:      u.CPUMs + v.CPUMs,
		MemoryPeak: max(u.MemoryPeak, v.MemoryPeak),
		DiskPeak:   max(u.DiskPeak, v.DiskPeak),
		PidsPeak:   max(u.PidsPeak, v.PidsPeak),
		Output:     u.Output + v.Output,
		Refused:    u.Refused + v.Refused,
	}
}

// Verdict is what the judge found: bound to one delivery, and of the same form wherever it is shown, stored
// or hashed. It has no floats, so that its canonical hash is the same everywhere.
type Verdict struct {
	Outcome  Outcome  `json:"outcome"`
	Cause    string   `json:"cause,omitempty"` // a few words when the outcome is not SUCCESS
	Score    Score    `json:"score_micro"`
	Strength Strength `json:"strength"`
	Tier     string   `json:"tier"` // the sandbox that ran it, as "namespaces"

	Expected int    `json:"expected"` // tests fixed before the run, of all layers
	Passed   int    `json:"passed"`
	Tests    []Test `json:"tests,omitempty"`

	Dimensions  []Dimension `json:"dimensions,omitempty"`  // what the score is made of
	Standing    Standing    `json:"standing,omitempty"`    // what the score alone would make of the provider
	Speed       Speed       `json:"speed,omitempty"`       // by the performance tests
	Annotations []string    `json:"annotations,omitempty"` // fast, reliable, efficient, thorough
	Quality     *Quality    `json:"quality,omitempty"`
	Decided     int         `json:"decided,omitempty"` // as in Test, of all of them
	Claims      *Claims     `json:"claims,omitempty"`  // what the delivery says of itself; it decides nothing
	Ruling      *Ruling     `json:"ruling,omitempty"`  // a person's word, where the criteria ask for one
	Opinion     *Opinion    `json:"opinion,omitempty"` // of a subjective job

	Box    *Box         `json:"box,omitempty"`    // the walls that it ran in
	Tools  []Tool       `json:"tools,omitempty"`  // what judged, with versions
	Hidden []Commitment `json:"hidden,omitempty"` // tests kept from the provider, each matching what was committed to

	Warnings []string `json:"warnings,omitempty"` // soft limits, look-ups of names; they decide nothing
	Breaches []Breach `json:"violations,omitempty"`
	Usage    Usage    `json:"usage"`
	Evidence Hash     `json:"evidence,omitzero"` // blob: the judge's full output
}

// Standing is what a verdict's score makes of a provider (the partnership protocol, section 3.2.1).
type Standing string

// The standings.
const (
	StandingActive      Standing = "active"      // 0.8 and more
	StandingConditional Standing = "conditional" // 0.6 and more; at most this when a functional test failed
	StandingRejected    Standing = "rejected"
)

// Speed is the class that performance tests put a delivery in.
type Speed string

// The speed classes, by the part of performance tests that passed and their time against the baseline.
const (
	Fast   Speed = "FAST"
	Steady Speed = "STANDARD"
	Slow   Speed = "SLOW"
)

// Dimension is one part of the score (the partnership protocol, section 3.2.1). One that the task does not have
// is left out of the sum, and says why.
type Dimension struct {
	Name   string `json:"name"`   // correctness, performance, resources, quality
	Weight int64  `json:"weight"` // percent
	Value  Score  `json:"value_micro"`
	Known  bool   `json:"known"`
	Reason string `json:"reason,omitempty"` // why it is not known, or what lowered it
}

// MayPay reports whether a verdict alone may release an amount. Only a SUCCESS may. A strong one releases
// whatever was agreed, and so does one that a person ruled on. What the judged code could have forged, and what
// is an opinion, releases at most the cap that the owner set for those; zero is nothing.
func (v Verdict) MayPay(amount, cap Msat) bool {
	switch {
	case v.Outcome != Success || len(v.Breaches) > 0 || amount < 0:
		return false
	case v.Ruling != nil:
		return true
	case v.Opinion != nil || v.Strength != Strong:
		return amount <= cap
	default:
		return true
	}
}

// Quality is what static analysis and coverage say. It lowers the score, and never violates.
type Quality struct {
	Pylint   int64    `json:"pylint_milli"` // pylint's grade, 0 to 10, in thousandths
	Linted   bool     `json:"linted"`       // there was Python to grade
	Lines    Score    `json:"lines_micro"`  // part of the lines that the tests ran; the delivery's own word
	Branches Score    `json:"branches_micro"`
	Covered  bool     `json:"covered"`            // coverage was measured
	Types    int      `json:"types"`              // complaints of the type checker, which cost nothing
	Findings []Notice `json:"findings,omitempty"` // the worst 50
}

// Notice is something that static analysis found.
type Notice struct {
	Tool     string `json:"tool"`     // bandit, pattern, pylint, mypy
	Code     string `json:"code"`     // the tool's own, as B301
	Severity string `json:"severity"` // low, medium, high
	File     string `json:"file"`
	Line     int    `json:"line"`
	Text     string `json:"text"`
}

// Claims are a delivery's own acceptance_results (the Nutshell specification, section 6).
type Claims struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// Ruling is what a person decided where the criteria cannot be verified by a program.
type Ruling struct {
	By   string `json:"by"` // public key, hex
	Note string `json:"note,omitempty"`
	At   int64  `json:"at"` // Unix seconds
}

// Opinion is how a subjective job's results were compared.
type Opinion struct {
	Adjudication string   `json:"adjudication"` // none, majority_vote, judge_model, merge
	Voters       int      `json:"voters"`
	Agreeing     int      `json:"agreeing"`
	Models       []string `json:"models,omitempty"`
	Reason       string   `json:"reason,omitempty"`
}

// Box is the walls that a verdict's runs had around them, for whoever wants to judge again.
type Box struct {
	MAC     string   `json:"mac,omitempty"` // mandatory access control in force, as "landlock 7"
	Rootfs  string   `json:"rootfs"`        // "host", or the hash of the image
	Profile string   `json:"profile"`       // the system call profile and its hash
	Gaps    []string `json:"gaps,omitempty"`
	CPUs    int      `json:"cpus"`
	Memory  int64    `json:"memory_bytes"`
	Disk    int64    `json:"disk_bytes"`
	Pids    int      `json:"pids"`
	CPUMs   int64    `json:"cpu_ms"`
	WallMs  int64    `json:"wall_ms"`
}

// Tool is a program that took part in judging.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Commitment is a hidden test's salted hash, as it stood in the request, and the salt that opens it.
type Commitment struct {
	Path string `json:"path"`
	Hash Hash   `json:"hash"` // of the salt, then the file
	Salt string `json:"salt"` // hex
}
