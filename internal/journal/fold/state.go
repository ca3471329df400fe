package fold

import (
	"fmt"
	"reflect"
	"sync"
)

// State holds the state of a fold behind a lock, and makes and restores its snapshots. A fold embeds it and adds Apply and its
// methods for reading:
//
//	type Fold struct{ *fold.State[state] }
//
//	func NewFold() *Fold { return &Fold{fold.NewState[state]("audit", 1)} }
//
// S is a struct. Its exported fields are the members of the snapshot, by their JSON names. Each must be in a snapshot that is
// restored, so none may be omitted when empty. Its unexported fields are derived from the others: if *S has a method Derive,
// that computes them after a restore. If *S has a method Check() error, a snapshot for which it returns an error is not
// restored. A snapshot is encoded while the state changes. So large parts belong in a Table, and values behind slices and
// pointers must be replaced, never changed in place.
type State[S any] struct {
	name    string
	version int
	tables  [][]int // indexes of the fields that are a Table
	mu      sync.RWMutex
	s       S
}

// NewState returns an empty state of the fold with the given name, whose snapshots have the given version. It panics if S
// is not a struct as described.
func NewState[S any](name string, version int) *State[S] {
	st := &State[S]{name: name, version: version}
	st.tables = tablesOf(reflect.TypeFor[S](), nil)
	st.derive(&st.s)
	return st
}

// snapshotted is implemented by a *Table.
type snapshotted interface{ detach() }

// tablesOf returns the indexes of the tables among the exported fields of a struct and its embedded structs.
func tablesOf(t reflect.Type, above []int) (tables [][]int) {
	for i := range t.NumField() {
		field := t.Field(i)
		index := append(append([]int(nil), above...), i)
		switch {
		case !field.IsExported() && !field.Anonymous:
		case reflect.PointerTo(field.Type).Implements(reflect.TypeFor[snapshotted]()):
			tables = append(tables, index)
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			tables = append(tables, tablesOf(field.Type, index)...)
		case field.Type.Kind() == reflect.Map:
			panic(fmt.Sprintf("fold: %s.%s is a map, which a snapshot cannot copy: make it a Table", t, field.Name))
		}
	}
	return tables
}

// Name implements Fold.
func (st *State[S]) Name() string { return st.name }

// Version implements Fold.
func (st *State[S]) Version() int { return st.version }

// View calls look with the state, which does not change meanwhile. look must not change it.
func (st *State[S]) View(look func(*S)) {
	st.mu.RLock()
	defer st.mu.RUnlock()
	look(&st.s)
}

// Change calls change with the state. Nobody reads it meanwhile.
func (st *State[S]) Change(change func(*S)) {
	st.mu.Lock()
	defer st.mu.Unlock()
	change(&st.s)
}

// Copy returns a copy of the state. Its exported fields may be read while the state changes; its unexported ones are shared with
// the state.
func (st *State[S]) Copy() S {
	st.mu.Lock() // copying a table marks its parts as shared
	defer st.mu.Unlock()
	taken := st.s
	fields := reflect.ValueOf(&taken).Elem()
	for _, index := range st.tables {
		fields.FieldByIndex(index).Addr().Interface().(snapshotted).detach()
	}
	return taken
}

// Freeze implements Fold.
func (st *State[S]) Freeze() func() ([]byte, error) {
	taken := st.Copy()
	return func() ([]byte, error) { return Encode(&taken) }
}

// Restore implements Fold.
func (st *State[S]) Restore(b []byte) error {
	var s S
	if err := DecodeWhole(b, &s); err != nil {
		return fmt.Errorf("%s: %w", st.name, err)
	}
	if c, ok := any(&s).(interface{ Check() error }); ok {
		if err := c.Check(); err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
	}
	st.derive(&s)
	st.mu.Lock()
	defer st.mu.Unlock()
	st.s = s
	return nil
}

func (st *State[S]) derive(s *S) {
	if d, ok := any(s).(interface{ Derive() }); ok {
		d.Derive()
	}
}

// Read returns what look returns of a fold's state.
func Read[S, T any](st *State[S], look func(*S) T) (found T) {
	st.View(func(s *S) { found = look(s) })
	return found
}
