package audit

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"guild"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
)

// BenchmarkMillion seals, proves and verifies a journal of 1,000,000 entries, or of as many as SEAL_ENTRIES says:
//
//	go test ./internal/step/audit -run - -bench Million -benchtime 1x -timeout 30m
//
// Making the journal takes a few minutes, and is not measured.
func BenchmarkMillion(b *testing.B) {
	entries := 1_000_000
	if n, err := strconv.Atoi(os.Getenv("SEAL_ENTRIES")); err == nil {
		entries = n
	}
	dir, f := b.TempDir(), NewFold()
	j := many(b, dir, f, entries)
	s := New(Config{Journal: j, Signer: us, Now: time.Now}, f)
	last := j.Last()
	b.Run("seal", func(b *testing.B) {
		for b.Loop() {
			if err := os.RemoveAll(filepath.Join(dir, "hashes")); err != nil {
				b.Fatal(err)
			}
			if _, err := s.sign(b.Context()); err != nil { // computes all hashes and a signature
				b.Fatal(err)
			}
		}
	})
	if _, err := s.Seal(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Run("prove", func(b *testing.B) {
		size, i := 0, uint64(0)
		for b.Loop() {
			p, err := s.Prove(b.Context(), i*7919%last+1)
			if err != nil {
				b.Fatal(err)
			}
			encoded, err := p.Proof.Encode()
			if err != nil {
				b.Fatal(err)
			}
			size, i = max(size, len(encoded)), i+1
		}
		b.ReportMetric(float64(size), "proof-B")
	})
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			r, err := Verify(b.Context(), VerifyOptions{Dir: dir, Signer: pubkey(us)})
			if err != nil || !r.OK() || r.Sealed != last {
				b.Fatal(r, err)
			}
		}
	})
}

// many creates a journal of entries entries with about a tenth as many subjects.
func many(b *testing.B, dir string, f *Fold, entries int) *journal.Journal {
	b.Helper()
	if err := journal.Init(dir); err != nil {
		b.Fatal(err)
	}
	j, err := journal.Open(b.Context(), journal.Options{Dir: dir, Node: "test", Now: time.Now, Folds: []fold.Fold{f},
		NoSync: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	const writers = 8
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range entries / writers {
				subject := fact.Subject(fmt.Sprintf("job.%d-%d", w, i/10))
				err := j.Do(b.Context(), subject, "", func(tx *journal.Tx) error {
					tx.Append(fact.JobClosed{Ending: guild.Ending("accepted"), Reason: "benchmark"})
					return nil
				})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	writing.Wait()
	return j
}
