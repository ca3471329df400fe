package fold_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"guild/internal/journal/fold"
)

func TestTableBehavesLikeMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table fold.Table[int, int]
		model := map[int]int{}
		var copies []fold.Table[int, int]
		var models []map[int]int
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			k := rapid.IntRange(0, 40).Draw(t, "key")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				copies, models = append(copies, table.Clone()), append(models, maps.Clone(model))
			case 1, 2:
				table.Delete(k)
				delete(model, k)
			default:
				v := rapid.Int().Draw(t, "value")
				table.Set(k, v)
				model[k] = v
			}
			if v, ok := table.Get(k); v != model[k] || table.Has(k) != ok || table.Len() != len(model) {
				t.Fatalf("%d is %d of %d", k, v, table.Len())
			}
		}
		for i, c := range append(copies, table) {
			if want := append(models, model)[i]; !maps.Equal(maps.Collect(c.All()), want) || c.Len() != len(want) {
				t.Fatalf("copy %d: %v, want %v", i, maps.Collect(c.All()), want)
			}
		}
	})
}

func TestTableCopyIsIndependent(t *testing.T) {
	var table fold.Table[string, int]
	table.Set("a", 1)
	other := table.Clone()
	other.Set("a", 2)
	other.Delete("b")
	if table.Of("a") != 1 || other.Of("a") != 2 {
		t.Errorf("%d and %d", table.Of("a"), other.Of("a"))
	}
}

func TestTableJSON(t *testing.T) {
	type state struct {
		Table fold.Table[string, int] `json:"table"`
	}
	var s, back state
	for n := range 5 {
		s.Table.Set(fmt.Sprint("k", n), n)
	}
	b, err := json.Marshal(s)
	if want := `{"table":{"k0":0,"k1":1,"k2":2,"k3":3,"k4":4}}`; err != nil || string(b) != want {
		t.Fatalf("%s, %v", b, err)
	}
	if err := json.Unmarshal(b, &back); err != nil || !maps.Equal(maps.Collect(back.Table.All()), maps.Collect(s.Table.All())) {
		t.Errorf("%v, %v", maps.Collect(back.Table.All()), err)
	}
	if b, err := json.Marshal(state{}); string(b) != `{"table":{}}` {
		t.Errorf("an empty one: %s, %v", b, err)
	}
	if err := json.Unmarshal([]byte(`{"table":null}`), &back); err == nil {
		t.Error("null is taken for a table")
	}
}

func BenchmarkTableClone(b *testing.B) {
	var table fold.Table[int, int]
	for n := range 1_000_000 {
		table.Set(n, n)
	}
	for b.Loop() {
		_ = table.Clone()
		table.Set(7, 7) // and the first write after it
	}
}
