package nipsa_test

import (
	"errors"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild/nipsa"
)

func TestProfileOfTheDraft(t *testing.T) {
	e := nostr.Event{
		Kind: nipsa.KindProfile, CreatedAt: 1703000000, Tags: nostr.Tags{{"d", "profile"}, {"threshold", "2", "3"}, {"signer", "aa"}, {"operator", "bb"}, {"operator"}},
		Content: `{"name":"Researcher","about":"reads","capabilities":["research"],"autonomy_level":"bounded","version":"1.0.0","operators":["me"],"more":1}`,
	}
	p, err := nipsa.ParseProfile(e)
	if err != nil || p.Name != "Researcher" || p.Autonomy != "bounded" || len(p.Capabilities) != 1 || len(p.Operators) != 1 || p.Operators[0] != "bb" || p.At != 1703000000000 {
		t.Errorf("%+v %v", p, err)
	}
	e.Kind = nipsa.KindOldProfile
	if _, err := nipsa.ParseProfile(e); err != nil {
		t.Errorf("of the earlier draft: %v", err)
	}
	for name, change := range map[string]struct {
		event nostr.Event
		want  error
	}{
		"another kind":       {nostr.Event{Kind: 0, Content: "{}"}, nipsa.ErrKind},
		"no JSON":            {nostr.Event{Kind: nipsa.KindProfile, Content: "x"}, nipsa.ErrInvalid},
		"long":               {nostr.Event{Kind: nipsa.KindProfile, Content: strings.Repeat(" ", nipsa.MaxContent) + "{}"}, nipsa.ErrTooBig},
		"many tags":          {nostr.Event{Kind: nipsa.KindProfile, Content: "{}", Tags: make(nostr.Tags, nipsa.MaxTags+1)}, nipsa.ErrTooBig},
		"many capabilities":  {nostr.Event{Kind: nipsa.KindProfile, Content: `{"capabilities":[` + strings.Repeat(`"a",`, nipsa.MaxWords) + `"a"]}`}, nipsa.ErrTooBig},
		"capability numbers": {nostr.Event{Kind: nipsa.KindProfile, Content: `{"capabilities":[1]}`}, nipsa.ErrInvalid},
	} {
		if _, err := nipsa.ParseProfile(change.event); !errors.Is(err, change.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStateOfTheDraft(t *testing.T) {
	e := nostr.Event{Kind: nipsa.KindState, Content: "sealed", Tags: nostr.Tags{
		{"d", "state"}, {"encrypted"}, {"state_version", "1"}, {"state_meta", "goals", "3"}, {"state_meta", "tick_count", "-1"}, {"state_meta", "x"}, {"state_meta", "memory", "many"},
	}}
	s, err := nipsa.ParseState(e)
	if err != nil || len(s.Counts) != 1 || s.Counts["goals"] != 3 {
		t.Errorf("%+v %v", s, err)
	}
	if _, err := nipsa.ParseState(nostr.Event{Kind: nipsa.KindProfile}); !errors.Is(err, nipsa.ErrKind) {
		t.Error(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"kind":39200,"tags":[["operator","bb"]],"content":"{\"name\":\"a\"}"}`)
	f.Add(`{"kind":39201,"tags":[["state_version","1"],["state_meta","goals","3"]],"content":""}`)
	f.Fuzz(func(t *testing.T, text string) {
		var e nostr.Event
		if e.UnmarshalJSON([]byte(text)) != nil {
			return
		}
		if p, err := nipsa.ParseProfile(e); err == nil && len(p.Capabilities) > nipsa.MaxWords {
			t.Errorf("%d capabilities", len(p.Capabilities))
		}
		if s, err := nipsa.ParseState(e); err == nil && len(s.Counts) > nipsa.MaxWords {
			t.Errorf("%d counts", len(s.Counts))
		}
	})
}
