package record

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/journal/fact"
)

func TestTrajectoryIsRedacted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, job := newArchive(t), guild.JobID{1}
		id := a.opened(job, 1)
		secrets := []string{"sk-ant-api03-" + strings.Repeat("x7Q", 12), strings.Repeat("ab", 32)}
		a.append(job, fact.AttemptProgressed{Attempt: id, Event: nostr.ID{9}, Status: "partial", Text: "I use api_key=" + secrets[0]})
		a.append(job, fact.AttemptDelivered{Attempt: id, Result: nostr.ID{8}, Delivery: delivery, Size: 8,
			Away: &fact.Place{URL: "https://blobs.example/1", Key: secrets[1]}})
		a.append(job, fact.AttemptJudged{Attempt: id, Hash: guild.Sum([]byte("verdict")), Stored: guild.Sum([]byte("stored")),
			Verdict: guild.Verdict{Outcome: guild.Success, Score: 1_000_000}})
		r := a.recorded(id)
		raw, err := a.blobs.ReadAll(r.Replay, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%q stands in\n%s", secret, raw)
			}
		}
		if !bytes.Contains(raw, []byte("https://blobs.example/1")) || !bytes.Contains(raw, []byte("[redacted:")) {
			t.Errorf("it does not say what was left out:\n%s", raw)
		}
		if _, hash := a.replayed(r.Replay); hash != r.Trajectory {
			t.Errorf("the hash is of something else: %s, %s", hash, r.Trajectory)
		}
	})
}
