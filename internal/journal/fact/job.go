package fact

import (
	"fiatjaf.com/nostr"

	"guild"
)

// JobSubject is the boundary of everything that is decided about one job of ours.
func JobSubject(id guild.JobID) Subject { return Subject("job." + id.String()) }

// JobOpened says that a person or program wants a bundle done. Written by jobs.
type JobOpened struct {
	Job       guild.JobID    `json:"job"`
	Task      string         `json:"task"`
	Title     string         `json:"title"`
	Bundle    guild.Hash     `json:"bundle"`              // blob: the packed request bundle
	Hidden    guild.Hash     `json:"hidden,omitzero"`     // blob: a packed bundle whose files are the hidden tests
	Size      int64          `json:"size"`                // of the bundle, in bytes
	Kind      int            `json:"kind"`                // NIP-90 kind of its requests
	Bid       guild.Msat     `json:"bid_msat"`            // most we would pay
	Deadline  int64          `json:"deadline"`            // Unix ms
	Tries     int            `json:"tries"`               // how many providers may be asked in turn
	Private   bool           `json:"private,omitempty"`   // never in clear
	Providers []nostr.PubKey `json:"providers,omitempty"` // only these, in this order
	Release   *Release       `json:"release,omitempty"`   // credentials for whoever is asked

	Criticality guild.Criticality `json:"criticality,omitempty"` // how many do it, and how many must agree
	Compare     string            `json:"compare,omitempty"`     // how deliveries are compared; "" is by what they are
	Open        bool              `json:"open,omitempty"`        // everybody is asked for an offer first
	Inputs      []Input           `json:"inputs,omitempty"`      // beside the bundle
	Meeting     *Benchmark        `json:"meeting,omitempty"`     // the job is part of getting to know a provider
	Quality     *Quality          `json:"quality,omitempty"`     // what the delivery is judged by, as far as a number says it

	Class   string      `json:"class,omitempty"`        // of the task, section 5.2.3: critical-path, experimental, …
	Urgency string      `json:"urgency,omitempty"`      // normal if empty; section 4.1.4
	Unbid   bool        `json:"unbid,omitempty"`        // the customer named no bid: it is computed for each request
	Target  guild.Trust `json:"target_micro,omitempty"` // trust that the bid is meant for; 0 for any
}

// BidSubject is the boundary of all bids: what one task does not use, another may.
const BidSubject Subject = "bid.all"

// BidReserved says that an attempt may bid so much of a budget. Written by jobs.
type BidReserved struct {
	Job    guild.JobID `json:"job"`
	Turn   int         `json:"turn"` // the attempt's place in its job, from 1
	Task   string      `json:"task"`
	Amount guild.Msat  `json:"amount_msat"`
	At     int64       `json:"at"` // Unix ms; its UTC day and month are charged

	Day   map[string]guild.Msat `json:"day_msat,omitempty"`   // of it, what other tasks' budgets for the day give
	Month map[string]guild.Msat `json:"month_msat,omitempty"` // as above, for the month
}

// BidFreed ends a reservation: what was not accepted is not owed. Written by jobs.
type BidFreed struct {
	Job   guild.JobID `json:"job"`
	Turn  int         `json:"turn"`
	Spent guild.Msat  `json:"spent_msat"`
}

// Quality is what a provider is told about the judging of its delivery (the partnership protocol, section 4.1.2).
type Quality struct {
	Accuracy guild.Score `json:"accuracy"`               // share of the tests that must pass
	Limit    int         `json:"time_limit_s,omitempty"` // of the judged run, in seconds; 0 when it is not said
}

// Input is something that a job works on beside its bundle: one i tag of NIP-90.
//
// The data of a job is the id of a request event, or the id of a job of ours, which is resolved when a provider is
// asked. The data of a url may be "blob:" and the SHA-256 of what this node has.
type Input struct {
	Data   string `json:"data"`
	Type   string `json:"type"` // url, event, job or text
	Relay  string `json:"relay,omitempty"`
	Marker string `json:"marker,omitempty"`
}

// Benchmark is the place of a job in a meeting.
type Benchmark struct {
	Meeting string `json:"meeting"` // its id
	Run     int    `json:"run"`     // from 1

	Service  *guild.Service `json:"service,omitempty"`      // that is met: its provider may have others; nil when any will do
	Suite    string         `json:"suite,omitempty"`        // name and version, as "python-v1"
	Variant  string         `json:"variant,omitempty"`      // standard, stress or correctness
	Modules  []string       `json:"modules,omitempty"`      // computation, memory, io
	Limit    int            `json:"time_limit_s,omitempty"` // of a judged run, in seconds; 300 if 0
	Memory   int            `json:"memory_mb,omitempty"`    // 512 if 0
	Language string         `json:"language,omitempty"`     // that is run
}

// JobSolicited says that everybody is asked for an offer. Written by jobs.
type JobSolicited struct {
	Job     guild.JobID `json:"job"`
	Request nostr.Event `json:"request"` // signed; names no provider and carries no bundle
	Until   int64       `json:"until"`   // Unix ms: offers are compared then
}

// JobOffered is one answer to that. Written by jobs.
type JobOffered struct {
	Job      guild.JobID  `json:"job"`
	Provider nostr.PubKey `json:"provider"`
	Event    nostr.ID     `json:"event"` // the feedback event
	Price    guild.Msat   `json:"price_msat"`
	Text     string       `json:"text,omitempty"` // cut to 500 bytes
	Said     int64        `json:"said,omitempty"` // created_at of the feedback event, Unix s
}

// Release is what of a vault a person gives to whoever is asked, in ciphertext only.
type Release struct {
	Names   []string `json:"names"`             // of the credentials
	Vaults  []Sealed `json:"vaults"`            // all hold the same
	Expires int64    `json:"expires,omitempty"` // Unix ms when the first of them does; 0 for never
	Anyway  bool     `json:"anyway,omitempty"`  // also what has expired, on purpose
}

// Sealed is a vault that is sealed for one key.
type Sealed struct {
	For   string     `json:"for,omitempty"` // age recipient; empty for this node's own, which seals it again
	Vault guild.Hash `json:"vault"`         // blob: the sealed bytes
}

// JobClosed ends a job: nothing more is asked. Written by jobs.
type JobClosed struct {
	Job    guild.JobID  `json:"job"`
	Ending guild.Ending `json:"ending"`
	Reason string       `json:"reason,omitempty"`
	Chosen nostr.ID     `json:"chosen,omitzero"` // the attempt whose delivery counts, of several accepted ones
}

// JobCancelled says that the customer wants the job stopped. Written by jobs.
type JobCancelled struct {
	Job guild.JobID `json:"job"`
}

// Type returns the stored name.
func (JobOpened) Type() string { return "job.opened" }

// Type returns the stored name.
func (JobClosed) Type() string { return "job.closed" }

// Type returns the stored name.
func (JobCancelled) Type() string { return "job.cancelled" }

// Type returns the stored name.
func (JobSolicited) Type() string { return "job.solicited" }

// Type returns the stored name.
func (JobOffered) Type() string { return "job.offered" }

// Type returns the stored name.
func (BidReserved) Type() string { return "bid.reserved" }

// Type returns the stored name.
func (BidFreed) Type() string { return "bid.freed" }
