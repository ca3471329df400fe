package config_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"guild/internal/config"
)

// load writes text, if any, as the config file of a new home, and loads it.
func load(t *testing.T, text string, environ ...string) (config.Config, error) {
	t.Helper()
	home := t.TempDir()
	if text != "" {
		if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return config.Load(home, environ)
}

// same reports whether two configurations have the same settings.
func same(a, b config.Config) bool {
	a.Paths, b.Paths = config.Paths{}, config.Paths{}
	return reflect.DeepEqual(a, b)
}

func TestZeroConfigurationWorks(t *testing.T) {
	c, err := load(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if !same(c, config.Default()) {
		t.Errorf("got %+v", c)
	}
	if !c.Embeds() {
		t.Error("no relay of its own, and none configured")
	}
}

func TestTemplateShowsDefaults(t *testing.T) {
	c, err := load(t, string(config.Template))
	if err != nil {
		t.Fatal(err)
	}
	if !same(c, config.Default()) {
		t.Errorf("the file as written changes something: %+v", c)
	}
	example := regexp.MustCompile(`(?m)^#([a-z_"].* = |\[)`)
	active := example.ReplaceAllString(string(config.Template), "$1")
	c, err = load(t, active)
	if err != nil {
		t.Fatalf("with every line active: %v", err)
	}
	examples := []string{"relays", "relay", "blossom", "synonyms", "tasks", "services", "images", "-"} // shown with other values
	shown := reflect.ValueOf(c)
	for field, want := range reflect.ValueOf(config.Default()).Fields() {
		key := field.Tag.Get("koanf")
		if got := shown.FieldByIndex(field.Index); !slices.Contains(examples, key) && fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s in config.toml is\n%+v, in Default\n%+v", key, got, want)
		}
	}
	for _, v := range config.Variables() {
		name := v.Key[strings.LastIndexByte(v.Key, '.')+1:]
		if !bytes.Contains(config.Template, []byte("\n#"+name+" = ")) {
			t.Errorf("config.toml does not show %s: add a comment and the line \"#%s = \" with the default", v.Key, name)
		}
	}
}

func TestEnvironmentOverridesFile(t *testing.T) {
	c, err := load(t, `
relays = ["wss://file.example"]
[timeouts]
silence = "1m"
retry = ["1s"]
[tasks."oa.sandbox_run.v1"]
kind = 5051
`, "GUILD_RELAYS=wss://a.example,ws://127.0.0.1:7", "GUILD_TIMEOUTS_SILENCE=90s", "GUILD_TIMEOUTS_DELIVERY=1s,2s",
		"GUILD_RELAY_EMBEDDED=true", "GUILD_WORK_PRICE_MSAT=21000", "GUILD_JOB=ignored", "GUILD=ignored", "RELAYS=ignored")
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c.Relays, []string{"wss://a.example", "ws://127.0.0.1:7"}) || !c.Embeds() {
		t.Errorf("relays %v, embedded %v", c.Relays, c.Embeds())
	}
	if c.Timeouts.Silence != 90*time.Second || len(c.Timeouts.Delivery) != 2 || c.Timeouts.Delivery[1] != 2*time.Second {
		t.Errorf("timeouts %+v", c.Timeouts)
	}
	if len(c.Timeouts.Retry) != 1 || c.Timeouts.Retry[0] != time.Second {
		t.Errorf("a shorter list keeps the default's tail: %v", c.Timeouts.Retry)
	}
	if c.Work.Price != 21000 || c.Tasks["oa.sandbox_run.v1"].Kind != 5051 {
		t.Errorf("price %v, tasks %v", c.Work.Price, c.Tasks)
	}
}

func TestRemovedKeyExplained(t *testing.T) {
	for _, tt := range []struct{ text, environ, key, hint string }{
		{"[journal]\nlisten = \"127.0.0.1:4222\"\n", "", "journal.listen", "delete the line that sets journal.listen"},
		{"", "GUILD_JOURNAL_LISTEN=127.0.0.1:4222", "GUILD_JOURNAL_LISTEN", "unset GUILD_JOURNAL_LISTEN"},
	} {
		_, err := load(t, tt.text, tt.environ)
		removed, ok := errors.AsType[*config.RemovedKeyError](err)
		if !ok || removed.Key != tt.key || removed.Hint() != tt.hint || !strings.Contains(err.Error(), tt.key+" was removed: whoever reached the port") {
			t.Errorf("%q %q: got %v, want a *RemovedKeyError about %s with the hint %q", tt.text, tt.environ, err, tt.key, tt.hint)
		}
	}
}

