package verify_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/cashu"
	"guild/cashu/token"
	"guild/nip90"
	"guild/nipreview"
	"guild/receipt"
	"guild/replay"
	"guild/seal"
	"guild/verify"
)

// lies returns exports in which a signed statement is false, and the lines that must fail.
func lies() map[string]struct {
	story
	want []string
} {
	type lie = struct {
		story
		want []string
	}
	pays := func(change func(*deal), want ...string) lie {
		return lie{story{rail: "escrow", deal: change}, append([]string{"payment"}, want...)}
	}
	prepays := func(change func(*deal)) lie { return pays(func(d *deal) { inAdvance(d); change(d) }) }
	quotes := func(change func(*nip90.Feedback)) lie {
		return lie{story{rail: "escrow", quote: change}, []string{"payment"}}
	}
	acts := func(change func([]replay.Event) []replay.Event) lie {
		return lie{story{acts: change}, []string{"trajectory"}}
	}
	says := func(change func(*receipt.Receipt), want ...string) lie { return lie{story{receipt: change}, want} }
	judges := func(change func(map[string]any), want ...string) lie { return lie{story{verdict: change}, want} }
	other := guild.Sum([]byte("another"))
	elsewhere := stranger()
	return map[string]lie{
		"another id":                 says(func(r *receipt.Receipt) { r.ID = "r-0000000000000000" }, "receipt"),
		"a session that was not":     says(func(r *receipt.Receipt) { r.SessionID = "x" }, "receipt", "trajectory"),
		"another trajectory":         says(func(r *receipt.Receipt) { r.TrajectoryHash = other }, "trajectory"),
		"another policy":             says(func(r *receipt.Receipt) { r.PolicyBundleID = other.String() }, "trajectory", "policy"),
		"another work":               says(func(r *receipt.Receipt) { r.JobHash = other }, "job hash"),
		"another task":               says(func(r *receipt.Receipt) { r.Task = "x" }, "request"),
		"another key of the attempt": says(func(r *receipt.Receipt) { r.IdempotencyKey = other.Hex() }, "request"),
		"another job":                says(func(r *receipt.Receipt) { r.Job[0]++ }, "receipt", "request"),
		"another attempt":            says(func(r *receipt.Receipt) { r.Attempt = nostr.ID(other) }, "receipt"),
		"another request":            says(func(r *receipt.Receipt) { r.RequestEvent, r.Attempt = nostr.ID(other), nostr.ID(other) }, "request", "result"),
		"another result":             says(func(r *receipt.Receipt) { r.ResultEvent = nostr.ID(other) }, "result"),
		"no result":                  says(func(r *receipt.Receipt) { r.ResultEvent = nostr.ID{} }, "receipt", "result"),
		"another provider":           says(func(r *receipt.Receipt) { r.SetProvider(stranger().public) }, "request", "result", "witness"),
		"another bundle":             says(func(r *receipt.Receipt) { r.BundleHash = other }, "bundle"),
		"no bundle":                  says(func(r *receipt.Receipt) { r.BundleHash = guild.Hash{} }, "bundle"),
		"another delivery":           says(func(r *receipt.Receipt) { r.DeliveryHash = other }, "delivery"),
		"another outcome":            says(func(r *receipt.Receipt) { r.Outcome = guild.Partial }, "verdict"),
		"another verdict":            says(func(r *receipt.Receipt) { r.VerdictHash = other }, "verdict", "trajectory"),
		"no verdict": says(func(r *receipt.Receipt) { r.VerdictHash, r.Outcome = guild.Hash{}, "" },
			"verdict", "evidence", "trajectory"),
		"a field more":               says(func(r *receipt.Receipt) { r.Extra = map[string]json.RawMessage{"verified": []byte("true")} }, "receipt"),
		"a rule of no such form":     says(func(r *receipt.Receipt) { rule := "<b>ok</b>"; r.ApprovalRuleID = &rule }, "receipt"),
		"a policy of nothing":        {story{policy: "{}"}, []string{"policy"}},
		"a policy that is a word":    {story{policy: `"hello"`}, []string{"policy"}},
		"a policy without a name":    {story{policy: `{"name":1}`}, []string{"policy"}},
		"a payment without a proof":  says(func(r *receipt.Receipt) { r.AmountMsats = 1 }, "receipt", "payment"),
		"a review of somebody else":  {story{review: func(r *nipreview.Review) { r.Subject = stranger().public }}, []string{"reviews"}},
		"a receipt by somebody else": {story{judge: &elsewhere}, []string{"receipt signature"}},

		"a request for another work": {story{request: func(r *nip90.Request) { r.Set(nip90.ParamJobHash, other.Hex()) }}, []string{"job hash"}},
		"a request to nobody":        {story{request: func(r *nip90.Request) { p := stranger().public; r.Provider = &p }}, []string{"request"}},
		"a request of another job":   {story{request: func(r *nip90.Request) { r.Job = "x" }}, []string{"request"}},
		"a sealed request of another task": {story{sealed: true, request: func(r *nip90.Request) {
			r.Set(nip90.ParamJobType, "x")
			h, _ := r.JobHash()
			r.Set(nip90.ParamJobHash, h.Hex())
		}}, []string{"request"}},
		"a request with another bundle": {story{sealed: true, request: func(r *nip90.Request) {
			_ = r.SetBundle(nip90.NewParcel([]byte("another")))
			h, _ := r.JobHash()
			r.Set(nip90.ParamJobHash, h.Hex())
		}}, []string{"bundle"}},
		"a result for somebody else":  {story{result: func(r *nip90.Result) { r.Customer = stranger().public }}, []string{"result"}},
		"a result of another request": {story{result: func(r *nip90.Result) { r.Request = nostr.ID(other) }}, []string{"result"}},
		"a result of another kind":    {story{result: func(r *nip90.Result) { r.Kind = 6050 }}, []string{"result"}},
		"another behaviour":           says(func(r *receipt.Receipt) { r.Behaviour = other }, "result"),
		"a result by another behaviour": {story{sealed: true, result: func(r *nip90.Result) { r.Behaviour = guild.Sum([]byte("x")) },
			receipt: func(r *receipt.Receipt) { r.Behaviour = other }}, []string{"result"}},
		"a result with another bundle":        {story{sealed: true, result: func(r *nip90.Result) { _ = r.SetDelivery(nip90.NewParcel([]byte("x"))) }}, []string{"delivery"}},
		"a result in plain":                   {story{result: func(r *nip90.Result) { r.Content = "42" }}, []string{"delivery"}},
		"a worker's trajectory of other work": {story{worker: true, result: func(r *nip90.Result) { r.Trajectory = other }}, []string{"worker trajectory"}},
		"a worker's trajectory that the result does not name": {story{sealed: true, worker: true, result: func(r *nip90.Result) { r.Trajectory = guild.Hash{} }},
			[]string{"worker trajectory"}},
		"a worker without a result": {story{worker: true, receipt: func(r *receipt.Receipt) { r.ResultEvent = nostr.ID{} }}, []string{"receipt", "result", "worker trajectory"}},
		"a worker's output of no call": {story{worker: true, steps: func(all []replay.Event) []replay.Event { return slices.Delete(all, 2, 3) }},
			[]string{"worker trajectory"}},
		"a quote of another price":      {story{rail: "lightning", quote: func(f *nip90.Feedback) { f.Amount = 1000 }}, []string{"payment"}},
		"a quote that was not asked":    {story{rail: "onchain", quote: func(f *nip90.Feedback) { f.Request = nostr.ID(other) }}, []string{"payment"}},
		"a preimage of another invoice": {story{rail: "lightning", receipt: func(r *receipt.Receipt) { r.PaymentProof.Value = other.Hex() }}, []string{"payment"}},
		"invalid preimage":              {story{rail: "lightning", receipt: func(r *receipt.Receipt) { r.PaymentProof.Value = "x" }}, []string{"receipt", "payment"}},
		"ecash for nobody":              {story{rail: "cashu", receipt: func(r *receipt.Receipt) { r.ProviderPubKey = nostr.PubKey{} }}, []string{"receipt", "request", "result", "payment", "witness", "reviews"}},
		"another invoice":               {story{rail: "lightning", receipt: func(r *receipt.Receipt) { r.Bolt11 += "q" }}, []string{"payment"}},
		"another quote":                 {story{rail: "lightning", receipt: func(r *receipt.Receipt) { r.QuoteEvent = nostr.ID(other) }}, []string{"payment"}},
		"an amount that was not paid":   {story{rail: "cashu", receipt: func(r *receipt.Receipt) { r.AmountMsats++ }}, []string{"payment"}},

		"an escrow with another key than the quote's": pays(func(d *deal) {
			for i := range d.coins {
				d.coins[i].lock.Keys[0] = scalar("another").PubKey()
			}
		}),
		"an escrow that is not released":             pays(func(d *deal) { d.coins[1].signed = nil }),
		"an escrow that another released":            pays(func(d *deal) { d.coins[1].signed = new(scalar("another")) }),
		"an escrow that the provider's key released": pays(func(d *deal) { d.coins[1].signed = new(scalar("lock of the provider")) }),
		"an escrow that one key opens":               pays(func(d *deal) { d.coins[1].lock.Sigs = 1 }),
		"an escrow with a third key":                 pays(func(d *deal) { d.coins[1].lock.Keys = append(d.coins[1].lock.Keys, scalar("another").PubKey()) }),
		"an escrow of two customers": pays(func(d *deal) {
			d.coins[1].lock.Keys[1], d.coins[1].signed = scalar("another").PubKey(), new(scalar("another"))
			d.coins[1].lock.Refund = d.coins[1].lock.Keys[1:]
		}),
		"an escrow that ends too early":                pays(func(d *deal) { d.coins[1].lock.Locktime-- }),
		"an escrow that ends with somebody else":       pays(func(d *deal) { d.coins[1].lock.Refund = []cashu.Point{scalar("another").PubKey()} }),
		"an escrow that ends with everybody":           pays(func(d *deal) { d.coins[1].lock.Refund = nil }),
		"an escrow that was signed with all":           pays(func(d *deal) { d.coins[1].lock.All = true }),
		"more than was quoted":                         pays(func(d *deal) { d.asked = 12 }),
		"an escrow with a coin twice":                  pays(func(d *deal) { d.coins[1] = d.coins[0] }),
		"an escrow of less than it says":               pays(func(d *deal) { d.amount++ }),
		"an escrow that another quoted":                pays(func(d *deal) { d.by = stranger() }),
		"an escrow that was quoted for other work":     pays(func(d *deal) { d.id = nostr.ID(other).Hex() }),
		"an escrow at another mint than quoted":        pays(func(d *deal) { d.mint, d.asset = "https://cheap.example", "TEST_CASHU(https://cheap.example)" }),
		"an escrow in other coins than quoted":         pays(func(d *deal) { d.quoted = "sat" }),
		"play money that is called sat":                pays(func(d *deal) { d.asset = "BTC_CASHU(" + d.mint + ")"; d.bid() }),
		"play money with a unit that is called sat":    pays(func(d *deal) { d.quoted, d.unit, d.asset = "test", "sat", "BTC_CASHU("+d.mint+")"; d.bid() }),
		"an escrow in a unit that sounds like bitcoin": pays(func(d *deal) { d.unit, d.quoted, d.asset = "btc", "btc", "BTC_CASHU("+d.mint+")"; d.bid() }),
		"an escrow that the mint did not sign":         pays(func(d *deal) { d.coins[1].amount, d.coins[0].amount = 4, 8; d.swapped = true }),
		"an escrow that was quoted to another request": quotes(func(f *nip90.Feedback) { f.Request = nostr.ID(other) }),
		"an escrow that was not quoted":                quotes(func(f *nip90.Feedback) { f.Status = nip90.Processing }),
		"an escrow that is quoted without a lock": quotes(func(f *nip90.Feedback) {
			r, _ := token.ParseRequest(f.Terms)
			r.Lock = nil
			f.Terms = r.String()
		}),
		"an escrow with an unreadable payment request": quotes(func(f *nip90.Feedback) { f.Terms = "creqA" }),
		"a refund of more than was locked":             pays(func(d *deal) { refunded(d); d.amount += 1000 }),
		"a refund of more than was quoted":             pays(func(d *deal) { refunded(d); d.asked = 12 }),
		"a refund of no coins":                         pays(func(d *deal) { refunded(d); d.coins = nil }),
		"a refund of a coin twice":                     pays(func(d *deal) { refunded(d); d.coins[1] = d.coins[0] }),
		"a refund of other coins":                      pays(func(d *deal) { refunded(d); d.asset = "BTC_CASHU(" + d.mint + ")" }),

		"ecash ahead to another key than the quote's": prepays(func(d *deal) {
			for i := range d.coins {
				d.coins[i].lock.Keys = []cashu.Point{scalar("another").PubKey()}
			}
		}),
		"ecash ahead to two keys": prepays(func(d *deal) { d.coins[1].lock.Keys = []cashu.Point{scalar("another").PubKey()} }),
		"ecash ahead that anybody can spend": prepays(func(d *deal) {
			d.coins[1].lock = cashu.Condition{Kind: cashu.P2PK, Nonce: "1", Locktime: 1, Keys: d.coins[1].lock.Keys}
		}),
		"ecash ahead that comes back": prepays(func(d *deal) {
			d.coins[1].lock.Locktime, d.coins[1].lock.Refund = at, []cashu.Point{scalar("lock of the customer").PubKey()}
		}),
		"ecash ahead that is signed with all": prepays(func(d *deal) { d.coins[1].lock.All = true }),
		"ecash ahead beside an escrow": prepays(func(d *deal) {
			d.coins[1].lock.Keys, d.coins[1].lock.Sigs = append(d.coins[1].lock.Keys, scalar("lock of the customer").PubKey()), 2
		}),
		"ecash ahead for more than was asked": prepays(func(d *deal) { d.asked = 12 }),
		"ecash ahead for a part of the price": prepays(func(d *deal) { d.asked = 14 }),
		"ecash ahead of more than it is":      prepays(func(d *deal) { d.amount++ }),
		"ecash ahead of a coin less":          prepays(func(d *deal) { d.coins = d.coins[1:] }),
		"ecash ahead with a coin twice":       prepays(func(d *deal) { d.coins[1] = d.coins[0] }),
		"ecash ahead that another quoted":     prepays(func(d *deal) { d.by = stranger() }),
		"ecash ahead for other work":          prepays(func(d *deal) { d.id = nostr.ID(other).Hex() }),
		"ecash ahead at another mint":         prepays(func(d *deal) { d.mint, d.asset = "https://cheap.example", "TEST_CASHU(https://cheap.example)" }),
		"ecash ahead in other coins":          prepays(func(d *deal) { d.quoted = "sat" }),
		"ecash ahead that the mint did not sign": prepays(func(d *deal) {
			d.coins[1].amount, d.coins[0].amount = 4, 8
			d.swapped = true
		}),
		"ecash ahead where an escrow was asked": pays(func(d *deal) { inAdvance(d); d.alone = false }),
		"an escrow where ecash ahead was asked": pays(func(d *deal) { d.alone = true }),
		"a refund of ecash ahead":               prepays(refunded),

		"a refund beside a payment": {story{rail: "cashu", receipt: func(r *receipt.Receipt) {
			r.Refund = &receipt.Refund{Rail: "cashu", AssetID: *r.AssetID, AmountMsats: 1, Proof: "{}"}
		}}, []string{"receipt"}},

		"a better outcome than the tests": judges(func(v map[string]any) { firstTest(v)["state"] = "failed"; v["passed"] = 4 }, "verdict"),
		"a partial success":               judges(func(v map[string]any) { v["outcome"], v["cause"] = "PARTIAL", "x" }, "verdict"),
		"a success with a cause":          judges(func(v map[string]any) { v["cause"] = "x" }, "verdict"),
		"invalid outcome":                 judges(func(v map[string]any) { v["outcome"], v["cause"] = "GOOD", "x" }, "receipt", "verdict"),
		"more tests than there are":       judges(func(v map[string]any) { v["passed"] = 6 }, "verdict"),
		"a better score":                  judges(func(v map[string]any) { v["score_micro"] = 950_000 }, "verdict"),
		"a better standing":               judges(func(v map[string]any) { v["standing"] = "conditional" }, "verdict"),
		"other weights":                   judges(func(v map[string]any) { dimension(v, 0)["weight"] = 60 }, "verdict"),
		"a better correctness":            judges(func(v map[string]any) { dimension(v, 0)["value_micro"] = 1 }, "verdict"),
		"a better quality":                judges(func(v map[string]any) { dimension(v, 3)["value_micro"] = 1_000_000; v["score_micro"] = 950_000 }, "verdict"),
		"better resources":                judges(func(v map[string]any) { dimension(v, 2)["value_micro"] = 500_000; v["score_micro"] = 819_000 }, "verdict"),
		"a faster class":                  judges(func(v map[string]any) { v["speed"] = "" }, "verdict"),
		"praise":                          judges(func(v map[string]any) { v["annotations"] = []string{"efficient", "thorough"} }, "verdict"),
		"invalid violation":               judges(func(v map[string]any) { v["violations"] = []any{map[string]any{"syscall": "ptrace"}} }, "verdict"),
		"a better pace":                   judges(func(v map[string]any) { dimension(v, 1)["value_micro"] = 1_000_000; v["score_micro"] = 944_000 }, "evidence"),
		"a wait that it did not subtract": judges(func(v map[string]any) { ran(v, 1100, 100) }, "evidence"),
		"a wait that is longer": judges(func(v map[string]any) {
			ran(v, 1100, 1101)
			dimension(v, 1)["value_micro"], v["score_micro"] = 1_000_000, 944_000
		}, "evidence"),

		"a strength without counts": judges(func(v map[string]any) { v["strength"] = "mixed" }, "verdict", "evidence"),
		"more strong tests than there are": judges(func(v map[string]any) {
			proven(v)
			v["strengths"].(map[string]any)["strong"] = 3
		}, "verdict"),
		"more hidden tests than there are": judges(func(v map[string]any) {
			proven(v)
			v["strengths"].(map[string]any)["hidden"] = 3
		}, "verdict"),
		"strong without a strong test": judges(func(v map[string]any) {
			proven(v)
			for _, t := range v["tests"].([]any) {
				if t := t.(map[string]any); t["strength"] == "strong" && t["layer"] != "performance" {
					t["strength"] = "weak"
				}
			}
			v["strengths"] = map[string]any{"strong": 0, "mixed": 1, "weak": 2, "visible": 1, "hidden": 2, "drawn": 0}
		}, "verdict"),
		"unverified with strong tests": judges(func(v map[string]any) { proven(v); v["strength"] = "unverified" }, "verdict", "evidence"),
		"invalid strength":             judges(func(v map[string]any) { proven(v); v["strength"] = "certain" }, "receipt", "verdict", "evidence"),
		"invalid exposure":             judges(func(v map[string]any) { firstTest(v)["exposure"] = "secret" }, "verdict"),
		"invalid blame":                judges(func(v map[string]any) { v["tests"].([]any)[4].(map[string]any)["blame"] = "the weather" }, "verdict"),
		"a blame of what passed":       judges(func(v map[string]any) { firstTest(v)["blame"] = "delivery" }, "verdict"),
		"a strength of what failed":    judges(func(v map[string]any) { v["tests"].([]any)[4].(map[string]any)["strength"] = "weak" }, "verdict"),
		"a failure excused": judges(func(v map[string]any) {
			firstTest(v)["state"], firstTest(v)["blame"] = "failed", "machine"
			v["passed"], v["outcome"], v["cause"] = 4, "FAILURE", "x"
		}, "verdict"),
		"weaker findings than the verdict": {story{verdict: proven, evidence: func(e map[string]any) { e["findings"].([]any)[0].(map[string]any)["strength"] = "mixed" }},
			[]string{"evidence"}},
		"findings that were not tried": {story{verdict: proven, evidence: func(e map[string]any) {
			f := e["findings"].([]any)[0].(map[string]any)
			f["strength"] = "weak"
			delete(f, "runs")
		}}, []string{"evidence"}},
		"another strength in the receipt": {story{verdict: proven, receipt: func(r *receipt.Receipt) { r.Strength = guild.Mixed }}, []string{"verdict"}},
		"another score in the receipt":    {story{verdict: proven, receipt: func(r *receipt.Receipt) { s := guild.Score(1); r.Score = &s }}, []string{"verdict", "trajectory"}},
		"other counts in the receipt":     {story{verdict: proven, receipt: func(r *receipt.Receipt) { r.Strengths = &guild.Strengths{} }}, []string{"verdict"}},
		"a strength alone in the receipt": {story{verdict: proven, receipt: func(r *receipt.Receipt) { r.Score = nil }}, []string{"receipt", "verdict"}},
		"a strength of an old verdict": says(func(r *receipt.Receipt) {
			s := guild.Score(894_000)
			r.Score, r.Strength, r.Strengths = &s, guild.Strong, &guild.Strengths{}
		}, "verdict"),
		"other hidden tests": {story{reveals: true, verdict: func(v map[string]any) {
			proven(v)
			v["hidden"].([]any)[1].(map[string]any)["path"] = "tests/hidden/other.py"
		}}, []string{"hidden tests"}},
		"fewer hidden tests":      {story{reveals: true, verdict: func(v map[string]any) { proven(v); v["hidden"] = v["hidden"].([]any)[:1] }}, []string{"hidden tests"}},
		"hidden tests of nothing": {story{reveals: true}, []string{"hidden tests"}},

		"evidence of another verdict": {story{evidence: func(e map[string]any) { e["verdict"].(map[string]any)["tier"] = "x" }}, []string{"evidence"}},
		"evidence of other tests": {story{evidence: func(e map[string]any) {
			f := e["findings"].([]any)[0].(map[string]any)
			f["tests"] = f["tests"].([]any)[1:]
		}}, []string{"evidence"}},
		"evidence that is weaker": {story{evidence: func(e map[string]any) { e["findings"].([]any)[0].(map[string]any)["strength"] = "weak" }}, []string{"evidence"}},

		"a typed request of other work": {story{typed: true, request: func(r *nip90.Request) {
			r.Inputs[0].Data = `{"commands":[]}`
			r.Set(nip90.ParamJobHash, guild.Sum([]byte(r.Inputs[0].Data)).Hex())
		}}, []string{"job hash", "bundle", "evidence"}},
		"a typed request with the hash of other work": {story{typed: true, request: func(r *nip90.Request) { r.Set(nip90.ParamJobHash, other.Hex()) }}, []string{"job hash"}},
		"a typed request without a payload":           {story{typed: true, request: func(r *nip90.Request) { r.Inputs = nil }}, []string{"request"}},
		"a typed result of other content":             {story{typed: true, result: func(r *nip90.Result) { r.Content = `{"runs":[]}` }}, []string{"delivery"}},
		"a plain result of other content":             {story{plain: "42", result: func(r *nip90.Result) { r.Content = "43" }}, []string{"delivery"}},
		"a typed job that is half right": {story{typed: true, verdict: func(v map[string]any) {
			firstTest(v)["state"] = "failed"
			v["passed"], v["outcome"], v["cause"], v["score_micro"], v["standing"] = 1, "PARTIAL", "x", 500_000, "rejected"
			dimension(v, 0)["value_micro"] = 500_000
		}}, []string{"verdict"}},
		"a typed verdict of other tests": {story{typed: true, evidence: func(e map[string]any) { e["report"].(map[string]any)["tests"] = []any{} }}, []string{"evidence"}},
		"a typed verdict that is weaker": {story{typed: true, evidence: func(e map[string]any) { e["report"].(map[string]any)["strength"] = "weak" }}, []string{"evidence"}},
		"an opinion on other tests": {story{typed: true, verdict: preferred, evidence: func(e map[string]any) { alone(e); e["report"].(map[string]any)["tests"] = []any{} }},
			[]string{"evidence"}},
		"a typed verdict on other work": {story{typed: true, evidence: func(e map[string]any) { e["request"] = map[string]any{"payload": map[string]any{}} }},
			[]string{"evidence"}},

		"other params": acts(func(all []replay.Event) []replay.Event {
			call := all[2].(replay.ToolCall)
			call.ParamsHash = other.String()
			all[2] = call
			return all
		}),
		"a result without its call": acts(func(all []replay.Event) []replay.Event { return slices.Delete(all, 2, 3) }),
		"two results of a call":     acts(func(all []replay.Event) []replay.Event { return slices.Insert(all, 4, all[3]) }),
		"a call from the day before": acts(func(all []replay.Event) []replay.Event {
			call := all[4].(replay.ToolCall)
			call.T = "2026-09-20T14:13:20Z"
			all[4] = call
			return all
		}),
		"a call that was left out":  acts(func(all []replay.Event) []replay.Event { return slices.Delete(all, 2, 4) }),
		"an end that is no success": acts(ends(func(end *replay.SessionEnd) { end.Status = replay.Failed })),
		"an end of no such status":  acts(ends(func(end *replay.SessionEnd) { end.Status = replay.Skipped })),
		"a confidence of seven":     acts(ends(func(end *replay.SessionEnd) { end.Confidence = 7 })),
		"a verdict of other work": acts(func(all []replay.Event) []replay.Event {
			call := all[4].(replay.ToolCall)
			call.Params = fmt.Appendf(nil, `{"hash":%q}`, other)
			all[4] = call
			return all
		}),
		"a confidence that is not the score": {story{verdict: proven, acts: ends(func(end *replay.SessionEnd) { end.Confidence = 0.5 })}, []string{"trajectory"}},
		"a failure that ended well": {story{verdict: func(v map[string]any) {
			firstTest(v)["state"] = "failed"
			v["passed"], v["outcome"], v["cause"], v["standing"], v["speed"], v["annotations"] = 4, "FAILURE", "x", "rejected", "", []any{}
			dimension(v, 0)["value_micro"], v["score_micro"] = 666_666, 727_333
		}, acts: ends(func(end *replay.SessionEnd) { end.Status = replay.Success })}, []string{"trajectory"}},
		"events of another form": acts(func(all []replay.Event) []replay.Event {
			result := all[3].(replay.ToolResult)
			result.OutputHash = "x"
			all[3] = result
			return all
		}),

		"a record of another receipt":  {story{fact: func(f map[string]any) { f["receipt"] = "r-x" }}, []string{"journal entry"}},
		"a record of another attempt":  {story{fact: func(f map[string]any) { f["attempt"] = other.Hex() }}, []string{"journal entry"}},
		"a record of other bytes":      {story{fact: func(f map[string]any) { f["stored"] = other }}, []string{"journal entry"}},
		"a record of another replay":   {story{fact: func(f map[string]any) { f["replay"] = other }}, []string{"journal entry"}},
		"a record of another session":  {story{fact: func(f map[string]any) { f["trajectory"] = other }}, []string{"journal entry"}},
		"a record of another sort":     {story{fact: func(f map[string]any) { f["type"] = "attempt.judged" }}, []string{"journal entry"}},
		"a record about another job":   {story{entry: func(map[string]any) string { return "job.ff" }}, []string{"journal entry"}},
		"a record about the node":      {story{entry: func(map[string]any) string { return "node.all" }}, []string{"journal entry"}},
		"a record before the receipt":  {story{entry: func(d map[string]any) string { d["at"] = (at - 3601) * 1000; return "" }}, []string{"journal entry"}},
		"a checkpoint before it":       {story{entry: func(d map[string]any) string { d["at"] = (at + 3661) * 1000; return "" }}, []string{"journal entry"}},
		"an old checkpoint":            {story{sealedAt: at - 3601}, []string{"checkpoint"}},
		"a result before its request":  {story{resultAt: at - 3601}, []string{"result"}},
		"a result after the receipt":   {story{resultAt: at + 3601}, []string{"result"}},
		"a checkpoint of another tree": {story{seal: func(c *seal.Checkpoint) { c.Root = other }}, []string{"journal entry"}},
		"a checkpoint of another size": {story{seal: func(c *seal.Checkpoint) { c.Size = 12 }}, []string{"journal entry"}},

		"a witness of another root":      {story{witness: func(w *seal.Witness) { w.Checkpoint.Root = other }}, []string{"witness"}},
		"a witness of another size":      {story{witness: func(w *seal.Witness) { w.Checkpoint.Size = 12 }}, []string{"witness"}},
		"a witness of another journal":   {story{witness: func(w *seal.Witness) { w.Checkpoint.Journal = "x" }}, []string{"witness"}},
		"a witness of another customer":  {story{witness: func(w *seal.Witness) { w.Customer = stranger().public }}, []string{"witness"}},
		"a witness before its seal":      {story{witnessedAt: at + 60 - 3601}, []string{"witness"}},
		"a witness that is a stranger":   {story{witnessing: new(stranger())}, []string{"witness"}},
		"a witness that is the customer": {story{witnessing: new(customer())}, []string{"witness"}},

		"a review of another receipt":       {story{review: func(r *nipreview.Review) { r.Evidence.Receipt = "r-x" }}, []string{"reviews"}},
		"a review of another task":          {story{review: func(r *nipreview.Review) { r.Task = "x" }}, []string{"reviews"}},
		"a review of another request":       {story{review: func(r *nipreview.Review) { r.Request = nostr.ID(other) }}, []string{"reviews"}},
		"a receipt from before the request": says(func(r *receipt.Receipt) { r.Timestamp = "2026-09-20T14:13:20Z" }, "receipt"),
		"a score that no test gave": judges(func(v map[string]any) {
			delete(v, "dimensions")
			v["standing"] = "active"
		}, "verdict"),
		"a review of other bytes":     {story{review: func(r *nipreview.Review) { r.Evidence.ReceiptHash = other }}, []string{"reviews"}},
		"a review of another verdict": {story{review: func(r *nipreview.Review) { r.Evidence.VerdictHash = guild.Hash{} }}, []string{"reviews"}},
	}
}

