package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"guild"
	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/seal"
)

// told is a fold of the reasons of closed jobs, which forgets those of a shredded job.
type told struct{ *fold.State[reasons] }

type reasons struct {
	Of fold.Table[fact.Subject, string] `json:"of"`
}

func newTold() *told { return &told{fold.NewState[reasons]("told", 1)} }

func (f *told) Apply(e fact.Entry) {
	f.Change(func(s *reasons) {
		for _, one := range e.Facts {
			switch one := one.(type) {
			case fact.JobClosed:
				s.Of.Set(e.Subject, one.Reason)
			case fact.JobShredded:
				s.Of.Set(e.Subject, "")
			}
		}
	})
}

func (f *told) of(guard fact.Subject) string {
	return fold.Read(f.State, func(s *reasons) string { return s.Of.Of(guard) })
}

const (
	words        = "a secret recipe"
	shredded     = fact.Subject("job.1")
	other        = fact.Subject("job.2")
	otherWords   = "kept words"
	shredEntries = 8
)

// spoken makes a journal in which two jobs say something, and closes it.
func spoken(t *testing.T, archive bool) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	j := openWith(t, dir, newTold())
	for i := range shredEntries {
		guard, said := shredded, words
		if i%2 == 1 {
			guard, said = other, otherWords
		}
		say(t, j, guard, fact.JobClosed{Reason: said})
	}
	if archive {
		if _, err := j.Archive(t.Context(), time.Now().Add(time.Hour), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func openWith(t *testing.T, dir string, folds ...fold.Fold) *Journal {
	t.Helper()
	o := quietly(dir)
	o.Folds = folds
	j, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func say(t *testing.T, j *Journal, guard fact.Subject, facts ...fact.Fact) {
	t.Helper()
	if err := j.Do(t.Context(), guard, "", func(tx *Tx) error { tx.Append(facts...); return nil }); err != nil {
		t.Fatal(err)
	}
}

// holding lists the files below a directory that contain a text, also when they are decompressed.
func holding(t *testing.T, dir, text string) (files []string) {
	t.Helper()
	unzip, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unzip.Close()
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if plain, err := unzip.DecodeAll(b, nil); err == nil {
			b = plain
		}
		if bytes.Contains(b, []byte(text)) {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestShreddedWordsAreGone(t *testing.T) {
	for _, archive := range []bool{false, true} {
		dir := spoken(t, archive)
		f := newTold()
		j := openWith(t, dir, f)
		before, root, err := j.Tree(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f.of(shredded) != words || len(holding(t, dir, words)) == 0 {
			t.Fatalf("%q, in %v", f.of(shredded), holding(t, dir, words))
		}
		say(t, j, shredded, fact.JobShredded{})
		if err := j.Shred(t.Context(), shredded); err != nil {
			t.Fatal(err)
		}
		if files := holding(t, dir, words); len(files) > 0 {
			t.Errorf("archived %v: the words are in %v", archive, files)
		}
		// What is said under the guard afterwards keeps no words either.
		say(t, j, shredded, fact.JobClosed{Ending: "x", Reason: words})
		if f.of(shredded) != "" || f.of(other) != otherWords {
			t.Errorf("the fold says %q and %q", f.of(shredded), f.of(other))
		}
		proveAll(t, j, before, root)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if found, err := Check(t.Context(), CheckOptions{Dir: dir}); err != nil || len(found.Faults) > 0 {
			t.Errorf("archived %v: %+v, %v", archive, found.Faults, err)
		}
		if err := os.RemoveAll(filepath.Join(dir, "snapshot")); err != nil {
			t.Fatal(err)
		}
		again := newTold()
		j = openWith(t, dir, again)
		if again.of(shredded) != "" || again.of(other) != otherWords {
			t.Errorf("after a replay the fold says %q and %q", again.of(shredded), again.of(other))
		}
		proveAll(t, j, before, root)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if files := holding(t, dir, words); len(files) > 0 {
			t.Errorf("archived %v: the words are in %v", archive, files)
		}
	}
}

// proveAll checks that each of the first size entries is still proven to be in the tree of then.
func proveAll(t *testing.T, j *Journal, size uint64, root guild.Hash) {
	t.Helper()
	for seq := uint64(1); seq <= size; seq++ {
		entry, err := j.Stored(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		p, err := j.Prove(t.Context(), seq, size)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(seal.Leaf(entry), root); err != nil {
			t.Errorf("entry %d: %v", seq, err)
		}
	}
}

func TestMissingKeyIsDamage(t *testing.T) {
	for name, c := range map[string]struct {
		lose func([]byte) []byte
		want string
		left int // bytes of keys that are put aside
	}{
		"no keys":         {func([]byte) []byte { return nil }, "2 keys are missing", 0},
		"another key":     {func(b []byte) []byte { b[3] ^= 1; return b }, "1 of the keys", len(key{}.line(shredded))},
		"one line":        {func(b []byte) []byte { return b[bytes.IndexByte(b, '\n')+1:] }, "1 keys are missing", 0},
		"no line at all":  {func(b []byte) []byte { return append([]byte("x\n"), b[bytes.IndexByte(b, '\n')+1:]...) }, "1 of the keys", 2},
		"another's guard": {func(b []byte) []byte { return bytes.Replace(b, []byte(shredded), []byte("job.7"), 1) }, "1 of the keys", len(key{}.line(shredded))},
	} {
		t.Run(name, func(t *testing.T) {
			dir := spoken(t, false)
			alter(t, files(dir).keys(), c.lose)
			o := quietly(dir)
			_, err := Open(t.Context(), o)
			if damage, ok := errors.AsType[*DamagedError](err); !ok || !strings.Contains(damage.What, c.want) {
				t.Fatalf("got %v", err)
			}
			if checked, err := Check(t.Context(), CheckOptions{Dir: dir}); err != nil || len(checked.Faults) != 1 || !strings.Contains(checked.Faults[0].What, c.want) {
				t.Errorf("%+v, %v", checked.Faults, err)
			}
			report, err := Repair(t.Context(), o)
			if err != nil || len(report.Dropped) > 0 || !strings.Contains(report.Reason, c.want) {
				t.Fatalf("%+v, %v", report, err)
			}
			if !slices.Contains(report.Wordless, shredded) || !slices.Equal(report.Quarantined, report.Wordless) {
				t.Errorf("without words are %q, in quarantine %q", report.Wordless, report.Quarantined)
			}
			if left, _ := os.ReadFile(filepath.Join(report.Aside, "keys")); len(left) != c.left {
				t.Errorf("put aside: %q", left)
			}
			f := newTold()
			j := openWith(t, dir, f)
			if f.of(shredded) != "" {
				t.Errorf("%q", f.of(shredded))
			}
			if want := name != "no keys"; (f.of(other) == otherWords) != want {
				t.Errorf("the other says %q", f.of(other))
			}
			if e, err := j.Entry(t.Context(), 1); err != nil || e.Sealed == nil {
				t.Errorf("%+v, %v", e, err)
			}
		})
	}
}

// A key that was written without its entry, and one that was cut by a crash, do no harm.
func TestInterruptedKeyIsHarmless(t *testing.T) {
	dir := spoken(t, false)
	alter(t, files(dir).keys(), func(b []byte) []byte {
		line := key{0xab}.line("job.7")
		return append(append(b, line...), line[:20]...)
	})
	erase(t, files(dir).snapshots())
	f := newTold()
	j := openWith(t, dir, f)
	for _, guard := range []fact.Subject{"job.7", "job.8"} {
		say(t, j, guard, fact.JobClosed{Reason: "new"})
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	erase(t, files(dir).snapshots())
	f = newTold()
	openWith(t, dir, f)
	for guard, want := range map[fact.Subject]string{shredded: words, "job.7": "new", "job.8": "new"} {
		if f.of(guard) != want {
			t.Errorf("%s says %q", guard, f.of(guard))
		}
	}
}

// Entries of a program without encryption are read, and told as such.
func TestPlainEntriesAreExposed(t *testing.T) {
	plain := fact.Entry{V: fact.Version, Facts: []fact.Fact{fact.JobClosed{Reason: words}}}
	data, err := plain.Encode()
	if err != nil {
		t.Fatal(err)
	}
	k, err := openKeys(filepath.Join(t.TempDir(), "keys"), true)
	if err != nil {
		t.Fatal(err)
	}
	m, err := k.read(1, shredded, data)
	if err != nil || m.entry.Facts[0].(fact.JobClosed).Reason != words {
		t.Fatalf("%+v, %v", m.entry, err)
	}
	if exposed, err := m.entry.Exposed(); err != nil || !exposed {
		t.Errorf("%v, %v", exposed, err)
	}
	for _, one := range []fact.Fact{fact.JobClosed{Ending: "x"}, fact.JobShredded{}} {
		if exposed, err := (fact.Entry{Facts: []fact.Fact{one}}).Exposed(); err != nil || exposed {
			t.Errorf("%T: %v, %v", one, exposed, err)
		}
	}
}

// plainly appends an entry as programs without encryption did.
func plainly(t *testing.T, j *Journal, guard fact.Subject, facts ...fact.Fact) {
	t.Helper()
	tip, _, err := j.state.tip(guard)
	if err != nil {
		t.Fatal(err)
	}
	m := message{subject: guard, entry: fact.Entry{V: fact.Version, At: time.Now().UnixMilli(), By: "old", Prev: tip.prev(), Facts: facts}}
	if err := m.encode(nil); err != nil {
		t.Fatal(err)
	}
	s, err := j.server(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seq, err := j.publish(t.Context(), s, tip, m)
	if err == nil {
		err = j.recorded(t.Context(), s, m, seq)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A journal of an older program has entries in clear, and its stream takes smaller ones only.
func TestOlderJournalGoesOn(t *testing.T) {
	dir := t.TempDir()
	if err := Init(dir); err != nil {
		t.Fatal(err)
	}
	j := openWith(t, dir)
	plainly(t, j, shredded, fact.JobClosed{Reason: words})
	cfg := j.store.Load().facts.CachedInfo().Config
	cfg.MaxMsgSize = fact.MaxEntry + 4<<10
	if _, err := j.store.Load().js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}

	f := newTold()
	j = openWith(t, dir, f)
	say(t, j, shredded, fact.JobClosed{Reason: strings.Repeat("x", fact.MaxEntry-400)})
	plainly(t, j, other, fact.JobClosed{Reason: otherWords})
	size, root, err := j.Tree(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	say(t, j, shredded, fact.JobShredded{})
	if err := j.Shred(t.Context(), shredded); err != nil {
		t.Fatal(err)
	}
	var exposed []uint64
	for e, err := range j.Of(t.Context(), shredded) {
		if err != nil {
			t.Fatal(err)
		}
		if is, err := e.Exposed(); err != nil || is {
			exposed = append(exposed, e.Seq)
		}
	}
	if !slices.Equal(exposed, []uint64{1}) {
		t.Errorf("exposed are %v", exposed)
	}
	proveAll(t, j, size, root)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	erase(t, files(dir).snapshots())
	f = newTold()
	openWith(t, dir, f)
	if f.of(shredded) != "" || f.of(other) != otherWords {
		t.Errorf("the fold says %q and %q", f.of(shredded), f.of(other))
	}
}
