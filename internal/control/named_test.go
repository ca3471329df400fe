package control_test

import (
	"bytes"
	"strings"
	"testing"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/control"
	"guild/internal/journal/fact"
	"guild/nip89"
)

func TestProviderByShortNpub(t *testing.T) {
	d := openDesk(t)
	key := d.announces(3, nip89.Handler{D: "tests", Kinds: []int{5000}, Tasks: []string{"cobol"}})
	npub := nip19.EncodeNpub(key)
	start, end := npub[:9], npub[len(npub)-4:]
	for name, want := range map[string]string{
		npub: "", key.Hex(): "", start + "…" + end: "", start + "..." + end: "", npub[:12] + "…": "", npub[:12]: "",
		start + "…zzzz": "no provider", start + "…zz" + end: "no provider", "npub1qqqq…" + end: "no provider", npub[:8]: "too short", npub[:8] + "…" + end: "too short",
		"npub1…": "too short", "…" + end: "too short", "nobody": "neither an npub nor a key",
	} {
		cards, err := control.Cards.Call(t.Context(), d.Client, name)
		if want == "" && (err != nil || len(cards) != 1 || cards[0].PubKey != key.Hex()) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v, want %q", name, cards, err, want)
		}
	}
	if _, err := control.Cards.Call(t.Context(), d.Client, npub, "nope"); err == nil || !strings.HasSuffix(err.Error(), `; it has: "tests"`) {
		t.Errorf("a service that it lacks: %v", err)
	}
	for what, ask := range map[string]func(name string) error{
		"recommend": func(name string) error {
			_, err := control.RecommendProvider.Call(t.Context(), d.Client, control.Recommend{Provider: name, Kind: 5200})
			return err
		},
		"hire": func(name string) error {
			_, err := d.Hire(t.Context(), bytes.NewReader(packed(t, "")), control.Hire{Task: "cobol", Providers: []string{name}})
			return err
		},
	} {
		for _, name := range []string{start + "…zzzz", npub[:12]} { // the end of another, and a start alone
			if err := ask(name); err == nil || !strings.Contains(err.Error(), "no provider") && !strings.Contains(err.Error(), "not an npub") {
				t.Errorf("%s %s: %v", what, name, err)
			}
		}
		if err := ask(start + "…" + end); err != nil && (strings.Contains(err.Error(), "no provider") || strings.Contains(err.Error(), "npub ")) {
			t.Errorf("%s by both ends: %v", what, err)
		}
	}
}

func TestProviderByName(t *testing.T) {
	d := openDesk(t)
	bob := d.announces(3, nip89.Handler{D: "tests", Name: "Bob the tester of it all", Kinds: []int{5000}, Tasks: []string{"cobol"}})
	for n := range byte(2) {
		d.announces(4+n, nip89.Handler{D: "tests", Name: "eve", Kinds: []int{5000}, Tasks: []string{"cobol"}})
	}
	for name, want := range map[string]string{
		"Bob the tester of it all": "", "bob the tester of it all": "", "Bob the test…": "", "Bob the test...": "",
		"Bob the test": "neither an npub nor a key", "eve": "2 providers call themselves", "…": "too short",
	} {
		cards, err := control.Cards.Call(t.Context(), d.Client, name)
		if want == "" && (err != nil || len(cards) != 1 || cards[0].PubKey != bob.Hex()) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %+v, %v, want %q", name, cards, err, want)
		}
	}
	// A name is no key where something is done with it.
	if _, err := d.Hire(t.Context(), bytes.NewReader(packed(t, "")), control.Hire{Task: "cobol", Providers: []string{"eve"}}); err == nil {
		t.Error("hired by a name that anybody can take")
	}
}

func TestOrderWithoutQuorumIsUsage(t *testing.T) {
	d := openDesk(t)
	for query, says := range map[string]string{
		"compare=foo":                                     `compare "foo": want hash, json`,
		"criticality=high&tries=1":                        "2 must agree, and only 1 may be asked",
		"criticality=critical&tries=2":                    "3 must agree, and only 2 may be asked",
		"criticality=high&provider=" + alice.PubKey.Hex(): "2 must agree, and only 1 are named",
	} {
		p := d.wantProblem("POST", "/v1/jobs?task=python&"+query, bytes.NewReader(packed(t, "")), 400, "usage")
		if !strings.Contains(p.Error, says) {
			t.Errorf("%s: %q, want %q", query, p.Error, says)
		}
	}
	for _, query := range []string{"criticality=high&compare=json&tries=2", "criticality=low&provider=" + alice.PubKey.Hex()} {
		if status, _, answer := d.ask("POST", "/v1/jobs?task=python&"+query, bytes.NewReader(packed(t, ""))); status != 200 {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
}

func TestDepartedProviderByNpub(t *testing.T) {
	d := openDesk(t)
	asked, trusted := nostr.GetPublicKey(nostr.SecretKey{31: 21}), nostr.GetPublicKey(nostr.SecretKey{31: 22})
	d.asks(guild.JobID{1}, guild.Service{PubKey: asked, D: "tests"}, nostr.ID{1})
	d.append(fact.TrustSubject("python"), fact.TrustChanged{Task: "python", Service: guild.Service{PubKey: trusted, D: "tests"}, To: 500_000, First: true, Rule: fact.RuleMerged})
	for what, key := range map[string]nostr.PubKey{"whom we asked": asked, "whom another guild trusts": trusted} {
		npub := nip19.EncodeNpub(key)
		for _, name := range []string{npub[:10] + "…" + npub[len(npub)-4:], npub[:12], npub} {
			if all, err := control.Standings.Call(t.Context(), d.Client, name); err != nil || len(all) != 1 || all[0].PubKey != key.Hex() || all[0].D != "tests" {
				t.Errorf("%s, as %s: %+v, %v", what, name, all, err)
			}
			if _, err := control.Story.Call(t.Context(), d.Client, name); err != nil {
				t.Errorf("the story of %s, as %s: %v", what, name, err)
			}
		}
	}
}
