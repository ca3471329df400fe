// Package control is the node's own API: HTTP and JSON on a unix socket that only the owner can open. The
// terminal uses it, and the page will use the same. It shows the folds and passes on the decisions of a
// person; it has no state and no rules. docs/API.md describes it for others.
package control

import (
	"guild/internal/journal/fact"

	"encoding/json"

	"guild"
)

// Status is the answer to GET /v1/status.
type Status struct {
	Version  string           `json:"version"`
	Node     string           `json:"node"`
	Npub     string           `json:"npub"`
	PubKey   string           `json:"pubkey"`
	Started  int64            `json:"started"` // Unix ms
	Relays   []Relay          `json:"relays"`
	Local    string           `json:"local_relay,omitempty"` // URL of the embedded relay, when it runs
	Sandbox  string           `json:"sandbox"`               // tier, or why there is none
	Journal  Journal          `json:"journal"`
	Jobs     map[string]int   `json:"jobs"` // ending → count; "open" for those that go on
	Services []Service        `json:"services,omitempty"`
	Seen     int              `json:"providers"`
	Dropped  map[string]int64 `json:"dropped"` // reason → events dropped since the start
	Parked   []string         `json:"parked,omitempty"`

	Quarantined []string `json:"quarantined,omitempty"` // guards that lost entries: nothing is decided under them

	Yields string `json:"yields,omitempty"` // why the services are paused: another node has our key
}

// Relay is one relay in Status.
type Relay struct {
	URL       string `json:"url"`
	Connected bool   `json:"connected"`
	Error     string `json:"error,omitempty"`
	Events    int64  `json:"events"`
	Tier      int    `json:"tier,omitempty"` // how announcements are read there: 1 always, 2 every five minutes, 3 about hourly

	// Measured since the start; absent if nothing was.
	Connect int64  `json:"connect_ms,omitempty"` // to open a connection
	Latency int64  `json:"latency_ms,omitempty"` // to answer an event or a query
	Loss    *int64 `json:"loss_micro,omitempty"` // share of connections, events and queries without success
}

// Journal is the journal in Status.
type Journal struct {
	Dir     string   `json:"dir"`
	Last    uint64   `json:"last"`
	Renewed []string `json:"renewed,omitempty"` // directories of streams beside the facts that were damaged at the start and are begun anew
}

// Hire is the query of POST /v1/jobs, whose body is the packed bundle. The answer is a Job.
type Hire struct {
	Task      string   `json:"task,omitempty"`      // from the bundle when empty
	Providers []string `json:"providers,omitempty"` // npub or hex: only these, in this order; any when empty
	Timeout   int64    `json:"timeout_ms,omitempty"`
	Bid       int64    `json:"bid_msat,omitempty"`
	Tries     int      `json:"tries,omitempty"` // providers asked in turn; as many as are named, or 3, when 0
	Private   bool     `json:"private,omitempty"`
	ID        string   `json:"id,omitempty"`      // of the job, 32 hex digits: hiring again with it is the same job; a new one when empty
	Kind      int      `json:"kind,omitempty"`    // NIP-90 kind; by the task when 0
	Hidden    string   `json:"hidden,omitempty"`  // the hash of KeepHidden
	Release   string   `json:"release,omitempty"` // the hash of KeepRelease

	Criticality string  `json:"criticality,omitempty"` // low, medium, high or critical; low when empty
	Compare     string  `json:"compare,omitempty"`     // how the deliveries of several providers are compared
	Open        bool    `json:"open,omitempty"`        // everybody is asked for an offer first
	Inputs      []Input `json:"inputs,omitempty"`      // beside the bundle

	Free    bool     `json:"free,omitempty"`    // nothing is bid
	Class   string   `json:"class,omitempty"`   // of the task: critical-path, financial, experimental or background
	Nudges  []string `json:"nudges,omitempty"`  // names of the library, nevents or ids of nudges that the provider's agent is asked to work by
	Urgency string   `json:"urgency,omitempty"` // normal, urgent or critical: a computed bid rises with it
	Target  float64  `json:"target,omitempty"`  // trust that a computed bid is meant for

	Most int64 `json:"most_msat,omitempty"` // limit of a computed bid; none when 0

	Settle *Settlement `json:"settle,omitempty"` // how providers are paid; who wants to be paid is not taken when null
}

// Settlement says how the providers of a job are paid, as fact.Settlement does.
type Settlement = fact.Settlement

// Prospect is the answer to GET /v1/prospect: who could be asked for a task, and for how much.
type Prospect struct {
	Task      string   `json:"task"`
	Providers int      `json:"providers"` // services that offer it, also those that may not be asked now
	Names     []string `json:"names"`     // of the first of them
	Most      int64    `json:"most_msat"` // the highest bid that is computed for one of them
}

// Input is one input of a job beside its bundle: an i tag of NIP-90.
type Input struct {
	Data   string `json:"data"`
	Type   string `json:"type"` // url, event, job or text
	Relay  string `json:"relay,omitempty"`
	Marker string `json:"marker,omitempty"`
}

