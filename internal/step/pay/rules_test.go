package pay

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/cashu"
	"guild/cashu/token"
	"guild/internal/journal/fact"
)

func TestPayout(t *testing.T) {
	o := fact.Settlement{Mixed: 40, Weak: 100, Partial: 25}
	for _, c := range []struct {
		outcome  guild.Outcome
		strength guild.Strength
		agreed   uint64
		amount   uint64
		rule     string
		wait     bool
	}{
		{guild.Success, guild.Strong, 500, 500, ruleStrong, false},
		{guild.Success, guild.Mixed, 500, 200, ruleMixed, false},
		{guild.Success, guild.Mixed, 3, 1, ruleMixed, false},
		{guild.Success, guild.Weak, 100, 100, ruleWeak, false},
		{guild.Success, guild.Weak, 101, 101, ruleWeak, true},
		{guild.Success, guild.Unverified, 500, 0, ruleNothing, false},
		{guild.Partial, guild.Strong, 500, 125, rulePartial, false},
		{guild.Partial, guild.Unverified, 500, 0, ruleNothing, false},
		{guild.Failure, guild.Strong, 500, 0, ruleNothing, false},
		{guild.Error, guild.Strong, 500, 0, ruleNothing, false},
		{guild.Violation, guild.Strong, 500, 0, ruleNothing, false},
	} {
		amount, rule, wait := payout(o, guild.Verdict{Outcome: c.outcome, Strength: c.strength}, c.agreed)
		if amount != c.amount || rule != c.rule || wait != c.wait {
			t.Errorf("%s %s of %d: %d by %s, wait %v", c.outcome, c.strength, c.agreed, amount, rule, wait)
		}
	}
	if _, _, wait := payout(fact.Settlement{}, guild.Verdict{Outcome: guild.Partial, Strength: guild.Strong}, 500); !wait {
		t.Error("PARTIAL without a rule does not wait for a person")
	}
}

// TestPayoutWithoutTests checks what a person's ruling and an opinion pay, if no test verified anything.
func TestPayoutWithoutTests(t *testing.T) {
	ruling, opinion := &guild.Ruling{By: "aa"}, &guild.Opinion{Adjudication: "judge_model"}
	for _, c := range []struct {
		outcome guild.Outcome
		ruling  *guild.Ruling
		opinion *guild.Opinion
		partial int // per cent in the order
		amount  uint64
		rule    string
		wait    bool
	}{
		{guild.Success, ruling, nil, 0, 500, rulePerson, false},
		{guild.Partial, ruling, nil, 0, 0, rulePartial, true},
		{guild.Partial, ruling, nil, 25, 125, rulePartial, false},
		{guild.Failure, ruling, nil, 25, 0, ruleNothing, false},
		{guild.Success, nil, opinion, 0, 500, ruleConsensus, false},
		{guild.Partial, nil, opinion, 0, 0, ruleOutdone, false},
		{guild.Partial, nil, opinion, 25, 125, ruleOutdone, false},
		{guild.Failure, nil, opinion, 25, 0, ruleNothing, false},
		{guild.Failure, ruling, opinion, 25, 0, ruleNothing, false},
		{guild.Partial, ruling, opinion, 0, 0, rulePartial, true},
	} {
		v := guild.Verdict{Outcome: c.outcome, Strength: guild.Unverified, Ruling: c.ruling, Opinion: c.opinion}
		amount, rule, wait := payout(fact.Settlement{Partial: c.partial}, v, 500)
		if amount != c.amount || rule != c.rule || wait != c.wait {
			t.Errorf("%+v: %d by %s, wait %v", c, amount, rule, wait)
		}
	}
}

// pays is a payment that a good quote is for.
func pays() payment {
	return payment{Attempt: attempt, Order: fact.Settlement{Unit: "test", Most: 600, Mixed: 40}, Deadline: 1_700_000_000_000}
}

