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

// What a delivery may say of itself.
const (
	Completed = "completed"
	Partial   = "partial"
	Blocked   = "blocked"
	Failed    = "failed"
)

func statuses() []string { return []string{Completed, Partial, Blocked, Failed} }

// Result is a delivery/result.json (section 5 of the specification). Raw is the whole of it, with the fields
// that this package does not know.
type Result struct {
	Version              string                     `json:"nutshell_version"`
	BundleType           string                     `json:"bundle_type"`
	RequestID            string                     `json:"request_id"`
	ID                   string                     `json:"id"`
	CompletedAt          Timestamp                  `json:"completed_at"`
	Deliverer            Deliverer                  `json:"deliverer"`
	Status               string                     `json:"status"` // Completed, Partial, Blocked or Failed
	CompletionPercentage float64                    `json:"completion_percentage"`
	Summary              string                     `json:"summary"`
	Artifacts            Artifacts                  `json:"artifacts"`
	AcceptanceResults    AcceptanceResults          `json:"acceptance_results"`
	ExecutionLog         ExecutionLog               `json:"execution_log"`
	Tags                 ResultTags                 `json:"tags"`
	Extensions           map[string]json.RawMessage `json:"extensions"`
	Raw                  json.RawMessage            `json:"-"`
}

// Deliverer is who did the work, by their own word.
type Deliverer struct {
	Name         string `json:"name"`
	Model        string `json:"model"`
	Tool         string `json:"tool"`
	SessionsUsed int64  `json:"sessions_used"`
	TotalTokens  int64  `json:"total_tokens"`
}

// Artifacts lists the files that the work made or changed.
type Artifacts struct {
	FilesCreated  []Artifact `json:"files_created"`
	FilesModified []Artifact `json:"files_modified"`
	TotalLines    int64      `json:"total_lines"`
}

// Artifact is one file of a delivery.
type Artifact struct {
	Path      string `json:"path"`
	Lines     int64  `json:"lines"`
	DiffLines int64  `json:"diff_lines"`
}

// AcceptanceResults are the deliverer's own claims; the judge does not believe them.
type AcceptanceResults struct {
	TestsPassed  int64           `json:"tests_passed"`
	TestsFailed  int64           `json:"tests_failed"`
	TestsSkipped int64           `json:"tests_skipped"`
	Checklist    []ChecklistItem `json:"checklist"`
}

// ChecklistItem is a line of the request's checklist and what came of it.
type ChecklistItem struct {
	Item   string `json:"item"`
	Status string `json:"status"`
}

// ExecutionLog says how the work went.
type ExecutionLog struct {
	StrategyUsed      string            `json:"strategy_used"`
	Checkpoints       []Checkpoint      `json:"checkpoints"`
	Decisions         []Decision        `json:"decisions"`
	IssuesEncountered []json.RawMessage `json:"issues_encountered"`
	CredentialsUsed   []json.RawMessage `json:"credentials_used"` // names, or objects with a name and a time
	FullLog           string            `json:"full_log"`         // a file of the bundle
}

// CredentialUse is a credential that the work opened, by its name, and when; the time may be missing.
type CredentialUse struct {
	Name string    `json:"name"`
	At   Timestamp `json:"opened_at"`
}

// Uses reads CredentialsUsed: the names of the reference program as well as objects with a name and a time, which
// stands in opened_at, or in at. What is neither is left out.
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

// Checkpoint is a moment of the work.
type Checkpoint struct {
	At          Timestamp `json:"at"`
	Description string    `json:"description"`
}

// Decision is a choice that the work made.
type Decision struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
}

// ResultTags label what the work took.
type ResultTags struct {
	SkillsUsed       []string `json:"skills_used"`
	ToolsUsed        []string `json:"tools_used"`
	ComplexityActual string   `json:"complexity_actual"`
}

// ParseResult reads a result.json. Like a manifest it may have fields that this package does not know; the
// status must be one of the four. Its errors are those of ParseManifest.
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

// parseResult reads a result that may still lack its status.
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
	if r.Status != "" && !slices.Contains(statuses(), r.Status) {
		return nil, &ManifestError{ResultFile, "status", fmt.Sprintf("%.40q is not one of %s", r.Status, strings.Join(statuses(), ", "))}
	}
	return r, nil
}