// Kept names a file or a release that is kept for a later job: the answer to POST /v1/hidden and POST /v1/releases.
type Kept struct {
	Hash string `json:"hash"`
}

// Recipient is the answer to GET /v1/recipient: the age recipient for credentials that the node is to open, and to seal
// again for the provider that it asks.
type Recipient struct {
	Recipient string `json:"recipient"`
}

// Release is the body of POST /v1/releases: credentials for the provider of a job to come, in ciphertext only.
type Release struct {
	Names        []string      `json:"names"`                   // of the credentials
	Expires      int64         `json:"expires,omitempty"`       // Unix ms when the first of them does; 0 for never
	AllowExpired bool          `json:"allow_expired,omitempty"` // they may be sent after that
	Vaults       []SealedVault `json:"vaults"`                  // each holds all of them
}

// SealedVault is a vault of exactly the credentials that are released, sealed for one key.
type SealedVault struct {
	For    string `json:"for"`    // age recipient of a provider, or the node's own, which seals it again for the provider
	Sealed []byte `json:"sealed"` // an age file
}

// Job is one job: GET /v1/jobs lists them, GET /v1/jobs/{id} shows one; an unambiguous prefix of the id will do.
type Job struct {
	ID       string       `json:"id"`
	Task     string       `json:"task"`
	Title    string       `json:"title"`
	Opened   int64        `json:"opened"`   // Unix ms
	Deadline int64        `json:"deadline"` // Unix ms
	Closed   int64        `json:"closed,omitempty"`
	Ending   guild.Ending `json:"ending"` // "" while it goes on
	Reason   string       `json:"reason,omitempty"`
	Waits    string       `json:"waits,omitempty"` // why an open job asks no provider at the moment
	Bundle   string       `json:"bundle"`          // hash
	Size     int64        `json:"size"`
	Released []string     `json:"released,omitempty"` // names of the credentials for the provider
	Attempts []Attempt    `json:"attempts"`

	Quarantined bool `json:"quarantined,omitempty"` // entries of it are lost: nothing is done for it

	Shredded int64 `json:"shredded,omitempty"` // Unix ms when it was decided that what it said is erased
	Erased   int64 `json:"erased,omitempty"`   // Unix ms when that was done
	Exposed  int   `json:"exposed,omitempty"`  // entries that stay as they are, since an older program stored them unencrypted

	Criticality guild.Criticality `json:"criticality,omitempty"` // low when empty
	Compare     string            `json:"compare,omitempty"`     // how deliveries are compared; by the kind of the deliveries when empty
	Chosen      string            `json:"chosen,omitempty"`      // id of the attempt whose delivery counts, of several accepted ones
}

// Attempt is one request to one provider.
type Attempt struct {
	ID        string         `json:"id"` // of the request event
	Provider  string         `json:"provider"`
	Npub      string         `json:"npub"`
	Name      string         `json:"name,omitempty"` // as it calls itself
	D         string         `json:"d"`
	State     string         `json:"state"`
	Reason    string         `json:"reason,omitempty"`
	Planned   int64          `json:"planned"`            // Unix ms
	Delivery  string         `json:"delivery,omitempty"` // hash of the delivery bundle
	Verdict   *guild.Verdict `json:"verdict,omitempty"`
	Price     int64          `json:"price_msat,omitempty"` // that the provider asked for
	Receipt   string         `json:"receipt,omitempty"`
	TrustFrom *float64       `json:"trust_from,omitempty"` // TrustFromMicro in decimal form, deprecated
	TrustTo   *float64       `json:"trust_to,omitempty"`   // deprecated, too

	TrustFromMicro *guild.Trust `json:"trust_from_micro,omitempty"` // in the service for the task, before and after the verdict
	TrustToMicro   *guild.Trust `json:"trust_to_micro,omitempty"`

	// Agrees is the id of the first accepted attempt of the job whose delivery agrees with this one: its own if no earlier
	// one does. It is left out where nothing was compared.
	Agrees string `json:"agrees,omitempty"`

	NudgesLeftOut int `json:"nudges_left_out,omitempty"` // of those that the job asks for, how many the provider did not work by

	Money *AttemptMoney `json:"money,omitempty"` // that is or was locked for it
}

// AttemptMoney says what becomes of the money for an attempt. Of an asset that is not bitcoin the amounts are thousandths of its
// smallest unit.
type AttemptMoney struct {
	Asset string `json:"asset_id"`
	Held  int64  `json:"held_msat"`
	Paid  int64  `json:"paid_msat"`
	State string `json:"state"` // held, paid, released or refunded

	Now   string `json:"now,omitempty"`   // of what is held: where it is, in words
	Waits bool   `json:"waits,omitempty"` // for a person
	Until int64  `json:"until,omitempty"` // Unix ms, the locktime
}

