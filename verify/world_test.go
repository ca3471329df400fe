package verify_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip44"
	"golang.org/x/mod/sumdb/tlog"

	"guild"
	"guild/canon"
	"guild/internal/hand/key"
	"guild/nip90"
	"guild/nipreview"
	"guild/receipt"
	"guild/replay"
	"guild/seal"
	"guild/verify"
)

// person has a key that depends only on the name, so that exports are reproducible.
type person struct {
	secret nostr.SecretKey
	signer *key.Signer
	public nostr.PubKey
}

func somebody(name string) person {
	secret := nostr.SecretKey(guild.Sum([]byte(name)))
	signer := key.NewSigner(key.NewSecret(secret))
	public, _ := signer.GetPublicKey(context.Background())
	return person{secret, signer, public}
}

// The people of the exports.
func customer() person { return somebody("customer") }
func provider() person { return somebody("provider") }
func stranger() person { return somebody("stranger") }

// at is the time of all events, in Unix seconds.
const at = 1_790_000_000

func (p person) sign(t testing.TB, e nostr.Event) nostr.Event {
	t.Helper()
	if e.CreatedAt == 0 {
		e.CreatedAt = at
	}
	v, err := guild.Sign(t.Context(), p.signer, e)
	if err != nil {
		t.Fatal(err)
	}
	return v.Event()
}

