package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/oa"
	"guild/replay/session"
)

// Service is one service that "guild up" offers: a table [services.NAME]. Nil fields are taken from [work].
type Service struct {
	Task        []string `koanf:"task"`    // one or several; NAME if empty
	Kind        []int    `koanf:"kind"`    // NIP-90 kinds of its requests; the usual ones of its tasks if empty
	Exec        string   `koanf:"exec"`    // command for each request
	As          []string `koanf:"as"`      // agents of this node whose behaviours do the work (NIP-AE)
	Nudges      []string `koanf:"nudges"`  // of the library, which apply to each request
	Agent       string   `koanf:"agent"`   // does the requests instead of a command (docs/WORKERS.md)
	Name        string   `koanf:"name"`    // for people
	About       string   `koanf:"about"`   // for people
	Env         []string `koanf:"env"`     // names of environment variables that the command may see
	Mounts      []string `koanf:"mounts"`  // directories that the command may read
	Network     string   `koanf:"network"` // none or full; none if empty
	Unsandboxed bool     `koanf:"unsandboxed"`
	Schema      string   `koanf:"schema"` // schema of its inputs: the id of a JSON schema, or the path of one
	Open        bool     `koanf:"open"`   // does requests that name no provider, instead of making an offer
	Trace       string   `koanf:"trace"`  // format of the command's standard output (docs/WORKERS.md); plain text if empty

	Trajectory bool `koanf:"trajectory"` // customers get the redacted trajectory of the work with the delivery

	// A model behind an endpoint does bundles with tools, or the jobs of a type; or an agent has these instead of its usual ones.
	URL    string `koanf:"url"`     // OpenAI-compatible endpoint, as "https://host/v1"
	Model  string `koanf:"model"`   // for a type, "auto" uses the model with the best results here
	KeyEnv string `koanf:"key_env"` // name of the environment variable with the endpoint's key

	MCP []string `koanf:"mcp"` // commands and URLs of MCP servers, whose tools a model that does bundles has in addition

	AgentLogin   bool  `koanf:"agent_login"`    // the agent has its own login instead of a key
	TokensPerJob int64 `koanf:"tokens_per_job"` // limits of an agent, and of a model that does bundles
	TokensPerDay int64 `koanf:"tokens_per_day"`

	// For a job type of package oa. Exec, a model, or for oa.sandbox_run.v1 the sandbox does the job.
	Type      string `koanf:"type"`       // as "oa.embedding.v1"; it is also the task
	MaxTokens int    `koanf:"max_tokens"` // limit of one answer; 4096 if zero

	// Other fields of the announcement, which the owner claims.
	SupplyClass string   `koanf:"supply_class"` // SingleNode if empty
	Models      []string `koanf:"models"`
	MemoryGB    float64  `koanf:"memory_gb"`
	GPU         string   `koanf:"gpu"`
	VRAMGB      float64  `koanf:"vram_gb"`
	MaxContext  int      `koanf:"max_context"` // tokens

	Jobs      *int           `koanf:"jobs"`
	Queue     *int           `koanf:"queue"`
	TimeLimit *time.Duration `koanf:"time_limit"`
	Price     *guild.Msat    `koanf:"price_msat"`
	PriceUnit *string        `koanf:"price_unit"`

	Per1kTokens   *guild.Msat `koanf:"per_1k_tokens_msat"`
	PerWorkMinute *guild.Msat `koanf:"per_work_minute_msat"`
	Most          *guild.Msat `koanf:"most_msat"`

	Allow     *[]string   `koanf:"allow"` // an empty list means everyone
	Judges    *[]string   `koanf:"judges"`
	MinBid    *guild.Msat `koanf:"min_bid_msat"`
	PoW       *int        `koanf:"pow"`
	PerMinute *int        `koanf:"per_minute"`
	Prepaid   *float64    `koanf:"prepaid_below"`
}

