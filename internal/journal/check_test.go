package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"guild"
	"guild/internal/durable"
	"guild/internal/journal/fact"
	"guild/seal"
)

func TestLeavesMatchSeal(t *testing.T) {
	for _, subject := range []fact.Subject{"job.1", ""} {
		if leafOf(subject, []byte(`{"v":1}`)) != seal.Leaf([]byte(subject+"\n"+`{"v":1}`)) {
			t.Errorf("%q: another leaf", subject)
		}
	}
}

// sealedJournal is a closed journal and its seals.
type sealedJournal struct {
	dir      string
	all      []message // all entries
	archived int       // number of archived entries
	signed   map[Claim]bool
	latest   Claim
}

// made makes a journal of n entries, with a seal every 25 entries and at the end, and archives if wanted.
func made(t *testing.T, n int, archive bool) *sealedJournal {
	t.Helper()
	s := &sealedJournal{dir: t.TempDir(), signed: map[Claim]bool{}}
	if err := files(s.dir).make(high{Journal: "THEID"}); err != nil { // with a random one, the bytes of an archive would be too
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	j, err := Open(t.Context(), Options{Dir: s.dir, Node: "test", Now: func() time.Time { return now }, NoSync: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for j.Last() < uint64(n) {
		now = now.Add(time.Minute)
		i := j.Last()
		subject, f := fact.Subject(fmt.Sprintf("job.%02d", i%7)), fact.Fact(fact.JobClosed{Ending: "x", Reason: fmt.Sprint("because of ", i)})
		if i%25 == 24 || i == uint64(n)-1 {
			subject, f = fact.SealSubject, s.sign(t, j)
		}
		if err := j.Do(t.Context(), subject, "", func(tx *Tx) error { tx.Append(f); return nil }); err != nil {
			t.Fatal(err)
		}
		if archive && (i == 60 || i == 90) {
			if _, err := j.Archive(t.Context(), now.Add(-10*time.Minute), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, _, err := j.Tree(t.Context()); err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= j.Last(); seq++ {
		m, err := j.stored(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		s.all = append(s.all, m)
	}
	s.archived = int(j.mark.get().Archived)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sealedJournal) sign(t *testing.T, j *Journal) fact.JournalSealed {
	t.Helper()
	size, root, err := j.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.latest = Claim{Size: size, Root: root}
	s.signed[s.latest] = true
	return fact.JournalSealed{Size: size, Root: root}
}

// check checks a copy of the journal, in dir.
func (s *sealedJournal) check(t *testing.T, dir string, claims ...Claim) Checked {
	t.Helper()
	before := everything(t, dir)
	found, err := Check(t.Context(), CheckOptions{Dir: dir, Claims: claims, Of: fact.SealSubject, Claim: func(e fact.Entry) (Claim, error) {
		f, ok := e.Facts[0].(fact.JournalSealed)
		if c := (Claim{Size: f.Size, Root: f.Root}); ok && s.signed[c] {
			c.By = "a seal"
			return c, nil
		}
		return Claim{}, errors.New("a seal that nobody signed")
	}})
	if err != nil {
		t.Fatal(err)
	}
	if everything(t, dir) != before {
		t.Error("the check wrote something")
	}
	return found
}

// everything lists all files with their sizes and dates.
func everything(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		fmt.Fprintln(&all, path, info.Size(), info.ModTime())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func (s *sealedJournal) copy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(s.dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// relink numbers the entries anew and lets each name the one before it, as an attacker would.
func relink(t *testing.T, all []message) []message {
	t.Helper()
	tips := map[fact.Subject]tip{}
	for i := range all {
		m := &all[i]
		m.seq = uint64(i) + 1
		var e fact.Entry
		if err := json.Unmarshal(m.data, &e); err != nil {
			t.Fatal(err)
		}
		if prev := tips[m.subject].prev(); e.Prev != prev {
			e.Prev = prev
			data, err := e.Encode()
			if err != nil {
				t.Fatal(err)
			}
			m.data = data
		}
		tips[m.subject] = tip{hash: guild.Sum(m.data)}
	}
	return all
}

// write writes entries into the files of a journal, with the right checksums, checkpoints and file names.
func (s *sealedJournal) write(t *testing.T, dir string, all []message) {
	t.Helper()
	f := files(dir)
	through := min(s.archived, len(all))
	if through > 0 {
		old, err := f.archives()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range old {
			if err := os.Remove(a.path); err != nil {
				t.Fatal(err)
			}
		}
		writeArchiveOf(t, f, all[:through])
	}
	blocks, err := blocks(f.facts())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks[1:] {
		if err := os.Remove(b.path); err != nil {
			t.Fatal(err)
		}
	}
	var buf []byte
	for _, m := range all[through:] {
		buf = append(buf, sealed(blocks[0], m.seq, factsPrefix+string(m.subject), string(m.data))...)
	}
	if err := os.WriteFile(blocks[0].path, buf, 0o600); err != nil {
		t.Fatal(err)
	}
}

func writeArchiveOf(t *testing.T, f files, all []message) {
	t.Helper()
	id, err := f.identity()
	if err != nil {
		t.Fatal(err)
	}
	point := Checkpoint{Journal: id, From: 1, Through: uint64(len(all))}
	err = durable.Write(f.archived(1, point.Through), func(w io.Writer) error {
		return compress(w, func(lines *json.Encoder) error {
			err := writeEntries(lines, func(yield func(message, error) bool) {
				for _, m := range all {
					if !yield(m, nil) {
						return
					}
				}
			}, &point)
			return errors.Join(err, writeCheckpoint(context.Background(), lines, point, nil))
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// remember rewrites the high-water mark to fit the entries.
func (s *sealedJournal) remember(t *testing.T, dir string, all []message) {
	t.Helper()
	f := files(dir)
	h, err := readHigh(f.high())
	if err != nil {
		t.Fatal(err)
	}
	h.Peaks = nil
	var peaks []guild.Hash
	for _, m := range all {
		peaks = grow(peaks, leafOf(m.subject, m.data), m.seq)
		if m.seq == uint64(min(s.archived, len(all))) {
			h.Archived, h.Peaks = m.seq, slices.Clone(peaks)
		}
	}
	h.Seq, h.Root = uint64(len(all)), rootOf(peaks)
	if err := writeHigh(f.high(), h); err != nil {
		t.Fatal(err)
	}
}

// rehash rewrites the file of hashes to fit the entries.
func rehash(t *testing.T, dir string, all []message) {
	t.Helper()
	var b []byte
	var peaks []guild.Hash
	for _, m := range all {
		peaks = growing(peaks, leafOf(m.subject, m.data), m.seq, func(h guild.Hash) { b = append(b, h[:]...) })
	}
	if err := os.WriteFile(files(dir).hashes(), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func changed(m message) message {
	m.data = []byte(strings.Replace(string(m.data), `"ending":"x"`, `"ending":"y"`, 1))
	return m
}

// attacks returns changes of the entries at an index, by name.
func attacks() map[string]func(all []message, i int) []message {
	return map[string]func([]message, int) []message{
		"edited":   func(all []message, i int) []message { all[i] = changed(all[i]); return all },
		"deleted":  func(all []message, i int) []message { return slices.Delete(all, i, i+1) },
		"swapped":  func(all []message, i int) []message { all[i], all[i+1] = all[i+1], all[i]; return all },
		"inserted": func(all []message, i int) []message { return slices.Insert(all, i, changed(all[i])) },
		"moved":    func(all []message, i int) []message { m := all[i]; return append(slices.Delete(all, i, i+1), m) },
		"told of another": func(all []message, i int) []message {
			all[i].subject = "job.99"
			return all
		},
		"cut off": func(all []message, i int) []message { return all[:i] },
	}
}

// An attacker changes an entry and then adapts everything that no signature protects.
func TestCheckFindsChanges(t *testing.T) {
	const entries, tries = 160, 2
	for _, archive := range []bool{false, true} {
		s := made(t, entries, archive)
		if archive != (s.archived > 0) {
			t.Fatalf("%d entries are archived", s.archived)
		}
		if found := s.check(t, s.dir); len(found.Faults) > 0 || found.Entries != entries || found.Covered != entries-1 || found.Claims != len(s.signed) {
			t.Fatalf("of the journal as it was: %+v", found)
		}
		for name, attack := range attacks() {
			for _, effort := range []string{"nothing", "the mark", "the mark and the hashes"} {
				t.Run(fmt.Sprintf("archived=%v/%s/rewriting %s", archive, name, effort), func(t *testing.T) {
					random := rand.New(rand.NewPCG(7, uint64(len(name))))
					for range tries {
						i := random.IntN(entries - 30)
						if s.all[i].subject == fact.SealSubject || s.all[i+1].subject == s.all[i].subject {
							i++
						}
						s.attack(t, attack, i, effort, name == "cut off")
					}
				})
			}
		}
	}
}

func (s *sealedJournal) attack(t *testing.T, change func([]message, int) []message, i int, effort string, cutOff bool) {
	t.Helper()
	all := slices.Clone(s.all)
	all = relink(t, change(all, i))
	first := slices.IndexFunc(all, func(m message) bool {
		return int(m.seq) > len(s.all) || !slices.Equal(m.data, s.all[m.seq-1].data) || m.subject != s.all[m.seq-1].subject
	}) + 1
	if first == 0 {
		first = len(all) + 1
	}
	dir := s.copy(t)
	s.write(t, dir, all)
	if effort != "nothing" {
		s.remember(t, dir, all)
	}
	var elsewhere []Claim
	if effort == "the mark and the hashes" {
		rehash(t, dir, all)
		if cutOff { // nothing here knows of what is gone
			elsewhere = append(elsewhere, Claim{s.latest.Size, s.latest.Root, "a checkpoint from elsewhere"})
		}
	}
	found := s.check(t, dir, elsewhere...)
	if len(found.Faults) == 0 {
		t.Errorf("changed at entry %d, and nothing is found", first)
		return
	}
	f := found.Faults[0]
	exactly := effort != "the mark and the hashes" || cutOff
	switch {
	case f.Entry == 0 || f.What == "":
		t.Errorf("changed at entry %d: %+v does not say where", first, found.Faults)
	case exactly && f.Entry != uint64(first):
		t.Errorf("changed at entry %d: %+v", first, found.Faults)
	case !exactly && (f.Entry > uint64(first) || f.Entry+30 < uint64(first) || f.Through < uint64(first)):
		t.Errorf("changed at entry %d, which is not among those of %+v", first, found.Faults)
	}
	if cutOff && !strings.Contains(f.What, "missing") {
		t.Errorf("%q does not say how many are missing", f.What)
	}
}

// Here nothing is adapted to the change.
func TestCheckFindsDamagedFiles(t *testing.T) {
	s := made(t, 160, true)
	for name, c := range map[string]struct {
		damage func(t *testing.T, f files)
		file   string // that the first fault names
		entry  func(uint64) bool
	}{
		"a flipped byte in the stream": {func(t *testing.T, f files) { alter(t, theBlock(t, f), flipAt(0.8)) }, "stream", within(100, 150)},
		"a flipped byte at its end":    {func(t *testing.T, f files) { alter(t, theBlock(t, f), flipAt(0.999)) }, "stream", within(160, 160)},
		"a block that is cut": {func(t *testing.T, f files) {
			alter(t, theBlock(t, f), func(b []byte) []byte { return b[:len(b)*4/5] })
		}, "stream", within(100, 150)},
		"a block that is gone": {func(t *testing.T, f files) { erase(t, theBlock(t, f)) }, "", within(uint64(s.archived)+1, uint64(s.archived)+1)},
		"no stream":            {func(t *testing.T, f files) { erase(t, f.stream()) }, "", within(uint64(s.archived)+1, uint64(s.archived)+1)},
		"an archive that is gone": {func(t *testing.T, f files) { erase(t, theArchive(t, f, 1).path) }, "",
			within(50, 60)},
		"a flipped byte in an archive": {func(t *testing.T, f files) { alter(t, theArchive(t, f, 0).path, flipAt(0.999)) }, "archive", within(1, 60)},
		"an archive cut short": {func(t *testing.T, f files) {
			alter(t, theArchive(t, f, 0).path, func(b []byte) []byte { return b[:len(b)-200] })
		}, "archive", within(1, 60)},
		"an archive under another name": {func(t *testing.T, f files) {
			if err := os.Rename(theArchive(t, f, 0).path, f.archived(1, 40)); err != nil {
				t.Fatal(err)
			}
		}, "archive", within(1, 60)},
		"bytes after an archive": {func(t *testing.T, f files) {
			alter(t, theArchive(t, f, 0).path, func(b []byte) []byte { return append(b, b...) })
		}, "archive", within(0, 0)},
		"a lower mark":                 {func(t *testing.T, f files) { change(t, f, func(h *high) { h.Seq -= 30 }) }, "", within(1, 131)},
		"a higher mark":                {func(t *testing.T, f files) { change(t, f, func(h *high) { h.Seq += 30 }) }, "", within(161, 161)},
		"a mark that knows no archive": {func(t *testing.T, f files) { change(t, f, func(h *high) { h.Archived, h.Peaks = 0, nil }) }, "high", within(0, 0)},
		"a mark of another tree":       {func(t *testing.T, f files) { change(t, f, func(h *high) { h.Root[3] ^= 1 }) }, "", within(160, 160)},
		"a mark of another journal":    {func(t *testing.T, f files) { change(t, f, func(h *high) { h.Journal = "x" }) }, "high", within(0, 0)},
		"a mark that is no JSON":       {func(t *testing.T, f files) { alter(t, f.high(), func([]byte) []byte { return []byte("{") }) }, "high", within(0, 0)},
		"no mark":                      {func(t *testing.T, f files) { erase(t, f.high()) }, "high", within(0, 0)},
		"no marker":                    {func(t *testing.T, f files) { erase(t, f.marker()) }, "journal.json", within(0, 0)},
		"a record that says that an entry is deleted": {func(t *testing.T, f files) {
			alter(t, theBlock(t, f), func(b []byte) []byte {
				return append(b, sealed(block{stream: factsStream, index: 1}, 130|1<<62, factsPrefix, "")...)
			})
		}, "stream", within(130, 130)},
		"a stream that is described as nothing": {func(t *testing.T, f files) {
			alter(t, filepath.Join(f.facts(), "meta.inf"), func([]byte) []byte { return []byte("{}") })
		}, "stream", within(0, 0)},
		"a flipped byte in the description's sum": {func(t *testing.T, f files) {
			alter(t, filepath.Join(f.facts(), "meta.sum"), flipAt(0.5))
		}, "stream", within(0, 0)},
		"a file that only begins like an archive": {func(t *testing.T, f files) {
			a := theArchive(t, f, 1).path
			if err := os.Rename(a, a+".elsewhere"); err != nil {
				t.Fatal(err)
			}
		}, "", within(50, 60)},
		"a flipped byte in the hashes": {func(t *testing.T, f files) {
			alter(t, f.hashes(), func(b []byte) []byte { b[32*10] ^= 1; return b }) // the seventh leaf
		}, "hashes", within(7, 7)},
		"a flipped byte in an inner hash": {func(t *testing.T, f files) {
			alter(t, f.hashes(), func(b []byte) []byte { b[32*9] ^= 1; return b }) // of the entries 5 and 6
		}, "hashes", within(5, 5)},
		"hashes of more entries": {func(t *testing.T, f files) {
			alter(t, f.hashes(), func(b []byte) []byte { return append(b, make([]byte, 32*8)...) })
		}, "", within(161, 161)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := s.copy(t)
			c.damage(t, files(dir))
			found := s.check(t, dir)
			if len(found.Faults) == 0 {
				t.Fatal("nothing is found")
			}
			f := found.Faults[0]
			if !strings.HasPrefix(f.File, c.file) || !c.entry(f.Entry) || f.What == "" {
				t.Errorf("%+v", found.Faults)
			}
			if strings.HasPrefix(name, "a record that") || strings.Contains(name, "descri") { // the node does not open these either
				if _, err := Open(t.Context(), Options{Dir: dir, Node: "test", Now: time.Now, NoSync: true, Log: slog.New(slog.DiscardHandler)}); err == nil {
					t.Error("it opens")
				} else if _, ok := errors.AsType[*DamagedError](err); !ok {
					t.Error(err)
				}
			}
		})
	}
}

func TestCheckWithoutHashes(t *testing.T) {
	s := made(t, 60, false)
	erase(t, files(s.dir).hashes())
	if found := s.check(t, s.dir); len(found.Faults) > 0 || found.Covered != 59 {
		t.Errorf("%+v", found)
	}
}

func TestCheckEmptyJournal(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	found, err := Check(t.Context(), CheckOptions{Dir: dir})
	if err != nil || len(found.Faults) > 0 || found.Entries != 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if _, err := Check(t.Context(), CheckOptions{Dir: t.TempDir()}); !errors.Is(err, ErrNotInitialised) {
		t.Errorf("no journal: %v", err)
	}
}

// The node appends entries and hashes while its journal is checked.
func TestCheckDuringAppend(t *testing.T) {
	s := made(t, 60, false)
	dir, early := s.copy(t), s.all[:50]
	s.write(t, dir, early)
	s.remember(t, dir, early)
	rehash(t, dir, early)
	added := false
	found, err := Check(t.Context(), CheckOptions{Dir: dir, Of: fact.SealSubject, Claim: func(fact.Entry) (Claim, error) {
		if !added {
			rehash(t, dir, s.all)
			added = true
		}
		return Claim{}, nil
	}})
	if err != nil || !added || len(found.Faults) > 0 || found.Entries != 50 {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestCheckTimeout(t *testing.T) {
	s := made(t, 100, true)
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	if found, err := Check(ctx, CheckOptions{Dir: s.dir}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%+v, %v", found, err)
	}
}

func TestCheckClaimFromElsewhere(t *testing.T) {
	s := made(t, 60, false)
	root := rootOf(s.edge(40))
	if found := s.check(t, s.dir, Claim{40, root, "mine"}); len(found.Faults) > 0 {
		t.Errorf("%+v", found)
	}
	root[0] ^= 1
	found := s.check(t, s.dir, Claim{40, root, "mine"})
	if len(found.Faults) == 0 || found.Faults[0].Through != 40 || !strings.Contains(found.Faults[0].What, "mine") {
		t.Errorf("%+v", found)
	}
}

func (s *sealedJournal) edge(size int) (peaks []guild.Hash) {
	for _, m := range s.all[:size] {
		peaks = grow(peaks, leafOf(m.subject, m.data), m.seq)
	}
	return peaks
}

func within(from, through uint64) func(uint64) bool {
	return func(entry uint64) bool { return from <= entry && entry <= through }
}

func erase(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func alter(t *testing.T, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func flipAt(part float64) func([]byte) []byte {
	return func(b []byte) []byte { b[int(float64(len(b))*part)] ^= 1; return b }
}

func theBlock(t *testing.T, f files) string {
	t.Helper()
	all, err := blocks(f.facts())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d blocks, %v", len(all), err)
	}
	return all[0].path
}

func theArchive(t *testing.T, f files, i int) archiveFile {
	t.Helper()
	all, err := f.archives()
	if err != nil || len(all) != 2 {
		t.Fatalf("%d archive files, %v", len(all), err)
	}
	return all[i]
}

func change(t *testing.T, f files, how func(*high)) {
	t.Helper()
	h, err := readHigh(f.high())
	if err != nil {
		t.Fatal(err)
	}
	how(&h)
	if err := writeHigh(f.high(), h); err != nil {
		t.Fatal(err)
	}
}
