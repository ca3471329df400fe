package control

import "guild/internal/step/agents"

// Review is one review of ours: GET /v1/reviews[?task=T].
type Review struct {
	ID      string  `json:"id"` // of the kind 2020 event; "" when there is none yet
	Task    string  `json:"task"`
	Npub    string  `json:"npub"`
	PubKey  string  `json:"pubkey"`
	D       string  `json:"d"`
	Name    string  `json:"name,omitempty"`
	Rating  float64 `json:"rating,omitempty"` // of 5
	State   string  `json:"state"`            // waiting, held, drafted, published or retracted
	At      int64   `json:"at,omitempty"`     // Unix ms: when it was published, or will be
	Cause   string  `json:"cause,omitempty"`
	Summary string  `json:"summary,omitempty"`
}

// Aggregate sums up the reviews of a provider's work on a task by others, weighted by our trust in them.
type Aggregate struct {
	Task    string    `json:"task,omitempty"`
	Rating  float64   `json:"rating,omitempty"` // weighted, of 5; 0 without a reviewer that counts
	Count   int       `json:"count"`            // of reviews that were read
	Counted int       `json:"counted"`          // of those with a weight
	Weight  float64   `json:"weight"`           // of all together
	Reviews []Opinion `json:"reviews,omitempty"`
}

// Opinion is one review by somebody else.
type Opinion struct {
	ID       string  `json:"id"`
	Reviewer string  `json:"reviewer"` // npub
	Task     string  `json:"task,omitempty"`
	Rating   float64 `json:"rating"` // of 5
	At       int64   `json:"at"`     // Unix s
	Weight   float64 `json:"weight"` // 0 to 1
	Why      string  `json:"why"`    // it weighs that much
	Summary  string  `json:"summary,omitempty"`
}

// ReviewCard holds the reviews of one service, ours and others': GET /v1/reviews/{key}[?task=T].
type ReviewCard struct {
	PubKey string             `json:"pubkey"`
	Npub   string             `json:"npub"`
	D      string             `json:"d"`
	Name   string             `json:"name,omitempty"`
	Ours   []Review           `json:"ours"`
	Others []Aggregate        `json:"others"`           // all tasks together first, then by task
	Owners []agents.Ownership `json:"owners,omitempty"` // that its profile names (NIP-AE), as far as known
}

// ReviewAct is the body of POST /v1/reviews/{key}/{act}; act is publish, hold, resume or retract.
type ReviewAct struct {
	D      *string `json:"d,omitempty"`
	Task   string  `json:"task,omitempty"` // the only one when empty
	ID     string  `json:"id,omitempty"`   // to retract
	Reason string  `json:"reason,omitempty"`
}

// Backup is one backup: GET /v1/backups lists them, and POST /v1/backups answers with one.
type Backup struct {
	ID      string   `json:"id"`
	At      int64    `json:"at"` // Unix ms
	Matrix  string   `json:"matrix"`
	Through uint64   `json:"through"` // the last entry in it
	Size    int64    `json:"size"`
	URLs    []string `json:"urls"`
	Cause   string   `json:"cause"`
	State   string   `json:"state"` // made, sent or failed
	Reason  string   `json:"reason,omitempty"`
}

// Restore is the body of POST /v1/backups/restore.
type Restore struct {
	Force bool `json:"force"` // also where something was learned already: the backup wins
}

// Restored is the answer to POST /v1/backups/restore.
type Restored struct {
	Backup    string `json:"backup"`
	Made      int64  `json:"made"` // Unix ms
	Matrix    string `json:"matrix"`
	Services  int    `json:"services"`
	Unclaimed int    `json:"unclaimed"` // services that are not announced now: quarantined as stale
	Messages  int    `json:"messages"`  // that were read
	Exact     bool   `json:"exact"`     // the node's matrix is the backup's now; not where it had learned more
}
