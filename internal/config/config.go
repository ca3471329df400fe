// Package config owns the settings: defaults, the config file (TOML), the environment, and the paths of the node's
// files. Everything has a default. It opens no file except the config file, and creates directories but no files.
package config

import (
	"time"

	"guild"
	"guild/internal/policy"
)

// Config holds all settings. The zero value is not usable; Default and Load return one.
type Config struct {
	Relays   []string           `koanf:"relays"` // ws(s):// URLs to use; none means the embedded relay
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
	Agents   Agents             `koanf:"agents"`
	Wallet   Wallet             `koanf:"wallet"`
	Follow   []string           `koanf:"follow"`   // npubs whose recommendations of providers count
	Synonyms map[string]string  `koanf:"synonyms"` // word in an announcement → its task (confidence 0.8)
	Tasks    map[string]TaskSet `koanf:"tasks"`    // task → settings that differ from the defaults
	Services map[string]Service `koanf:"services"` // d of an announcement → the service offered under it
	Images   map[string]string  `koanf:"images"`   // digest → directory with that root file system, for oa.sandbox_run.v1

	Paths Paths `koanf:"-"`
}

// Agents configures the agents of this node (NIP-AE).
type Agents struct {
	Owners     []string `koanf:"owners"`      // npubs: the owner's other keys
	Allow      []string `koanf:"allow"`       // npubs of others whose lessons, comments and nudges apply
	Asked      string   `koanf:"asked"`       // which nudges that customers ask for apply: trusted, all or none
	AutoAccept bool     `koanf:"auto_accept"` // what an agent learned applies without your consent
	Budget     int64    `koanf:"budget"`      // tokens of a prompt
	Learn      string   `koanf:"learn"`       // command that may write a lesson after a verdict; none if empty
}

// Wallet configures the money.
type Wallet struct {
	Mint string `koanf:"mint"` // loopback address of a mint of play money; none if empty
}

// Relay configures the embedded relay with its Blossom server.
type Relay struct {
	Embedded *bool  `koanf:"embedded"` // nil: on if Relays is empty
	Addr     string `koanf:"addr"`     // loopback address; if its port is in use, a free one is taken
}

// Journal configures the store of facts.
type Journal struct {
	NoSync bool   `koanf:"no_sync"`
	Dir    string `koanf:"dir"` // <data>/journal if empty
}

// Work holds the settings for all services of this node. A service can override them.
type Work struct {
	Jobs      int           `koanf:"jobs"`       // concurrent jobs
	Queue     int           `koanf:"queue"`      // waiting jobs beyond those; further ones are refused as busy
	TimeLimit time.Duration `koanf:"time_limit"` // for one command
	Price     guild.Msat    `koanf:"price_msat"`
	PriceUnit string        `koanf:"price_unit"` // of ecash, of which Price is thousandths; sat if empty

	// With a rate Price is the fixed part, and customers are asked to lock Most. All are thousandths of the unit.
	Per1kTokens   guild.Msat `koanf:"per_1k_tokens_msat"`
	PerWorkMinute guild.Msat `koanf:"per_work_minute_msat"`
	Most          guild.Msat `koanf:"most_msat"`

	Allow     []string   `koanf:"allow"`         // npubs that may send requests; empty means everyone
	Judges    []string   `koanf:"judges"`        // npubs whose rulings on escrow are accepted
	MinBid    guild.Msat `koanf:"min_bid_msat"`  // requests with a lower bid are refused
	PoW       int        `koanf:"pow"`           // leading zero bits required in a request's id (NIP-13)
	PerMinute int        `koanf:"per_minute"`    // requests of one customer; 0 means no limit
	Prepaid   float64    `koanf:"prepaid_below"` // score of a customer below which it pays before the work, from 0 to 1
	Untried   bool       `koanf:"untried"`       // services are announced before their worker passed a try
	Fetch     []string   `koanf:"fetch"`         // https hosts from which inputs may be fetched
}

// Meeting configures how a running node benchmarks providers by itself.
type Meeting struct {
	Auto      bool          `koanf:"auto"`       // benchmark new providers without a command; guild init asks
	Daily     guild.Msat    `koanf:"daily_msat"` // limit on the sum of the bids for benchmarks in a UTC day
	Count     int           `koanf:"count"`      // limit on providers per day; the policy's if zero
	AtOnce    int           `koanf:"at_once"`    // concurrent meetings
	TimeLimit time.Duration `koanf:"time_limit"` // for one benchmark
}

