package evidence_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bitcoin"
	"guild/cashu"
	"guild/cashu/token"
	"guild/internal/evidence"
	"guild/internal/hand/blob"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/nip90"
	"guild/receipt"
	"guild/verify"
)

func has(files map[string][]byte, name string) bool { _, ok := files[name]; return ok }

func TestExportIsComplete(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		w := newWorld(t)
		j, s := w.done(1, sealed)
		review := w.reviewed(j, s)
		files := w.export(j, s)
		passed := w.holds(files)
		for _, name := range []string{
			"files", "receipt", "receipt signature", "request", "job hash", "result", "bundle", "delivery", "verdict", "trajectory", "policy",
			"journal entry", "checkpoint", "reviews",
		} {
			if !slices.Contains(passed, name) {
				t.Errorf("sealed %v: nothing of %s among %q", sealed, name, passed)
			}
		}
		if !bytes.Equal(files[verify.FileBundle], j.bundle) || !bytes.Equal(files[verify.FileDelivery], j.delivery) {
			t.Error("another bundle or delivery")
		}
		if !has(files, verify.DirReviews+"/"+review.ID.Hex()+".json") {
			t.Error("the review is not in it")
		}
		if has(files, verify.FileRequestKey) != sealed || has(files, verify.FileResultKey) != sealed {
			t.Errorf("sealed %v, and keys %v", sealed, !sealed)
		}
	}
}

func TestExportHasTheQuote(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		w := newWorld(t)
		j := w.asked(1, sealed)
		f := nip90.Feedback{Request: j.request.ID, Customer: pubkey(customer), Status: nip90.PaymentRequired, Terms: token.Request{
			ID: j.request.ID.Hex(), Amount: 5, Unit: "test",
			Lock: &token.RequestedLock{
				Kind: cashu.P2PK, Data: cashu.Scalar{31: 1}.PubKey().String(), Tags: [][]string{{"n_sigs", "2"}, {"locktime", "1800000000"}},
			},
		}.String()}
		quote := f.Event()
		if sealed {
			var err error
			quote, err = f.Sealed(w.sealer(provider, customer))
			ok(t, err)
		}
		quote = w.sign(provider, quote)
		other := w.sign(provider, nip90.Feedback{Request: j.request.ID, Status: nip90.PaymentRequired}.Event())
		subject := fact.JobSubject(j.id)
		w.append(subject, fact.AttemptQuoted{Attempt: j.request.ID, Event: quote.ID, Answer: &quote, Terms: f.Terms})
		w.append(subject, fact.AttemptQuoted{Attempt: j.request.ID, Event: other.ID, Answer: &other})
		w.append(subject, fact.AttemptHeld{Attempt: j.request.ID, Rail: "cashu", Asset: "TEST_CASHU(https://m.example)", Amount: 5000, Quote: quote.ID})
		w.delivered(&j)
		s := w.judged(j, guild.Failure, fact.AttemptRefunded{Attempt: j.request.ID, Rule: "verdict.nothing",
			Proof: fmt.Sprintf(`{"mint":"https://m.example","unit":"test","amount":5,"spent":[%q]}`, cashu.HashToCurve("x"))})
		files := w.export(j, s)
		w.holds(files)
		if !bytes.Contains(files[verify.FileQuote], []byte(quote.ID.Hex())) || has(files, verify.FileQuoteKey) != sealed {
			t.Errorf("sealed %v: key %v, quote %s", sealed, has(files, verify.FileQuoteKey), files[verify.FileQuote])
		}
		if files = w.export(j, s, verify.FileQuote); has(files, verify.FileQuote) || has(files, verify.FileQuoteKey) {
			t.Error("it is not left out")
		}
		w.holds(files)
	}
}

