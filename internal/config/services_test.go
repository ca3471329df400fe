package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"guild/internal/config"
)

const npub = "npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6"

func TestServiceOverridesWork(t *testing.T) {
	c, err := load(t, `
[work]
jobs = 3
allow = ["`+npub+`"]
min_bid_msat = 1000
per_minute = 10
[services.python]
task = ["python", "python-review"]
kind = [5000, 5100]
exec = "./solve.sh"
time_limit = "5m"
allow = []
min_bid_msat = 0
pow = 12
network = "full"
open = true
[services."oa.sandbox_run.v1"]
exec = "./run.sh"
`)
	if err != nil {
		t.Fatal(err)
	}
	s := c.Services["python"]
	if !reflect.DeepEqual(s.Tasks("python"), []string{"python", "python-review"}) || !reflect.DeepEqual(s.Kind, []int{5000, 5100}) || s.Network != "full" || !s.Open {
		t.Errorf("%+v", s)
	}
	w := s.Under(c.Work)
	if w.Jobs != 3 || w.Queue != 16 || w.TimeLimit != 5*time.Minute || len(w.Allow) != 0 || w.MinBid != 0 || w.PoW != 12 || w.PerMinute != 10 {
		t.Errorf("%+v", w)
	}
	other := c.Services["oa.sandbox_run.v1"]
	if w := other.Under(c.Work); !reflect.DeepEqual(w, c.Work) || !reflect.DeepEqual(other.Tasks("oa.sandbox_run.v1"), []string{"oa.sandbox_run.v1"}) {
		t.Errorf("%+v", w)
	}
}

