package fact

import (
	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
)

// JobSubject returns the guard of all decisions about a job of ours.
func JobSubject(id guild.JobID) Subject { return Subject("job." + id.String()) }

// JobOpened says that a person or program has ordered a job. Written by jobs.
type JobOpened struct {
	Job       guild.JobID    `json:"job"`
	Task      string         `json:"task"`
	Title     string         `json:"title" private:"all"`
	Bundle    guild.Hash     `json:"bundle"`                            // blob: the packed request bundle
	Hidden    guild.Hash     `json:"hidden,omitzero"`                   // blob: a packed bundle with the hidden tests
	Size      int64          `json:"size"`                              // of the bundle, in bytes
	Kind      int            `json:"kind"`                              // NIP-90 kind of its requests
	Bid       guild.Msat     `json:"bid_msat"`                          // the most that we would pay
	Deadline  int64          `json:"deadline"`                          // Unix ms
	Tries     int            `json:"tries"`                             // number of providers that may be asked in turn
	Private   bool           `json:"private,omitempty"`                 // requests are encrypted
	Providers []nostr.PubKey `json:"providers,omitempty"`               // only these, in this order
	Release   *Release       `json:"release,omitempty" private:"names"` // credentials for the provider

	Criticality guild.Criticality `json:"criticality,omitempty"`          // decides how many providers do the job and how many must agree
	Compare     string            `json:"compare,omitempty"`              // how deliveries are compared; "" depends on their type
	Open        bool              `json:"open,omitempty"`                 // all providers are asked for an offer first
	Inputs      []Input           `json:"inputs,omitempty" private:"all"` // in addition to the bundle
	Nudges      []nostr.ID        `json:"nudges,omitempty"`               // that the provider's agent is asked to work by (NIP-AE)
	Meeting     *Benchmark        `json:"meeting,omitempty"`              // set if the job is a benchmark of a provider
	Quality     *Quality          `json:"quality,omitempty"`              // the numbers by which the delivery is judged

	Class   string      `json:"class,omitempty"`        // of the task, section 5.2.3: critical-path, experimental, …
	Urgency string      `json:"urgency,omitempty"`      // normal if empty; section 4.1.4
	Unbid   bool        `json:"unbid,omitempty"`        // without a bid of the customer; it is computed for each request
	Target  guild.Trust `json:"target_micro,omitempty"` // trust of the providers that the bid is for; 0 for any
	Most    guild.Msat  `json:"most_msat,omitempty"`    // limit of a computed bid; 0 for none

	Settle *Settlement `json:"settle,omitempty"` // how its providers are paid; nil if they are not
}

// BidSubject is the guard of all bids: tasks may use what others leave of their budgets.
const BidSubject Subject = "bid.all"

// BidReserved reserves an amount of a budget for the bid of an attempt. Written by jobs.
type BidReserved struct {
	Job    guild.JobID `json:"job"`
	Turn   int         `json:"turn"` // the attempt's place in its job, from 1
	Task   string      `json:"task"`
	Amount guild.Msat  `json:"amount_msat"`
	At     int64       `json:"at"` // Unix ms; its UTC day and month are charged

	Day   map[string]guild.Msat `json:"day_msat,omitempty"`   // part of the amount taken from other tasks' budgets for the day
	Month map[string]guild.Msat `json:"month_msat,omitempty"` // the same for the month
}

// BidFreed ends a reservation. Nothing is owed for a delivery that was not accepted. Written by jobs.
type BidFreed struct {
	Job   guild.JobID `json:"job"`
	Turn  int         `json:"turn"`
	Spent guild.Msat  `json:"spent_msat"`
}

// Quality tells a provider how its delivery is judged (the partnership protocol, section 4.1.2).
type Quality struct {
	Accuracy guild.Score `json:"accuracy"`               // share of the tests that must pass
	Limit    int         `json:"time_limit_s,omitempty"` // of the judged run, in seconds; 0 if not stated
}

// Input is an i tag of NIP-90: input of a job in addition to its bundle.
//
// For the type job, Data is the id of a request event, or of a job of ours, which is resolved when a provider is asked. For the
// type url, Data may be "blob:" and the SHA-256 of a blob of this node.
type Input struct {
	Data   string `json:"data"`
	Type   string `json:"type"` // url, event, job or text
	Relay  string `json:"relay,omitempty"`
	Marker string `json:"marker,omitempty"`
}

