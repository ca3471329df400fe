// Package config owns what a person may set: defaults, the config file (TOML), the environment, and where the
// node's files live. Zero configuration works. It opens nothing but the config file, and creates
// directories but no files.
package config

import (
	"time"

	"guild"
	"guild/internal/policy"
)

// Config is everything that can be set. The zero value is not useful; Default and Load make one.
type Config struct {
	Relays   []string           `koanf:"relays"` // ws(s):// URLs to meet others on; none means the embedded one
	Relay    Relay              `koanf:"relay"`
	Blossom  []string           `koanf:"blossom"` // http(s):// servers for bundles too large for an event
	Journal  Journal            `koanf:"journal"`
	Work     Work               `koanf:"work"`
	Judge    Judge              `koanf:"judge"`
	Timeouts Timeouts           `koanf:"timeouts"`
	Meeting  Meeting            `koanf:"meeting"`
	Limits   Limits             `koanf:"limits"`
	Trust    Trust              `koanf:"trust"`
	Budget   Budget             `koanf:"budget"`
	Review   Review             `koanf:"review"`
	Backup   Backup             `koanf:"backup"`
	Records  Records            `koanf:"records"`
	Follow   []string           `koanf:"follow"`   // npubs whose recommendations of providers count
	Synonyms map[string]string  `koanf:"synonyms"` // word in an announcement → task it means (match confidence 0.8)
	Tasks    map[string]TaskSet `koanf:"tasks"`    // task → what differs from the defaults
	Services map[string]Service `koanf:"services"` // d of an announcement → what is offered under it
	Images   map[string]string  `koanf:"images"`   // digest → directory with the root file system that it is, for oa.sandbox_run.v1

	Paths Paths `koanf:"-"`
}

// Relay is the embedded relay with its Blossom server.
type Relay struct {
	Embedded *bool  `koanf:"embedded"` // nil: on when Relays is empty
	Addr     string `koanf:"addr"`     // loopback address; a busy port is replaced by a free one
}

// Journal is the store of facts.
type Journal struct {
	NoSync bool   `koanf:"no_sync"`
	Dir    string `koanf:"dir"` // <data>/journal when empty
}

// Work is what holds for every service this node offers, unless the service has a setting of its own.
type Work struct {
	Jobs      int           `koanf:"jobs"`       // at the same time
	Queue     int           `koanf:"queue"`      // waiting beyond those; more are refused as busy
	TimeLimit time.Duration `koanf:"time_limit"` // of one command
	Price     guild.Msat    `koanf:"price_msat"`

	Allow     []string   `koanf:"allow"`        // npubs that may ask; everybody if empty
	MinBid    guild.Msat `koanf:"min_bid_msat"` // below that a request is refused
	PoW       int        `koanf:"pow"`          // leading zero bits that a request's id must have (NIP-13)
	PerMinute int        `koanf:"per_minute"`   // requests of one customer; 0 for any number
	Fetch     []string   `koanf:"fetch"`        // https hosts that inputs may be fetched from
}

// Meeting is how a node that is up gets to know providers by itself.
type Meeting struct {
	Auto      bool          `koanf:"auto"`       // new candidates are benchmarked without being asked to
	Daily     guild.Msat    `koanf:"daily_msat"` // most that the benchmarks of a UTC day may bid
	Count     int           `koanf:"count"`      // how many providers may be met on one; as many as the policy says if zero
	AtOnce    int           `koanf:"at_once"`    // at the same time
	TimeLimit time.Duration `koanf:"time_limit"` // of one benchmark
}

// Limits is how much one provider is asked.
type Limits struct {
	AtOnce    int `koanf:"at_once"`    // requests that it has not answered
	PerMinute int `koanf:"per_minute"` // new requests
}

// Trust is how providers are learned about and chosen.
type Trust struct {
	Policy string `koanf:"policy"` // name of the policy in force; internal/policy has them
}

// Budget is the most that the bids of all tasks together may come to, where a task has no budget of its own. Zero is
// any amount.
type Budget struct {
	Daily   guild.Msat `koanf:"daily_msat"`   // of a UTC day
	Monthly guild.Msat `koanf:"monthly_msat"` // of a UTC month
}