// ends changes the end of a trajectory.
func ends(change func(*replay.SessionEnd)) func([]replay.Event) []replay.Event {
	return func(all []replay.Event) []replay.Event {
		end := all[len(all)-1].(replay.SessionEnd)
		change(&end)
		all[len(all)-1] = end
		return all
	}
}

func firstTest(v map[string]any) map[string]any { return v["tests"].([]any)[0].(map[string]any) }

func dimension(v map[string]any, i int) map[string]any {
	return v["dimensions"].([]any)[i].(map[string]any)
}

// ran sets the time of a verdict's run, and how long of that it waited for a processor, in ms.
func ran(v map[string]any, wall, waited int64) {
	usage := v["usage"].(map[string]any)
	usage["wall_ms"], usage["waited_ms"] = wall, waited
}

func TestSignedLies(t *testing.T) {
	for name, lie := range lies() {
		r := verify.Export(dir(lie.export(t)))
		if got := failures(r); !slices.Equal(got, lie.want) {
			b, _ := json.MarshalIndent(r.Checks, "", " ")
			t.Errorf("%s: failed %q, want %q\n%s", name, got, lie.want, b)
		}
	}
}

// Blank lines do not count. The second line that does names the session.
func TestBlankTrajectoryLines(t *testing.T) {
	f := story{receipt: func(r *receipt.Receipt) { r.SessionID = "x" }}.export(t)
	f[verify.FileReplay] = append([]byte("\n\n"), f[verify.FileReplay]...)
	if got := failures(verify.Export(dir(f))); !slices.Equal(got, []string{"receipt", "trajectory"}) {
		t.Errorf("failed %q", got)
	}
}

// Verdicts with few fields are valid too; tests are not required.
func TestValidVerdictVariants(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"counts alone": func(v map[string]any) {
			clear(v)
			maps.Copy(v, map[string]any{"outcome": "PARTIAL", "cause": "x", "score_micro": 800_000, "strength": "strong", "tier": "none", "expected": 10, "passed": 8, "usage": map[string]any{}})
		},
		"no bundle": func(v map[string]any) {
			clear(v)
			maps.Copy(v, map[string]any{"outcome": "FAILURE", "cause": "the delivery is no bundle", "score_micro": 0, "strength": "strong", "tier": "none", "expected": 0, "passed": 0, "usage": map[string]any{}})
		},
	} {
		s := story{verdict: change, evidence: func(e map[string]any) { clear(e); e["format"] = "another judge's" }}
		if r := verify.Export(dir(s.export(t))); !r.OK() {
			t.Errorf("%s: %v", name, r)
		}
	}
}
