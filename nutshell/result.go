package nutshell

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// ResultFile is the path of the result in a delivery bundle.
const ResultFile = "delivery/result.json"

// The statuses of a delivery.
const (
	Completed = "completed"
	Partial   = "partial"
	Blocked   = "blocked"
	Failed    = "failed"
)

// Result is a delivery/result.json (section 5 of the specification). Raw is its text, with the members that this package
// does not know.
type Result struct {
	Version              string                     `json:"nutshell_version" about:"Version of the specification that the result follows."`
	BundleType           string                     `json:"bundle_type" examples:"delivery" about:"delivery."`
	RequestID            string                     `json:"request_id" about:"The id of the request that this answers."`
	ID                   string                     `json:"id" about:"The id of the delivery bundle."`
	CompletedAt          Timestamp                  `json:"completed_at" about:"When the work ended."`
	Deliverer            Deliverer                  `json:"deliverer" about:"Who did the work, by their own word."`
	Status               string                     `json:"status" rule:"required closed" values:"completed partial blocked failed" about:"What came of the task."`
	CompletionPercentage float64                    `json:"completion_percentage" range:"0 100" about:"How much of it is done, from 0 to 100."`
	Summary              string                     `json:"summary" about:"What was done, in a few sentences."`
	Artifacts            Artifacts                  `json:"artifacts" about:"The files that the work made or changed."`
	AcceptanceResults    AcceptanceResults          `json:"acceptance_results" about:"How the work stands to the criteria, by the deliverer's own word."`
	ExecutionLog         ExecutionLog               `json:"execution_log" about:"How the work went."`
	Tags                 ResultTags                 `json:"tags" about:"Labels of the work."`
	Extensions           map[string]json.RawMessage `json:"extensions" about:"What other tools add, each under its own name (section 10)."`
	Raw                  json.RawMessage            `json:"-"`
}

// Deliverer names who did the work, by their own word.
type Deliverer struct {
	Name         string `json:"name" about:"An agent or a person."`
	Model        string `json:"model" about:"The model that did it."`
	Tool         string `json:"tool" about:"The tool that ran the model."`
	SessionsUsed int64  `json:"sessions_used" about:"How many sessions it took."`
	TotalTokens  int64  `json:"total_tokens" about:"How many tokens it took."`
}

// Artifacts lists the files that were made or changed.
type Artifacts struct {
	FilesCreated  []Artifact `json:"files_created" about:"New files."`
	FilesModified []Artifact `json:"files_modified" about:"Changed files."`
	TotalLines    int64      `json:"total_lines" about:"How many lines all of them have."`
}

// Artifact is one file of a delivery.
type Artifact struct {
	Path      string `json:"path" about:"Where it is in the delivery, below delivery/artifacts."`
	Lines     int64  `json:"lines" about:"How many lines it has."`
	DiffLines int64  `json:"diff_lines" about:"How many lines differ."`
}

// AcceptanceResults are the claims of the deliverer. The judge does not use them.
type AcceptanceResults struct {
	TestsPassed  int64           `json:"tests_passed" about:"How many tests passed."`
	TestsFailed  int64           `json:"tests_failed" about:"How many tests failed."`
	TestsSkipped int64           `json:"tests_skipped" about:"How many tests were not run."`
	Checklist    []ChecklistItem `json:"checklist" about:"The lines of the request's checklist."`
}

// ChecklistItem is a line of the request's checklist and its status.
type ChecklistItem struct {
	Item   string `json:"item" about:"The line, as the request has it."`
	Status string `json:"status" examples:"passed failed skipped" about:"What came of it."`
}

// ExecutionLog says how the work went.
type ExecutionLog struct {
	StrategyUsed      string            `json:"strategy_used" about:"The harness.execution_strategy that was followed."`
	Checkpoints       []Checkpoint      `json:"checkpoints" about:"Moments of the work."`
	Decisions         []Decision        `json:"decisions" about:"Choices that the work made."`
	IssuesEncountered []json.RawMessage `json:"issues_encountered" about:"What went wrong on the way: texts, or objects with issue and resolution."`
	CredentialsUsed   []json.RawMessage `json:"credentials_used" about:"The audit trail: names of credentials, or objects with name and opened_at."`
	FullLog           string            `json:"full_log" about:"The file with the whole log, delivery/logs/execution.log."`
}

// CredentialUse is a credential that the work opened, by its name, and when; the time may be missing.
type CredentialUse struct {
	Name string    `json:"name"`
	At   Timestamp `json:"opened_at"`
}

// Uses reads CredentialsUsed: names, as the reference program writes them, and objects with a name and a time, which is
// in opened_at or at. Anything else is left out.
func (l ExecutionLog) Uses() []CredentialUse {
	var all []CredentialUse
	for _, raw := range l.CredentialsUsed {
		use, err := parseUse(raw)
		if err == nil && use.Name != "" {
			all = append(all, use)
		}
	}
	return all
}

func parseUse(raw json.RawMessage) (CredentialUse, error) {
	var use struct {
		CredentialUse
		At Timestamp `json:"at"`
	}
	if isText(raw) {
		err := decode(ResultFile, raw, &use.Name)
		return use.CredentialUse, err
	}
	err := decode(ResultFile, raw, &use)
	use.CredentialUse.At = cmp.Or(use.CredentialUse.At, use.At)
	return use.CredentialUse, err
}

// Checkpoint is a point in time of the work.
type Checkpoint struct {
	At          Timestamp `json:"at" about:"When it was."`
	Description string    `json:"description" about:"What was done by then."`
}

// Decision is a choice that was made during the work.
type Decision struct {
	Decision string `json:"decision" about:"What was chosen."`
	Reason   string `json:"reason" about:"Why."`
}

// ResultTags label the skills and tools that were used.
type ResultTags struct {
	SkillsUsed       []string `json:"skills_used" about:"What it took to know."`
	ToolsUsed        []string `json:"tools_used" about:"The tools that were used."`
	ComplexityActual string   `json:"complexity_actual" examples:"low medium high" about:"How hard it was."`
}

// ParseResult reads a result.json. It may have members that this package does not know. The status is required and must
// be one of the four. Its errors are those of ParseManifest.
func ParseResult(b []byte) (*Result, error) {
	r, err := parseResult(b)
	if err != nil {
		return nil, err
	}
	if r.Status == "" {
		return nil, &ManifestError{ResultFile, "status", "is required"}
	}
	return r, nil
}

// parseResult reads a result whose status may be missing.
func parseResult(b []byte) (*Result, error) {
	text, err := parseDocument(ResultFile, b)
	if err != nil {
		return nil, err
	}
	r := &Result{Raw: text.raw}
	if err := text.decode(r); err != nil {
		return nil, err
	}
	if isFirst(r.Version) {
		r.Deliverer.Name = cmp.Or(r.Deliverer.Name, text.string("deliverer", "agent_name"))
	}
	if known := tables()[ResultFile].At("status").Values; r.Status != "" && !slices.Contains(known, r.Status) {
		return nil, &ManifestError{ResultFile, "status", fmt.Sprintf("%.40q is not one of %s", r.Status, strings.Join(known, ", "))}
	}
	return r, nil
}
