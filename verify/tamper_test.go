package verify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"guild/verify"
)

// about returns the line about a file.
func about(file string) string {
	if path.Dir(file) == verify.DirReviews {
		return "reviews"
	}
	return map[string]string{
		verify.FileReceipt: "receipt", verify.FileReceiptEvent: "receipt signature",
		verify.FileRequest: "request", verify.FileRequestKey: "request", verify.FileResult: "result", verify.FileResultKey: "result",
		verify.FileQuote: "payment", verify.FileQuoteKey: "payment", verify.FileTransaction: "payment", verify.FileInclusion: "payment",
		verify.FileBundle: "bundle", verify.FileDelivery: "delivery",
		verify.FileVerdict: "verdict", verify.FileEvidence: "evidence", verify.FileReplay: "trajectory", verify.FilePolicy: "policy",
		verify.FileEntry: "journal entry", verify.FileProof: "journal entry", verify.FileCheckpoint: "checkpoint", verify.FileWitness: "witness",
		verify.FileHidden: "hidden tests", verify.FileWorker: "worker trajectory",
	}[file]
}

// change is one changed version of a file.
type change struct {
	what string
	file []byte
}

// changes returns all versions of a file that the tests make: each JSON value changed, each field removed, one field
// added, and changed bytes in files that are not JSON.
func changes(t testing.TB, name string, file []byte) (all []change) {
	t.Helper()
	switch {
	case strings.HasSuffix(name, ".event.json") || path.Dir(name) == verify.DirReviews:
		return append(inJSON(t, file), inContent(t, file)...)
	case strings.HasSuffix(name, ".json"):
		return inJSON(t, file)
	case name == verify.FileEntry:
		subject, body, _ := bytes.Cut(file, []byte("\n"))
		for _, c := range inJSON(t, body) {
			all = append(all, change{c.what, slices.Concat(subject, []byte("\n"), c.file)})
		}
		return append(all, change{"subject", append([]byte("x"), file...)})
	case name == verify.FileReplay, name == verify.FileWorker:
		lines := bytes.SplitAfter(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
		for i, line := range lines {
			rest := func(with []byte) []byte {
				return slices.Concat(slices.Concat(lines[:i]...), with, slices.Concat(lines[i+1:]...))
			}
			for _, c := range inJSON(t, line) {
				all = append(all, change{fmt.Sprintf("line %d: %s", i+1, c.what), rest(append(c.file, '\n'))})
			}
			all = append(all, change{fmt.Sprintf("without line %d", i+1), rest(nil)})
		}
		return all
	}
	step := max(1, len(file)/100)
	for i := 0; i < len(file); i += step {
		changed := bytes.Clone(file)
		changed[i] ^= 1
		all = append(all, change{fmt.Sprintf("byte %d", i), changed})
	}
	return append(all, change{"a byte more", append(bytes.Clone(file), 'x')}, change{"a byte less", file[:len(file)-1]})
}

// inContent changes values in the content of an event, if that is JSON.
func inContent(t testing.TB, file []byte) (all []change) {
	t.Helper()
	event := decode(t, file).(map[string]any)
	content, _ := event["content"].(string)
	if !json.Valid([]byte(content)) {
		return nil
	}
	for _, c := range inJSON(t, []byte(content)) {
		changed := maps.Clone(event)
		changed["content"] = string(c.file)
		all = append(all, change{"content: " + c.what, must[[]byte](t)(json.Marshal(changed))})
	}
	return all
}

func decode(t testing.TB, b []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	ok(t, d.Decode(&v))
	return v
}

// inJSON changes one value of a document at a time.
func inJSON(t testing.TB, document []byte) (all []change) {
	t.Helper()
	original := decode(t, document)
	walk(original, "", func(where string, v any) {
		all = append(all, change{where, must[[]byte](t)(json.Marshal(v))})
	})
	return all
}

// walk calls out once for every change to v, with the whole changed value.
func walk(v any, where string, out func(string, any)) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			with := func(what string, value any) {
				changed := maps.Clone(v)
				changed[name] = value
				out(what, changed)
			}
			walk(v[name], where+"."+name, with)
			changed := maps.Clone(v)
			delete(changed, name)
			out("without "+where+"."+name, changed)
		}
		changed := maps.Clone(v)
		changed["added"] = "x"
		out("added to "+where, changed)
	case []any:
		for i := range v {
			walk(v[i], fmt.Sprintf("%s[%d]", where, i), func(what string, value any) {
				changed := slices.Clone(v)
				changed[i] = value
				out(what, changed)
			})
			out(fmt.Sprintf("without %s[%d]", where, i), slices.Delete(slices.Clone(v), i, i+1))
			out(fmt.Sprintf("twice %s[%d]", where, i), slices.Insert(slices.Clone(v), i, v[i]))
		}
		out("added to "+where, append(slices.Clone(v), "x"))
	case string:
		out(where+" longer", v+"0")
		out(where+" otherwise", otherwise(v))
		out(where+" null", nil)
	case json.Number:
		out(where+" otherwise", json.Number(otherwise(v.String())))
		out(where+" longer", json.Number("1"+strings.TrimPrefix(v.String(), "-")))
		out(where+" null", nil)
	case bool:
		out(where+" otherwise", !v)
	case nil:
		out(where+" not null", "x")
		out(where+" a number", json.Number("1"))
	}
}

// otherwise replaces the last character by another valid one.
func otherwise(s string) string {
	if s == "" {
		return "x"
	}
	last := byte('1')
	if s[len(s)-1] == '1' {
		last = '2'
	}
	return s[:len(s)-1] + string(last)
}

func TestChangedValuesFail(t *testing.T) {
	tried, done := 0, map[string]bool{}
	for story, s := range stories() {
		good := s.export(t)
		for name, file := range good {
			if done[name+string(file)] {
				continue // another story has the same file
			}
			done[name+string(file)] = true
			for _, c := range changes(t, name, file) {
				if bytes.Equal(c.file, file) {
					t.Fatalf("%s: %s: %s changes nothing", story, name, c.what)
				}
				changed := maps.Clone(good)
				changed[name] = c.file
				tried++
				if got := failures(verify.Export(dir(changed))); !slices.Equal(got, []string{about(name)}) {
					t.Errorf("%s: %s: %s: failed %q, want %q", story, name, c.what, got, about(name))
				}
			}
		}
	}
	t.Logf("%d changes", tried)
}
