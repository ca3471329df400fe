package object_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"guild/nutshell/object"
)

func Example() {
	o, err := object.Parse([]byte(`{"status": "open", "weight": 1.00, "theirs": [1,  2]}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(o.WithText("status", "done").With("weight", nil).WithText("by", "ann").Text())
	// Output: {"status":"done","theirs":[1,  2],"by":"ann"}
}

func TestParseRefusesOtherValues(t *testing.T) {
	for _, text := range []string{`[]`, `"x"`, `null`, ``} {
		if _, err := object.Parse([]byte(text)); !errors.Is(err, object.ErrNotObject) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{`{`, `{"a"}`, `{"a":1,}`, `{"a":1,"a":2}`, `{"a":1} {}`, `{"a":1}x`, "{\"\xff\":1}"} {
		if o, err := object.Parse([]byte(text)); err == nil {
			t.Errorf("%s was taken for %s", text, o.Text())
		}
	}
}

func TestWithKeepsOriginal(t *testing.T) {
	o, err := object.Parse([]byte(`{"a":1,"b":2}`))
	if err != nil {
		t.Fatal(err)
	}
	o.With("a", jsontext.Value("3")).With("b", nil).WithText("c", "x").WithText("d", "y")
	if got := string(o.Text()); got != `{"a":1,"b":2}` {
		t.Error(got)
	}
}

func TestNestedOrder(t *testing.T) {
	o := object.Members{{"z", jsontext.Value("1.0")}, {"a", jsontext.Value(`"<"`)}}
	b, err := json.Marshal(map[string]any{"o": o})
	if err != nil || string(b) != `{"o":{"z":1.0,"a":"<"}}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := object.Members{}
		for name, text := range rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "members") {
			o = o.With(name, object.Quote(text))
		}
		again, err := object.Parse(o.Text())
		same := func(a, b object.Member) bool { return a.Name == b.Name && string(a.Value) == string(b.Value) }
		if err != nil || !slices.EqualFunc(o, again, same) {
			t.Fatalf("%s became %s: %v", o.Text(), again.Text(), err)
		}
	})
}