// Under returns the settings of the service: its own and, for nil fields, those of w.
func (s Service) Under(w Work) Work {
	set(&w.Jobs, s.Jobs)
	set(&w.Queue, s.Queue)
	set(&w.TimeLimit, s.TimeLimit)
	set(&w.Price, s.Price)
	set(&w.PriceUnit, s.PriceUnit)
	set(&w.Per1kTokens, s.Per1kTokens)
	set(&w.PerWorkMinute, s.PerWorkMinute)
	set(&w.Most, s.Most)
	set(&w.Allow, s.Allow)
	set(&w.Judges, s.Judges)
	set(&w.MinBid, s.MinBid)
	set(&w.PoW, s.PoW)
	set(&w.PerMinute, s.PerMinute)
	set(&w.Prepaid, s.Prepaid)
	return w
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Tasks returns the tasks of the service NAME.
func (s Service) Tasks(name string) []string {
	switch {
	case s.Type != "":
		return []string{s.Type}
	case len(s.Task) == 0:
		return []string{name}
	}
	return s.Task
}

// checkServices rejects a service that could not be offered, and two services for the same task.
func (c Config) checkServices() error {
	taken := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		s := c.Services[name]
		if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("services.%q: a name is text that can be shown on one line", name)
		}
		if err := s.check(c.Work); err != nil {
			return fmt.Errorf("services.%s: %w", name, err)
		}
		for _, task := range s.Tasks(name) {
			if other, twice := taken[task]; twice {
				return fmt.Errorf("services.%s: the task %q is that of services.%s too", name, task, other)
			}
			taken[task] = name
		}
	}
	return nil
}

// supplyClasses lists the supply classes of the OpenAgents surface ("Announcement Content"); "" means SingleNode.
var supplyClasses = [...]string{"", "SingleNode", "BundleLAN", "BundleRack", "InstanceMarket", "ReservePool"}

// check rejects a service that could not be offered with the defaults of w.
func (s Service) check(w Work) error {
	for _, kind := range s.Kind {
		if kind < 5000 || kind > 5999 {
			return fmt.Errorf("kind %d is not in 5000..5999 (NIP-90)", kind)
		}
	}
	if err := s.checkType(); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(s.Exec) == "" && s.Type == "" && s.URL == "" && s.Agent == "":
		return errors.New("exec is missing: the command for each request")
	case len(s.MCP) > 0 && (s.Type != "" || s.URL == "" || s.Agent != ""):
		return errors.New("mcp is for a model that does bundles: a service with a url and without an agent or a type")
	case s.AgentLogin && s.Agent == "":
		return errors.New("agent_login is for a service with an agent")
	case (s.TokensPerJob != 0 || s.TokensPerDay != 0) && (s.Type != "" || s.URL == "" && s.Agent == ""):
		return errors.New("tokens_per_job and tokens_per_day are for an agent, and for a model that does bundles")
	case s.TokensPerJob < 0 || s.TokensPerDay < 0:
		return errors.New("tokens_per_job and tokens_per_day are 0 or more")
	case slices.Contains(s.Task, ""):
		return errors.New("task is empty")
	case !slices.Contains(supplyClasses[:], s.SupplyClass):
		return fmt.Errorf("supply_class %q: want one of%s", s.SupplyClass, strings.Join(supplyClasses[:], " "))
	case s.MemoryGB < 0 || s.VRAMGB < 0 || s.MaxContext < 0:
		return errors.New("memory_gb, vram_gb and max_context are 0 or more")
	case !slices.Contains([]string{"", "none", "full"}, s.Network):
		return fmt.Errorf("network %q: want none or full", s.Network)
	case s.Trace != "" && !slices.Contains(session.Formats(), session.Format(s.Trace)):
		return fmt.Errorf("trace %q: want one of %v", s.Trace, session.Formats())
	}
	return s.Under(w).check()
}

// checkType rejects an invalid job type, and a service with no or more than one way to do the job.
func (s Service) checkType() error {
	if s.Type == "" {
		return s.checkChat()
	}
	id, err := oa.ParseID(s.Type) // the node checks whether the type is known
	runs := err == nil && id.String() == oa.SandboxRun
	switch {
	case err != nil:
		return fmt.Errorf("type: %w", err)
	case id.String() != s.Type:
		return fmt.Errorf("type %q: want %s", s.Type, id)
	case len(s.Task) > 0:
		return errors.New("task is there, and with a type that is the task")
	case s.URL != "" && (s.Exec != "" || runs):
		return errors.New("url is there, and something else does the work")
	case s.URL != "" && s.Model == "":
		return errors.New("model is missing: which one is the endpoint asked for?")
	case s.URL == "" && (s.Model != "" || s.KeyEnv != "" || s.MaxTokens != 0):
		return errors.New("model, key_env and max_tokens are for a service with a url")
	case s.URL == "" && s.Exec == "" && !runs:
		return errors.New("who does it? name a command (exec), or the url of an endpoint")
	case s.MaxTokens < 0:
		return errors.New("max_tokens is 0 or more")
	case s.Unsandboxed && s.Exec == "":
		return errors.New("unsandboxed is for a command")
	}
	return nil
}

