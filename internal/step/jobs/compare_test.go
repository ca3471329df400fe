package jobs

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"guild"
	"guild/internal/journal/fact"
)

func TestWhenFilesAgree(t *testing.T) {
	type files = map[string]string
	var words strings.Builder
	for i := range maxCompared / 6 {
		fmt.Fprintf(&words, "%x ", i*i)
	}
	large := words.String()
	for _, c := range []struct {
		name string
		a, b files
		by   []string // that find them alike
		not  []string
	}{
		{"the same files", files{"a.py": "x = 1\n", "b/c.txt": "y"}, files{"b/c.txt": "y", "a.py": "x = 1\n"},
			[]string{"", "hash", "json", "text", "numbers:0"}, []string{"tests"}},
		{"another name", files{"a.py": "x"}, files{"b.py": "x"}, nil, []string{"", "hash", "json", "text", "numbers:1"}},
		{"a file more", files{"a.py": "x"}, files{"a.py": "x", "b.py": "x"}, nil, []string{"", "hash", "json", "text", "numbers:1"}},
		{"white space", files{"a.py": "x = 1\n"}, files{"a.py": " x  =\t1\r\n\n"}, []string{"text", "numbers:0"}, []string{"", "hash", "json"}},
		{"JSON in another form", files{"a.json": `{"b":1,"a":[1,2]}`}, files{"a.json": "{\"a\": [1, 2],\n\"b\": 1}"}, []string{"json"}, []string{"hash", "text", "numbers:1"}},
		{"JSON of another meaning", files{"a.json": `{"a":1}`}, files{"a.json": `{"a":2}`}, []string{"numbers:1"}, []string{"hash", "json", "text"}},
		{"what only calls itself JSON", files{"a.JSON": `{"a":1`}, files{"a.JSON": `{"a":1`}, []string{"hash", "json"}, nil},
		{"JSON in a file of another name", files{"a.txt": `{"a":1}`}, files{"a.txt": `{"a": 1}`}, nil, []string{"json"}},
		{"numbers as near as the tolerance", files{"a": "pi=3.14, e=2.72"}, files{"a": "pi=3.15, e=2.71"}, []string{"numbers:0.011"}, []string{"numbers:0.009", "text"}},
		{"numbers in another spelling", files{"a": "1000 0.5"}, files{"a": "1e3 +.5"}, []string{"numbers:0"}, []string{"text"}},
		{"a number more", files{"a": "1 2"}, files{"a": "1 2 3"}, nil, []string{"numbers:100"}},
		{"another word", files{"a": "1 apple"}, files{"a": "1 pear"}, nil, []string{"numbers:100"}},
		{"dates, versions and names", files{"a": "2026-01-02 1.2.3 sha256 x1"}, files{"a": "2026-01-03 1.2.4 sha257 x2"}, nil, []string{"numbers:100"}},
		{"words that a parser takes for numbers", files{"a": "inf nan 0x10 1_000"}, files{"a": "inf nan 0x11 1_001"}, nil, []string{"numbers:100"}},
		{"a number beyond any", files{"a": "1e999"}, files{"a": "1e998"}, nil, []string{"numbers:1"}},
		{"bytes that are no text", files{"a": "\xff 1"}, files{"a": "\xff  1"}, nil, []string{"text", "numbers:1"}},
		{"a file too large to look into", files{"a": large}, files{"a": large + " "}, nil, []string{"text", "numbers:1"}},
		{"the same large file", files{"a": large}, files{"a": large}, []string{"hash", "text", "numbers:1"}, nil},
		{"nothing delivered", files{}, files{}, nil, []string{"", "hash", "json", "text", "numbers:1", "tests"}},
	} {
		a, b := made(t, 1, c.a), made(t, 2, c.b)
		for _, by := range append(c.by, c.not...) {
			want := len(c.by) > 0 && strings.Contains(" "+strings.Join(c.by, " ")+" ", " "+by+" ")
			comparer, ok := parseComparer(by)
			if !ok {
				t.Fatalf("%q is not known", by)
			}
			if got := comparer.agree(comparer.of(a, guild.Verdict{}), comparer.of(b, guild.Verdict{})); got != want {
				t.Errorf("%s by %q: %t", c.name, by, got)
			}
		}
	}
}

func TestPlainDeliveriesAreCompared(t *testing.T) {
	by := comparer{by: byText}
	one, other := by.of([]byte("the work"), guild.Verdict{}), by.of([]byte("the  work"), guild.Verdict{})
	if !by.agree(one, one) || by.agree(one, other) {
		t.Error("it has no files to look into")
	}
}

func TestNumbersAreComparedWithFirstOnly(t *testing.T) {
	by := comparer{byNumbers, 1}
	of := func(x string) summary { return by.of(made(t, 1, map[string]string{"a": x}), guild.Verdict{}) }
	if first := of("1"); !by.agree(first, of("2")) || by.agree(first, of("3")) || !by.agree(of("2"), of("3")) {
		t.Error("a chain of small differences leads anywhere")
	}
}

