package control_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/control"
	"guild/internal/hand/key"
	"guild/nip89"
)

// announces has a provider announce a service.
func (d *desk) announces(secret byte, h nip89.Handler) nostr.PubKey {
	d.Helper()
	k := key.NewSecret(nostr.SecretKey{31: secret})
	e := h.Event()
	e.CreatedAt = nostr.Now()
	v, err := guild.Sign(d.Context(), key.NewSigner(k), e)
	if err != nil {
		d.Fatal(err)
	}
	if err := d.registry.Observe(d.Context(), "wss://relay.example", v); err != nil {
		d.Fatal(err)
	}
	return k.PubKey()
}

func TestRecommendationPerKind(t *testing.T) {
	type published struct {
		kind int
		nip89.Recommended
	}
	var all []published
	d := openDesk(t)
	d.recommend = func(_ context.Context, kind int, r nip89.Recommended) (nostr.ID, int, error) {
		if kind == 5999 {
			return nostr.ID{}, 0, errors.New("no relay")
		}
		all = append(all, published{kind, r})
		return nostr.ID{byte(kind)}, 1, nil
	}
	bob := d.announces(3, nip89.Handler{D: "Tests", Kinds: []int{5000, 5100, 30023}, Tasks: []string{"python", "oa.sandbox_run.v1"}, Relays: []string{"wss://bobs.example"}})
	carol := d.announces(4, nip89.Handler{D: "one", Kinds: []int{5000}, Tasks: []string{"python"}})
	d.announces(4, nip89.Handler{D: "two", Kinds: []int{5050, 5999}, Tasks: []string{"go"}})

	name := "one"
	for what, c := range map[string]struct {
		asked control.Recommend
		want  []int // kinds
		d     string
		says  string
	}{
		"all its kinds":        {control.Recommend{Provider: bob.Hex()}, []int{5000, 5100}, "Tests", ""},
		"one of them":          {control.Recommend{Provider: bob.Hex(), Kind: 5100}, []int{5100}, "Tests", ""},
		"that of a task":       {control.Recommend{Provider: bob.Hex(), Task: "python"}, []int{5000}, "Tests", ""},
		"one of its services":  {control.Recommend{Provider: carol.Hex(), D: &name}, []int{5000}, "one", ""},
		"the one that fits":    {control.Recommend{Provider: carol.Hex(), Task: "python"}, []int{5000}, "one", ""},
		"one of two":           {control.Recommend{Provider: carol.Hex()}, nil, "", "2 services of"},
		"a kind that it lacks": {control.Recommend{Provider: bob.Hex(), Kind: 5200}, nil, "", "that fits"},
		"no request":           {control.Recommend{Provider: bob.Hex(), Kind: 31990}, nil, "", "kind 31990 is not a job request"},
		"nobody":               {control.Recommend{Provider: strings.Repeat("a", 64)}, nil, "", "no service of"},
		"what no relay takes":  {control.Recommend{Provider: carol.Hex(), Kind: 5999}, nil, "", "kind 5999: no relay"},
	} {
		all = nil
		said, err := control.RecommendProvider.Call(t.Context(), d.Client, c.asked)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", what, err, c.says)
			}
			continue
		}
		var kinds []int
		for i, p := range all {
			kinds = append(kinds, p.kind)
			if p.D != c.d || p.PubKey.Hex() != c.asked.Provider || i >= len(said) || said[i].Kind != p.kind || said[i].D != c.d || said[i].Others != 1 {
				t.Errorf("%s: published %+v, said %+v", what, p, said)
			}
		}
		if err != nil || !slices.Equal(kinds, c.want) {
			t.Errorf("%s: %v, %v", what, kinds, err)
		}
		if c.d == "Tests" && all[0].Relay != "wss://bobs.example" {
			t.Errorf("%s: found at %q", what, all[0].Relay)
		}
	}
	d.wantProblem("POST", "/v1/recommendations", strings.NewReader(`{"who":"x"}`), 400, "usage")
	d.wantProblem("POST", "/v1/recommendations", strings.NewReader(`{`), 400, "usage")
}
