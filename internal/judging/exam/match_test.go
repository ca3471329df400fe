package exam

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		match, got string
		met        bool
	}{
		{`"a\n"`, "a\n", true},
		{`"a\n"`, "a", false},
		{`""`, "", true},
		{`{"equals": "a"}`, "a ", false},

		{`{"trimmed": "a\n b"}`, "a  \r\n b\n\n", true},
		{`{"trimmed": "a\n b"}`, "a\nb", false},
		{`{"contains": "b"}`, "abc", true},
		{`{"contains": ["a", "d"]}`, "abc", false},

		{`{"matches": "[0-9]+ ms\\n"}`, "12 ms\n", true},
		{`{"matches": "[0-9]+"}`, "12 ms", false},
		{`{"matches": "a|b"}`, "ab", false},
		{`{"matches": "(?s)a.*z"}`, "a\n\nz", true},

		{`{"json": {"a": [1, 2.50], "b": null}}`, ` {"b":null,"a":[1.0,25e-1]}`, true},
		{`{"json": {"a": 1}}`, `{"a": 1, "b": 2}`, false},
		{`{"json": {"a": 1}}`, `{"a": "1"}`, false},
		{`{"json": [1, 2]}`, `[2, 1]`, false},
		{`{"json": 1}`, `1 1`, false},
		{`{"json": 12345678901234567890}`, `12345678901234567891`, false},
		{`{"json": 12345678901234567890}`, `12345678901234567890`, true},
		{`{"json": 0}`, `-0`, true},
		{`{"json": [0.1], "abs": 0.01}`, `[0.105]`, true},
		{`{"json": [0.1], "abs": 0.01}`, `[0.12]`, false},
		{`{"json": 1}`, strings.Repeat("[", 100_000), false},
		{`{"json": 1}`, "1e999999999", false},

		{`{"numbers": "pi 3.14159", "abs": 1e-3}`, "pi\n3.1416\n", true},
		{`{"numbers": "1000", "rel": 0.01}`, "1009", true},
		{`{"numbers": "1000", "rel": 0.01}`, "1011", false},
		{`{"numbers": "1 2", "abs": 9}`, "1 2 3", false},
		{`{"numbers": "1 2 3", "abs": 9}`, "1 2", false},
		{`{"numbers": "1", "abs": 9}`, "one", false},
		{`{"numbers": "1", "abs": 9}`, "inf", false},
		{`{"numbers": "inf", "abs": 9}`, "1e999", true},
		{`{"numbers": "nan"}`, "NaN", true},
		{`{"numbers": "16"}`, "0x10", false},

		{`{"contains": "a", "matches": "[a-c]*"}`, "abc", true},
		{`{"contains": "a", "matches": "[b-c]*"}`, "abc", false},
	} {
		var m Match
		if err := json.Unmarshal([]byte(c.match), &m); err != nil {
			t.Errorf("%s: %v", c.match, err)
			continue
		}
		if why := m.differs("stdout", c.got); (why == "") != c.met {
			t.Errorf("%s and %.80q: %q", c.match, c.got, why)
		}
	}
}

func TestInvalidExpectations(t *testing.T) {
	for _, bad := range []string{
		`{"output": "x"}`, `{"stdout": {}}`, `{"stdout": {"equal": "x"}}`, `{"stdout": 1}`, `{"stdout": {"abs": 1}}`,
		`{"stdout": {"matches": "("}}`, `{"stdout": {"matches": "(?<=a)b"}}`, `{"stdout": {"matches": "a{1001}"}}`,
		`{"stdout": {"matches": "` + strings.Repeat("a", 1001) + `"}}`, `{"stdout": {"numbers": "1", "abs": -1}}`,
		`{"stdout_contains": 1}`, `{"files": {"x": {"unlike": "y"}}}`,
	} {
		var e Expected
		if err := json.Unmarshal([]byte(bad), &e); err == nil {
			t.Errorf("%.80s is taken", bad)
		}
	}
}

// FuzzMatch compares arbitrary output of a hostile program.
func FuzzMatch(f *testing.F) {
	f.Add(`{"json": {"a": [1, "b", null, true]}, "abs": 1}`, `{"a": [1.5, "b", null, true]}`)
	f.Add(`{"numbers": "1 2 3", "rel": 0.1}`, "1 2 3.1")
	f.Add(`{"matches": "(a|b)*c"}`, "ababc")
	f.Fuzz(func(t *testing.T, match, got string) {
		var m Match
		if json.Unmarshal([]byte(match), &m) == nil {
			m.differs("stdout", got)
		}
		if isNumber(got) && got != "" {
			want := tolerance{}
			if want.sameNumber(got, got) == false {
				t.Errorf("%q is not itself", got)
			}
		}
	})
}
