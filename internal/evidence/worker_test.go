package evidence_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"guild"
	"guild/nutshell"
	"guild/replay"
	"guild/replay/session"
	"guild/verify"
)

// worked returns the trajectory of a worker, and its hash.
func worked(t *testing.T) (string, guild.Hash) {
	t.Helper()
	now := time.Now()
	r := session.New(session.Config{Producer: "guild@test", SessionID: "s", Created: now})
	_, err := r.Call(now, "exec", map[string]string{"command": "solve"})
	ok(t, err)
	raw, hash, err := session.Encode(r.End(now, replay.Success).Events)
	ok(t, err)
	return string(raw), hash
}

// deliveryWith packs a delivery with a trajectory.
func deliveryWith(t *testing.T, trajectory string) []byte {
	t.Helper()
	var b bytes.Buffer
	_, err := nutshell.Pack(t.Context(), fstest.MapFS{
		"nutshell.json":              {Data: []byte(`{"nutshell_version":"0.2.0","bundle_type":"delivery","id":"nut-d","task":{"title":"t"}}`)},
		"delivery/artifacts/out.txt": {Data: []byte("done")},
		nutshell.TrajectoryFile:      {Data: []byte(trajectory)},
	}, &b, nutshell.Options{})
	ok(t, err)
	return b.Bytes()
}

func TestExportHasWorkerTrajectory(t *testing.T) {
	trajectory, hash := worked(t)
	broken := strings.Replace(trajectory, `"total_tool_calls":1`, `"total_tool_calls":2`, 1)
	lied, err := replay.TrajectoryHash(strings.NewReader(broken))
	ok(t, err)
	for name, c := range map[string]struct {
		sent  string
		named guild.Hash
		there bool
	}{
		"as the result names it":      {trajectory, hash, true},
		"not named":                   {trajectory, guild.Hash{}, false},
		"another than the one named":  {broken, hash, false},
		"one that contradicts itself": {broken, lied, false},
		"named only":                  {"", hash, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			j := w.asked(1, true)
			j.delivery, j.trajectory = deliveryWith(t, c.sent), c.named
			w.delivered(&j)
			s := w.judged(j, guild.Success)
			files := w.export(j, s)
			if has(files, verify.FileWorker) != c.there || slices.Contains(w.holds(files), "worker trajectory") != c.there {
				t.Errorf("it is in the export: %v", has(files, verify.FileWorker))
			}
			for _, without := range []string{verify.FileWorker, verify.FileDelivery, verify.FileResult} {
				if files := w.export(j, s, without); has(files, verify.FileWorker) {
					t.Errorf("it is in an export without %s", without)
				}
			}
		})
	}
}
