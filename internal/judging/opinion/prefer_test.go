package opinion_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"guild/internal/judging/opinion"
	"guild/internal/judging/opinion/opiniontest"
)

// asked returns the models that an endpoint was asked for, without duplicates. The endpoint answers only for the models
// in has.
func asked(t *testing.T, model string, prefer func(string) []string, has ...string) (models []string, c opinion.Choice, err error) {
	t.Helper()
	return askedFor(t, "", model, prefer, has...)
}

// askedFor does the same as asked, with a model named by the request.
func askedFor(t *testing.T, named, model string, prefer func(string) []string, has ...string) (models []string, c opinion.Choice, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Model    string
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) != 2 {
			t.Errorf("%v: %+v", err, body)
			return
		}
		if !slices.Contains(models, body.Model) {
			models = append(models, body.Model)
		}
		if !slices.Contains(has, body.Model) {
			http.Error(w, "no such model", http.StatusNotFound)
			return
		}
		says(w, opiniontest.Answer(opiniontest.Longer, []byte(body.Messages[1].Content)))
	}))
	t.Cleanup(server.Close)
	q := opinion.Question{Task: "reasoning", Model: named, Results: []json.RawMessage{[]byte(`"long"`), []byte(`"l"`)}}
	c, err = opinion.Chat{URL: server.URL, Model: model, Prefer: prefer}.Best(t.Context(), q)
	return models, c, err
}

func TestModelFallback(t *testing.T) {
	var variable []string // MODEL_PREFERENCE["reasoning"] and the fallback chain
	prefer := func(use string) []string {
		if use != "reasoning" {
			t.Errorf("models for %q", use)
		}
		return variable
	}
	for _, c := range []struct {
		name, model string
		variable    []string
		want        []string
		answers     string // the model whose answer counts; "" if none
	}{
		{"a model that the owner names is asked, whatever is preferred", "mine", []string{"gpt-4-class"}, []string{"mine"}, "mine"},
		{"without one, the preferred model is", "", []string{"gpt-4-class", "claude"}, []string{"gpt-4-class"}, "gpt-4-class"},
		{"auto is no model", opinion.Auto, []string{"claude", "gpt-4-class"}, []string{"claude"}, "claude"},
		{"the next one is asked where the endpoint does not have the first", "", []string{"code-davinci", "claude"}, []string{"code-davinci", "claude"}, "claude"},
		{"not for ever", "", []string{"a", "b", "c", "d", "claude"}, []string{"a", "b", "c", "d"}, ""},
		{"nothing is asked before anything is preferred", "", nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			variable = c.variable
			models, choice, err := asked(t, c.model, prefer, "mine", "gpt-4-class", "claude")
			if !slices.Equal(models, c.want) || (err == nil) != (c.answers != "") {
				t.Errorf("asked %q, want %q: %v", models, c.want, err)
			}
			if c.answers != "" && (!slices.Equal(choice.Models, []string{c.answers}) || !slices.Equal(choice.Best, []int{0})) {
				t.Errorf("%+v, want the answer of %s", choice, c.answers)
			}
		})
	}
}

func TestRequestedModelFirst(t *testing.T) {
	models, choice, err := askedFor(t, "theirs", "mine", nil, "mine", "theirs")
	if err != nil || !slices.Equal(models, []string{"theirs"}) || !slices.Equal(choice.Models, []string{"theirs"}) {
		t.Errorf("asked %q: %+v %v", models, choice, err)
	}
	models, choice, err = askedFor(t, "theirs", "mine", nil, "mine")
	if err != nil || !slices.Equal(models, []string{"theirs", "mine"}) || !slices.Equal(choice.Models, []string{"mine"}) {
		t.Errorf("asked %q where theirs is not there: %+v %v", models, choice, err)
	}
}

func TestChatNeedsModel(t *testing.T) {
	for _, model := range []string{"", opinion.Auto} {
		c := opinion.Chat{URL: "https://host/v1", Model: model}
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), "model") {
			t.Errorf("%q: %v", model, err)
		}
		c.Prefer = func(string) []string { return nil }
		if err := c.Check(); err != nil {
			t.Errorf("%q: %v", model, err)
		}
	}
}