func TestTooManyNumbersAreBytes(t *testing.T) {
	if _, _, err := split([]byte("1 2 3"), 2); err == nil {
		t.Error("there is no bound")
	}
	p := part{}
	if (comparer{byNumbers, 1}).look(&p, []byte("1 2 3"), 2) || p.form != "bytes" || p.numbers != nil {
		t.Errorf("%+v", p)
	}
}

func TestWhenTestsAgree(t *testing.T) {
	verdict := func(spec string) (v guild.Verdict) {
		layers := map[byte]string{'s': guild.LayerSmoke, 'c': guild.LayerCorrectness, 'e': guild.LayerEdge, 'p': guild.LayerPerformance, 'x': guild.LayerSecurity}
		for one := range strings.FieldsSeq(spec) {
			state := guild.TestPassed
			if strings.HasSuffix(one, "-") {
				state = guild.TestFailed
			}
			v.Tests = append(v.Tests, guild.Test{ID: strings.TrimSuffix(one, "-"), State: state, Layer: layers[one[0]]})
		}
		return v
	}
	for _, c := range []struct {
		a, b       string
		tests, own bool // by "tests", and by what they are when the files differ
	}{
		{"s1 c1 c2", "c2 c1 s1", true, true},
		{"s1 c1", "s1 c1 c2", false, false},
		{"s1 c1 e1", "s1 c1 e1-", false, true}, // an edge test decides no outcome
		{"s1 c1 p1", "s1 c1 x1", false, true},
		{"s1 c1-", "s1 c1-", true, false}, // not all passed: the files decide
		{"e1", "e1", true, false},         // no functional test
		{"other", "other", true, true},    // a test without a layer is a functional one
		{"", "", false, false},
	} {
		a, b := made(t, 1, map[string]string{"a": "1"}), made(t, 2, map[string]string{"a": "2"})
		for by, want := range map[string]bool{byTests: c.tests, byWhatTheyAre: c.own} {
			k := comparer{by: by}
			if got := k.agree(k.of(a, verdict(c.a)), k.of(b, verdict(c.b))); got != want {
				t.Errorf("%q and %q by %q: %t", c.a, c.b, by, got)
			}
		}
		if k := (comparer{}); !k.agree(k.of(a, verdict(c.a)), k.of(a, verdict(c.a))) {
			t.Errorf("%q does not agree with itself", c.a)
		}
	}
}

func TestWholeVerdictIsCompared(t *testing.T) {
	for last, want := range map[string]guild.Ending{guild.TestPassed: guild.JobAccepted, guild.TestFailed: guild.Open} {
		synctest.Test(t, func(t *testing.T) {
			w, people := trusted(t, 3)
			id := w.opens(Order{Criticality: guild.High, Compare: byTests})
			for i, state := range []string{guild.TestPassed, last} {
				a, p, _ := w.waiting(id, people)
				w.delivers(p, a.ID, made(t, i, map[string]string{"answer.txt": fmt.Sprint(i)}))
				v := guild.Verdict{Outcome: guild.Success, Tests: []guild.Test{{ID: "a", State: guild.TestPassed}, {ID: "b", State: state}}}
				raw, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				stored, err := w.blobs.PutBytes(t.Context(), raw)
				if err != nil {
					t.Fatal(err)
				}
				v.Tests = v.Tests[:1]
				w.append(id, fact.AttemptJudged{Attempt: a.ID, Verdict: v, Stored: stored})
			}
			w.ends(id, want)
		})
	}
}

func TestNamesOfComparers(t *testing.T) {
	for name, want := range map[string]bool{
		"": true, "hash": true, "json": true, "text": true, "tests": true, "numbers:0": true, "numbers:1e-9": true, "numbers:5": true,
		"numbers": false, "numbers:": false, "numbers:-1": false, "numbers:NaN": false, "numbers:Inf": false, "numbers:1e999": false,
		"Hash": false, "hash ": false, "bytes": false,
	} {
		if _, ok := parseComparer(name); ok != want {
			t.Errorf("%q: got %t, want %t", name, ok, want)
		}
	}
}

func FuzzCompare(f *testing.F) {
	f.Add([]byte("pi is 3.14\n"), "numbers:0.1")
	f.Add([]byte(`{"a":[1,2e5]}`), "json")
	f.Add([]byte("\xff\x00"), "text")
	f.Add(made(f, 1, map[string]string{"a.json": `{"a":1}`}), "json")
	f.Fuzz(func(t *testing.T, content []byte, name string) {
		by, ok := parseComparer(name)
		if !ok {
			return
		}
		if by.tolerance < 0 || math.IsNaN(by.tolerance) {
			t.Fatalf("tolerance %v", by.tolerance)
		}
		if e := by.of(content, guild.Verdict{}); by.by != byTests && !e.files.IsZero() && !by.agree(e, e) {
			t.Fatal("a delivery does not agree with itself")
		}
		var p, q part
		p.path, q.path = "a.json", "a.json"
		by.look(&p, content, 100)
		by.look(&q, append([]byte(nil), content...), 100)
		if p.hash != q.hash || len(p.numbers) != len(q.numbers) || len(p.numbers) > 100 {
			t.Fatalf("%v and %v", p, q)
		}
		for _, x := range p.numbers {
			if math.IsNaN(x) || math.IsInf(x, 0) {
				t.Fatalf("%v is not a number", x)
			}
		}
	})
}
