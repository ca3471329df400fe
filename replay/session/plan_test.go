package session_test

import (
	"strings"
	"testing"

	"guild/canon"
	"guild/replay/session"
)

const plan = `{"analysis":"two bugs","steps":[
 {"id":"a","description":"look","intent":"Investigate","target_files":["x.go"],"depends_on":[],"max_iterations":3},
 {"id":"b","description":"mend","intent":"modify","target_files":[],"depends_on":["a"],"max_iterations":1,"extra":true}],
 "verification_strategy":{"commands":["go test"],"success_criteria":"all pass","max_retries":2},
 "complexity":"Low","confidence":0.8,"model":"x"}`

func TestPlanHash(t *testing.T) {
	p, err := session.DecodePlan([]byte(plan))
	if err != nil || p.Validate() != nil {
		t.Fatal(err, p.Validate())
	}
	if want, err := canon.Hash([]byte(plan)); err != nil || p.Hash != want {
		t.Errorf("hash %s, want %s, %v: members that are not known count", p.Hash, want, err)
	}
	if p.Steps[1].Intent != session.Modify || p.Verification.SuccessCriteria[0] != "all pass" || p.Steps[1].DependsOn[0] != "a" {
		t.Errorf("%+v", p)
	}
}

func TestInvalidPlans(t *testing.T) {
	step := func(members string) string { return `{"steps":[{"intent":"Verify",` + members + `}]}` }
	for text, wrong := range map[string]string{
		`[]`: "not an object", `{"steps":{}}`: "steps", `{"a":1,"a":2}`: "duplicate",
		`{"confidence":1.5}`: "confidence",
		step(`"id":""`):      "an id has",
		step(`"id":"` + strings.Repeat("x", 300) + `"`): "an id has",
		`{"steps":[{"id":"a","intent":"Ponder"}]}`:      `intent "Ponder"`,
		step(`"id":"a","max_iterations":-1`):            "max_iterations",
		step(`"id":"a"},{"intent":"Verify","id":"a"`):   "duplicate step id",
		step(`"id":"a","depends_on":["b"]`):             "which is not a step",
		step(`"id":"a","depends_on":["a"]`):             "waits for itself",
		`{"verification_strategy":{"max_retries":-1}}`:  "verification_strategy",
		`{"steps":[{"id":"a","intent":"Verify","depends_on":["b"]},{"id":"b","intent":"Verify","depends_on":["a"]}]}`: "waits for itself",
		`{"analysis":"` + strings.Repeat("x", session.MaxPlan) + `"}`:                                                 "is over",
	} {
		p, err := session.DecodePlan([]byte(text))
		if err == nil {
			err = p.Validate()
		}
		if err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%.80s: %v, want it to say %s", text, err, wrong)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add([]byte(plan))
	f.Add([]byte(`{"steps":[{"id":"a","intent":"Verify","depends_on":["a","a"]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := session.DecodePlan(b)
		if err != nil || p.Validate() != nil {
			return
		}
		if want, err := canon.Hash(b); err != nil || want != p.Hash {
			t.Errorf("%s and %s, %v", p.Hash, want, err)
		}
	})
}