func TestUnknownKeyNamesNearest(t *testing.T) {
	for text, want := range map[string][2]string{
		"relayz = []":                      {"relayz", "relays"},
		"[timeouts]\nsilense = \"1m\"":     {"timeouts.silense", "timeouts.silence"},
		"[timeout]\nsilence = \"1m\"":      {"timeout", "timeouts"},
		"[tasks.\"a.b\"]\nkid = 5000":      {"tasks.a.b.kid", "tasks.a.b.kind"},
		"[work]\njobs = 1\nprice-msat = 1": {"work.price-msat", "work.price_msat"},
		"bogus = 1":                        {"bogus", ""},
	} {
		_, err := load(t, text)
		unknown, ok := errors.AsType[*config.UnknownKeyError](err)
		if !ok {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if unknown.Key != want[0] {
			t.Errorf("%q: key %q, want %q", text, unknown.Key, want[0])
		}
		if unknown.Near != want[1] {
			t.Errorf("%q: nearest %q, want %q", text, unknown.Near, want[1])
		}
	}
}

func TestKeyBelowWrongTable(t *testing.T) {
	for text, want := range map[string]string{
		"[timeouts]\njob = \"1h\"\nrelays = []":       "relays belongs above the first table: where it stands it is part of [timeouts]",
		"[services.x]\nexec = \"true\"\nfollow = []":  "follow belongs above the first table: where it stands it is part of [services.x]",
		"[timeouts]\nrelay = \"wss://relay.example\"": "relays belongs above the first table: where it stands it is part of [timeouts]",
		"[relays]\nx = 1":               "guild help environment lists the keys",
		"bogus = 1":                     "guild help environment lists the keys",
		"[tasks.x]\nseverity = \"low\"": "guild init --home DIR writes a config.toml that explains each key",
		"[services.x]\nprise = 5":       "guild init --home DIR writes a config.toml that explains each key",
	} {
		_, err := load(t, text)
		unknown, ok := errors.AsType[*config.UnknownKeyError](err)
		if !ok || unknown.Hint() != want {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestDefaultRequestRate(t *testing.T) {
	if n := config.Default().Work.PerMinute; n != 30 {
		t.Errorf("%d requests of one customer in a minute", n)
	}
	if c, err := load(t, "[work]\nper_minute = 0"); err != nil || c.Work.PerMinute != 0 {
		t.Errorf("%d, %v", c.Work.PerMinute, err)
	}
}

func TestInvalidValuesRefused(t *testing.T) {
	for text, want := range map[string]string{
		`relays = ["https://a.example"]`:       "relays",
		`relays = ["wss://"]`:                  "relays",
		`relays = ["ws://a.example"]`:          "relays",
		`relays = ["::"]`:                      "relays",
		`blossom = ["wss://a.example"]`:        "blossom",
		"[relay]\naddr = \"0.0.0.0:7447\"":     "relay.addr",
		"[relay]\naddr = \"example.com:7447\"": "relay.addr",
		"[relay]\naddr = \"127.0.0.1\"":        "relay.addr",
		"[timeouts]\nsilence = 300":            "timeouts.silence",
		"[timeouts]\nsilence = \"-1s\"":        "timeouts.silence",
		"[timeouts]\nretry = [\"5s\", \"0s\"]": "timeouts.retry",
		"[timeouts]\nsilence = \"five\"":       "silence",
		"[records]\nseal_every = 300":          "records.seal_every",
		"[work]\njobs = 0":                     "work.jobs",
		"[work]\nqueue = -1":                   "work.queue",
		"[work]\nprice_msat = -1":              "work.price_msat",
		"[work]\njobs = \"two\"":               "jobs",
		"[judge]\njobs = -1":                   "judge.jobs",
		"[tasks.x]\nkind = 1":                  "tasks.x",
		"relays = [":                           "config.toml",
		"relay = 1":                            "relay",
	} {
		_, err := load(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "config.toml") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(string(config.Template))
	f.Add("relays = [1, 2]\n[tasks.x]\nkind = 5000")
	f.Add("[timeouts]\nretry = \"1s\"\n[synonyms]\na = \"b\"")
	f.Fuzz(func(t *testing.T, text string) {
		home := t.TempDir()
		os.WriteFile(filepath.Join(home, "config.toml"), []byte(text), 0o600)
		config.Load(home, nil) // must not panic
	})
}

func TestMeetingsOnlyIfWanted(t *testing.T) {
	if c, err := load(t, string(config.Template)); err != nil || c.Meeting.Auto {
		t.Errorf("providers are benchmarked unasked: %v", err)
	}
	if c, err := load(t, string(config.WithMeetings(config.Template))); err != nil || !c.Meeting.Auto {
		t.Errorf("providers are not benchmarked: %v", err)
	}
}