func TestQuotes(t *testing.T) {
	deadline := time.UnixMilli(pays().Deadline)
	good := token.Request{ID: attempt.Hex(), Amount: 500, Unit: "test", Mints: []string{"https://m.example"},
		Lock: &token.RequestedLock{Kind: cashu.P2PK, Data: cashu.HashToCurve("k").String(), Tags: [][]string{{"locktime", "1700090000"}}}}
	locktime := func(s string) func(*token.Request) {
		return func(r *token.Request) { r.Lock.Tags = [][]string{{"locktime", s}} }
	}
	for name, c := range map[string]struct {
		spoil  func(r *token.Request)
		frozen bool
		mints  []string
		want   string // part of the reason, "" for none
	}{
		"good":              {nil, false, good.Mints, ""},
		"for another job":   {func(r *token.Request) { r.ID = strings.Repeat("0", 64) }, false, good.Mints, "another job"},
		"amountless":        {func(r *token.Request) { r.Amount = 0 }, false, good.Mints, "no amount"},
		"without a lock":    {func(r *token.Request) { r.Lock = nil }, false, good.Mints, "ask for a lock"},
		"an HTLC":           {func(r *token.Request) { r.Lock.Kind = cashu.HTLC }, false, good.Mints, "ask for a lock"},
		"no key":            {func(r *token.Request) { r.Lock.Data = "02" }, false, good.Mints, "key"},
		"another unit":      {func(r *token.Request) { r.Unit = "sat" }, false, good.Mints, "in \"test\""},
		"one too much":      {func(r *token.Request) { r.Amount = 601 }, false, good.Mints, "bids 600"},
		"a price overflow":  {func(r *token.Request) { r.Amount = 1<<64 - 1 }, false, good.Mints, "bids 600"},
		"locktime early":    {locktime("1700089999"), false, good.Mints, "before an objection"},
		"no locktime":       {func(r *token.Request) { r.Lock.Tags = [][]string{{"n_sigs", "2"}} }, false, good.Mints, "before an objection"},
		"before the work":   {func(r *token.Request) { r.Lock.Tags = nil }, false, good.Mints, "(--settle prepaid)"},
		"locktime far":      {locktime("1700691201"), false, good.Mints, "longer than"},
		"locktime garbled":  {locktime("1700090000x"), false, good.Mints, "locktime"},
		"locktime negative": {locktime("-1"), false, good.Mints, "before an objection"},
		"no mint of ours":   {nil, false, nil, "none of the mints"},
		"frozen":            {nil, true, good.Mints, "frozen"},
	} {
		r := good
		lock := *good.Lock
		r.Lock = &lock
		if c.spoil != nil {
			c.spoil(&r)
		}
		q, unit, err := readQuote(r.String(), attempt)
		if err == nil {
			err = q.check(pays(), unit, c.mints, c.frozen)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if Locktime(deadline).Unix() != 1_700_090_000 {
		t.Error("the locktime is not judging and objecting after the deadline")
	}
	for _, bad := range []string{"", "creqA", "creqAxx", strings.Repeat("a", 2<<20)} {
		if _, _, err := readQuote(bad, attempt); err == nil {
			t.Errorf("%.20q is a quote", bad)
		}
	}
}

func TestDemands(t *testing.T) {
	ours, customer, third := cashu.HashToCurve("ours"), cashu.HashToCurve("customer"), cashu.HashToCurve("third")
	d := demand{ours: ours, amount: 12, unit: "test", mints: []string{"https://m.example"}, locktime: 1000}
	secretOf := func(nonce string, spoil func(*cashu.Condition)) string {
		c := cashu.Condition{Kind: cashu.P2PK, Nonce: nonce, Keys: []cashu.Point{ours, customer}, Sigs: 2, Locktime: 1000, Refund: []cashu.Point{customer}, RefundSigs: 1}
		if spoil != nil {
			spoil(&c)
		}
		s, err := c.Secret()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	proofs := func(spoil func(*cashu.Condition)) []cashu.Proof {
		return []cashu.Proof{{Amount: 4, Secret: secretOf("a", nil)}, {Amount: 8, Secret: secretOf("b", spoil)}}
	}
	other := ours
	other[0] ^= 1 // the same x coordinate
	for name, c := range map[string]struct {
		mint, unit string
		proofs     []cashu.Proof
		want       string
	}{
		"good":                    {"https://m.example", "test", proofs(nil), ""},
		"other refund keys":       {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.Refund = []cashu.Point{third} }), ""},
		"a later locktime":        {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.Locktime = 2000 }), ""},
		"another mint":            {"https://n.example", "test", proofs(nil), "not asked for"},
		"another unit":            {"https://m.example", "sat", proofs(nil), "not asked for"},
		"one too little":          {"https://m.example", "test", append(proofs(nil)[1:], cashu.Proof{Amount: 3, Secret: secretOf("c", nil)}), "worth 11"},
		"one too much":            {"https://m.example", "test", append(proofs(nil), cashu.Proof{Amount: 1, Secret: secretOf("c", nil)}), "worth 13"},
		"no proofs":               {"https://m.example", "test", nil, "worth 0"},
		"overflow":                {"https://m.example", "test", []cashu.Proof{{Amount: 1 << 63, Secret: secretOf("a", nil)}, {Amount: 1<<63 + 12, Secret: secretOf("b", nil)}}, "too large"},
		"not locked":              {"https://m.example", "test", append(proofs(nil)[:1], cashu.Proof{Amount: 8, Secret: "plain"}), "not locked"},
		"locked to somebody else": {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.Keys[0] = third }), "not locked to us"},
		"our key with other sign": {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.Keys[0] = other }), "not locked to us"},
		"the keys exchanged":      {"https://m.example", "test", proofs(func(c *cashu.Condition) { slices.Reverse(c.Keys) }), "not locked to us"},
		"three keys":              {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.Keys = append(c.Keys, third) }), "not locked to us"},
		"one signature":           {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.Sigs = 1 }), "not locked to us"},
		"us alone":                {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.Keys, c.Sigs = c.Keys[:1], 1 }), "not locked to us"},
		"another customer":        {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.Keys[1] = third }), "another key"},
		"too early":               {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.Locktime = 999 }), "too early"},
		"SIG_ALL":                 {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.All = true }), "SIG_ALL"},
		"an HTLC":                 {"https://m.example", "test", proofs(func(c *cashu.Condition) { c.Kind = cashu.HTLC }), "not locked"},
		"a coin twice":            {"https://m.example", "test", append(proofs(nil)[:1], proofs(nil)[0], proofs(nil)[0]), "twice"},
		"malformed":               {"https://m.example", "test", append(proofs(nil)[:1], cashu.Proof{Amount: 8, Secret: `["P2PK",{"nonce":"n","data":"` + hex.EncodeToString(make([]byte, 33)) + `"}]`}), "spending condition"},
	} {
		err := d.check(c.mint, c.unit, c.proofs)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHostileLocks(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*token.Payment)
		want  string
	}{
		"no DLEQ":           {func(p *token.Payment) { p.Proofs[0].DLEQ = nil }, "no proof that the mint"},
		"a forged DLEQ":     {func(p *token.Payment) { p.Proofs[0].DLEQ.E = cashu.RandomScalar() }, "ecash 1"},
		"no factor":         {func(p *token.Payment) { p.Proofs[0].DLEQ.R = nil }, "ecash 1"},
		"an unknown keyset": {func(p *token.Payment) { p.Proofs[0].Keyset = "01" + strings.Repeat("ab", 32) }, "keyset that the mint does not have"},
		"another signature": {func(p *token.Payment) { p.Proofs[0].C = cashu.HashToCurve("C") }, "ecash 1"},
		"a part of it":      {func(p *token.Payment) { p.Proofs = p.Proofs[1:] }, "worth"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, usual, 500)
			rewrittenLock(w, c.spoil)
			w.pump()
			refused := facts[fact.LockRefused](w, w.provider)
			if len(refused) != 1 || !strings.Contains(refused[0].Reason, c.want) || w.provider.Funded(attempt) {
				t.Errorf("%+v", refused)
			}
			w.ends(fact.AttemptExpired{Attempt: attempt})
			w.writes(w.provider, fact.RequestSubject(attempt), fact.RequestFinished{Request: attempt, Ending: "failed"})
			w.pump()
			w.later(27 * time.Hour)
			w.want(10_000, 0, 0)
			w.over()
		})
	}
}
