package fold_test

import (
	"errors"
	"strings"
	"testing"

	"guild/internal/journal/fact"
	"guild/internal/journal/fold"
	"guild/internal/journal/fold/foldtest"
)

type ledger struct {
	Count    int                     `json:"count"`
	Names    fold.Table[string, int] `json:"names"`
	Last     *string                 `json:"last"`
	backward map[int]string
}

func (l *ledger) Derive() {
	l.backward = map[int]string{}
	for name, n := range l.Names.All() {
		l.backward[n] = name
	}
}

func (l *ledger) Check() error {
	if l.Count < l.Names.Len() {
		return errors.New("more names than were set")
	}
	return nil
}

func (l *ledger) set(name string, n int) {
	l.Count++
	l.Names.Set(name, n)
	l.Last = &name
	l.backward[n] = name
}

type ledgerFold struct{ *fold.State[ledger] }

func newLedgerFold() ledgerFold { return ledgerFold{fold.NewState[ledger]("ledger", 7)} }

func (ledgerFold) Apply(fact.Entry) {}

func (f ledgerFold) name(n int) string {
	return fold.Read(f.State, func(l *ledger) string { return l.backward[n] })
}

func TestStateSnapshot(t *testing.T) {
	f := newLedgerFold()
	f.Change(func(l *ledger) { l.set("a", 1) })
	encode := f.Freeze()
	f.Change(func(l *ledger) { l.set("b", 2) })
	b, err := encode()
	if want := `{"count":1,"names":{"a":1},"last":"a"}`; err != nil || string(b) != want {
		t.Fatalf("got %s, %v, want %s", b, err, want)
	}
	if f.Name() != "ledger" || f.Version() != 7 {
		t.Errorf("got %s %d, want ledger 7", f.Name(), f.Version())
	}
	again := newLedgerFold()
	if err := again.Restore(b); err != nil {
		t.Fatal(err)
	}
	if got := again.name(1); got != "a" {
		t.Errorf("derived name: got %q, want a", got)
	}
	again.Change(func(l *ledger) { l.set("c", 3) })
	if got := foldtest.Snapshot(t, again); got != `{"count":2,"names":{"a":1,"c":3},"last":"c"}` {
		t.Errorf("after the restore: %s", got)
	}
	if got := foldtest.Snapshot(t, f); got != `{"count":2,"names":{"a":1,"b":2},"last":"b"}` {
		t.Errorf("the first fold became %s", got)
	}
}

func TestStateCopy(t *testing.T) {
	f := newLedgerFold()
	f.Change(func(l *ledger) { l.set("a", 1) })
	l := f.Copy()
	f.Change(func(l *ledger) { l.set("b", 2) })
	if l.Count != 1 || l.Names.Len() != 1 || !l.Names.Has("a") || *l.Last != "a" {
		t.Errorf("got %d, %d names, last %s, want 1, 1, a", l.Count, l.Names.Len(), *l.Last)
	}
}

func TestStateRestoreDemandsEveryMember(t *testing.T) {
	f := newLedgerFold()
	f.Change(func(l *ledger) { l.set("a", 1) })
	foldtest.Refuses(t, f, foldtest.Partial(t, f)...)
}

func TestStateRestoreChecksTheState(t *testing.T) {
	f := newLedgerFold()
	f.Change(func(l *ledger) { l.set("a", 1) })
	foldtest.Refuses(t, f, `{"count":1,"names":{"a":1,"b":2},"last":"b"}`)
}

func TestStateRefusesMaps(t *testing.T) {
	defer func() {
		if got, _ := recover().(string); !strings.Contains(got, "Jobs is a map") {
			t.Errorf("got panic %q, want one that names the field", got)
		}
	}()
	fold.NewState[struct{ Jobs map[string]int }]("jobs", 1)
}
