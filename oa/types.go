package oa

import (
	"github.com/go-json-experiment/json/jsontext"

	"guild"
)

// Extra has the unknown members of an object, which are kept.
type Extra = map[string]jsontext.Value

// Mode is the way to verify a result (the OpenAgents surface, "Verification Modes").
type Mode string

// The modes.
const (
	Objective  Mode = "objective"  // by exit codes and hashes, or by running a sample again
	Subjective Mode = "subjective" // by several results, or by judgement
)

// Adjudication is the way to decide between several results.
type Adjudication string

// The adjudications.
const (
	NoAdjudication Adjudication = "none"          // every result is accepted
	MajorityVote   Adjudication = "majority_vote" // more than half of the results must agree
	JudgeModel     Adjudication = "judge_model"   // a judge is asked which is better
	Merge          Adjudication = "merge"         // the results are merged into one
)

// Together reports whether all results are judged at once: one is chosen, or all are merged. Otherwise each result is
// judged by itself and must, if at all, agree with others.
func (a Adjudication) Together() bool { return a == JudgeModel || a == Merge }

// Quorum returns how many results must agree at a level of criticality. It is 1 if all results are judged together.
func (a Adjudication) Quorum(level guild.Criticality) int {
	if a.Together() {
		return 1
	}
	return level.Quorum()
}

// Verification is the customer's way to verify. Without one the default of the job type applies.
type Verification struct {
	Mode         Mode         `json:"mode"`
	Redundancy   int          `json:"redundancy,omitzero"`   // number of providers, 1 to 255; 1 if absent
	Adjudication Adjudication `json:"adjudication,omitzero"` // NoAdjudication if absent
	JudgeModel   string       `json:"judge_model,omitzero"`
	Extra        Extra        `json:",embed"`
}

// IsZero reports whether all members are absent, which means the default of the job type.
func (v Verification) IsZero() bool {
	return v.Mode == "" && v.Redundancy == 0 && v.Adjudication == "" && v.JudgeModel == "" && len(v.Extra) == 0
}

// Provenance describes the origin of a result. guild sends the model, the provider and the tokens.
type Provenance struct {
	ModelID        string     `json:"model_id,omitzero"` // for a sandbox run, the digest of its image
	Sampling       *Sampling  `json:"sampling,omitzero"`
	InputSHA256    guild.Hash `json:"input_sha256,omitzero"`
	OutputSHA256   guild.Hash `json:"output_sha256,omitzero"`
	ProviderPubKey string     `json:"provider_pubkey,omitzero"` // hex
	ExecutedAt     int64      `json:"executed_at,omitzero"`     // Unix seconds
	DurationMs     *int64     `json:"duration_ms,omitzero"`
	Tokens         *Tokens    `json:"tokens,omitzero"`
	Extra          Extra      `json:",embed"`
}

// Sampling has the sampling parameters of a model.
type Sampling struct {
	Temperature Number   `json:"temperature,omitzero"` // 0.0 if absent
	TopP        Number   `json:"top_p,omitzero"`
	TopK        *int     `json:"top_k,omitzero"`
	Seed        *uint64  `json:"seed,omitzero"`
	MaxTokens   *int     `json:"max_tokens,omitzero"`
	Stop        []string `json:"stop,omitempty"`
	Extra       Extra    `json:",embed"`
}

// Tokens counts the tokens that a model read and wrote.
type Tokens struct {
	Input  int64 `json:"input"`
	Output int64 `json:"output"`
	Extra  Extra `json:",embed"`
}

// ChunkRequest asks for an analysis of a piece of a file (oa.code_chunk_analysis.v1).
type ChunkRequest struct {
	Task              string            `json:"task"`
	UserTask          string            `json:"user_task,omitzero"` // its purpose
	Chunk             Chunk             `json:"chunk"`
	OutputConstraints OutputConstraints `json:"output_constraints"`
	Verification      Verification      `json:"verification,omitzero"`
	Extra             Extra             `json:",embed"`
}

// Chunk is consecutive lines of a file.
type Chunk struct {
	Path      string `json:"path"`
	StartLine int    `json:"start_line"` // of the file, from 1
	EndLine   int    `json:"end_line"`   // last line
	Content   string `json:"content"`
	Language  string `json:"language,omitzero"`
	Extra     Extra  `json:",embed"`
}

