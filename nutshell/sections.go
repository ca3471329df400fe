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
// specification's order. Their tags are the table of the fields; Field says what each tag means. They are read from the
// manifest's text and never written back whole, so that unknown members are kept.
type Sections struct {
	Version    string    `json:"nutshell_version" rule:"required" form:"version" gap:"nutshell_version: missing — no reader takes the bundle" fix:"Set it with: {program} set nutshell_version 0.2.0" about:"Version of the specification that the bundle follows: 0.1 or later, with major number 0."`
	BundleType string    `json:"bundle_type" rule:"required" gap:"bundle_type: missing — no reader takes the bundle" fix:"Set it with: {program} set bundle_type request" values:"request delivery template checkpoint partial" about:"What the bundle is: a task (request), or what came of one (delivery). The others are from the older schema."`
	RequestID  string    `json:"request_id" about:"Of a delivery: the id of the request that it answers."`
	ID         string    `json:"id" rule:"required" form:"id" gap:"id: missing — no reader takes the bundle" fix:"Set it with: {program} set id {id}" about:"The name of this bundle among all bundles: nut- and a UUID."`
	ParentID   string    `json:"parent_id" about:"Of a part of a task: the id of the bundle that was split."`
	CreatedAt  Timestamp `json:"created_at" about:"When the bundle was made."`
	ExpiresAt  Timestamp `json:"expires_at" about:"The deadline. After it, the bundle is not valid any more."`

	Task         Task                       `json:"task" about:"What is to be done."`
	Tags         Tags                       `json:"tags" about:"Labels of the task, for finding who can do it (section 6)."`
	Publisher    Publisher                  `json:"publisher" about:"Who made the bundle, by their own word."`
	Context      Context                    `json:"context" about:"Files that explain the task, in the order in which an agent should read them."`
	Files        Files                      `json:"files" about:"The files of the bundle beside the manifest. pack fills it in."`
	APIs         APIs                       `json:"apis" about:"Interfaces that the task may call (section 8)."`
	Credentials  Credentials                `json:"credentials" about:"The vault and what is in it (section 7). Never a secret."`
	Acceptance   Acceptance                 `json:"acceptance" about:"How the work will be judged."`
	Harness      Harness                    `json:"harness" about:"Advice to whatever runs the agent."`
	Resources    Resources                  `json:"resources" about:"Things outside the bundle, and images in it."`
	Completeness Completeness               `json:"completeness" about:"What the last check found (section 4). check --write fills it in."`
	Compression  Compression                `json:"compression" about:"How the archive is packed. pack fills it in."`
	Extensions   map[string]json.RawMessage `json:"extensions" about:"What other tools add, each under its own name (section 10). Never a core field."`
}

// order is the order in which the specification lists the members of a manifest and of a result, which a manifest may
// have too. A member that is added gets its place by this order.
var order = []string{
	"nutshell_version", "bundle_type", "request_id", "id", "parent_id", "created_at", "expires_at", "completed_at", "deliverer",
	"task", "status", "completion_percentage", "summary", "artifacts", "acceptance_results", "execution_log", "tags",
	"publisher", "context", "files", "apis", "credentials", "acceptance", "harness", "resources", "completeness",
	"compression", "extensions",
}

// Timestamp is a time in RFC 3339 as it was written. It may be empty.
type Timestamp string

// Time parses the timestamp.
func (t Timestamp) Time() (time.Time, error) { return time.Parse(time.RFC3339, string(t)) }

// Task says what is to be done.
type Task struct {
	Title           string `json:"title" gap:"task.title: missing — agent doesn't know what to do" fix:"Give it a title with: {program} set task.title 'what is to be done'" about:"The task in one line. Without it, the bundle is a draft."`
	Summary         string `json:"summary" gap:"task.summary: empty — agent only has the title to go by" fix:"Add a summary with: {program} set task.summary 'the task in one or two sentences'" about:"The task in a few sentences."`
	Priority        string `json:"priority" values:"critical high medium low" about:"How much it matters."`
	EstimatedEffort string `json:"estimated_effort" about:"How long it may take: an ISO 8601 duration (PT8H) or words (8h)."`
}

