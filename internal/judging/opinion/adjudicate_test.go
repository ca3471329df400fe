package opinion

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"guild"
	"guild/oa"
)

// asks returns a question about texts.
func asks(task, request string, results ...string) Question {
	q := Question{Task: task, Request: json.RawMessage(request)}
	for _, r := range results {
		q.Results = append(q.Results, json.RawMessage(r))
	}
	return q
}

func TestMajority(t *testing.T) {
	const ab = `{"topk": [{"rank": 1, "id": "a", "score": 0.9}, {"rank": 2, "id": "b", "score": 0.1}], "provenance": {"model_id": "x"}}`
	const abToo = `{"provenance": {"model_id": "y"}, "topk": [{"id": "b", "rank": 2, "score": 0.3, "why": "so"}, {"id": "a", "rank": 1, "score": 0.7}]}`
	const ba = `{"topk": [{"rank": 1, "id": "b"}, {"rank": 2, "id": "a"}]}`
	for _, c := range []struct {
		name     string
		q        Question
		best     []int
		agreeing int
	}{
		{"the order of a ranking counts, nothing else", asks(oa.RetrievalRerank, "", ab, ba, abToo), []int{0, 2}, 2},
		{"half is no majority", asks(oa.RetrievalRerank, "", ab, ba), nil, 1},
		{"two of two", asks(oa.RetrievalRerank, "", ab, abToo), []int{0, 1}, 2},
		{"two of four", asks(oa.RetrievalRerank, "", ab, abToo, ba, ba), nil, 2},
		{"one alone", asks(oa.RetrievalRerank, "", ab), nil, 1},
		{"what is no ranking agrees with nobody", asks(oa.RetrievalRerank, "", `{"topk": []}`, `{"topk": []}`, `{"topk": []}`), nil, 1},
		{"a place taken twice", asks(oa.RetrievalRerank, "", `{"topk": [{"rank": 1, "id": "a"}, {"rank": 1, "id": "b"}]}`, `{"topk": [{"rank": 1, "id": "a"}, {"rank": 1, "id": "b"}]}`), nil, 1},
		{"anything else, but for who made it", asks("oa.other.v1", "", `{"x": 1, "provenance": 1}`, `{"provenance": 2, "x":1}`, `{"x": 2}`), []int{0, 1}, 2},
		{"values that are no objects", asks("t", "", `[1, 2]`, `[1,2]`), []int{0, 1}, 2},
	} {
		got, err := Majority{}.Best(t.Context(), c.q)
		if err != nil || !slices.Equal(got.Best, c.best) || got.Agreeing != c.agreeing || got.Voters != len(c.q.Results) {
			t.Errorf("%s: %+v %v, want %v", c.name, got, err, c.best)
		}
	}
	vote := Majority{Same: func(a, b json.RawMessage) bool { return strings.EqualFold(string(a), string(b)) }}
	if got, err := vote.Best(t.Context(), asks("t", "", `"yes"`, `"YES"`, `"no"`)); err != nil || !slices.Equal(got.Best, []int{0, 1}) {
		t.Errorf("with a comparer: %+v %v", got, err)
	}
}

func TestMergeRankings(t *testing.T) {
	request := `{"candidates": [{"id": "a"}, {"id": "b"}, {"id": "c"}, {"id": "d"}], "k": 3}`
	raw, c, err := Merge(asks(oa.RetrievalRerank, request,
		`{"topk": [{"rank": 1, "id": "a"}, {"rank": 2, "id": "b"}, {"rank": 3, "id": "c"}]}`,
		`{"topk": [{"rank": 1, "id": "b"}, {"rank": 2, "id": "c"}, {"rank": 3, "id": "a"}]}`,
		`{"topk": [{"rank": 1, "id": "invented"}, {"rank": 2, "id": "d"}]}`))
	want := `{"topk":[{"rank":1,"id":"b","score":0.833},{"rank":2,"id":"a","score":0.666},{"rank":3,"id":"c","score":0.500}]}`
	if err != nil || string(raw) != want || !slices.Equal(c.Best, []int{0, 1}) {
		t.Errorf("%s %+v %v", raw, c, err)
	}
}

func TestMergeAnalyses(t *testing.T) {
	raw, c, err := Merge(asks(oa.CodeChunkAnalysis, `{}`,
		`{"summary": "first", "symbols": [{"name": "f", "kind": "function", "line": 1}], "suspected_faults": [], "recommended_next_probes": [], "confidence": 0.9}`,
		`{"summary": "second", "symbols": [{"line": 1, "kind": "function", "name": "f"}, {"name": "g", "kind": "function", "line": 9}], "confidence": 0.4}`,
		`{"summary": "boasts", "confidence": 7}`, `[]`))
	want := `{"summary":"first","symbols":[{"name":"f","kind":"function","line":1},{"name":"g","kind":"function","line":9}],"suspected_faults":[],"recommended_next_probes":[],"confidence":0.4}`
	if err != nil || string(raw) != want || !slices.Equal(c.Best, []int{0, 1}) {
		t.Errorf("%s %+v %v", raw, c, err)
	}
}