// Limits limits the requests to one provider.
type Limits struct {
	AtOnce    int `koanf:"at_once"`    // requests that it has not answered
	PerMinute int `koanf:"per_minute"` // new requests
}

// Trust configures how providers are rated and chosen.
type Trust struct {
	Policy string `koanf:"policy"` // name of the policy in force; see internal/policy
}

// Budget limits the sum of the bids of all tasks that have no budget of their own. Zero means no limit.
type Budget struct {
	Daily   guild.Msat `koanf:"daily_msat"`   // per UTC day
	Monthly guild.Msat `koanf:"monthly_msat"` // per UTC month
}

// Review configures the public reviews of providers.
type Review struct {
	Publish bool   `koanf:"publish"` // publish reviews
	Mirrors bool   `koanf:"mirrors"` // also as kind 31117 and as NIP-32 labels
	CID     string `koanf:"cid"`     // IPFS CID that reviews name beside the receipt
}

// Backup configures copies of the matrix outside this machine.
type Backup struct {
	Auto bool `koanf:"auto"` // back up significant changes to relays and Blossom servers
}

// Records configures the records that others can check.
type Records struct {
	Publish   bool          `koanf:"publish"`    // publish receipts and seals of the journal at relays
	SealEvery time.Duration `koanf:"seal_every"` // maximum age of an unsealed entry
}

// Judge configures how deliveries are judged.
type Judge struct {
	Jobs     int    `koanf:"jobs"`     // concurrent judgements; 0 means one for each processor
	Tier     string `koanf:"tier"`     // sandbox to use; the best available if empty
	Analysis bool   `koanf:"analysis"` // run linters on deliveries

	Opinion Opinion `koanf:"opinion"`
}

// Opinion configures a command or a model that decides between results if no test can.
type Opinion struct {
	Command string `koanf:"command"` // command of the owner's, run without a sandbox
	URL     string `koanf:"url"`     // OpenAI-compatible endpoint, as "https://host/v1"
	Model   string `koanf:"model"`
	KeyEnv  string `koanf:"key_env"`      // name of the environment variable with the endpoint's key
	Cap     int64  `koanf:"max_pay_msat"` // most that a weak verdict or an opinion alone may release; 0 for no limit
}

// Timeouts limits the waits of the customer's side.
type Timeouts struct {
	Discover time.Duration   `koanf:"discover"` // for the first answer of a relay
	Offers   time.Duration   `koanf:"offers"`   // for offers to an open job
	Delivery []time.Duration `koanf:"delivery"` // successive waits for a relay's OK
	Silence  time.Duration   `koanf:"silence"`  // for a provider that took a request
	Result   time.Duration   `koanf:"result"`   // for the result after the last feedback
	Retry    []time.Duration `koanf:"retry"`    // pauses before publishing the same request again
	Job      time.Duration   `koanf:"job"`      // for a whole job, unless the hire command sets another
}

// TaskSet holds the settings of one task.
type TaskSet struct {
	Kind int `koanf:"kind"` // NIP-90 kind of its requests; if 0, 5050 for oa.* and 5000 otherwise

	Class     string     `koanf:"class"`        // critical-path, experimental, background, financial, or "" for none
	Threshold float64    `koanf:"threshold"`    // trust below which a provider gets no ordinary work; 0.5 if 0
	Bid       guild.Msat `koanf:"bid_msat"`     // for a job of unknown cost
	Daily     guild.Msat `koanf:"daily_msat"`   // limit on its bids in a UTC day
	Monthly   guild.Msat `koanf:"monthly_msat"` // limit on its bids in a UTC month
}

// Embeds reports whether this node runs an embedded relay.
func (c Config) Embeds() bool {
	if c.Relay.Embedded != nil {
		return *c.Relay.Embedded
	}
	return len(c.Relays) == 0
}

// Default returns the configuration without any settings.
func Default() Config {
	return Config{
		Relay:   Relay{Addr: "127.0.0.1:7447"},
		Meeting: Meeting{Daily: 100_000, AtOnce: 2, TimeLimit: 10 * time.Minute},
		Limits:  Limits{AtOnce: 8, PerMinute: 30},
		Trust:   Trust{Policy: policy.Measured},
		Agents:  Agents{Asked: "trusted", Budget: 8000},
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