// Tags label a task (section 6).
type Tags struct {
	SkillsRequired []string                   `json:"skills_required" about:"What who does it must know, such as golang."`
	Domains        []string                   `json:"domains" about:"The fields that the task belongs to, such as backend."`
	DataSources    []string                   `json:"data_sources" about:"Where the data are, such as postgresql://host. Implies credentials."`
	Custom         map[string]json.RawMessage `json:"custom" about:"Labels of your own, of any name and kind."`
}

// Publisher names who made the bundle, by their own word.
type Publisher struct {
	Name    string `json:"name" about:"A person or an agent."`
	Contact string `json:"contact" about:"How to reach the publisher."`
	Tool    string `json:"tool" about:"The tool that made the bundle."`
}

// Context has the paths of the files that explain the task.
type Context struct {
	Requirements string   `json:"requirements" file:"Create {path} with detailed requirements" about:"The file with what is wanted in detail."`
	Architecture string   `json:"architecture" file:"Create {path} with system architecture" about:"The file that says how the system is built."`
	References   string   `json:"references" file:"Create {path} with external references and links" about:"The file with links to what is elsewhere."`
	Additional   []string `json:"additional" file:"Create {path}, or take it out of context.additional" about:"More files, in their order."`
}

// Files lists the files of the bundle other than the manifest. Pack fills it in.
type Files struct {
	TotalCount     int64       `json:"total_count" about:"How many files there are."`
	TotalSizeBytes int64       `json:"total_size_bytes" about:"Their size together, in bytes."`
	Tree           []TreeEntry `json:"tree" about:"One entry for each file. With hashes, the list is binding."`
}

// TreeEntry is one file of the list.
type TreeEntry struct {
	Path string `json:"path" file:"Create {path}, or take it out of files.tree" about:"Where the file is in the bundle, with slashes."`
	Size *int64 `json:"size" about:"Its size in bytes."`
	Hash string `json:"hash" about:"sha256: and the SHA-256 of its content in hex."`
	Role string `json:"role" examples:"scaffold reference specification" about:"What it is for: something to build on, to look at, or to keep to."`
}

// APIs says which interfaces the task may call (section 8).
type APIs struct {
	EndpointsSpec string            `json:"endpoints_spec" file:"Create {path} with the endpoints that may be called" about:"The file that describes the calls, apis/endpoints.json."`
	BaseURLs      map[string]string `json:"base_urls" about:"Addresses by name, such as staging."`
	AuthMethod    string            `json:"auth_method" values:"bearer_token bearer api_key oauth2 basic none" about:"How calls are authorised. Implies credentials, unless it is none."`
	CredentialRef string            `json:"credential_ref" about:"The vault, or the name of the credential in it, that authorises the calls."`
}

// Credentials has the path of the vault and lists its credentials (section 7).
type Credentials struct {
	Vault      string  `json:"vault" about:"The file with the sealed vault, credentials/vault.enc.json."`
	Encryption string  `json:"encryption" values:"age sops vault none" about:"What the vault is sealed with."`
	Scopes     []Scope `json:"scopes" about:"What each credential allows."`

	// Not in the specification (docs/adr/0012).
	Recipients []string  `json:"recipients" about:"Whom the vault is sealed for: public keys. Not in the specification."`
	Beside     bool      `json:"beside" about:"The vault travels beside the bundle, not in it. Not in the specification."`
	Rotation   *Rotation `json:"rotation" about:"How newer vaults are known. Not in the specification."`
}

// Rotation says who may replace the vault of a bundle by a newer one, and where newer ones are found.
type Rotation struct {
	PubKey string `json:"pubkey" about:"Who signs newer vaults: a Nostr key in hex."`
	URL    string `json:"url" about:"Where newer vaults are found: https."`
}

// Scope describes what one credential allows.
type Scope struct {
	Name        string    `json:"name" about:"The name of the credential in the vault."`
	Type        string    `json:"type" about:"What it opens, such as postgresql or bearer_token."`
	AccessLevel string    `json:"access_level" examples:"read read-write invoke" about:"What it may be used for."`
	RateLimit   string    `json:"rate_limit" about:"How often it may be used, such as 100/min."`
	ExpiresAt   Timestamp `json:"expires_at" about:"Until when it may be used."`
}

