package jobs

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"guild/internal/journal/fact"
	"guild/internal/step/steptest"
	"guild/nip90"
)

func TestCapacityReports(t *testing.T) {
	for _, c := range []struct {
		text, content string
		want          *fact.Capacity
		told          string
	}{
		{"", `{"queue_depth":3,"idle_capacity":1}`, &fact.Capacity{Queue: 3, Idle: 1}, "queue 3, idle 1"},
		{"on it", ` {"queue_depth":0,"idle_capacity":1000000,"text":"x"}`, &fact.Capacity{Idle: 1_000_000}, "on it"},
		{"", `{"queue_depth":12,"idle_capacity":0,"text":"a lot to do","more":[1]}`, &fact.Capacity{Queue: 12}, "a lot to do"},
		{"", "", nil, ""},
		{"on it", "", nil, "on it"},
		{"", "half of it", nil, "half of it"},
		{"", `{"queue_depth":3}`, nil, `{"queue_depth":3}`},
		{"", `{"queue_depth":3,"idle_capacity":null}`, nil, `{"queue_depth":3,"idle_capacity":null}`},
		{"", `{"queue_depth":-1,"idle_capacity":1}`, nil, `{"queue_depth":-1,"idle_capacity":1}`},
		{"", `{"queue_depth":1000001,"idle_capacity":1}`, nil, `{"queue_depth":1000001,"idle_capacity":1}`},
		{"", `{"queue_depth":1.5,"idle_capacity":1}`, nil, `{"queue_depth":1.5,"idle_capacity":1}`},
		{"", `{"queue_depth":"3","idle_capacity":1}`, nil, `{"queue_depth":"3","idle_capacity":1}`},
		{"", `[{"queue_depth":3,"idle_capacity":1}]`, nil, `[{"queue_depth":3,"idle_capacity":1}]`},
		{"", `{"queue_depth":3,"idle_capacity":1} and more`, nil, `{"queue_depth":3,"idle_capacity":1} and more`},
	} {
		for _, status := range []nip90.Status{nip90.Processing, nip90.Partial} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, alice.offers(0))
				id := w.opens(Order{})
				said := nip90.Feedback{Request: w.attempt(id).ID, Customer: customer.key, Status: status, Text: c.text, Content: c.content}
				if err := w.says(alice, said.Event()); err != nil {
					t.Fatal(err)
				}
				kept := steptest.Facts[fact.AttemptProgressed](w)[0]
				switch got, want := kept.Capacity, c.want; {
				case status != nip90.Processing:
					if got != nil {
						t.Errorf("%s in a %s: %+v", c.content, status, got)
					}
				case (got == nil) != (want == nil) || got != nil && *got != *want || kept.Text != c.told:
					t.Errorf("%q, %s: %+v, %q", c.text, c.content, got, kept.Text)
				}
			})
		}
	}
}

func FuzzReport(f *testing.F) {
	for _, seed := range []string{
		`{"queue_depth":3,"idle_capacity":1}`, `{"queue_depth":3,"idle_capacity":1,"text":"x"}`, `{"queue_depth":1e3,"idle_capacity":1}`,
		`{`, `{}`, `null`, `{"queue_depth":-0,"idle_capacity":1000001}`, strings.Repeat("{", 1025), "half of it",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		c, _ := report(content)
		if c == nil {
			return
		}
		if c.Queue < 0 || c.Queue > maxReported || c.Idle < 0 || c.Idle > maxReported || len(strings.TrimSpace(content)) > maxReport {
			t.Errorf("%q is %+v", content, c)
		}
		b, err := json.Marshal(c)
		if again, _ := report(string(b)); err != nil || again == nil || *again != *c {
			t.Errorf("%s does not come back", b)
		}
	})
}
