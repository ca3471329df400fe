package nutshell_test

import (
	"strings"
	"testing"

	"guild/nutshell"
)

func TestReferenceCriteria(t *testing.T) {
	c, err := nutshell.ParseCriteria(readTestdata(t, "reference/src/full-request/tests/criteria.json"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Framework != "shell" || !c.AutoVerifiable || len(c.Criteria) != 10 {
		t.Errorf("%+v", c)
	}
	first, last := c.Criteria[0], c.Criteria[9]
	if first.ID != "AC-001" || first.Script != "tests/scripts/test_api.sh" || string(first.Expected) != `{"status_code": 201, "body_contains": "id"}` {
		t.Errorf("%+v", first)
	}
	if last.Type != "sql_check" || !strings.HasPrefix(last.Query, "SELECT") || !strings.Contains(string(last.Raw), last.Query) {
		t.Errorf("%+v", last)
	}
}

func TestUnknownMembersOfCriterion(t *testing.T) {
	c, err := nutshell.ParseCriteria([]byte(`{"criteria":[{"id":"a","timeout":1.0}],"x":1}`))
	if err != nil || string(c.Criteria[0].Raw) != `{"id":"a","timeout":1.0}` || c.Criteria[0].Expected != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestCriterionWithoutID(t *testing.T) {
	c, err := nutshell.ParseCriteria([]byte(`{"criteria":[{"id":"first"},{"type":"go-test"}]}`))
	if err != nil || c.Criteria[0].ID != "first" || c.Criteria[1].ID != "AC-2" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestCriteriaErrors(t *testing.T) {
	table := []struct {
		text string
		want func(error) bool
	}{
		{`{"criteria":[{"id":"AC-2"},{"description":"d"}]}`, manifestError("criteria.1.id", "duplicate")},
		{`{"criteria":[{"id":"a"},{"id":"a"}]}`, manifestError("criteria.1.id", "duplicate")},
		{`{"criteria":[{"id":"a","script":"../x"}]}`, manifestError("criteria.0.script", "..")},
		{`{"criteria":[{"id":"a","script":"/x"}]}`, manifestError("criteria.0.script", "absolute")},
		{`{"criteria":{}}`, manifestError("criteria", "")},
		{`{"criteria":[5]}`, manifestError("criteria.0", "")},
		{`[]`, manifestError("", "object")},
		{`{"criteria":[{"description":"d"}]}`, opens},
		{`{"criteria":null}`, opens},
		{`{}`, opens},
	}
	for _, row := range table {
		if _, err := nutshell.ParseCriteria([]byte(row.text)); !row.want(err) {
			t.Errorf("%s: %v", row.text, err)
		}
	}
}