func TestMergeKeepsRequestLimits(t *testing.T) {
	const request = `{"output_constraints": {"max_symbols": 1, "max_faults": 2, "max_next_probes": 0}}`
	raw, _, err := Merge(asks(oa.CodeChunkAnalysis, request,
		`{"summary": "s", "symbols": [1], "suspected_faults": [1], "recommended_next_probes": [1], "confidence": 1}`,
		`{"summary": "t", "symbols": [2], "suspected_faults": [2, 3], "recommended_next_probes": [2], "confidence": 1}`))
	want := `{"summary":"s","symbols":[1],"suspected_faults":[1,2],"recommended_next_probes":[],"confidence":1}`
	if err != nil || string(raw) != want {
		t.Errorf("%s %v", raw, err)
	}
}

func TestMergeRefusals(t *testing.T) {
	if _, _, err := Merge(asks("oa.sandbox_run.v1", `{}`, `1`)); !errors.Is(err, ErrNoMerge) {
		t.Errorf("error %v", err)
	}
	if raw, c, err := Merge(asks(oa.RetrievalRerank, `{"candidates": []}`, `1`, `2`)); raw != nil || err != nil || len(c.Best) > 0 {
		t.Errorf("%s %+v %v", raw, c, err)
	}
	if _, _, err := Merge(asks(oa.RetrievalRerank, `{}`)); err == nil {
		t.Error("no results are merged")
	}
}

func TestAdjudicate(t *testing.T) {
	q := asks("t", "", `1`, `1`, `2`)
	for _, c := range []struct {
		adjudication oa.Adjudication
		q            Question
		best         []int
	}{
		{oa.NoAdjudication, q, []int{0, 1, 2}}, {oa.MajorityVote, q, []int{0, 1}}, {oa.JudgeModel, q, []int{0, 1}},
		{oa.Merge, asks(oa.CodeChunkAnalysis, `{}`, `{"summary": "s", "confidence": 1}`), []int{0}},
	} {
		got, merged, err := Adjudicate(t.Context(), c.adjudication, c.q, Majority{})
		if err != nil || !slices.Equal(got.Best, c.best) || (merged != nil) != (c.adjudication == oa.Merge) {
			t.Errorf("%s: %+v %v", c.adjudication, got, err)
		}
		if r := got.Record(c.adjudication); r.Adjudication != string(c.adjudication) || r.Voters != got.Voters {
			t.Errorf("%+v", r)
		}
	}
	if _, _, err := Adjudicate(t.Context(), oa.JudgeModel, q, nil); !errors.Is(err, ErrNoJudge) {
		t.Errorf("error %v", err)
	}
	if _, _, err := Adjudicate(t.Context(), "dice", q, nil); err == nil {
		t.Error("dice are thrown")
	}
}

func FuzzCompletion(f *testing.F) {
	f.Add([]byte(`{"choices":[{"message":{"content":"{\"choice\":\"A\",\"reason\":\"x\"}"}}]}`))
	f.Add([]byte(`{"choices":[{"message":{"content":"{\"choice\":\"tie\"} {}"}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		said, err := readCompletion(raw)
		if err != nil {
			return
		}
		a, err := readAnswer([]byte(said.Text))
		if err == nil && (a.Choice != A && a.Choice != B && a.Choice != Tie || len(a.Reason) > maxReason || guild.Clean(a.Reason) != a.Reason) {
			t.Errorf("%+v", a)
		}
	})
}

func FuzzMerge(f *testing.F) {
	f.Add(`{"candidates": [{"id": "a"}], "k": 3}`, `{"topk": [{"rank": 1, "id": "a"}]}`)
	f.Add(`{}`, `{"summary": "s", "symbols": [1, 1], "confidence": 0.5}`)
	f.Fuzz(func(t *testing.T, request, result string) {
		for _, task := range []string{oa.RetrievalRerank, oa.CodeChunkAnalysis} {
			raw, c, err := Merge(asks(task, request, result, result))
			if err == nil && (raw != nil) != (len(c.Best) > 0) || raw != nil && !json.Valid(raw) {
				t.Errorf("%s %+v %v", raw, c, err)
			}
		}
		agree(oa.RetrievalRerank, []byte(request), []byte(result))
	})
}