// TestExportHasTheTransaction takes the first transaction of the chain's first block: it pays no address, so the quote has none.
func TestExportHasTheTransaction(t *testing.T) {
	const (
		raw = "01000000010000000000000000000000000000000000000000000000000000000000000000ffffffff4d04ffff001d0104455468652054696d65732030332f4a616e" +
			"2f32303039204368616e63656c6c6f72206f6e206272696e6b206f66207365636f6e64206261696c6f757420666f722062616e6b73ffffffff0100f2052a01000000" +
			"434104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf1" +
			"1d5fac00000000"
		txid   = "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b"
		header = "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27ac72c3e67768f617fc81bc3888a51323a9fb8aa4b1e" +
			"5e4a29ab5f49ffff001d1dac2b7c"
	)
	w := newWorld(t)
	j := w.asked(1, false)
	const price = 5_000_000_000_000 // 50 bitcoins
	quote := w.sign(provider, nip90.Feedback{Request: j.request.ID, Customer: pubkey(customer), Status: nip90.PaymentRequired, Amount: price}.Event())
	subject := fact.JobSubject(j.id)
	w.append(subject, fact.AttemptQuoted{Attempt: j.request.ID, Event: quote.ID, Answer: &quote, Amount: price})
	w.append(fact.Ledger, fact.PaymentMined{
		Attempt: j.request.ID, TxID: txid, Raw: raw, Amount: price / 1000, Inclusion: bitcoin.Inclusion{Header: header, Branch: []string{}},
	})
	w.append(subject, fact.AttemptHeld{
		Attempt: j.request.ID, Rail: "onchain", Asset: "BTC_CHAIN", Amount: price, Quote: quote.ID, Ahead: true, Until: 1,
	})
	w.delivered(&j)
	s := w.judged(j, guild.Success, fact.AttemptReleased{Attempt: j.request.ID, Amount: price, Rule: fact.RulePrepaid, Proof: txid})
	files := w.export(j, s)
	w.holds(files)
	if string(files[verify.FileTransaction]) != raw || !bytes.Contains(files[verify.FileInclusion], []byte(header)) {
		t.Errorf("the transaction %s, the block %s", files[verify.FileTransaction], files[verify.FileInclusion])
	}
}