// Acceptance says how the work will be judged.
type Acceptance struct {
	CriteriaFile   string       `json:"criteria_file" file:"Create {path} with acceptance criteria" about:"The file with the criteria, tests/criteria.json (section 9)."`
	TestScripts    []string     `json:"test_scripts" file:"Create {path} with a test that fails until the work is done" gap:"acceptance: no test scripts — agent can't self-verify" fix:"Create tests/scripts/test.sh, and name it with: {program} set acceptance.test_scripts tests/scripts/test.sh" about:"Scripts that test the work."`
	AutoVerifiable bool         `json:"auto_verifiable" about:"A program can decide whether the work is accepted."`
	HumanReview    bool         `json:"human_review_required" about:"A person looks at the work in any case."`
	Checklist      []string     `json:"checklist" rule:"sentences" about:"What must be true of the work, in words."`
	HiddenTests    []HiddenTest `json:"hidden_tests" about:"Commitments to tests that stay with the customer. pack fills it in. Not in the specification."`
}

// HiddenTest is the commitment to a test that stays with the customer: the hash of a salt and the file.
type HiddenTest struct {
	Path string     `json:"path" about:"The file, below tests/hidden."`
	Hash guild.Hash `json:"hash" about:"sha256: and the SHA-256 of the salt and the file."`
}

// Harness is advice to whatever runs the agent.
type Harness struct {
	AgentTypeHint     string   `json:"agent_type_hint" values:"research planning execution review creative" about:"What kind of work it is."`
	ContextBudgetHint float64  `json:"context_budget_hint" range:"0 1" about:"The share of the context window to fill, from 0 to 1."`
	ExecutionStrategy string   `json:"execution_strategy" values:"one-shot incremental parallel batch streaming" about:"All at once, step by step, or side by side."`
	Checkpoints       bool     `json:"checkpoints" about:"Progress should be saved on the way."`
	Constraints       []string `json:"constraints" rule:"sentences" gap:"harness.constraints: empty — agent has no guardrails" fix:"Add guardrails with: {program} set harness.constraints 'Do not modify files outside files/'" about:"What the agent must keep to, in words."`
}

// Resources are links to things outside the bundle, and images in it.
type Resources struct {
	Repos []struct {
		URL       string `json:"url" about:"Where it is."`
		Branch    string `json:"branch" about:"The branch to look at."`
		Relevance string `json:"relevance" about:"What it has to do with the task, such as primary."`
	} `json:"repos" about:"Repositories."`
	Docs   []Link `json:"docs" about:"Documentation elsewhere."`
	Images []struct {
		Path        string `json:"path" file:"Put the image at {path}, or take it out of resources.images" about:"The file."`
		Description string `json:"description" about:"What it shows."`
	} `json:"images" about:"Images in the bundle."`
	Links []Link `json:"links" about:"Anything else elsewhere."`
}

// Link is a page elsewhere.
type Link struct {
	URL   string `json:"url" about:"Where it is."`
	Title string `json:"title" about:"What it is called."`
}

// Completeness is the result of the last check of the bundle (section 4).
type Completeness struct {
	Status   string   `json:"status" values:"draft incomplete ready" about:"A draft has no title, an incomplete bundle has gaps, a ready one has none."`
	Missing  []string `json:"missing" about:"What is missing, as dotted paths such as credentials.vault."`
	Warnings []string `json:"warnings" rule:"sentences" about:"What may be worth a look, in words."`
}

// Compression describes the archive. Sizes cover all files except the manifest.
type Compression struct {
	Algorithm             string `json:"algorithm" values:"gzip zstd none nutcracker" about:"gzip, zstd or none. nutcracker is from the first draft."`
	OriginalSizeBytes     int64  `json:"original_size_bytes" about:"Size of all files but the manifest, in bytes."`
	CompressedSizeBytes   int64  `json:"compressed_size_bytes" about:"Size of the packed archive, in bytes."`
	ContextTokensEstimate int64  `json:"context_tokens_estimate" about:"About how many tokens the context has."`
}
