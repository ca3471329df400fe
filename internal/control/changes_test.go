package control_test

import (
	"bytes"
	"errors"
	"testing"
	"testing/fstest"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
	"guild/nutshell"
)

// bundle packs files with a manifest.
func bundle(t *testing.T, kind string, files map[string]string) string {
	t.Helper()
	tree := fstest.MapFS{"nutshell.json": {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"` + kind + `","id":"nut-1","task":{"title":"t"}}`)}}
	for name, content := range files {
		tree[name] = &fstest.MapFile{Data: []byte(content)}
	}
	var b bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestWorkChanges(t *testing.T) {
	d := openDesk(t)
	request := bundle(t, "request", map[string]string{"files/a.py": "a\n", "files/b.py": "b\n", "tests/test_a.py": "t\n"})
	job, err := d.Hire(t.Context(), bytes.NewReader([]byte(request)), control.Hire{Task: "python"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := control.JobRequest.Call(t.Context(), d.Client, job.ID); err != nil || string(got) != request {
		t.Errorf("the request: %d bytes, %v", len(got), err)
	}
	id, _ := guild.ParseJobID(job.ID)
	delivery := d.put(bundle(t, "delivery", map[string]string{
		"delivery/artifacts/a.py": "b\n", "delivery/artifacts/b.py": "b\n", "delivery/artifacts/conftest.py": "x\n", "delivery/artifacts/tests/test_a.py": "u\n"}))
	a := nostr.ID{0xa1}
	d.append(fact.JobSubject(id), fact.AttemptPlanned{Attempt: a, Job: id, Provider: alice, Request: nostr.Event{ID: a, PubKey: alice.PubKey}},
		fact.AttemptDelivered{Attempt: a, Delivery: delivery, Size: 7})

	_, err = control.WorkChanges.Call(t.Context(), d.Client, job.ID)
	if problem, ok := errors.AsType[*control.ProblemError](err); !ok || problem.Problem.Code != "refused" {
		t.Errorf("what was not accepted: %v", err)
	}
	c, err := control.WorkChanges.Call(t.Context(), d.Client, job.ID, a.Hex(), "true")
	if err != nil || c.Accepted || len(c.Files) != 3 {
		t.Fatalf("%+v, %v", c, err)
	}
	for i, want := range []control.FileChange{
		{Path: "a.py", Change: "changed", Added: 1, Removed: 1, Text: "--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a\n+b\n"},
		{Path: "conftest.py", Change: "added", Runs: "it runs with the tests"},
		{Path: "tests/test_a.py", Change: "changed", Added: 1, Removed: 1, LeftOut: "it is one of your tests, and the verdict is by yours"},
	} {
		got := c.Files[i]
		if got.Path != want.Path || got.Change != want.Change || got.Runs != want.Runs || got.LeftOut != want.LeftOut || want.Text != "" && got.Text != want.Text {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestProspect(t *testing.T) {
	d := openDesk(t)
	p, err := control.OneProspect.Call(t.Context(), d.Client, "unheard-of", "urgent", "0")
	if err != nil || p.Providers != 0 || p.Most != 0 || p.Task != "unheard-of" {
		t.Errorf("%+v, %v", p, err)
	}
	d.wantProblem("GET", "/v1/prospect?task=x&target=2", nil, 400, "usage")
}
