package fold_test

import (
	"encoding/json"
	"slices"
	"testing"

	"guild"
	"guild/internal/journal/fold"
)

type embedded struct {
	Inner int `json:"inner"`
}

// whole is a state with each kind of member.
type whole struct {
	embedded

	Jobs   fold.Table[guild.JobID, int] `json:"jobs"`
	Count  int                          `json:"count"`
	List   []string                     `json:"list"`
	Last   *guild.Hash                  `json:"last"`
	Seldom string                       `json:"seldom,omitempty"`
	Plain  bool

	derived map[string]bool
}

func TestDecodeWhole(t *testing.T) {
	const all = `{"inner":1,"jobs":{},"count":2,"list":null,"last":null,"Plain":true}`
	for _, c := range []struct{ name, state string }{
		{"no inner", `{"jobs":{},"count":2,"list":null,"last":null,"Plain":true}`},
		{"no table", `{"inner":1,"count":2,"list":null,"last":null,"Plain":true}`},
		{"no list", `{"inner":1,"jobs":{},"count":2,"last":null,"Plain":true}`},
		{"no pointer", `{"inner":1,"jobs":{},"count":2,"list":null,"Plain":true}`},
		{"no untagged", `{"inner":1,"jobs":{},"count":2,"list":null,"last":null}`},
		{"other case", `{"INNER":1,"jobs":{},"count":2,"list":null,"last":null,"Plain":true}`},
		{"null number", `{"inner":1,"jobs":{},"count":null,"list":null,"last":null,"Plain":true}`},
		{"null table", `{"inner":1,"jobs":null,"count":2,"list":null,"last":null,"Plain":true}`},
		{"unknown member", all[:len(all)-1] + `,"more":1}`},
		{"unexported member", all[:len(all)-1] + `,"derived":{}}`},
		{"more after it", all + `{}`},
		{"cut off", all[:len(all)-1]},
		{"empty", `{}`}, {"null", `null`}, {"list instead", `[]`}, {"nothing", ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got whole
			if err := fold.DecodeWhole([]byte(c.state), &got); err == nil {
				t.Errorf("%s: got %+v, want an error", c.state, got)
			}
		})
	}
	for _, state := range []string{all, `{"seldom":"x","Plain":true,"last":null,"list":["a"],"count":2,"jobs":{},"inner":1}`} {
		got := whole{derived: map[string]bool{}}
		if err := fold.DecodeWhole([]byte(state), &got); err != nil || got.Inner != 1 || got.Count != 2 || !got.Plain {
			t.Errorf("%s: got %+v, %v", state, got, err)
		}
	}
}

func TestEncodedStateIsWhole(t *testing.T) {
	for _, want := range []whole{{}, {embedded: embedded{1}, List: []string{"a"}, Last: &guild.Hash{1}, Seldom: "x", Plain: true}} {
		want.Jobs.Set(guild.JobID{1}, 7)
		b, err := fold.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		var got whole
		if err := fold.DecodeWhole(b, &got); err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		again, err := fold.Encode(got)
		if err != nil || !slices.Equal(again, b) || !json.Valid(b) {
			t.Errorf("got %s, %v, want %s", again, err, b)
		}
	}
}
