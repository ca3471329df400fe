package fact

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"fiatjaf.com/nostr"

	"guild/cashu"
)

// filled sets everything that v can hold.
func filled(v reflect.Value) {
	if v.Type() == reflect.TypeFor[nostr.PubKey]() {
		v.Set(reflect.ValueOf(nostr.GetPublicKey(nostr.KeyOne)))
		return
	}
	if v.Type() == reflect.TypeFor[cashu.Point]() {
		v.Set(reflect.ValueOf(cashu.RandomScalar().PubKey()))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("word")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(1)
	case reflect.Uint64, reflect.Uint8, reflect.Uint16, reflect.Uint32:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		filled(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		filled(v.Index(0))
		filled(v.Index(1))
	case reflect.Array:
		for i := range v.Len() {
			filled(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			filled(v.Field(i))
		}
	}
}

// whole returns the values of all types of facts with private members, with everything set.
func whole(t *testing.T) (facts []Fact) {
	t.Helper()
	for name, of := range readers {
		if of.private == nil {
			continue
		}
		f, err := of.read(json.RawMessage("{}"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		v := reflect.New(reflect.TypeOf(f)).Elem()
		filled(v)
		facts = append(facts, v.Interface().(Fact))
	}
	return facts
}

func same(private []byte) ([]byte, error) { return private, nil }

func TestPrivateMembersAreSealed(t *testing.T) {
	facts := whole(t)
	if len(facts) < 10 {
		t.Fatalf("only %d types have private members", len(facts))
	}
	for _, f := range facts {
		e := Entry{V: Version, At: 1, By: "n", Facts: []Fact{JobCancelled{}, f}}
		want, err := e.Encode()
		if err != nil {
			t.Errorf("%s: %v", f.Type(), err)
			continue
		}
		var private []byte
		stored, err := e.Seal(func(b []byte) ([]byte, error) { private = b; return b, nil })
		if err != nil {
			t.Errorf("%s: %v", f.Type(), err)
			continue
		}
		var sealed []any
		if err := json.Unmarshal(private, &sealed); err != nil || sealed[0] != nil {
			t.Errorf("%s: %s, %v", f.Type(), private, err)
			continue
		}
		complete(t, f.Type(), readers[f.Type()].private, sealed[1])
		back, err := Decode(stored, same)
		if got, encodeErr := back.Encode(); err != nil || encodeErr != nil || !bytes.Equal(got, want) {
			t.Errorf("%s came back as\n%s, %v, want\n%s", f.Type(), got, err, want)
		}
		for name, decrypt := range map[string]func([]byte) ([]byte, error){"no keys": nil, "an erased key": func([]byte) ([]byte, error) { return nil, nil }} {
			e, err := Decode(stored, decrypt)
			if err != nil || e.Facts[1].Type() != f.Type() {
				t.Errorf("%s with %s: %v", f.Type(), name, err)
				continue
			}
			if _, left, err := e.divide(); err != nil || left != nil {
				t.Errorf("%s with %s: %s is left, %v", f.Type(), name, left, err)
			}
		}
	}
}

// complete checks that all names of private members are in what was sealed, so that none is misspelt.
func complete(t *testing.T, at string, names members, sealed any) {
	t.Helper()
	if list, ok := sealed.([]any); ok && len(list) > 0 {
		sealed = list[0]
	}
	object, _ := sealed.(map[string]any)
	for name, within := range names {
		if object[name] == nil {
			t.Errorf("%s: no private member %q", at, name)
		} else if within != nil {
			complete(t, at+"."+name, within, object[name])
		}
	}
}

func TestForeignSealIsRefused(t *testing.T) {
	stored, err := Entry{V: Version, Facts: []Fact{JobClosed{Reason: "x"}, JobOffered{Text: "y"}}}.Seal(same)
	if err != nil {
		t.Fatal(err)
	}
	for _, private := range []string{`[]`, `{}`, `[null]`, `[null,null,null]`, `[`, `[{"ending":[]},null]`} {
		if _, err := Decode(stored, func([]byte) ([]byte, error) { return []byte(private), nil }); err == nil {
			t.Errorf("%s was taken", private)
		}
	}
}