// Benchmark says which run of a meeting a job is.
type Benchmark struct {
	Meeting string `json:"meeting"` // its id
	Run     int    `json:"run"`     // from 1

	Service  *guild.Service `json:"service,omitempty"`      // the service to benchmark, of those of its provider; nil for any
	Suite    string         `json:"suite,omitempty"`        // name and version, as "python-v1"
	Variant  string         `json:"variant,omitempty"`      // standard, stress or correctness
	Modules  []string       `json:"modules,omitempty"`      // computation, memory, io
	Limit    int            `json:"time_limit_s,omitempty"` // of a judged run, in seconds; 300 if 0
	Memory   int            `json:"memory_mb,omitempty"`    // 512 if 0
	Language string         `json:"language,omitempty"`     // of the benchmark's programs
}

// JobSolicited says that all providers are asked for an offer. Written by jobs.
type JobSolicited struct {
	Job     guild.JobID   `json:"job"`
	Request nostr.Event   `json:"request" private:"content,tags"`          // signed; names no provider and carries no bundle
	Others  []nostr.Event `json:"others,omitempty" private:"content,tags"` // the same in other kinds
	Until   int64         `json:"until"`                                   // Unix ms, when offers are compared
}

// Requests lists the events, that of the job's kind first.
func (f JobSolicited) Requests() []nostr.Event { return append([]nostr.Event{f.Request}, f.Others...) }

// JobOffered is an offer for a solicited job. Written by jobs.
type JobOffered struct {
	Job      guild.JobID  `json:"job"`
	Provider nostr.PubKey `json:"provider"`
	Event    nostr.ID     `json:"event"` // the feedback event
	Price    guild.Msat   `json:"price_msat"`
	Text     string       `json:"text,omitempty" private:"all"` // cut to 500 bytes
	Said     int64        `json:"said,omitempty"`               // created_at of the feedback event, Unix s
	Kind     int          `json:"kind,omitempty"`               // of the solicitation that it answers; 0 for the job's
}

// Release holds the credentials of a vault that a person gives to the provider, encrypted.
type Release struct {
	Names   []string `json:"names"`             // of the credentials
	Vaults  []Sealed `json:"vaults"`            // each with the same credentials
	Expires int64    `json:"expires,omitempty"` // Unix ms, when the first of them expires; 0 for never
	Anyway  bool     `json:"anyway,omitempty"`  // expired credentials are given too, on purpose
}

// Sealed is a vault that is encrypted for one key.
type Sealed struct {
	For   string     `json:"for,omitempty"` // age recipient; "" for this node's own key, with which it encrypts the vault for others
	Vault guild.Hash `json:"vault"`         // blob: the encrypted vault
}

// Settlement says how the providers of a job are paid, as the customer ordered it.
type Settlement struct {
	How     string `json:"how"`               // escrow, prepaid, postpaid or onchain
	Unit    string `json:"unit"`              // of the amounts
	Most    uint64 `json:"most"`              // for one attempt
	Mixed   int    `json:"mixed,omitempty"`   // per cent of the price for SUCCESS with the strength mixed
	Weak    uint64 `json:"weak,omitempty"`    // most that is paid for SUCCESS with the strength weak without asking a person
	Partial int    `json:"partial,omitempty"` // per cent for PARTIAL; 0 asks a person

	Arbiter *nip90.Arbiter `json:"arbiter,omitempty"` // that rules if the provider objects to what it gets from escrow
}

// InBitcoin reports whether the amounts are in bitcoin, so that they can be paid over Lightning.
func (s Settlement) InBitcoin() bool { return s.Unit == "sat" || s.Unit == "msat" }

// JobClosed ends a job. No more requests are made for it. Written by jobs.
type JobClosed struct {
	Job    guild.JobID  `json:"job"`
	Ending guild.Ending `json:"ending"`
	Reason string       `json:"reason,omitempty" private:"all"`
	Chosen nostr.ID     `json:"chosen,omitzero"` // the attempt whose delivery counts, if several were accepted
	Agrees nostr.ID     `json:"agrees,omitzero"` // the one that Chosen was found to agree with, as all of the majority
}

// JobCancelled says that the customer has cancelled the job. Written by jobs.
type JobCancelled struct {
	Job guild.JobID `json:"job"`
}

// JobShredded says that the owner wants the job to be forgotten: its private members, in this file and in others, and its blobs.
// Only a job that is over is shredded. Written by jobs.
type JobShredded struct {
	Job guild.JobID `json:"job"`
}

// JobErased says that the key of the job's private members and its blobs are erased. Written by jobs.
type JobErased struct {
	Job     guild.JobID `json:"job"`
	Blobs   int         `json:"blobs"`             // that were erased
	Shared  int         `json:"shared,omitempty"`  // that stay, because another job has them, too
	Exposed int         `json:"exposed,omitempty"` // entries that an older program stored without encryption, and that stay as they are
}

// Type returns the stored name.
func (JobShredded) Type() string { return "job.shredded" }

// Type returns the stored name.
func (JobErased) Type() string { return "job.erased" }

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