func TestSingleTaskAndKind(t *testing.T) {
	c, err := load(t, "[services.x]\ntask = \"python\"\nkind = 5050\nexec = \"true\"")
	if s := c.Services["x"]; err != nil || !reflect.DeepEqual(s.Task, []string{"python"}) || !reflect.DeepEqual(s.Kind, []int{5050}) {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestInvalidServiceRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[services.x]": "services.x: exec is missing",
		"[services.x]\nexec = \"true\"\ntask = [\"\"]":                                             "services.x: task is empty",
		"[services.x]\nexec = \"true\"\nkind = 6000":                                               "services.x: kind 6000",
		"[services.x]\nexec = \"true\"\nnetwork = \"some\"":                                        "want none or full",
		"[services.x]\nexec = \"true\"\njobs = 0":                                                  "services.x: jobs: 0",
		"[services.x]\nexec = \"true\"\nqueue = -1":                                                "services.x: queue: -1",
		"[services.x]\nexec = \"true\"\ntime_limit = 300":                                          "services.x: time_limit",
		"[services.x]\nexec = \"true\"\nprice_msat = -1":                                           "services.x: price_msat",
		"[services.x]\nexec = \"true\"\nper_1k_tokens_msat = 5":                                    "services.x: most_msat is missing",
		"[services.x]\nexec = \"true\"\nmost_msat = 5":                                             "most_msat is for a price by usage",
		"[services.x]\nexec = \"true\"\nper_work_minute_msat = -5\nmost_msat = 5":                  "0 or more",
		"[services.x]\nexec = \"true\"\nprice_msat = 9\nper_work_minute_msat = 5\nmost_msat = 8":   "below the fixed part",
		"[services.x]\nexec = \"true\"\nper_work_minute_msat = 5\nmost_msat = 9223372036854775807": "more than there is",
		"[work]\nprice_msat = 9\nper_1k_tokens_msat = 1\nmost_msat = 8":                            "work.most_msat: 8",
		"[services.x]\nexec = \"true\"\npow = 300":                                                 "services.x: pow: 300",
		"[services.\"a\\nb\"]\nexec = \"true\"":                                                    `services."a\nb"`,
		"[services.\"\"]\nexec = \"true\"":                                                         `services.""`,
		"[services.x]\nexec = \"true\"\nper_minute = -1":                                           "services.x",
		"[services.x]\nexec = \"true\"\nallow = [\"bob\"]":                                         `services.x: allow: "bob" is neither an npub nor a key in hex`,
		"[work]\nallow = [\"npub1x\"]":                                                             `work.allow: "npub1x" is not an npub`,
		"[services.a]\nexec = \"x\"\n[services.b]\nexec=\"x\"\ntask=\"a\"":                         `services.b: the task "a" is that of services.a too`,
	} {
		if _, err := load(t, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestUnknownServiceKeyNamesNearest(t *testing.T) {
	_, err := load(t, "[services.x]\nexce = \"true\"")
	if e, ok := errors.AsType[*config.UnknownKeyError](err); !ok || e.Key != "services.x.exce" || e.Near != "services.x.exec" {
		t.Errorf("%+v", err)
	}
}

func TestSchemaIsIdOrFile(t *testing.T) {
	dir := t.TempDir()
	file, large := filepath.Join(dir, "a.json"), filepath.Join(dir, "large.json")
	if err := errors.Join(os.WriteFile(file, []byte(`{"type":"object"}`), 0o600), os.WriteFile(large, make([]byte, 17<<10), 0o600)); err != nil {
		t.Fatal(err)
	}
	for schema, want := range map[string]string{"": "", "oa.code.v1": "oa.code.v1", "https://a.example/s.json": "https://a.example/s.json", file: `{"type":"object"}`} {
		if got, err := config.ReadSchema(schema); err != nil || got != want {
			t.Errorf("%q: %q, %v", schema, got, err)
		}
	}
	for _, schema := range []string{large, filepath.Join(dir, "absent.json")} {
		if got, err := config.ReadSchema(schema); err == nil {
			t.Errorf("%q: %q", schema, got)
		}
	}
}

func TestTypedServiceBackends(t *testing.T) {
	c, err := load(t, `
[services.run]
type = "oa.sandbox_run.v1"
[services.embed]
type = "oa.embedding.v1"
url = "https://host/v1"
model = "auto"
key_env = "KEY"
[services.rank]
type = "oa.retrieval_rerank.v1"
exec = "./rank.sh"
[images]
"sha256:0.1" = "/srv/debian"
`)
	if s := c.Services["embed"]; err != nil || s.URL != "https://host/v1" || s.KeyEnv != "KEY" || !reflect.DeepEqual(s.Tasks("embed"), []string{"oa.embedding.v1"}) {
		t.Errorf("%+v, %v", s, err)
	}
	if c.Images["sha256:0.1"] != "/srv/debian" {
		t.Errorf("%v", c.Images)
	}
	for text, want := range map[string]string{
		`type = "oa.embedding.v1"`:                                        "who does it?",
		`type = "oa.embeddings.v1"` + "\nexec = \"x\"":                    "want oa.embedding.v1",
		`type = "python"` + "\nexec = \"x\"":                              "not a job type",
		`type = "oa.embedding.v1"` + "\nurl = \"https://host/v1\"":        "model is missing",
		`type = "oa.sandbox_run.v1"` + "\nurl = \"https://host/v1\"":      "something else does the work",
		`type = "oa.sandbox_run.v1"` + "\ntask = \"x\"":                   "task is there",
		`type = "oa.embedding.v1"` + "\nexec = \"x\"\nmodel = \"m\"":      "for a service with a url",
		`exec = "x"` + "\nurl = \"https://host/v1\"\nmodel = \"m\"":       "something else does the work",
		`url = "https://host/v1"`:                                         "model is missing",
		`url = "https://host/v1"` + "\nmodel = \"m\"\nmax_tokens = 9":     "for a service with a type",
		`url = "https://host/v1"` + "\nmodel = \"m\"\nnetwork = \"full\"": "sandbox without network",
		`exec = "x"` + "\nmodel = \"m\"":                                  "for a service with a url",
	} {
		if _, err := load(t, "[services.x]\n"+text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
