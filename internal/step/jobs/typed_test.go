package jobs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/judging/typed"
	"guild/nip90"
	"guild/oa"
)

// embedding returns a typed job and its bundle.
func embedding(t *testing.T, texts ...string) (oa.Envelope, []byte) {
	t.Helper()
	e, err := oa.NewEnvelope(oa.EmbeddingRequest{Texts: texts})
	if err != nil {
		t.Fatal(err)
	}
	packed, err := typed.Bundle(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return e, packed
}

// opensTyped opens an embedding job.
func (w *world) opensTyped(o Order) guild.JobID {
	w.Helper()
	o.Task, o.Kind = oa.Embedding, 5050
	id, err := w.Open(w.Context(), o)
	if err != nil {
		w.Fatal(err)
	}
	w.pass(0)
	return id
}

func TestTypedRequest(t *testing.T) {
	for _, encrypts := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			offer := alice.offers(0)
			offer.Encrypts = encrypts
			w := newWorld(t, offer)
			e, packed := embedding(t, "one", "two")
			id := w.opensTyped(Order{Bundle: packed, Inputs: []fact.Input{{Data: "beside", Type: "text"}}})
			sent := w.sent(5050)
			if len(sent) != 1 {
				t.Fatalf("%v", sent)
			}
			open := func(sender nostr.PubKey, text string) (string, error) {
				return alice.signer.Decrypt(t.Context(), text, sender)
			}
			r, err := nip90.ParseRequest(sent[0].Event, open)
			if err != nil {
				t.Fatal(err)
			}
			got, err := oa.ParseRequest(r)
			if err != nil || got.JobHash != e.JobHash || got.JobType != e.JobType {
				t.Errorf("%+v %v", got, err)
			}
			if r.Get(nip90.ParamJobHash) != e.JobHash.Hex() || r.Get(nip90.ParamBundleSHA256) != "" || len(r.Inputs) != 2 || r.Inputs[1].Data != "beside" || (r.Encrypted != "") != encrypts {
				t.Errorf("%+v", r)
			}
			if a := w.attempt(id); a.Planned.JobHash != e.JobHash {
				t.Errorf("%+v", a.Planned)
			}
		})
	}
}

func TestLargeTypedJobIsBundled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, alice.offers(0))
		_, packed := embedding(t, strings.Repeat("all work and no play ", 5000))
		w.opensTyped(Order{Bundle: packed})
		sent := w.sent(5050)
		if len(sent) != 1 {
			t.Fatalf("%v", sent)
		}
		r, err := nip90.ParseRequest(sent[0].Event, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := r.Bundle(); err != nil || p.Hash != guild.Sum(packed) {
			t.Errorf("%+v %v", p, err)
		}
	})
}

func TestTypedResultsAgreeByMeaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, people := trusted(t, 3)
		_, packed := embedding(t, "one")
		id := w.opensTyped(Order{Bundle: packed, Criticality: guild.High})
		for i, p := range people {
			job, _ := w.fold.Job(id)
			at := slices.IndexFunc(job.Attempts, func(a Attempt) bool { return a.Provider.PubKey == p.key })
			request := job.Attempts[at].ID
			vector := []string{"[1, 2]", "[2, -1]", "[1, 2.001]"}[i]
			content := fmt.Sprintf(`{"embeddings": [%s], "model_id": "m", "dimensions": 2, "provenance": {"executed_at": %d}}`, vector, i+1)
			if err := w.says(p, nostr.Event{Kind: 6050, Content: content, Tags: nostr.Tags{{"e", request.Hex()}}}); err != nil {
				t.Fatal(err)
			}
			w.append(id, fact.AttemptJudged{Attempt: request, Verdict: guild.Verdict{Outcome: guild.Success}})
			w.pass(0)
		}
		job := w.ends(id, guild.JobAccepted)
		if want := "2 of 3 accepted agree"; job.Reason != want {
			t.Errorf("%q", job.Reason)
		}
	})
}