// conversation returns the conversation key of p and another person.
func (p person) conversation(t testing.TB, with person) [32]byte {
	t.Helper()
	k, err := nip44.GenerateConversationKey(with.public, p.secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// seal encrypts with a nonce derived from the text, so that exports are reproducible.
func (p person) seal(t testing.TB, with person) nip90.Sealer {
	return func(plain string) (string, error) {
		nonce := guild.Sum([]byte(plain))
		return nip44.Encrypt(plain, p.conversation(t, with), nip44.WithCustomNonce(nonce[:]))
	}
}

// story describes a job from which an export is made. Its hooks change one part before it is signed, and everything
// after follows from the change: then a signed statement of the customer or the provider is false.
type story struct {
	sealed, closed bool // sealed: request and result are encrypted; closed: the export has no keys
	unjudged       bool
	undelivered    bool // nothing was delivered, so that nothing was judged
	selfmade       bool // the customer is the provider
	reveals        bool // the export has the hidden tests
	worker         bool // the export has the worker's trajectory, and the result names it
	superseding    bool
	typed          bool   // a typed job: request and result travel in the events themselves
	plain          string // the result of a provider without bundles
	rail           string // of the payment, "address" if on the chain to a quoted one, or "escrow"; "" for none
	policy         string // "" for a usual one

	request  func(*nip90.Request)
	result   func(*nip90.Result)
	verdict  func(map[string]any)
	evidence func(map[string]any)
	receipt  func(*receipt.Receipt)
	quote    func(*nip90.Feedback)
	deal     func(*deal)    // with the rail "escrow"
	chain    func(*chained) // with the rail "address"
	acts     func([]replay.Event) []replay.Event
	steps    func([]replay.Event) []replay.Event // of the worker
	fact     func(map[string]any)
	entry    func(decision map[string]any) (subject string) // "" for that of the job
	resultAt int64                                          // Unix s; at if zero
	sealedAt int64                                          // Unix s; a minute later if zero
	review   func(*nipreview.Review)
	seal     func(*seal.Checkpoint)

	witness     func(*seal.Witness)
	witnessedAt int64 // Unix s; two minutes later if zero

	judge      *person // signs the receipt; the customer if nil
	witnessing *person // countersigns the checkpoint; the provider if nil
}

type files = map[string][]byte

// provider returns who does the work.
func (s story) provider() person {
	if s.selfmade {
		return customer()
	}
	return provider()
}

// export makes the files of the export.
func (s story) export(t testing.TB) files {
	t.Helper()
	out := files{}
	job := guild.JobID{1, 2, 3}
	bundle, delivery := bytes.Repeat([]byte("NUT\x01 the task "), 20), bytes.Repeat([]byte("NUT\x01 the work "), 20)
	if s.typed {
		bundle = nut(t, typedManifest, map[string]string{"files/request.json": `{"job_type":"oa.sandbox_run.v1","payload":` + typedPayload + `}`})
		delivery = nut(t, typedManifest, map[string]string{"delivery/artifacts/output.json": typedResult})
	}
	if s.plain != "" {
		delivery = nut(t, typedManifest, map[string]string{"delivery/artifacts/output.txt": s.plain})
	}
	out[verify.FileBundle], out[verify.FileDelivery] = bundle, delivery
	if s.reveals {
		out[verify.FileHidden] = must[[]byte](t)(verify.EncodeHidden(hiddenTests()))
	}

	request, order := s.asked(t, out, job, bundle)
	var result nostr.Event
	if s.undelivered {
		delete(out, verify.FileDelivery)
	} else {
		result = s.answered(t, out, request, delivery)
	}
	r := s.stated(t, out, job, request, order, result)
	if s.rail == "escrow" {
		s.held(t, out, &r, request)
	} else if s.rail != "" {
		s.paid(t, out, &r, request)
	}
	if s.superseding {
		r.Supersedes = "r-0123456789abcdef"
	}
	derive := func() string { return receipt.NewID(r.Job, r.Attempt, r.ResultEvent, r.Supersedes) }
	r.ID = derive()
	if s.receipt != nil {
		before := r.ID
		if s.receipt(&r); r.ID == before {
			r.ID = derive()
		}
	}
	s.recorded(t, out, r)
	return out
}

// put stores an event as a file.
func put(t testing.TB, out files, name string, e nostr.Event) {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	out[name] = b
}

func (s story) asked(t testing.TB, out files, job guild.JobID, bundle []byte) (nostr.Event, nip90.Request) {
	t.Helper()
	p := s.provider().public
	r := nip90.Request{Kind: 5000, Provider: &p, Job: job.String(), Output: "application/json", Bid: 5000, Relays: []string{"wss://relay.example"}, Content: "Write it"}
	r.Set(nip90.ParamJobType, s.task())
	r.Set(nip90.ParamDeadline, fmt.Sprint(at+600))
	r.Set(nip90.ParamTimeLimit, "30")
	r.Set(nip90.ParamAccuracy, "1.00")
	r.Set(nip90.ParamIdempotencyKey, nip90.IdempotencyKey(job, p, 1))
	if s.typed {
		r.Inputs = []nip90.Input{{Data: typedPayload, Type: "text"}}
	} else {
		ok(t, r.SetBundle(nip90.NewParcel(bundle)))
	}
	r.Set(nip90.ParamJobHash, s.jobHash(t, r).Hex())
	if s.request != nil {
		s.request(&r)
	}
	write := r.Event
	if s.sealed {
		write = func() (nostr.Event, error) { return r.Sealed(customer().seal(t, s.provider())) }
	}
	e := customer().sign(t, must[nostr.Event](t)(write()))
	put(t, out, verify.FileRequest, e)
	s.unlock(t, out, verify.FileRequestKey, e)
	return e, r
}

// unlock stores the opening of a sealed event.
func (s story) unlock(t testing.TB, out files, name string, e nostr.Event) {
	t.Helper()
	if s.sealed && !s.closed {
		keys := must[[]byte](t)(customer().signer.MessageKeys(e.Content, s.provider().public))
		out[name] = []byte(hex.EncodeToString(keys))
	}
}

func (s story) answered(t testing.TB, out files, request nostr.Event, delivery []byte) nostr.Event {
	t.Helper()
	r := nip90.Result{Kind: 6000, Request: request.ID, Customer: customer().public}
	if s.typed {
		r.Content = typedResult
	} else if s.plain != "" {
		r.Content = s.plain
	} else {
		ok(t, r.SetDelivery(nip90.NewParcel(delivery)))
	}
	if s.worker {
		out[verify.FileWorker], r.Trajectory = s.worked(t, request)
		r.SessionReceipt = guild.Sum([]byte("RECEIPT.json"))
	}
	if s.result != nil {
		s.result(&r)
	}
	write := r.Event
	if s.sealed {
		write = func() (nostr.Event, error) { return r.Sealed(s.provider().seal(t, customer())) }
	}
	unsigned := must[nostr.Event](t)(write())
	unsigned.CreatedAt = nostr.Timestamp(s.resultAt)
	e := s.provider().sign(t, unsigned)
	put(t, out, verify.FileResult, e)
	s.unlock(t, out, verify.FileResultKey, e)
	return e
}

// stated returns the receipt with everything but the payment.
func (s story) stated(t testing.TB, out files, job guild.JobID, request nostr.Event, order nip90.Request, result nostr.Event) receipt.Receipt {
	t.Helper()
	policy := []byte(cmp.Or(s.policy, `{"name":"cautious","version":1,"weights":{"trust":400000}}`))
	out[verify.FilePolicy] = policy
	r := receipt.Receipt{
		SessionID: job.String(), PolicyBundleID: must[guild.Hash](t)(canon.Hash(policy)).String(),
		JobHash: s.jobHash(t, order), Timestamp: "2026-09-21T14:13:20Z", Task: s.task(), Job: job,
		Attempt: request.ID, RequestEvent: request.ID, ResultEvent: result.ID,
		BundleHash:     guild.Sum(out[verify.FileBundle]),
		IdempotencyKey: nip90.IdempotencyKey(job, s.provider().public, 1),
	}
	r.SetProvider(s.provider().public)
	if !s.undelivered {
		r.DeliveryHash = guild.Sum(out[verify.FileDelivery])
	}
	if !s.unjudged {
		r.Outcome, r.VerdictHash = s.judged(t, out)
		var v struct {
			Score     guild.Score      `json:"score_micro"`
			Strength  guild.Strength   `json:"strength"`
			Strengths *guild.Strengths `json:"strengths"`
		}
		ok(t, json.Unmarshal(out[verify.FileVerdict], &v))
		if v.Strengths != nil {
			r.Score, r.Strength, r.Strengths = &v.Score, v.Strength, v.Strengths
		}
	}
	r.TrajectoryHash = s.trajectory(t, out, r)
	return r
}

// judged makes a verdict and its evidence in the format of guild's judge.
func (s story) judged(t testing.TB, out files) (guild.Outcome, guild.Hash) {
	t.Helper()
	var v, e map[string]any
	text := verdictText
	if s.typed {
		text = typedVerdictText
	}
	ok(t, json.Unmarshal([]byte(text), &v))
	if s.verdict != nil {
		s.verdict(v)
	}
	e = map[string]any{
		"format": "guild judge evidence 1", "verdict": maps.Clone(v),
		"baseline": map[string]any{"runs": 7, "wall": map[string]any{"median_ms": 1000, "p95_ms": 1400}},
		"criteria": map[string]any{"time_limit_seconds": 30}, "delivered": []any{"solution.py"},
		"findings": []any{map[string]any{"criterion": "c1", "framework": "pytest", "strength": v["strength"], "tests": v["tests"],
			"violations": v["violations"], "runs": []any{map[string]any{"argv": []any{"python3", "-m", "pytest"}, "stdout": "5 passed\n"}}}},
	}
	if s.typed {
		e = map[string]any{
			"format": "guild typed evidence 1", "verdict": maps.Clone(v), "report": map[string]any{"tests": v["tests"], "strength": v["strength"], "how": "run again"},
			"request": map[string]any{"job_type": s.task(), "payload": json.RawMessage(typedPayload)},
		}
	} else if v["violations"] == nil {
		delete(e["findings"].([]any)[0].(map[string]any), "violations")
	}
	if s.evidence != nil {
		s.evidence(e)
	}
	raw := must[[]byte](t)(json.Marshal(e))
	out[verify.FileEvidence] = raw
	v["evidence"] = guild.Sum(raw).String()
	out[verify.FileVerdict] = must[[]byte](t)(canon.Marshal(v))
	return guild.Outcome(fmt.Sprint(v["outcome"])), guild.Sum(out[verify.FileVerdict])
}

// hiddenTests returns two hidden tests with their commitments.
func hiddenTests() []verify.RevealedTest {
	var tests []verify.RevealedTest
	for i, content := range []string{"def test_b(): assert f(2) == 4\n", "def test_c(): assert f(3) == 9\n"} {
		salt := guild.Sum([]byte(content))
		tests = append(tests, verify.RevealedTest{
			Path: fmt.Sprintf("tests/hidden/test_%d.py", i), Hash: guild.Sum(append(salt[:], content...)), Salt: salt.Hex(), Content: []byte(content),
		})
	}
	return tests
}

// proven adds to the verdict of verdictText what its tests are worth, and the hidden tests.
func proven(v map[string]any) {
	for i, worth := range [][2]string{{"strong", "visible"}, {"strong", "hidden"}, {"mixed", "hidden"}, {"weak", "visible"}, {"", "visible"}, {"strong", "visible"}} {
		test := v["tests"].([]any)[i].(map[string]any)
		test["exposure"], test["because"] = worth[1], "a changed answer makes it fail"
		if test["strength"] = worth[0]; worth[0] == "" {
			delete(test, "strength")
			test["blame"] = "delivery"
		}
	}
	v["strengths"] = map[string]any{"strong": 2, "mixed": 1, "weak": 0, "visible": 1, "hidden": 2, "drawn": 0}
	v["unproven"] = []any{"g"}
	var hidden []any
	for _, t := range hiddenTests() {
		hidden = append(hidden, map[string]any{"path": t.Path, "hash": t.Hash.String()})
	}
	v["hidden"] = hidden
}

// verdictText is the verdict on a good delivery that fails one edge test and is a little slow.
const verdictText = `{"outcome":"SUCCESS","score_micro":894000,"strength":"strong","tier":"namespaces","expected":6,"passed":5,
"tests":[{"id":"tests/smoke/test_a.py::test_import","state":"passed","layer":"smoke","us":1200},
{"id":"test_b","state":"passed","layer":"correctness"},{"id":"test_c","state":"passed","layer":"correctness"},
{"id":"test_d","state":"passed","layer":"edge"},{"id":"test_e","state":"failed","layer":"edge","message":"overflow"},
{"id":"test_f","state":"passed","layer":"performance"}],
"dimensions":[{"name":"correctness","weight":50,"value_micro":1000000,"known":true},
{"name":"performance","weight":25,"value_micro":800000,"known":true,"reason":"1100 ms, the baseline is 1000 ms"},
{"name":"resources","weight":15,"value_micro":1000000,"known":true},
{"name":"quality","weight":10,"value_micro":440000,"known":true,"reason":"static findings"}],
"standing":"active","speed":"STANDARD","annotations":["efficient"],
"quality":{"pylint_milli":9000,"linted":true,"lines_micro":950000,"branches_micro":800000,"covered":true,"types":0,
"findings":[{"tool":"bandit","code":"B301","severity":"low","file":"a.py","line":3,"text":"pickle"}]},
"box":{"rootfs":"host","profile":"default","cpus":1,"memory_bytes":268435456,"disk_bytes":1048576,"pids":64,"cpu_ms":30000,"wall_ms":35000},
"tools":[{"name":"pytest","version":"8.1"}],
"usage":{"wall_ms":1100,"cpu_ms":900,"memory_peak_bytes":52428800}}`

// moment is at, as a trajectory has it.
const moment = "2026-09-21T14:13:20.000Z"

// trajectory writes REPLAY.jsonl.
func (s story) trajectory(t testing.TB, out files, r receipt.Receipt) guild.Hash {
	t.Helper()
	exit := 0
	result := func(id, output string) replay.ToolResult {
		return replay.ToolResult{ID: id, OutputHash: guild.Sum([]byte(output)).String(), Preview: output, ExitCode: &exit, StepUtility: 1, T: moment}
	}
	events := []replay.Event{
		replay.ReplayHeader{Version: 1, Producer: "guild@0.7.0", CreatedAt: moment},
		replay.SessionStart{SessionID: r.SessionID, PolicyBundleID: r.PolicyBundleID, T: moment},
		replay.ToolCall{ID: "tc_001", Tool: "nostr.publish", Params: []byte(`{"attempt":"x","share":1.0}`), StepID: "request", T: moment},
		result("tc_001", "OK"),
	}
	end := replay.SessionEnd{Status: replay.Failed, TotalToolCalls: 1, T: moment}
	if !s.unjudged {
		var v struct {
			Outcome guild.Outcome `json:"outcome"`
			Score   guild.Score   `json:"score_micro"`
		}
		ok(t, json.Unmarshal(out[verify.FileVerdict], &v))
		events = append(events, replay.ToolCall{ID: "tc_002", Tool: "judge.run", Params: fmt.Appendf(nil, `{"hash":%q}`, r.VerdictHash), StepID: "judge", T: moment},
			result("tc_002", string(v.Outcome)))
		end.Confidence, end.TotalToolCalls = replay.Float(v.Score.Float()), 2
		if v.Outcome == guild.Success || v.Outcome == guild.Partial {
			end.Status = replay.Success
		}
	}
	events = append(events, end)
	if s.acts != nil {
		events = s.acts(events)
	}
	file, hash := written(t, events)
	out[verify.FileReplay] = file
	return hash
}

// worked returns the trajectory of the worker, and its hash.
func (s story) worked(t testing.TB, request nostr.Event) ([]byte, guild.Hash) {
	t.Helper()
	exit := 0
	events := []replay.Event{
		replay.ReplayHeader{Version: 1, Producer: "guild@0.7.0", CreatedAt: moment},
		replay.SessionStart{SessionID: request.ID.Hex(), PolicyBundleID: guild.Sum([]byte("policy")).String(), T: moment},
		replay.ToolCall{ID: "tc_001", Tool: "exec", Params: []byte(`{"command":"solve"}`), T: moment},
		replay.ToolResult{ID: "tc_001", OutputHash: guild.Sum([]byte("done")).String(), Preview: "done", ExitCode: &exit, T: moment},
		replay.SessionEnd{Status: replay.Success, TotalToolCalls: 1, T: moment},
	}
	if s.steps != nil {
		events = s.steps(events)
	}
	return written(t, events)
}

// written returns a trajectory and its hash. It does without Writer, which refuses what some of the lies say.
func written(t testing.TB, events []replay.Event) ([]byte, guild.Hash) {
	t.Helper()
	var b bytes.Buffer
	var lines []json.RawMessage
	for _, e := range events {
		line := must[[]byte](t)(canon.Marshal(named(t, e)))
		lines = append(lines, line)
		fmt.Fprintf(&b, "%s\n", line)
	}
	return b.Bytes(), must[guild.Hash](t)(canon.Hash(must[[]byte](t)(json.Marshal(lines))))
}

// named returns the fields of an event with its name.
func named(t testing.TB, e replay.Event) map[string]any {
	t.Helper()
	raw, isRaw := e.(replay.Unknown)
	if !isRaw {
		raw.Raw = must[[]byte](t)(json.Marshal(e))
	}
	fields := decode(t, raw.Raw).(map[string]any)
	fields["event"] = e.EventName()
	if call, isCall := e.(replay.ToolCall); isCall && call.ParamsHash == "" {
		fields["params_hash"] = must[guild.Hash](t)(canon.Hash(call.Params)).String()
	}
	return fields
}

// recorded signs the receipt, then records, seals and reviews it.
func (s story) recorded(t testing.TB, out files, r receipt.Receipt) {
	t.Helper()
	e := must[nostr.Event](t)(r.Event())
	out[verify.FileReceipt] = []byte(e.Content)
	signer := customer()
	if s.judge != nil {
		signer = *s.judge
	}
	put(t, out, verify.FileReceiptEvent, signer.sign(t, e))

	fact := map[string]any{
		"type": "attempt.recorded", "attempt": r.Attempt.Hex(), "receipt": r.ID, "stored": guild.Sum(out[verify.FileReceipt]),
		"replay": guild.Sum(out[verify.FileReplay]), "trajectory": r.TrajectoryHash,
	}
	if s.fact != nil {
		s.fact(fact)
	}
	decision := map[string]any{"v": 1, "at": at * 1000, "by": "node", "prev": guild.Sum(nil).Hex(),
		"facts": []any{map[string]any{"type": "effect.settled", "key": "record"}, fact}}
	subject := ""
	if s.entry != nil {
		subject = s.entry(decision)
	}
	out[verify.FileEntry] = fmt.Appendf(nil, "%s\n%s", cmp.Or(subject, "job."+r.Job.String()), must[[]byte](t)(json.Marshal(decision)))
	s.sealed11(t, out)

	review := nipreview.Review{Kind: nipreview.Kind, Subject: r.ProviderPubKey, Stars: 4_500_000, Task: r.Task, Request: r.RequestEvent, JobKind: 5000,
		Content: nipreview.Content{Summary: "Good work.", Strengths: []string{"fast"}, Evidence: nipreview.Evidence{
			Receipt: r.ID, ReceiptHash: guild.Sum(out[verify.FileReceipt]), VerdictHash: r.VerdictHash}}}
	if s.review != nil {
		s.review(&review)
	}
	signed := customer().sign(t, review.Event())
	put(t, out, verify.DirReviews+"/"+signed.ID.Hex()+".json", signed)
}

// sealed11 proves the entry as the seventh of eleven.
func (s story) sealed11(t testing.TB, out files) {
	t.Helper()
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) (hashes []tlog.Hash, err error) {
		for _, i := range indexes {
			hashes = append(hashes, stored[i])
		}
		return hashes, nil
	})
	const size, index = 11, 6
	for i := range size {
		entry := fmt.Appendf(nil, "job.%d\n{}", i)
		if i == index {
			entry = out[verify.FileEntry]
		}
		stored = append(stored, must[[]tlog.Hash](t)(tlog.StoredHashes(int64(i), entry, reader))...)
	}
	proof := seal.Proof{Index: index, Size: size}
	for _, h := range must[tlog.RecordProof](t)(tlog.ProveRecord(size, index, reader)) {
		proof.Path = append(proof.Path, h[:])
	}
	out[verify.FileProof] = must[[]byte](t)(proof.Encode())
	c := seal.Checkpoint{Journal: "0123456789abcdef", Size: size, Root: guild.Hash(must[tlog.Hash](t)(tlog.TreeHash(size, reader)))}
	if s.seal != nil {
		s.seal(&c)
	}
	put(t, out, verify.FileCheckpoint, customer().sign(t, c.Event(cmp.Or(s.sealedAt, at+60))))
	if s.selfmade { // nobody else can countersign it
		return
	}
	w, by := seal.Witness{Customer: customer().public, Checkpoint: c}, s.provider()
	if s.witness != nil {
		s.witness(&w)
	}
	if s.witnessing != nil {
		by = *s.witnessing
	}
	put(t, out, verify.FileWitness, by.sign(t, w.Event(cmp.Or(s.witnessedAt, at+120))))
}

