package config_test

import (
	"errors"
	"strings"
	"testing"

	"guild/internal/config"
)

func TestErrorNamesLineOrVariable(t *testing.T) {
	for _, c := range []struct{ text, environ, want string }{
		{"\n[timeouts]\nsilence = 300", "", `config.toml:3: timeouts.silence: 300ns, want a positive time with its unit, such as "30s"`},
		{"[timeouts]\nsilence = \"1h\"\njob = \"-1s\"", "", `config.toml:3: timeouts.job: -1s, want a positive time`},
		{"[work]\njobs = \"many\"", "", "config.toml:2: work.jobs: want a whole number"},
		{"[work]\nqueue = 1\njobs = 0", "", "config.toml:3: work.jobs: 0, want 1 or more"},
		{"relays = [\"wss://a.example\",\n\"http://b.example\"]", "", `config.toml:1: relays: "http://b.example"`},
		{"[services.\"a b\"]\nexec = \"x\"\nnetwork = \"some\"", "", "config.toml:3: services.a b: network"},
		{"[services.x]\nexec = \"x\"\nnetwork = \"some\"", "", "config.toml:3: services.x: network"},
		{"[services.x]\nname = \"x\"", "", "config.toml:1: services.x: exec is missing"},
		{"\n\nrelays = [", "", "config.toml:3: "},
		{"[relay]\n\n[work]\n[relay]\naddr = \"127.0.0.1:1\"", "", "config.toml:4: relay was there before, in line 1"},
		{"\nrelay = \"wss://a.example\"\n\n[work]\n[relay]\n", "", "config.toml:2: relay has a value, and is a table in line 5"},
		{"[work]\njobs = 1\n[work.jobs]\n", "", "config.toml:2: work.jobs has a value, and is a table in line 3"},
		{"[journal]\nlisten = \"x\"", "", "config.toml:2: journal.listen was removed"},
		{"[work]\n\nbogus = 1", "", `config.toml:3: unknown key "work.bogus"`},
		{"", "GUILD_RELAYS=notaurl", `GUILD_RELAYS: relays: "notaurl": want wss://host`},
		{"relays = [\"wss://a.example\"]", "GUILD_RELAYS=ws://a.example", "GUILD_RELAYS: relays: "},
		{"[work]\njobs = 2", "GUILD_WORK_JOBS=many", "GUILD_WORK_JOBS: work.jobs: want a whole number"},
		{"", "GUILD_WORK_JOBS=", "GUILD_WORK_JOBS: work.jobs: 0, want 1 or more"},
		{"", "GUILD_TIMEOUTS_SILENCE=300", "GUILD_TIMEOUTS_SILENCE: timeouts.silence: want a time with its unit"},
		{"", "GUILD_RELAY_EMBEDDED=maybe", "GUILD_RELAY_EMBEDDED: relay.embedded: want true or false"},
	} {
		_, err := load(t, c.text, c.environ)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %s: %v, want %q", c.text, c.environ, err, c.want)
		}
	}
}

func TestTableTwiceSaysWhatToDo(t *testing.T) {
	_, err := load(t, "[relay]\n[relay]\n")
	if e, ok := errors.AsType[*config.ValueError](err); !ok || e.Hint() != "put what is below it into the first [relay]" {
		t.Errorf("%v", err)
	}
}
