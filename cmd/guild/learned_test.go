package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/journal/fact"
)

func TestWrongUsage(t *testing.T) {
	for _, c := range []struct{ words, says string }{
		{"hire nothing --class bogus", `class "bogus": want one of critical-path`},
		{"hire nothing --urgency bogus", `urgency "bogus": want normal`},
		{"hire nothing --free --bid 3", "give only one of --bid, --free"},
		{"hire nothing --free --bid 0", "give only one of --bid, --free"},
		{"trust set npub1aaaa…bbbb --task x --state removed --because x", "give only one of --task, --state"},
		{"trust set npub1aaaa…bbbb 0.5 --task a\tb --because x", `--task "a\tb": a task is text`},
		{"trust set npub1aaaa…bbbb 0.5 --task= --because x", "--task is missing"},
		{"market replay --epsilon NaN", "--epsilon NaN: want a share from 0 to 1"},
		{"market replay --epsilon Inf", "--epsilon +Inf: want a share from 0 to 1"},
		{"market replay --weights trust=NaN", "--weights"},
		{"market replay --tiers NaN,0,0", "--tiers"},
		{"trust rollback --to 2999-01-01T00:00:00Z", "that is to come"},
		{"trust rollback --to soon", "want a duration ago"},
	} {
		p := &program{in: strings.NewReader(""), out: io.Discard, err: io.Discard, now: time.Now}
		root := p.rootCommand()
		root.SetArgs(append(strings.Split(c.words, " "), "--home", t.TempDir()))
		err := root.ExecuteContext(t.Context())
		if err == nil || codeOf(err) != exitUsage || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: code %d, %v", c.words, codeOf(err), err)
		}
		if strings.HasPrefix(c.words, "hire") && hintOf(err) == "" {
			t.Errorf("%s: no hint", c.words)
		}
	}
}

func TestChosenProviderIsNotExcluded(t *testing.T) {
	key := func(n byte) nostr.PubKey { return nostr.GetPublicKey(nostr.SecretKey{31: n}) }
	chosen, other := guild.Service{PubKey: key(2), D: "a"}, guild.Service{PubKey: key(3), D: "b"}
	reason := "it had 3 of the last 4 requests for the task, and may have 40 % of them"
	c := &fact.Choice{
		Rule: "best", Count: 1, Candidates: []fact.Candidate{{Service: chosen, Name: "Ada"}},
		Barred:   map[string]int{"share": 2, "state": 1},
		Excluded: []fact.Exclusion{{Service: chosen, By: "share", Reason: reason}, {Service: other, By: "share", Reason: reason}},
		Relaxed:  []string{"share: " + reason + ", and too few others may be asked"},
	}
	show := func(c *fact.Choice) string {
		var out bytes.Buffer
		showDecision(&out, 1, control.Decision{Provider: npub(chosen.PubKey), D: "a", Choice: c})
		return out.String()
	}
	got := show(c)
	for _, want := range []string{
		"   excluded: 1 by the rule \"share\", 1 by the rule \"state\"\n", "     " + cli.ShortNpub(npub(other.PubKey)) + "  " + reason + "\n",
		"   an exception from the rule \"share\": " + reason + ", and too few others may be asked\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "     "+cli.ShortNpub(npub(chosen.PubKey))+"  ") || c.Barred["share"] != 2 {
		t.Errorf("the chosen one is left out:\n%s", got)
	}
	c.Barred, c.Excluded = map[string]int{"share": 1}, c.Excluded[:1]
	if got := show(c); strings.Contains(got, "excluded") {
		t.Errorf("nobody was left out:\n%s", got)
	}
}

func TestDescribeVariable(t *testing.T) {
	v := control.Variable{Name: fact.Parallelism, Key: strings.Repeat("ab", 32), Npub: npub(nostr.GetPublicKey(nostr.SecretKey{31: 2})),
		Value: json.RawMessage("2"), Why: "its queue is long"}
	short := cli.ShortNpub(v.Npub)
	if got, want := describeVariable(v), "PARALLELISM_LIMIT "+short+" = 2\n  its queue is long"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	v.Provider = "Ada"
	if got := describeVariable(v); !strings.HasPrefix(got, "PARALLELISM_LIMIT Ada "+short+" = 2\n") {
		t.Errorf("%q", got)
	}
	if got := describeVariable(control.Variable{Name: fact.CostBudget, Key: "go", Value: json.RawMessage("-5")}); got != "COST_BUDGET go = -5" {
		t.Errorf("%q", got)
	}
}

func TestWhyBackedUp(t *testing.T) {
	for _, c := range []struct{ cause, reason, want string }{
		{"asked for", "", "asked for"}, {"asked for", "no server", "asked for; failed: no server"}, {"", "no server", "failed: no server"}, {"", "", ""},
	} {
		if got := whyBackedUp(control.Backup{Cause: c.cause, Reason: c.reason}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
