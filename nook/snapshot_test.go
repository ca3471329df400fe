package nook_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"

	"guild/nook"
)

func TestSnapshotKeepsEverything(t *testing.T) {
	a := full(t)
	now := int64(start + 9*oracleDay)
	var again nook.Account
	if err := json.Unmarshal([]byte(snapshot(t, a)), &again); err != nil {
		t.Fatal(err)
	}
	if x, y := a.Profile("a", now, nil), again.Profile("a", now, nil); !reflect.DeepEqual(x, y) {
		t.Errorf("%+v, want\n%+v", y, x)
	}
	if got := again.Add(lively()[9]); got != nook.Duplicate {
		t.Errorf("an event of the snapshot is new to it: %v", got)
	}
	if err := again.Import(lively()[0].Event); err != nook.ErrHistory {
		t.Error(err)
	}
}

func TestReadersOfASettledAccount(t *testing.T) {
	a := full(t) // with a late event
	a.Settle()
	now := int64(start + 9*oracleDay)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			a.Profile("a", now, nil)
			if _, err := json.Marshal(a); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait() // go test -race checks that nobody writes
}

func TestBadSnapshot(t *testing.T) {
	good := snapshot(t, full(t))
	for _, c := range [][3]string{
		{`"version":1`, `"version":2`, "version 2, this program reads 1"},
		{`"clock":`, `"clock":-`, "out of range"},
		{`"clock":`, `"clok":`, "unknown field"},
		{`"id":"a"`, `"id":"zz"`, "not in order"},
		{`"units":["`, `"units":["","`, "damaged"},
		{`"window":"`, `"window":"////`, "damaged"},
		{`"what":`, `"what":9`, "unknown reward"},
		{`"chestTier":1`, `"chestTier":7`, "out of range"},
	} {
		bad := strings.Replace(good, c[0], c[1], 1)
		var a nook.Account
		if err := json.Unmarshal([]byte(bad), &a); bad == good || err == nil || !strings.Contains(err.Error(), c[2]) {
			t.Errorf("%s: %v, want %q", c[1], err, c[2])
		}
	}
	var a nook.Account
	if err := a.UnmarshalJSON([]byte(good + "{}")); err == nil {
		t.Error("two snapshots were read as one")
	}
}

func FuzzSnapshot(f *testing.F) {
	f.Add([]byte(snapshot(f, full(f))))
	f.Add([]byte(snapshot(f, nook.New(""))))
	f.Fuzz(func(t *testing.T, b []byte) {
		var a, again nook.Account
		if json.Unmarshal(b, &a) != nil || a.Root() == "" {
			return
		}
		once := snapshot(t, &a)
		if err := json.Unmarshal([]byte(once), &again); err != nil {
			t.Fatalf("%q was written and cannot be read: %v", once, err)
		}
		if twice := snapshot(t, &again); twice != once {
			t.Fatalf("%q became %q", once, twice)
		}
		a.Add(work("1", start, "u", 5000))
		a.Profile("a", start, nil)
	})
}
