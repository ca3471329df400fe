package nutshell_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"guild/nutshell"
)

func TestReferenceResult(t *testing.T) {
	raw := readTestdata(t, "reference/src/delivery/delivery/result.json")
	r, err := nutshell.ParseResult(raw)
	if err != nil {
		t.Fatal(err)
	}
	if r.Status != nutshell.Completed || r.CompletionPercentage != 100 || r.Deliverer.TotalTokens != 42000 ||
		len(r.Artifacts.FilesCreated) != 12 || r.AcceptanceResults.TestsPassed != 10 || r.AcceptanceResults.Checklist[0].Status != "passed" ||
		len(r.ExecutionLog.Decisions) != 3 || len(r.ExecutionLog.CredentialsUsed) != 2 || r.Tags.ComplexityActual != "medium" {
		t.Errorf("%+v", r)
	}
	if !bytes.Equal(r.Raw, raw) {
		t.Error("the text was changed")
	}
}

func TestCredentialUses(t *testing.T) {
	r, err := nutshell.ParseResult([]byte(`{"status":"completed","execution_log":{"credentials_used":
		["staging-db", {"name":"api-token","opened_at":"2026-03-15T10:00:00Z","x":1}, {"name":"old","at":"2026-03-15T11:00:00Z"}, 5, {"at":"2026"}, "", null, {"name":7}]}}`))
	want := []nutshell.CredentialUse{{Name: "staging-db"}, {Name: "api-token", At: "2026-03-15T10:00:00Z"}, {Name: "old", At: "2026-03-15T11:00:00Z"}}
	if err != nil || !slices.Equal(r.ExecutionLog.Uses(), want) {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestStatusOfResult(t *testing.T) {
	for _, status := range []string{"completed", "partial", "blocked", "failed"} {
		if r, err := nutshell.ParseResult([]byte(`{"status":"` + status + `"}`)); err != nil || r.Status != status {
			t.Errorf("%s: %v", status, err)
		}
	}
	for text, words := range map[string]string{`{}`: "required", `{"status":""}`: "required", `{"status":"done"}`: "completed, partial"} {
		if _, err := nutshell.ParseResult([]byte(text)); !manifestError("status", words)(err) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

var info = nutshell.DeliveryInfo{
	ID: "nut-2", Deliverer: "bob", Model: "m1", Log: []byte("it went well\n"), Trajectory: []byte("{}\n"),
	CompletedAt: time.Date(2026, 3, 15, 19, 30, 0, 0, time.FixedZone("", 3600)),
}

func someArtifacts() fstest.MapFS {
	return fstest.MapFS{"src/main.go": {Data: []byte("package main\n")}, "README.md": {Data: []byte("# It\n")}}
}

func deliver(t *testing.T, result string, artifacts fs.FS) (*nutshell.Bundle, *nutshell.Result) {
	t.Helper()
	tree, err := nutshell.Delivery(parse(t, someManifest), json.RawMessage(result), artifacts, info)
	if err != nil {
		t.Fatal(err)
	}
	packed, _ := pack(t, tree, nutshell.Options{})
	again, _ := pack(t, tree, nutshell.Options{})
	if !bytes.Equal(packed, again) {
		t.Error("the same delivery gave other bytes")
	}
	b, err := open(packed)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.ReadFile(nutshell.ResultFile)
	if err != nil {
		t.Fatal(err)
	}
	r, err := nutshell.ParseResult(raw)
	if err != nil {
		t.Fatal(err)
	}
	return b, r
}

func TestDelivery(t *testing.T) {
	b, r := deliver(t, "", someArtifacts())
	m := b.Manifest()
	if m.BundleType() != nutshell.TypeDelivery || m.ID() != "nut-2" || m.RequestID() != "nut-1" || m.Task().Title != "t" ||
		m.CreatedAt() != "2026-03-15T18:30:00Z" || len(b.Warnings) != 0 {
		t.Errorf("%s, %v", m.Bytes(), b.Warnings)
	}
	var paths []string
	for _, e := range b.Files() {
		paths = append(paths, e.Path)
	}
	want := []string{"nutshell.json", "delivery/artifacts/README.md", "delivery/artifacts/src/main.go", "delivery/logs/REPLAY.jsonl", "delivery/logs/execution.log", "delivery/result.json"}
	if !slices.Equal(paths, want) {
		t.Errorf("files %q", paths)
	}
	if r.BundleType != nutshell.TypeDelivery || r.RequestID != "nut-1" || r.ID != "nut-2" || r.Status != nutshell.Completed ||
		r.Deliverer.Name != "bob" || r.Deliverer.Model != "m1" || r.CompletedAt != "2026-03-15T18:30:00Z" ||
		len(r.Artifacts.FilesCreated) != 2 || r.ExecutionLog.FullLog != nutshell.LogFile {
		t.Errorf("%s", r.Raw)
	}
}

func TestMergeWorkerResult(t *testing.T) {
	_, r := deliver(t, `{"id":"nut-evil","request_id":"nut-evil","bundle_type":"request","nutshell_version":"9",
		"status":"partial","deliverer":{"total_tokens":5},"execution_log":{"strategy_used":"incremental"},
		"summary":"half","x_future":{"n":1.0}}`, someArtifacts())
	if r.ID != "nut-2" || r.RequestID != "nut-1" || r.BundleType != nutshell.TypeDelivery || r.Version != nutshell.Version {
		t.Errorf("identity: %s", r.Raw)
	}
	if r.Status != nutshell.Partial || r.Summary != "half" || r.Deliverer.Name != "bob" || r.Deliverer.TotalTokens != 5 ||
		r.ExecutionLog.FullLog != nutshell.LogFile || r.ExecutionLog.StrategyUsed != "incremental" {
		t.Errorf("merged: %s", r.Raw)
	}
	if !strings.Contains(string(r.Raw), `"n": 1.0`) {
		t.Errorf("unknown fields: %s", r.Raw)
	}
}

func TestWorkerResultErrors(t *testing.T) {
	for _, text := range []string{`[]`, `{`, `{"status":"done"}`, `{"summary":{}}`, `{"status":5}`} {
		tree := fstest.MapFS{"result.json": {Data: []byte(text)}}
		if _, err := nutshell.WorkerResult(tree); err == nil {
			t.Errorf("%s was taken", text)
		}
		if _, err := nutshell.Delivery(parse(t, someManifest), json.RawMessage(text), tree, info); err == nil {
			t.Errorf("%s was merged", text)
		}
	}
}

func TestMergeHugeResult(t *testing.T) {
	var many strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&many, `,"x%d":%d`, i, i)
	}
	_, r := deliver(t, `{"status":"failed"`+many.String()+`,"deliverer":{"name":"eve"`+many.String()+`}}`, fstest.MapFS{})
	if r.Status != nutshell.Failed || r.Deliverer.Name != "eve" || !strings.HasSuffix(string(r.Raw), "\"x99999\": 99999\n}") {
		t.Errorf("%.200s", r.Raw)
	}
}

func TestWorkerResult(t *testing.T) {
	if raw, err := nutshell.WorkerResult(someArtifacts()); raw != nil || err != nil {
		t.Errorf("%s, %v", raw, err)
	}
	tree := fstest.MapFS{"result.json": {Data: []byte(`{"summary":"s"}`)}}
	if raw, err := nutshell.WorkerResult(tree); string(raw) != `{"summary":"s"}` || err != nil {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestDeliveryNeedsID(t *testing.T) {
	if _, err := nutshell.Delivery(parse(t, someManifest), nil, someArtifacts(), nutshell.DeliveryInfo{}); !manifestError("id", "required")(err) {
		t.Error(err)
	}
}

func TestDeliveryFileSystem(t *testing.T) {
	tree, err := nutshell.Delivery(parse(t, someManifest), nil, someArtifacts(), info)
	if err != nil {
		t.Fatal(err)
	}
	err = fstest.TestFS(tree, "nutshell.json", "delivery/result.json", "delivery/logs/execution.log", "delivery/artifacts/src/main.go")
	if err != nil {
		t.Error(err)
	}
	empty, err := nutshell.Delivery(parse(t, someManifest), nil, fstest.MapFS{}, nutshell.DeliveryInfo{ID: "nut-3"})
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(empty, "nutshell.json", "delivery/result.json"); err != nil {
		t.Error(err)
	}
}
