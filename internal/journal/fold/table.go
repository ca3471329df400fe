package fold

import (
	"encoding"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/errgroup"
)

// shards is the number of parts of a table. After a Clone, the first write to a part copies that part.
const shards = 512

// Table is a map that can be copied in constant time. The zero value is empty. It is not safe for concurrent use, but a copy may
// be read while the original is changed. In JSON it is the same object as a map.
//
// Snapshots need this: every decision waits while the states are copied, and a state may have a million entries. A copy shares
// all parts with the original, which copies a part before it next writes to it.
type Table[K comparable, V any] struct {
	seed  maphash.Seed
	parts *[shards]part[K, V]
	size  int
}

// part holds the entries of a table whose keys have the same hash modulo shards. A shared part is copied before a write.
type part[K comparable, V any] struct {
	entries map[K]V
	shared  bool
}

// Len returns the number of entries.
func (t *Table[K, V]) Len() int { return t.size }

// Get returns the value of a key.
func (t *Table[K, V]) Get(k K) (V, bool) {
	if t.size == 0 {
		var none V
		return none, false
	}
	v, ok := t.part(k).entries[k]
	return v, ok
}

// Of returns the value of a key, or the zero value.
func (t *Table[K, V]) Of(k K) V {
	v, _ := t.Get(k)
	return v
}

// Has reports whether a key has a value.
func (t *Table[K, V]) Has(k K) bool {
	_, ok := t.Get(k)
	return ok
}

// Set sets the value of a key.
func (t *Table[K, V]) Set(k K, v V) {
	if t.parts == nil {
		t.parts, t.seed = &[shards]part[K, V]{}, maphash.MakeSeed()
	}
	p := t.part(k)
	p.own()
	before := len(p.entries)
	p.entries[k] = v
	t.size += len(p.entries) - before
}

// Delete removes a key.
func (t *Table[K, V]) Delete(k K) {
	if !t.Has(k) {
		return
	}
	p := t.part(k)
	p.own()
	delete(p.entries, k)
	t.size--
}

// All yields the entries in no particular order. The table must not be changed meanwhile.
func (t *Table[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		left := t.size
		for i := 0; i < shards && left > 0; i++ {
			entries := t.parts[i].entries
			if len(entries) == 0 {
				continue // to begin a range over a map takes longer, and in most tables most parts are empty
			}
			left -= len(entries)
			for k, v := range entries {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// Clone returns a copy. Values are assigned, so what they point to must not be changed in place.
func (t *Table[K, V]) Clone() Table[K, V] {
	if t.parts == nil {
		return Table[K, V]{}
	}
	for i := range t.parts {
		t.parts[i].shared = true
	}
	parts := *t.parts
	return Table[K, V]{seed: t.seed, parts: &parts, size: t.size}
}

// detach makes t a Clone of the table that it was assigned from.
func (t *Table[K, V]) detach() { *t = t.Clone() }

func (t *Table[K, V]) part(k K) *part[K, V] {
	return &t.parts[maphash.Comparable(t.seed, k)%shards]
}

func (p *part[K, V]) own() {
	switch {
	case p.entries == nil:
		p.entries = map[K]V{}
	case p.shared:
		p.entries = maps.Clone(p.entries)
	}
	p.shared = false
}

// MarshalJSON calls Encode.
func (t Table[K, V]) MarshalJSON() ([]byte, error) { return Encode(t) }

// UnmarshalJSON calls Decode.
func (t *Table[K, V]) UnmarshalJSON(b []byte) error { return Decode(b, t) }

// MarshalJSONTo writes an object with sorted keys.
func (t Table[K, V]) MarshalJSONTo(out *jsontext.Encoder) error {
	type entry struct {
		name  string
		value V
	}
	all := make([]entry, 0, t.size)
	for k, v := range t.All() {
		name, err := nameOf(k)
		if err != nil {
			return err
		}
		all = append(all, entry{name, v})
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	if err := out.WriteToken(jsontext.BeginObject); err != nil {
		return err
	}
	for i := range all {
		if err := out.WriteToken(jsontext.String(all[i].name)); err != nil {
			return err
		}
		if err := json.MarshalEncode(out, &all[i].value); err != nil {
			return err
		}
	}
	return out.WriteToken(jsontext.EndObject)
}

// batch is the number of values that are decoded by one goroutine.
const batch = 1000

// UnmarshalJSONFrom reads an object. It refuses null, since a snapshot without a table is incomplete. Batches of values are
// decoded concurrently: most of the time of a restart goes there.
func (t *Table[K, V]) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	if in.PeekKind() != '{' {
		return errors.New("a table must be an object")
	}
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	var keys []K
	var values []*[]V
	var decoding errgroup.Group
	decoding.SetLimit(runtime.GOMAXPROCS(0))
	options := in.Options()
	size := 0
	for in.PeekKind() == '"' {
		list := append(make([]byte, 0, size), '[')
		for n := 0; n < batch && in.PeekKind() == '"'; n++ {
			name, err := in.ReadToken()
			if err != nil {
				return errors.Join(err, decoding.Wait())
			}
			var k K
			if err := named(&k, name.String()); err != nil {
				return errors.Join(err, decoding.Wait())
			}
			value, err := in.ReadValue()
			if err != nil {
				return errors.Join(err, decoding.Wait())
			}
			keys = append(keys, k)
			list = append(append(list, value...), ',')
		}
		list[len(list)-1] = ']'
		size = len(list) + len(list)/8 // an estimate for the next batch
		decoded := new([]V)
		values = append(values, decoded)
		decoding.Go(func() error { return json.Unmarshal(list, decoded, options) })
	}
	if err := decoding.Wait(); err != nil {
		return err
	}
	var fresh Table[K, V]
	for n, k := range keys {
		fresh.Set(k, (*values[n/batch])[n%batch])
	}
	*t = fresh
	_, err := in.ReadToken()
	return err
}

// nameOf returns a key as the name of a member.
func nameOf(k any) (string, error) {
	switch k := k.(type) {
	case string:
		return k, nil
	case nostr.ID:
		return k.Hex(), nil
	case encoding.TextMarshaler:
		b, err := k.MarshalText()
		return string(b), err
	}
	if v := reflect.ValueOf(k); v.Kind() == reflect.String {
		return v.String(), nil
	}
	return "", fmt.Errorf("a %T cannot be a key of an object", k)
}

// named sets the key that k points to from the name of a member.
func named(k any, name string) error {
	switch k := k.(type) {
	case *string:
		*k = name
		return nil
	case *nostr.ID:
		return decodeHex(k[:], name)
	case encoding.TextUnmarshaler:
		return k.UnmarshalText([]byte(name))
	}
	if v := reflect.ValueOf(k).Elem(); v.Kind() == reflect.String {
		v.SetString(name)
		return nil
	}
	return fmt.Errorf("a %T cannot be a key of an object", k)
}