// OutputConstraints limits an analysis. nil means no limit.
type OutputConstraints struct {
	MaxSummaryLength *int  `json:"max_summary_length,omitzero"` // characters
	MaxSymbols       *int  `json:"max_symbols,omitzero"`
	MaxFaults        *int  `json:"max_faults,omitzero"`
	MaxNextProbes    *int  `json:"max_next_probes,omitzero"`
	Extra            Extra `json:",embed"`
}

// ChunkResult is an analysis.
type ChunkResult struct {
	Summary               string           `json:"summary"`
	Symbols               []Symbol         `json:"symbols"`
	SuspectedFaults       []SuspectedFault `json:"suspected_faults"`
	RecommendedNextProbes []Probe          `json:"recommended_next_probes"`
	Confidence            Number           `json:"confidence,omitzero"` // 0 to 1; required
	Provenance            *Provenance      `json:"provenance,omitzero"`
	Extra                 Extra            `json:",embed"`
}

// Symbol is something that the chunk defines.
type Symbol struct {
	Name        string `json:"name"`
	Kind        string `json:"kind"` // such as "function"
	Line        int    `json:"line"`
	Description string `json:"description,omitzero"`
	Extra       Extra  `json:",embed"`
}

// Severity is the severity of a suspected fault.
type Severity string

// The severities.
const (
	Low    Severity = "low"
	Medium Severity = "medium"
	High   Severity = "high"
)

// SuspectedFault is a possible fault in the chunk.
type SuspectedFault struct {
	Line        int      `json:"line"`
	Severity    Severity `json:"severity"`
	Description string   `json:"description"`
	Suggestion  string   `json:"suggestion,omitzero"`
	Extra       Extra    `json:",embed"`
}

// Probe is a place to look at next.
type Probe struct {
	Path     string `json:"path"`
	Reason   string `json:"reason"`
	Priority string `json:"priority,omitzero"` // "medium" if absent
	Extra    Extra  `json:",embed"`
}

// RerankRequest asks for the best of some candidates (oa.retrieval_rerank.v1).
type RerankRequest struct {
	UserTask      string       `json:"user_task"`
	Candidates    []Candidate  `json:"candidates"`
	K             int          `json:"k,omitzero"` // number of wanted candidates; 10 if absent
	RankingRubric string       `json:"ranking_rubric,omitzero"`
	Verification  Verification `json:"verification,omitzero"`
	Extra         Extra        `json:",embed"`
}

// Candidate is an item to rank.
type Candidate struct {
	ID            string                    `json:"id"`
	Content       string                    `json:"content"`
	Path          string                    `json:"path,omitzero"`
	OriginalScore Number                    `json:"original_score,omitzero"`
	Metadata      map[string]jsontext.Value `json:"metadata,omitempty"`
	Extra         Extra                     `json:",embed"`
}

// RerankResult lists the best candidates.
type RerankResult struct {
	TopK       []Ranked    `json:"topk"`
	Provenance *Provenance `json:"provenance,omitzero"`
	Extra      Extra       `json:",embed"`
}

// Ranked is a candidate with its rank.
type Ranked struct {
	Rank  int    `json:"rank"` // from 1
	ID    string `json:"id"`   // of the candidate
	Score Number `json:"score,omitzero"`
	Why   string `json:"why,omitzero"`
	Extra Extra  `json:",embed"`
}

// SandboxRequest asks to run commands (oa.sandbox_run.v1).
type SandboxRequest struct {
	Sandbox      Sandbox           `json:"sandbox"`
	Repo         Repo              `json:"repo"`
	Commands     []Command         `json:"commands"`
	Env          map[string]string `json:"env,omitempty"`
	Verification Verification      `json:"verification,omitzero"`
	Extra        Extra             `json:",embed"`
}

// NetworkPolicy limits what the commands can connect to.
type NetworkPolicy string

// The network policies.
const (
	NetworkNone      NetworkPolicy = "none"
	NetworkLocalhost NetworkPolicy = "localhost"
	NetworkFull      NetworkPolicy = "full"
)

// Sandbox describes the environment of the commands.
type Sandbox struct {
	Provider      string        `json:"provider,omitzero"` // the kind of sandbox; "docker" if absent
	ImageDigest   string        `json:"image_digest"`      // such as "sha256:…"
	NetworkPolicy NetworkPolicy `json:"network_policy,omitzero"`
	Resources     Resources     `json:"resources,omitzero"`
	Extra         Extra         `json:",embed"`
}

