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
		{`{"numbers": "inf", "abs": 9}`, "1e999", false},
		{`{"numbers": "inf"}`, "+Infinity", true},
		{`{"numbers": "inf"}`, "-inf", false},
		{`{"numbers": "1e400"}`, "1e500", false},
		{`{"numbers": "1e400"}`, "10.0e399", true},
		{`{"numbers": "1e-400"}`, "0", false},
		{`{"numbers": "1e-400"}`, "1e-500", false},
		{`{"numbers": "1e400", "rel": 0.1}`, "1.1e400", true},
		{`{"numbers": "1e400", "rel": 0.1}`, "1.2e400", false},
		{`{"numbers": "1e-400", "abs": 1e-300}`, "0", true},
		{`{"numbers": "1e99999", "rel": 0.1}`, "1.05e99999", true},
		{`{"numbers": "1e99999", "abs": 1}`, "1e99998", false},
		{`{"numbers": "1e999999999999", "rel": 0.1}`, "1e999999999998", false},
		{`{"numbers": "1e99999999999999999999"}`, "1e99999999999999999998", false},
		{`{"numbers": "1e99999999999999999999"}`, "1e99999999999999999999", true},
		{`{"numbers": "-1e999999999999", "abs": 1}`, "1e-999999999999", false},
		{`{"numbers": "0", "abs": 1}`, "1e-999999999999", true},
		{`{"numbers": "0e99999999999999999999"}`, "-0.0", true},
		{`{"numbers": "0.1"}`, "0.10000000000000001", true},
		{`{"numbers": "0.1"}`, "0.1000000000000001", false},
		{`{"numbers": "1e22"}`, "10000000000000000000001", false},
		{`{"numbers": "0.3", "abs": 0.1}`, "0.4", true},
		{`{"numbers": "0", "abs": 0.7}`, "0.7", true},
		{`{"numbers": "100000000000000000000", "abs": 1}`, "100000000000000000002", false},
		{`{"numbers": "+5. .5"}`, "5 0.5", true},

		{`{"json": {"a": 1}}`, `{"a": 2, "a": 1}`, false},
		{`{"json": [{"a": {"b": 1}}]}`, `[{"a": {"b": 1, "b": 1}}]`, false},
		{`{"json": {"a": {"a": "a"}, "b": ["a", "a"]}}`, `{"a": {"a": "a"}, "b": ["a", "a"]}`, true},
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
		`{"stdout": {"json": {"a": 1, "a": 2}}}`, `{"stdout": {"matches": "("}}`, `{"stdout": {"matches": "(?<=a)b"}}`, `{"stdout": {"matches": "a{1001}"}}`,
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
	f.Add(`{"numbers": "1e400", "abs": 1e300, "rel": 1e300}`, "-1e99999999")
	f.Add(`{"json": {"a": {"b": []}}}`, `{"a": {"b": [], "b": [{}]}}`)
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
