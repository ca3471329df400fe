package control

import (
	"context"
	"net/url"
)

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

// Aggregate is what others say of a provider's work on a task, as far as we trust them.
type Aggregate struct {
	Task    string    `json:"task,omitempty"`
	Rating  float64   `json:"rating,omitempty"` // weighted, of 5; 0 when nobody counts
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

// ReviewCard is what is said of one service: GET /v1/reviews/{key}[?task=T].
type ReviewCard struct {
	PubKey string      `json:"pubkey"`
	Npub   string      `json:"npub"`
	D      string      `json:"d"`
	Name   string      `json:"name,omitempty"`
	Ours   []Review    `json:"ours"`
	Others []Aggregate `json:"others"` // all tasks together first, then by task
}

// ReviewAct is what POST /v1/reviews/{key}/{act} takes; act is publish, hold, resume or retract.
type ReviewAct struct {
	D      *string `json:"d,omitempty"`
	Task   string  `json:"task,omitempty"` // the only one when empty
	ID     string  `json:"id,omitempty"`   // to retract
	Reason string  `json:"reason,omitempty"`
}

// Reviews is GET /v1/reviews.
func (c *Client) Reviews(ctx context.Context, task string) ([]Review, error) {
	return get[[]Review](ctx, c, "/v1/reviews", query("task", task))
}

// ReviewCards is GET /v1/reviews/{key}.
func (c *Client) ReviewCards(ctx context.Context, key, task string) ([]ReviewCard, error) {
	return get[[]ReviewCard](ctx, c, "/v1/reviews/"+url.PathEscape(key), query("task", task))
}

// Review is POST /v1/reviews/{key}/{act}.
func (c *Client) Review(ctx context.Context, key, act string, how ReviewAct) ([]Review, error) {
	return post[[]Review](ctx, c, "/v1/reviews/"+url.PathEscape(key)+"/"+act, how)
}

// Backup is one backup: GET /v1/backups, and what POST /v1/backups answers with.
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

// Restored is what POST /v1/backups/restore answers with.
type Restored struct {
	Backup    string `json:"backup"`
	Made      int64  `json:"made"` // Unix ms
	Matrix    string `json:"matrix"`
	Services  int    `json:"services"`
	Unclaimed int    `json:"unclaimed"` // services that nobody announces now: quarantined as stale
	Messages  int    `json:"messages"`  // that were read
	Exact     bool   `json:"exact"`     // the node's matrix is the backup's now; not where it had learned more
}

// Backups is GET /v1/backups, the newest first.
func (c *Client) Backups(ctx context.Context) ([]Backup, error) {
	return get[[]Backup](ctx, c, "/v1/backups", nil)
}

// Backup is POST /v1/backups: makes one now.
func (c *Client) Backup(ctx context.Context) (Backup, error) {
	return post[Backup](ctx, c, "/v1/backups", struct{}{})
}

// RestoreBackup is POST /v1/backups/restore: takes the matrix over from the newest backup that relays have. With force
// also where something was learned already.
func (c *Client) RestoreBackup(ctx context.Context, force bool) (Restored, error) {
	return post[Restored](ctx, c, "/v1/backups/restore", map[string]bool{"force": force})
}