func TestExportWithoutSigner(t *testing.T) {
	w := newWorld(t)
	j, s := w.done(1, true)
	files, err := evidence.New(evidence.Config{Journal: w.journal, Blobs: w.blobs}).Of(t.Context(), j.id, s, evidence.Options{})
	ok(t, err)
	for _, name := range []string{verify.FileReceiptEvent, verify.FileRequestKey, verify.FileResultKey, verify.FileEntry, verify.FileCheckpoint} {
		if has(files, name) {
			t.Errorf("%s without a key", name)
		}
	}
	for _, name := range []string{verify.FileReceipt, verify.FileRequest, verify.FileResult, verify.FileBundle, verify.FileVerdict, verify.FilePolicy} {
		if !has(files, name) {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestExportOfArchivedJob(t *testing.T) {
	w := newWorld(t)
	j, s := w.done(1, true)
	w.reviewed(j, s)
	before := w.export(j, s)
	file := w.archived()
	if _, err := w.journal.Entry(t.Context(), 2); !errors.Is(err, journal.ErrNoEntry) {
		t.Fatalf("it is not archived: %v", err)
	}
	files := w.export(j, s)
	if !same(before, files) {
		t.Error("another export than before")
	}
	passed := w.holds(files)
	for _, name := range []string{"policy", "journal entry", "checkpoint", "reviews"} {
		if !slices.Contains(passed, name) {
			t.Errorf("nothing of %s among %q", name, passed)
		}
	}

	later, recorded := w.done(2, false) // only the policy of this one is archived
	w.holds(w.export(later, recorded))
	away := filepath.Join(w.dir, "elsewhere")
	ok(t, os.Rename(file, away))
	_, err := w.collect.Of(t.Context(), j.id, s, evidence.Options{})
	if begins, _, _ := strings.Cut(file, "-0"); !errors.Is(err, journal.ErrArchiveGone) || !strings.Contains(err.Error(), begins) {
		t.Errorf("%v, want that %s is gone", err, file)
	}
	if files := w.export(later, recorded); has(files, verify.FilePolicy) || !slices.Contains(w.holds(files), "journal entry") {
		t.Error("a job that is not archived needs no archive, but for its policy")
	}
	ok(t, os.Rename(away, file))
	if !same(before, w.export(j, s)) {
		t.Error("another export than before once the file is back")
	}
}

func TestExportOfPartlyArchivedJob(t *testing.T) {
	w := newWorld(t)
	j := w.asked(1, true)
	w.archived()
	w.delivered(&j)
	w.archived()
	s := w.judged(j, guild.Success)
	w.reviewed(j, s)
	files := w.export(j, s)
	passed := w.holds(files)
	for _, name := range []string{"request", "result", "verdict", "journal entry", "reviews"} {
		if !slices.Contains(passed, name) {
			t.Errorf("nothing of %s among %q", name, passed)
		}
	}
	w.archived()
	if !same(files, w.export(j, s)) {
		t.Error("another export once all is archived, in three files")
	}
}

func TestExportOfSupersededReceipt(t *testing.T) {
	w := newWorld(t)
	j := w.asked(1, false)
	w.delivered(&j)
	first := w.judged(j, guild.Failure)
	w.append(fact.JobSubject(j.id), fact.AttemptDisputed{Attempt: j.request.ID, By: "provider", Reason: "it is right"})
	second := w.judged(j, guild.Success)
	for range 2 {
		for _, c := range []struct {
			of      string
			files   map[string][]byte
			outcome guild.Outcome
			earlier string
		}{{first.Receipt, w.export(j, first), guild.Failure, ""}, {second.Receipt, w.export(j, second), guild.Success, first.Receipt}} {
			passed := w.holds(c.files)
			r, err := receipt.Decode(c.files[verify.FileReceipt])
			if err != nil || r.ID != c.of || r.Outcome != c.outcome || r.Supersedes != c.earlier {
				t.Errorf("%+v, %v", r, err)
			}
			for _, name := range []string{"verdict", "trajectory", "journal entry"} {
				if !slices.Contains(passed, name) {
					t.Errorf("nothing of %s among %q", name, passed)
				}
			}
		}
		w.archived()
	}
}

func TestExportOmitsOtherReviews(t *testing.T) {
	w := newWorld(t)
	j, s := w.done(1, false)
	other, of := w.done(2, false) // of the same service, for the same task
	mine, theirs := w.reviewed(j, s), w.reviewed(other, of)
	mirror := w.sign(customer, nostr.Event{Kind: 1985, Content: s.Receipt})
	odd := w.sign(customer, nostr.Event{Kind: 2020, Content: s.Receipt})
	w.append(fact.ReviewSubject(task, service), fact.ReviewDrafted{Service: service, Task: task, Events: []nostr.Event{mirror, odd}})
	for range 2 {
		files := w.export(j, s)
		var reviews []string
		for name := range files {
			if strings.HasPrefix(name, verify.DirReviews) {
				reviews = append(reviews, name)
			}
		}
		if want := verify.DirReviews + "/" + mine.ID.Hex() + ".json"; !slices.Equal(reviews, []string{want}) {
			t.Errorf("%q, want %s", reviews, want)
		}
		if all := bytes.Join(slices.Collect(maps.Values(files)), nil); bytes.Contains(all, []byte(theirs.ID.Hex())) || bytes.Contains(all, []byte(of.Receipt)) {
			t.Error("something of the other job is in it")
		}
		if files := w.export(j, s, verify.DirReviews); has(files, verify.DirReviews+"/"+mine.ID.Hex()+".json") {
			t.Error("reviews that are not wanted")
		}
		w.archived()
	}
}

func TestOpeningsOpenOneJobOnly(t *testing.T) {
	w := newWorld(t)
	j, s := w.done(1, true)
	other, _ := w.done(2, true) // between the same two keys
	files := w.export(j, s)
	for _, c := range []struct {
		file           string
		opens, foreign string
	}{{verify.FileRequestKey, j.request.Content, other.request.Content}, {verify.FileResultKey, j.result.Content, other.result.Content}} {
		o, err := verify.ParseOpening(string(files[c.file]))
		ok(t, err)
		if _, err := o.Open(c.opens); err != nil {
			t.Errorf("%s: %v", c.file, err)
		}
		for _, message := range []string{c.foreign, other.request.Content, other.result.Content} {
			if text, err := o.Open(message); !errors.Is(err, verify.ErrOpening) {
				t.Errorf("%s opens another message: %q, %v", c.file, text, err)
			}
		}
	}
	a, b := files[verify.FileRequestKey], files[verify.FileResultKey]
	if bytes.Equal(a, b) {
		t.Error("one key for both messages")
	}
}

// Credentials are for the provider only, not for the reader of an export.
func TestCredentialKeyIsNotExported(t *testing.T) {
	w := newWorld(t)
	w.vault = `{"DB_PASSWORD":"hunter2"}`
	j, s := w.done(1, true)
	files := w.export(j, s)
	if _, there := files[verify.FileRequestKey]; there {
		t.Error("what opens the request is in the export")
	}
	if _, there := files[verify.FileResultKey]; !there {
		t.Error("what opens the result is not")
	}
	for name, b := range files {
		if bytes.Contains(b, []byte("hunter2")) {
			t.Errorf("%s has the password", name)
		}
	}
	w.holds(files)
}

func TestKeyOmittedWithItsFile(t *testing.T) {
	w := newWorld(t)
	j, s := w.done(1, true)
	for _, c := range []struct{ without, gone, stays string }{
		{verify.FileBundle, verify.FileRequestKey, verify.FileResultKey},
		{verify.FileDelivery, verify.FileResultKey, verify.FileRequestKey},
		{verify.FileRequestKey, verify.FileRequestKey, verify.FileBundle},
		{verify.FileRequest, verify.FileRequestKey, verify.FileResultKey},
		{verify.FileResult, verify.FileResultKey, verify.FileRequestKey},
	} {
		files := w.export(j, s, c.without)
		if has(files, c.without) || has(files, c.gone) || !has(files, c.stays) {
			t.Errorf("without %s there is %s, or no %s", c.without, c.gone, c.stays)
		}
		w.holds(files)
	}
}

func TestExportWithoutOptionalFile(t *testing.T) {
	w := newWorld(t)
	j, s := w.done(1, true)
	w.reviewed(j, s)
	whole := w.export(j, s)
	lacks := []string{verify.FileEvidence, verify.FileWorker, verify.FileQuote, verify.FileQuoteKey}
	for _, name := range evidence.Optional() {
		files := w.export(j, s, name)
		if has(files, name) || len(files) >= len(whole) && !slices.Contains(lacks, name) {
			t.Errorf("%s is still there", name)
		}
		if name != verify.FileReceiptEvent { // without it, nothing states the receipt
			w.holds(files)
		}
	}
	files := w.export(j, s, evidence.Optional()...)
	if len(files) != 1 || !has(files, verify.FileReceipt) {
		t.Errorf("%d files, want the receipt alone", len(files))
	}
	for _, name := range []string{"bundel.nut", "", verify.FileReceipt, "../bundle.nut"} {
		if _, err := w.collect.Of(t.Context(), j.id, s, evidence.Options{Without: []string{name}}); !errors.Is(err, evidence.ErrNoFile) {
			t.Errorf("%q: %v, want that there is no such file", name, err)
		}
	}
}

func TestExportWithMissingBundle(t *testing.T) {
	w := newWorld(t)
	j, s := w.done(1, true)
	ok(t, os.Remove(w.blob(j.bundle)))
	_, err := w.collect.Of(t.Context(), j.id, s, evidence.Options{})
	if file, is := errors.AsType[*evidence.Error](err); !is || file.File != verify.FileBundle || !errors.Is(err, blob.ErrMissing) {
		t.Errorf("%v, want that %s is missing", err, verify.FileBundle)
	}
	files := w.export(j, s, verify.FileBundle)
	if has(files, verify.FileBundle) || has(files, verify.FileRequestKey) || !slices.Contains(w.holds(files), "delivery") {
		t.Error("the rest is not exported")
	}
}

func TestExportWithTooLargeDelivery(t *testing.T) {
	w := newWorld(t)
	j, s := w.done(1, false)
	ok(t, os.Truncate(w.blob(j.delivery), 64<<20+1)) // too large to be read
	_, err := w.collect.Of(t.Context(), j.id, s, evidence.Options{})
	if file, is := errors.AsType[*evidence.Error](err); !is || file.File != verify.FileDelivery || !errors.Is(err, blob.ErrTooLarge) {
		t.Errorf("%v, want that %s is too large", err, verify.FileDelivery)
	}
	if files := w.export(j, s, verify.FileDelivery); has(files, verify.FileDelivery) || !has(files, verify.FileBundle) {
		t.Error("the rest is not exported")
	}
}

func TestExportOfUnknownJob(t *testing.T) {
	w := newWorld(t)
	j, s := w.done(1, false)
	j.id = guild.JobID{9}
	if _, err := w.collect.Of(t.Context(), j.id, s, evidence.Options{}); err == nil || errors.Is(err, journal.ErrArchiveGone) {
		t.Errorf("%v", err)
	}
}
