package jobs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"guild"
	"guild/internal/journal/fact"
	"guild/nutshell"
)

// crowd returns n providers that offer the task, the cheapest first.
func crowd(n int) (people []person, offers []guild.Offer) {
	for i := range n {
		p := newPerson(byte(10 + i))
		people, offers = append(people, p), append(offers, p.offers(guild.Msat(i+1)))
	}
	return people, offers
}

// trusted begins a world with n providers that are trusted with the task.
func trusted(t *testing.T, n int) (*world, []person) {
	t.Helper()
	people, offers := crowd(n)
	w := newWorld(t)
	w.offers = offers
	for _, p := range people {
		w.trust[p.service()] = 600_000
	}
	return w, people
}

// waiting returns the first unanswered attempt of a job, and its provider.
func (w *world) waiting(id guild.JobID, people []person) (Attempt, person, bool) {
	job, _ := w.fold.Job(id)
	for _, a := range job.Attempts {
		for _, p := range people {
			if a.State.Waiting() && a.Provider.PubKey == p.key {
				return a, p, true
			}
		}
	}
	return Attempt{}, person{}, false
}

// votes has the providers answer in the order in which they were asked: a letter is a delivery of it, and a minus
// a failing delivery.
func (w *world) votes(id guild.JobID, people []person, votes string) {
	w.Helper()
	for i, vote := range strings.Split(votes, "") {
		a, p, ok := w.waiting(id, people)
		if !ok {
			w.Errorf("nobody is asked for answer %d, %s", i+1, vote)
			return
		}
		if err := w.delivers(p, a.ID, made(w.T, i, map[string]string{"answer.txt": vote})); err != nil {
			w.Fatal(err)
		}
		w.rules(id, a, vote)
	}
}

// rules writes the verdict on an attempt.
func (w *world) rules(id guild.JobID, a Attempt, vote string) {
	w.Helper()
	outcome := guild.Success
	if vote == "-" {
		outcome = guild.Failure
	}
	w.append(id, fact.AttemptJudged{Attempt: a.ID, Verdict: guild.Verdict{Outcome: outcome, Score: guild.Micro}})
}

// lose takes a blob away, as a broken disk would.
func (w *world) lose(h guild.Hash) {
	w.Helper()
	if err := os.Remove(filepath.Join(w.blobDir, h.Hex())); err != nil {
		w.Fatal(err)
	}
}

// asking returns a bundle that names a comparer.
func asking(t *testing.T, comparer string) []byte {
	t.Helper()
	return packed(t, fstest.MapFS{"nutshell.json": {Data: fmt.Appendf(nil,
		`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-1","task":{"title":"x"},"extensions":{"guild":{"compare":%q}}}`, comparer)}})
}

func packed(t testing.TB, tree fstest.MapFS) []byte {
	t.Helper()
	var b bytes.Buffer
	if _, err := nutshell.Pack(t.Context(), tree, &b, nutshell.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// made returns a delivery of these files. Its own description differs each time.
func made(t testing.TB, n int, files map[string]string) []byte {
	t.Helper()
	tree := fstest.MapFS{
		"nutshell.json": {Data: fmt.Appendf(nil,
			`{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-%d","task":{"title":"x"}}`, n)},
		"delivery/result.json":           {Data: fmt.Appendf(nil, `{"status":"completed","summary":"answer %d"}`, n)},
		"delivery/artifacts/result.json": {Data: fmt.Appendf(nil, `{"summary":"answer %d"}`, n)},
		"delivery/logs/execution.log":    {Data: fmt.Appendf(nil, "took %d s", n)},
	}
	for name, content := range files {
		tree["delivery/artifacts/"+name] = &fstest.MapFile{Data: []byte(content)}
	}
	return packed(t, tree)
}
