package check_test

import (
	"testing"

	"guild/nutshell/check"
)

func TestStatusLine(t *testing.T) {
	gap := check.Item{Field: "f", Mark: check.Missing, Text: "t"}
	warning := check.Item{Field: "f", Mark: check.Warning, Text: "t"}
	for want, r := range map[string]check.Report{
		"READY — agent can start":                                        {Status: check.Ready},
		"READY — agent can start, with 1 warning":                        {Status: check.Ready, Items: []check.Item{warning}},
		"READY — agent can start, with 2 warnings":                       {Status: check.Ready, Items: []check.Item{warning, warning}},
		"READY — it can be delivered":                                    {Status: check.Ready, Delivery: true},
		"INCOMPLETE — 1 item needs attention before agent can start":     {Status: check.Incomplete, Items: []check.Item{gap, warning}},
		"INCOMPLETE — 2 items need attention before it can be delivered": {Status: check.Incomplete, Items: []check.Item{gap, gap}, Delivery: true},
		"DRAFT — 1 item needs attention before agent can start":          {Status: check.Draft, Items: []check.Item{gap}},
	} {
		if got := r.Verdict(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}
