package fold

import (
	"crypto/sha256"
	"testing"
)

func FuzzASnapshotFileIsReadOrRefused(f *testing.F) {
	sealed := func(b []byte) []byte {
		sum := sha256.Sum256(b)
		return append(b, sum[:]...)
	}
	f.Add([]byte(`{"fold":"jobs","version":1,"seq":7,"prefix":""}` + "\nstate"))
	f.Add([]byte("\n"))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := parse(b); err == nil && len(b) < sha256.Size {
			t.Error("a file without a sum is read")
		}
		whole := sealed(b)
		snap, err := parse(whole)
		if err == nil && len(snap.State) > len(b) {
			t.Error("there is more state than file")
		}
	})
}