// Changes is the answer to GET /v1/jobs/{id}/changes: what a delivery changes in the files of its request.
type Changes struct {
	Job      string       `json:"job"`
	Attempt  string       `json:"attempt"`
	Provider string       `json:"provider"` // npub
	Name     string       `json:"name,omitempty"`
	State    string       `json:"state"`    // of the attempt
	Accepted bool         `json:"accepted"` // by the verdict, and so is the job
	Receipt  string       `json:"receipt,omitempty"`
	Prefix   string       `json:"prefix,omitempty"` // directory of the files in their repository, ending in a slash
	Files    []FileChange `json:"files"`            // by path
}

// FileChange is a file in Changes.
type FileChange struct {
	Path    string `json:"path"`
	Change  string `json:"change"` // added or changed
	Size    int64  `json:"size"`   // bytes, as delivered
	SHA256  string `json:"sha256"` // hex, as delivered
	Mode    string `json:"mode"`   // 0644 or 0755
	Added   int    `json:"lines_added"`
	Removed int    `json:"lines_removed"`
	Text    string `json:"text,omitempty"`        // unified diff; only of text
	Note    string `json:"note,omitempty"`        // why there is no text
	Runs    string `json:"runs_itself,omitempty"` // why it may run, or change what runs, without being started
	LeftOut string `json:"left_out,omitempty"`    // why job apply leaves it out
}

// Exam is the judge's record of one attempt: GET /v1/jobs/{id}/evidence lists those of a job.
type Exam struct {
	Attempt  string          `json:"attempt"`
	Name     string          `json:"name,omitempty"` // of the provider
	Npub     string          `json:"npub"`
	State    string          `json:"state"`
	Reason   string          `json:"reason,omitempty"` // why there is no verdict
	Held     bool            `json:"held,omitempty"`   // it waits for a person's ruling
	Verdict  *guild.Verdict  `json:"verdict,omitempty"`
	Evidence json.RawMessage `json:"evidence,omitempty"`
	Usage    *Usage          `json:"usage,omitempty"` // what the provider claims that the work took
}

// Usage counts the tokens and the time that a provider claims for its work. Nobody else can check that.
type Usage struct {
	Tokens int64 `json:"tokens"`
	WorkMs int64 `json:"worked_ms"`
}

// Rule is the body of POST /v1/jobs/{id}/rule: a person's ruling on an attempt that waits for one. The answer is
// the Job.
type Rule struct {
	Attempt string        `json:"attempt,omitempty"` // id or a prefix; may be left out when only one waits
	Outcome guild.Outcome `json:"outcome"`           // SUCCESS, PARTIAL or FAILURE
	Note    string        `json:"note,omitempty"`
}

// Steps of a job as the timeline shows them, in order.
var Steps = [...]string{"discover", "bundle", "request", "work", "judge", "record", "trust"}

// Update is one line of GET /v1/jobs/{id}/watch (application/x-ndjson): first everything that happened so far,
// then each thing as it happens. The stream ends after the update whose Event is "ended".
type Update struct {
	Seq      uint64 `json:"seq"`
	At       int64  `json:"at"` // Unix ms
	Job      string `json:"job"`
	Step     string `json:"step"`               // one of Steps
	Event    string `json:"event"`              // the fact's name or "ended"; "judging" and "waiting" are in no journal and have no Seq
	State    string `json:"state"`              // start, progress, done or failed
	Text     string `json:"text"`               // for a person, one line
	Attempt  string `json:"attempt,omitempty"`  // id of the request event
	Provider string `json:"provider,omitempty"` // npub
	Name     string `json:"name,omitempty"`
	Ended    *Job   `json:"ended,omitempty"` // with "ended": the job as it came out
}

// Events of an Update that no entry of the journal records.
const (
	judgingEvent = "judging" // what the judge is doing
	waitingEvent = "waiting" // why the job waits; with an empty Text it no longer does
)

// IsPassing reports whether an update is in no journal: it says what the judge is doing, or why the job waits.
func (u Update) IsPassing() bool { return u.Event == judgingEvent || u.Event == waitingEvent }

// IsWaiting reports whether an update says why the job waits.
func (u Update) IsWaiting() bool { return u.Event == waitingEvent }

// Record is one entry of GET /v1/journal[?since=SEQ|RFC3339&subject=PREFIX] (x-ndjson) and GET /v1/journal/{seq}.
type Record struct {
	Seq     uint64          `json:"seq"`
	Subject string          `json:"subject"`
	Entry   json.RawMessage `json:"entry"`
}

// Dropped is one line of GET /v1/rejected: an event that changed nothing, the newest last.
type Dropped struct {
	At     int64  `json:"at"` // Unix ms
	Reason string `json:"reason"`
	From   string `json:"from"`
	Event  string `json:"event"` // cut to 4 KB
}

// Problem is the body of every answer with a status of 400 and above.
type Problem struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	Code  string `json:"code,omitempty"` // the reason in one word, such as usage or missing; guild help api lists them
}