// checkChat rejects a model that cannot do bundles.
func (s Service) checkChat() error {
	switch {
	case s.MaxTokens != 0:
		return errors.New("max_tokens is for a service with a type, as \"oa.embedding.v1\"")
	case s.Agent != "":
		return nil
	case s.URL == "" && (s.Model != "" || s.KeyEnv != ""):
		return errors.New("model and key_env are for a service with a url")
	case s.URL == "":
		return nil
	case s.Model == "":
		return errors.New("model is missing: which one is the endpoint asked for?")
	case s.Exec != "" || s.Trace != "":
		return errors.New("url is there, and something else does the work")
	case s.Unsandboxed || s.Network == "full":
		return errors.New("the commands of a model run in a sandbox without network: unsandboxed and network are for exec")
	}
	return nil
}

// check rejects invalid numbers, and allowed customers that are not keys.
func (w Work) check() error {
	switch {
	case w.Jobs < 1:
		return fmt.Errorf("jobs: %d, want 1 or more", w.Jobs)
	case w.Queue < 0:
		return fmt.Errorf("queue: %d, want 0 or more", w.Queue)
	case w.TimeLimit < time.Second:
		return fmt.Errorf("time_limit: %v, want a second or more, with its unit, such as \"5m\"", w.TimeLimit)
	case w.Price < 0:
		return fmt.Errorf("price_msat: %d, want 0 or more", w.Price)
	case w.MinBid < 0 || w.PoW < 0 || w.PerMinute < 0:
		return errors.New("min_bid_msat, pow and per_minute are 0 or more")
	case w.Prepaid < 0 || w.Prepaid > 1:
		return fmt.Errorf("prepaid_below: %v, want a score from 0 to 1", w.Prepaid)
	case w.PoW > maxPoW:
		return fmt.Errorf("pow: %d bits, and nobody finds more than %d", w.PoW, maxPoW)
	}
	if err := w.checkRates(); err != nil {
		return err
	}
	if _, err := Keys(w.Allow); err != nil {
		return fmt.Errorf("allow: %w", err)
	}
	if _, err := Keys(w.Judges); err != nil {
		return fmt.Errorf("judges: %w", err)
	}
	return nil
}

// maxPoW is the maximum work that a request can require: weeks on one machine.
const maxPoW = 48

// Keys parses keys in the forms that people use: npub1… or 64 hex digits.
func Keys(texts []string) ([]nostr.PubKey, error) {
	var keys []nostr.PubKey
	for _, text := range texts {
		hex := text
		if strings.HasPrefix(text, "npub1") {
			_, value, err := nip19.Decode(text)
			key, ok := value.(nostr.PubKey)
			if err != nil || !ok {
				return nil, fmt.Errorf("%.80q is not an npub", text)
			}
			hex = key.Hex() // nip19 does not check that it is a valid key
		}
		key, err := nostr.PubKeyFromHex(hex)
		if err != nil {
			return nil, fmt.Errorf("%.80q is neither an npub nor a key in hex", text)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// maxSchema limits an announced JSON schema, in bytes: an announcement has at most 64 KB.
const maxSchema = 16 << 10

// ReadSchema returns the schema to announce for a service's inputs: the content of the file that schema names, or
// schema itself if it is an id.
func ReadSchema(schema string) (string, error) {
	info, err := os.Stat(schema)
	if schema == "" || err != nil || info.IsDir() {
		if strings.HasSuffix(schema, ".json") && !strings.Contains(schema, "://") {
			return "", fmt.Errorf("the schema %s: %w", schema, err)
		}
		return schema, nil
	}
	if info.Size() > maxSchema {
		return "", fmt.Errorf("the schema %s has %d bytes, and %d are enough", schema, info.Size(), maxSchema)
	}
	text, err := os.ReadFile(schema)
	if err != nil {
		return "", fmt.Errorf("the schema: %w", err)
	}
	return string(text), nil
}
