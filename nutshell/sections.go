package nutshell

import (
	"encoding/json"
	"time"

	"guild"
)

// Version is the version of the specification that this package writes.
const Version = "0.2.0"

// Types of bundle. The last three are from the specification's older schema and are only read.
const (
	TypeRequest    = "request"
	TypeDelivery   = "delivery"
	TypeTemplate   = "template"
	TypeCheckpoint = "checkpoint"
	TypePartial    = "partial"
)

// Sections are the members of a manifest that this package understands (section 3 of the specification), in the
// specification's order. They are read from the manifest's text and never written back whole, so that what they
// lack is not lost.
type Sections struct {
	Version    string    `json:"nutshell_version"`
	BundleType string    `json:"bundle_type"`
	RequestID  string    `json:"request_id"` // of a delivery: what it answers
	ID         string    `json:"id"`
	ParentID   string    `json:"parent_id"` // of a part: the bundle that was split
	CreatedAt  Timestamp `json:"created_at"`
	ExpiresAt  Timestamp `json:"expires_at"`

	Task         Task                       `json:"task"`
	Tags         Tags                       `json:"tags"`
	Publisher    Publisher                  `json:"publisher"`
	Context      Context                    `json:"context"`
	Files        Files                      `json:"files"`
	APIs         APIs                       `json:"apis"`
	Credentials  Credentials                `json:"credentials"`
	Acceptance   Acceptance                 `json:"acceptance"`
	Harness      Harness                    `json:"harness"`
	Resources    Resources                  `json:"resources"`
	Completeness Completeness               `json:"completeness"`
	Compression  Compression                `json:"compression"`
	Extensions   map[string]json.RawMessage `json:"extensions"`
}

// order is the order in which the specification lists the members of a manifest and of a result. A member that
// is added goes where this order wants it.
var order = []string{
	"nutshell_version", "bundle_type", "request_id", "id", "parent_id", "created_at", "expires_at", "completed_at", "deliverer",
	"task", "status", "completion_percentage", "summary", "artifacts", "acceptance_results", "execution_log", "tags",
	"publisher", "context", "files", "apis", "credentials", "acceptance", "harness", "resources", "completeness",
	"compression", "extensions",
}

// Timestamp is a moment in RFC 3339, as it was written: a draft may hold an empty one.
type Timestamp string

// Time parses the timestamp.
func (t Timestamp) Time() (time.Time, error) { return time.Parse(time.RFC3339, string(t)) }

// Task says what is to be done.
type Task struct {
	Title           string `json:"title"`
	Summary         string `json:"summary"`
	Priority        string `json:"priority"`         // critical, high, medium or low
	EstimatedEffort string `json:"estimated_effort"` // an ISO 8601 duration or free text
}

// Tags label a task (section 6).
type Tags struct {
	SkillsRequired []string                   `json:"skills_required"`
	Domains        []string                   `json:"domains"`
	DataSources    []string                   `json:"data_sources"`
	Custom         map[string]json.RawMessage `json:"custom"`
}

// Publisher is who made the bundle, by their own word.
type Publisher struct {
	Name    string `json:"name"`
	Contact string `json:"contact"`
	Tool    string `json:"tool"`
}

// Context points to the files that explain the task.
type Context struct {
	Requirements string   `json:"requirements"`
	Architecture string   `json:"architecture"`
	References   string   `json:"references"`
	Additional   []string `json:"additional"`
}

// Files lists what is in the bundle beside the manifest. Pack fills it in.
type Files struct {
	TotalCount     int64       `json:"total_count"`
	TotalSizeBytes int64       `json:"total_size_bytes"`
	Tree           []TreeEntry `json:"tree"`
}

// TreeEntry is one file of the list.
type TreeEntry struct {
	Path string `json:"path"`
	Size *int64 `json:"size"` // bytes; nil when not stated
	Hash string `json:"hash"` // "sha256:<hex>"; empty when not stated
	Role string `json:"role"` // scaffold, reference, specification or another word
}

// APIs says which interfaces the task may call (section 8).
type APIs struct {
	EndpointsSpec string            `json:"endpoints_spec"`
	BaseURLs      map[string]string `json:"base_urls"`
	AuthMethod    string            `json:"auth_method"`
	CredentialRef string            `json:"credential_ref"`
}

// Credentials points to the vault and says what is in it (section 7).
type Credentials struct {
	Vault      string  `json:"vault"`
	Encryption string  `json:"encryption"` // age, sops, vault or none
	Scopes     []Scope `json:"scopes"`

	// What follows is not in the specification (docs/adr/0012).
	Recipients []string  `json:"recipients"` // whom the vault is sealed for: public keys
	Beside     bool      `json:"beside"`     // the vault travels beside the bundle, not in it
	Rotation   *Rotation `json:"rotation"`   // how newer vaults are known
}

// Rotation says whose newer vaults take the place of the one that came with a bundle, and where they may be found.
type Rotation struct {
	PubKey string `json:"pubkey"` // who signs them: a Nostr key in hex
	URL    string `json:"url"`    // https; empty if they only come by hand
}

// Scope is what one credential allows.
type Scope struct {
	Name        string    `json:"name"`
	Type        string    `json:"type"`
	AccessLevel string    `json:"access_level"`
	RateLimit   string    `json:"rate_limit"`
	ExpiresAt   Timestamp `json:"expires_at"`
}

// Acceptance says how the work will be judged.
type Acceptance struct {
	CriteriaFile   string       `json:"criteria_file"`
	TestScripts    []string     `json:"test_scripts"`
	AutoVerifiable bool         `json:"auto_verifiable"`
	HumanReview    bool         `json:"human_review_required"`
	Checklist      []string     `json:"checklist"`
	HiddenTests    []HiddenTest `json:"hidden_tests"`
}

// HiddenTest is the commitment to a test that stays with the customer: the hash of a salt and the file.
type HiddenTest struct {
	Path string     `json:"path"`
	Hash guild.Hash `json:"hash"`
}

// Harness is advice to whatever runs the agent.
type Harness struct {
	AgentTypeHint     string   `json:"agent_type_hint"`     // research, planning, execution or review
	ContextBudgetHint float64  `json:"context_budget_hint"` // share of the context window, 0 to 1
	ExecutionStrategy string   `json:"execution_strategy"`  // one-shot, incremental or parallel
	Checkpoints       bool     `json:"checkpoints"`
	Constraints       []string `json:"constraints"`
}

// Resources are things outside the bundle, and images in it.
type Resources struct {
	Repos []struct {
		URL       string `json:"url"`
		Branch    string `json:"branch"`
		Relevance string `json:"relevance"`
	} `json:"repos"`
	Docs   []Link `json:"docs"`
	Images []struct {
		Path        string `json:"path"`
		Description string `json:"description"`
	} `json:"images"`
	Links []Link `json:"links"`
}

// Link is a page elsewhere.
type Link struct {
	URL   string `json:"url"`
	Title string `json:"title"`
}

// Completeness is what the last check of the bundle found (section 4).
type Completeness struct {
	Status   string   `json:"status"`  // draft, incomplete or ready
	Missing  []string `json:"missing"` // dotted paths
	Warnings []string `json:"warnings"`
}

// Compression describes the archive. Sizes cover all files except the manifest.
type Compression struct {
	Algorithm             string `json:"algorithm"` // gzip, zstd or none
	OriginalSizeBytes     int64  `json:"original_size_bytes"`
	CompressedSizeBytes   int64  `json:"compressed_size_bytes"`
	ContextTokensEstimate int64  `json:"context_tokens_estimate"`
}