// paidHash returns the payment hash of the story's invoice.
func paidHash() guild.Hash {
	preimage := guild.Sum([]byte("preimage"))
	return guild.Sum(preimage[:])
}

// paid adds a payment and its proof to the receipt.
func (s story) paid(t testing.TB, out files, r *receipt.Receipt, request nostr.Event) {
	t.Helper()
	const amount = 2000
	preimage := guild.Sum([]byte("preimage"))
	q := nip90.Feedback{Request: request.ID, Customer: customer().public, Status: nip90.PaymentRequired, Amount: amount}
	rail, asset := s.rail, "BTC_LN"
	switch s.rail {
	case "lightning":
		q.Invoice = invoice(t, amount, guild.Sum(preimage[:]))
		r.PaymentProof = &receipt.PaymentProof{Type: "lightning_preimage", Value: preimage.Hex()}
	case "onchain":
		var txid string
		asset = "BTC_ONCHAIN"
		out[verify.FileTransaction], txid = transaction(2)
		r.PaymentProof = &receipt.PaymentProof{Type: "onchain_txid", Value: txid}
	case "address":
		rail, asset = "onchain", "BTC_ONCHAIN"
		r.PaymentProof = &receipt.PaymentProof{Type: "onchain_txid", Value: s.onChain(t, out, &q)}
	case "cashu":
		asset = "BTC_CASHU(https://mint.example)"
		r.PaymentProof = &receipt.PaymentProof{Type: "cashu_proof", Value: ecash(t)}
	}
	if s.quote != nil {
		s.quote(&q)
	}
	e := s.provider().sign(t, q.Event())
	put(t, out, verify.FileQuote, e)
	r.Rail, r.AssetID, r.AmountMsats, r.QuoteEvent, r.Bolt11 = &rail, &asset, amount, e.ID, q.Invoice
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		ok(t, err)
		return v
	}
}