func TestResultsAreMerged(t *testing.T) {
	for level, n := range map[guild.Criticality]int{guild.Medium: 2, guild.High: 3, guild.Critical: 5} {
		synctest.Test(t, func(t *testing.T) {
			w, people := trusted(t, n)
			e, err := oa.NewEnvelope(oa.RerankRequest{UserTask: "x", K: 2, Candidates: []oa.Candidate{
				{ID: "a", Content: "1"}, {ID: "b", Content: "2"}, {ID: "c", Content: "3"}, {ID: "d", Content: "4"}, {ID: "e", Content: "5"}, {ID: "f", Content: "6"},
			}})
			if err != nil {
				t.Fatal(err)
			}
			packed, err := typed.Bundle(t.Context(), e)
			if err != nil {
				t.Fatal(err)
			}
			id, err := w.Open(w.Context(), Order{Task: oa.RetrievalRerank, Kind: 5050, Bundle: packed, Criticality: level, Compare: "merge"})
			if err != nil {
				t.Fatal(err)
			}
			w.pass(0)
			var verdicts []fact.Fact
			for i, p := range people {
				job, _ := w.fold.Job(id)
				at := slices.IndexFunc(job.Attempts, func(a Attempt) bool { return a.Provider.PubKey == p.key })
				content := fmt.Sprintf(`{"topk": [{"rank": 1, "id": "a", "score": 1}, {"rank": 2, "id": "%c", "score": 0}]}`, 'b'+i)
				if err := w.says(p, nostr.Event{Kind: 6050, Content: content, Tags: nostr.Tags{{"e", job.Attempts[at].ID.Hex()}}}); err != nil {
					t.Fatal(err)
				}
				verdicts = append(verdicts, fact.AttemptJudged{Attempt: job.Attempts[at].ID, Verdict: guild.Verdict{Outcome: guild.Success}})
			}
			if _, err := w.Result(id); err == nil {
				t.Error("there is a result before there is a verdict")
			}
			w.append(id, verdicts...)
			w.pass(0)
			if job := w.ends(id, guild.JobAccepted); job.Reason != fmt.Sprintf("%d were merged into one", n) {
				t.Errorf("%s: %q", level, job.Reason)
			}
			result, err := w.Result(id)
			if err != nil || oa.Known().CheckResult(e.JobType, e.Payload, result) != nil || !strings.Contains(string(result), `"a"`) {
				t.Errorf("%s %v", result, err)
			}
		})
	}
}

func TestOneResultIsChosen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := trusted(t, 3)
		_, packed := embedding(t, "one")
		id := w.opensTyped(Order{Bundle: packed, Criticality: guild.High, Compare: "judge_model"})
		job, _ := w.fold.Job(id)
		if len(job.Attempts) != 3 {
			t.Fatalf("%d are asked", len(job.Attempts))
		}
		delivery, err := w.c.Blobs.PutBytes(t.Context(), packed)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range job.Attempts {
			w.append(id, fact.AttemptDelivered{Attempt: a.ID, Delivery: delivery})
		}
		w.append(id, fact.AttemptJudged{Attempt: job.Attempts[0].ID, Verdict: guild.Verdict{Outcome: guild.Partial}},
			fact.AttemptJudged{Attempt: job.Attempts[1].ID, Verdict: guild.Verdict{Outcome: guild.Success}},
			fact.AttemptJudged{Attempt: job.Attempts[2].ID, Verdict: guild.Verdict{Outcome: guild.Partial}})
		w.pass(0)
		if ended := w.ends(id, guild.JobAccepted); ended.Chosen != job.Attempts[1].ID || ended.Reason != "the one that was chosen" {
			t.Errorf("%+v", ended)
		}
	})
}

func TestOnlyTypedResultsAreComparedTogether(t *testing.T) {
	for _, c := range []struct{ task, how, says string }{
		{"benchmark-task", "judge_model", "typed jobs"},
		{"", "merge", "typed jobs"},
		{oa.SandboxRun, "merge", "cannot be merged"},
		{oa.Embedding, "merge", "cannot be merged"},
		{oa.CodeChunkAnalysis, "merge", ""},
		{oa.Embedding, "judge_model", ""},
	} {
		faults := Order{Kind: 5050, Task: c.task, Compare: c.how, Criticality: guild.High}.Check()
		if (len(faults) == 0) != (c.says == "") || !strings.Contains(faults.Error(), c.says) {
			t.Errorf("%s of %q: %v", c.how, c.task, faults)
		}
	}
}