// Resources limits a run.
type Resources struct {
	MemoryMB    int    `json:"memory_mb,omitzero"`    // 512 if absent
	CPUs        Number `json:"cpus,omitzero"`         // 1.0 if absent
	TimeoutSecs int    `json:"timeout_secs,omitzero"` // 60 if absent
	DiskMB      int    `json:"disk_mb,omitzero"`      // no limit by the customer if absent
	Extra       Extra  `json:",embed"`
}

// IsZero reports whether all members are absent, which means the defaults.
func (r Resources) IsZero() bool {
	return r.MemoryMB == 0 && r.CPUs == "" && r.TimeoutSecs == 0 && r.DiskMB == 0 && len(r.Extra) == 0
}

// Repo has the source of the files for the commands.
type Repo struct {
	Source    string `json:"source"` // a URL; empty for an empty directory
	GitRef    string `json:"git_ref,omitzero"`
	MountPath string `json:"mount_path,omitzero"` // "/workspace" if absent
	Extra     Extra  `json:",embed"`
}

// Command is one command, run by a shell.
type Command struct {
	Cmd            string `json:"cmd"`
	Workdir        string `json:"workdir,omitzero"`
	ContinueOnFail bool   `json:"continue_on_fail,omitzero"` // run the next commands even if this one fails
	Extra          Extra  `json:",embed"`
}

// SandboxResult is the result of the commands.
type SandboxResult struct {
	EnvInfo    EnvInfo     `json:"env_info"`
	Runs       []Run       `json:"runs"` // in the order of the commands
	Artifacts  []Artifact  `json:"artifacts"`
	Status     Status      `json:"status"`
	Error      string      `json:"error,omitzero"`
	Provenance *Provenance `json:"provenance,omitzero"`
	Extra      Extra       `json:",embed"`
}

// Status is the outcome of a whole run.
type Status string

// The statuses.
const (
	StatusSuccess   Status = "success"
	StatusFailed    Status = "failed" // a command failed
	StatusTimeout   Status = "timeout"
	StatusCancelled Status = "cancelled"
	StatusError     Status = "error" // the sandbox failed
)

// EnvInfo describes the environment in which the commands ran.
type EnvInfo struct {
	ImageDigest string         `json:"image_digest"` // same as in the request
	Hostname    string         `json:"hostname,omitzero"`
	SystemInfo  jsontext.Value `json:"system_info,omitzero"` // a string or an object
	Extra       Extra          `json:",embed"`
}

// Run is one executed command.
type Run struct {
	Cmd           string     `json:"cmd"`
	ExitCode      int        `json:"exit_code"`
	DurationMs    int64      `json:"duration_ms"`
	StdoutSHA256  guild.Hash `json:"stdout_sha256"` // of the whole output
	StderrSHA256  guild.Hash `json:"stderr_sha256"`
	StdoutPreview string     `json:"stdout_preview,omitzero"` // see replay.Preview
	StderrPreview string     `json:"stderr_preview,omitzero"`
	Extra         Extra      `json:",embed"`
}

// Artifact is a file that the commands created.
type Artifact struct {
	Path      string     `json:"path"`
	SHA256    guild.Hash `json:"sha256"`
	SizeBytes int64      `json:"size_bytes"`
	MIMEType  string     `json:"mime_type,omitzero"`
	Extra     Extra      `json:",embed"`
}

// EmbeddingRequest asks for a vector for each text (oa.embedding.v1).
type EmbeddingRequest struct {
	Texts        []string     `json:"texts"`
	ModelHint    string       `json:"model_hint,omitzero"`
	Dimensions   int          `json:"dimensions,omitzero"` // of each vector
	Verification Verification `json:"verification,omitzero"`
	Extra        Extra        `json:",embed"`
}

// Pinned reports whether the request names both the model and the number of dimensions, so that others can reproduce
// the result.
func (r EmbeddingRequest) Pinned() bool { return r.ModelHint != "" && r.Dimensions > 0 }

// EmbeddingResult has the vectors, in the order of the texts.
type EmbeddingResult struct {
	Embeddings [][]float32 `json:"embeddings"`
	ModelID    string      `json:"model_id"`
	Dimensions int         `json:"dimensions"`
	Provenance *Provenance `json:"provenance,omitzero"`
	Extra      Extra       `json:",embed"`
}
