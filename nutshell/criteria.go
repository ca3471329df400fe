package nutshell

import (
	"cmp"
	"encoding/json"
	"fmt"
)

// CriteriaFile is the usual path of a bundle's acceptance criteria. The manifest's acceptance.criteria_file has the
// actual one.
const CriteriaFile = "tests/criteria.json"

// Criteria are machine-readable acceptance tests (section 9 of the specification). Raw is the whole document,
// with the fields that this package does not know.
type Criteria struct {
	Version        string          `json:"criteria_version" about:"Version of the specification that the document follows."`
	Framework      string          `json:"test_framework" examples:"shell pytest go-test jest node-test io custom" about:"What judges a criterion that has no type of its own."`
	AutoVerifiable bool            `json:"auto_verifiable" about:"A program can decide. If false, a person does."`
	Criteria       []Criterion     `json:"criteria" about:"The criteria."`
	Raw            json.RawMessage `json:"-"`
}

// Criterion is one acceptance test. Raw is the whole of it, with the fields that this package does not know.
type Criterion struct {
	ID          string          `json:"id" about:"The name of the criterion, once in the file; AC-1 and so on if absent."`
	Description string          `json:"description" about:"What must be true, in words."`
	Type        string          `json:"type" examples:"api_test sql_check io pytest go-test jest node-test shell custom" about:"What kind of test it is. Another word is your own, and test_framework judges it."`
	Script      string          `json:"script" about:"A file or directory below tests/."`
	Query       string          `json:"query" about:"Of a sql_check: the query."`
	Expected    json.RawMessage `json:"expected" about:"What must come of it: status_code, body_contains, result and others, by type."`
	Raw         json.RawMessage `json:"-"`
}

// ParseCriteria reads a criteria.json. No two criteria may have the same id, and a script must be a path within the
// bundle. Its errors are those of ParseManifest.
func ParseCriteria(b []byte) (*Criteria, error) {
	text, err := parseDocument(CriteriaFile, b)
	if err != nil {
		return nil, err
	}
	c := &Criteria{Raw: text.raw}
	if err := text.decode(c); err != nil {
		return nil, err
	}
	var raw struct {
		Criteria []json.RawMessage `json:"criteria"`
	}
	if err := text.decode(&raw); err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(c.Criteria))
	for i := range c.Criteria {
		one, field := &c.Criteria[i], fmt.Sprintf("criteria.%d", i)
		one.Raw = raw.Criteria[i]
		one.ID = cmp.Or(one.ID, fmt.Sprintf("AC-%d", i+1))
		if seen[one.ID] {
			return nil, &ManifestError{CriteriaFile, field + ".id", fmt.Sprintf("duplicate id %.80q", one.ID)}
		}
		if reason := unsafePath(one.Script); one.Script != "" && reason != "" {
			return nil, &ManifestError{CriteriaFile, field + ".script", reason}
		}
		seen[one.ID] = true
	}
	return c, nil
}