// Review is what is said in public of providers' work.
type Review struct {
	Publish bool   `koanf:"publish"` // whether reviews are published at all
	Mirrors bool   `koanf:"mirrors"` // also as kind 31117 and as NIP-32 labels
	CID     string `koanf:"cid"`     // IPFS CID that reviews name beside their receipt
}

// Backup is what is kept away from this machine.
type Backup struct {
	Auto bool `koanf:"auto"` // whether significant changes are backed up to relays and Blossom servers
}

// Records is what is kept so that others can check it.
type Records struct {
	Publish   bool          `koanf:"publish"`    // whether receipts and the journal's seals are published at relays
	SealEvery time.Duration `koanf:"seal_every"` // how long the journal may be without a seal after something was added
}

// Judge is how deliveries are judged.
type Judge struct {
	Jobs     int    `koanf:"jobs"`     // at the same time; 0 is one for each processor
	Tier     string `koanf:"tier"`     // the sandbox to use; the best that works if empty
	Analysis bool   `koanf:"analysis"` // whether linters look at what was delivered

	Opinion Opinion `koanf:"opinion"`
}

// Opinion is who is asked about what no test can decide.
type Opinion struct {
	Command string `koanf:"command"` // of the owner's, run without a sandbox
	URL     string `koanf:"url"`     // of an OpenAI-compatible endpoint, as "https://host/v1"
	Model   string `koanf:"model"`
	KeyEnv  string `koanf:"key_env"`      // name of the environment variable with the endpoint's key
	Cap     int64  `koanf:"max_pay_msat"` // most that a weak verdict or an opinion may release alone
}

// Timeouts is the patience of the customer's side.
type Timeouts struct {
	Discover time.Duration   `koanf:"discover"` // for the first answer of a relay
	Offers   time.Duration   `koanf:"offers"`   // of those whom an open job asks
	Delivery []time.Duration `koanf:"delivery"` // ladder: one wait for a relay's OK after another
	Silence  time.Duration   `koanf:"silence"`  // of a provider that took a request
	Result   time.Duration   `koanf:"result"`   // for the result after the last feedback
	Retry    []time.Duration `koanf:"retry"`    // pauses before publishing the same request again
	Job      time.Duration   `koanf:"job"`      // of a whole job, unless hire says otherwise
}

// TaskSet is what one task sets for itself.
type TaskSet struct {
	Kind int `koanf:"kind"` // NIP-90 kind of its requests; 5050 for oa.* and 5000 otherwise when 0

	Class     string     `koanf:"class"`        // critical-path, experimental, background, financial, or none
	Threshold float64    `koanf:"threshold"`    // trust below which a provider gets no ordinary work; 0.5 if 0
	Bid       guild.Msat `koanf:"bid_msat"`     // for a job as long as nothing is known of what such jobs cost
	Daily     guild.Msat `koanf:"daily_msat"`   // most that its bids of a UTC day come to
	Monthly   guild.Msat `koanf:"monthly_msat"` // and of a UTC month
}

// Embeds reports whether this node runs a relay of its own.
func (c Config) Embeds() bool {
	if c.Relay.Embedded != nil {
		return *c.Relay.Embedded
	}
	return len(c.Relays) == 0
}

// Default is the configuration of somebody who never set anything.
func Default() Config {
	return Config{
		Relay:   Relay{Addr: "127.0.0.1:7447"},
		Meeting: Meeting{Auto: true, Daily: 100_000, AtOnce: 2, TimeLimit: 10 * time.Minute},
		Limits:  Limits{AtOnce: 8, PerMinute: 30},
		Trust:   Trust{Policy: policy.Partnership},
		Review:  Review{Publish: true},
		Records: Records{SealEvery: time.Hour},
		Backup:  Backup{Auto: true},
		Work:    Work{Jobs: 2, Queue: 16, TimeLimit: 10 * time.Minute, PerMinute: 30},
		Judge:   Judge{Analysis: true},
		Timeouts: Timeouts{
			Discover: 10 * time.Second,
			Offers:   10 * time.Second,
			Delivery: []time.Duration{10 * time.Second, 15 * time.Second, 20 * time.Second},
			Silence:  300 * time.Second,
			Result:   60 * time.Second,
			Retry:    []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second},
			Job:      time.Hour,
		},
	}
}
