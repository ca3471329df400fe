package exam

import (
	"slices"
	"strings"
	"testing"
)

func TestProgress(t *testing.T) {
	bundle := request(t, map[string]string{
		"tests/criteria.json": `{"criteria": [{"id": "a", "type": "pytest"},
			{"id": "b", "type": "io", "command": ["echo", "1"], "cases": [{"id": "c", "expected": {"stdout": "1\n"}}]}]}`,
		"tests/test_m.py": "import m\ndef test_a(): assert m.f(1) == 2\ndef test_b(): assert m.f(1) == 2",
	})
	var told []string
	e := newEngine(t)
	ctx := WithProgress(t.Context(), func(criterion, test string, over bool) {
		if over {
			test = "over"
		}
		told = append(told, strings.TrimSpace(criterion+" "+test))
	})
	if _, err := e.Examine(ctx, bundle, deliver(t, map[string]string{"m.py": "def f(n): return 2 * n"})); err != nil {
		t.Fatal(err)
	}
	want := []string{"a", "a tests/test_m.py::test_a", "a tests/test_m.py::test_b", "a over", "b", "b b/c", "b over"}
	if !slices.Equal(slices.Compact(told), want) {
		t.Errorf("%q, want %q", told, want)
	}
}

func TestProgressOfBrokenRecords(t *testing.T) {
	var told []string
	j := &examination{progress: func(_, test string, _ bool) { told = append(told, test) }}
	var out strings.Builder
	w := j.seen(&out)
	text := "{\"kind\": \"test\", \"id\": \"a\"}\nno record\n\n{\"kind\": \"plan\"}\n{\"kind\": \"test\", \"id\": \"b\"}\n{\"kind\": \"test\", \"id\": \"c\"}"
	for _, part := range strings.SplitAfter(text, "i") {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(told, []string{"a", "b"}) || out.String() != text {
		t.Errorf("%q, %q", told, out.String())
	}
}
