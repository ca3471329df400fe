package canon

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"

	"guild/digest"
)

// Marshal encodes v by the rules of encoding/json and returns the canonical form. Unlike encoding/json it refuses
// strings that are not UTF-8. A float64 of 1 is spelled 1: what must read 1.0 uses AppendFloat.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err == nil {
		err = checkUTF8(reflect.ValueOf(v))
	}
	if err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return Canonical(b)
}

// HashValue is the SHA-256 of what Marshal returns.
func HashValue(v any) (digest.SHA256, error) {
	b, err := Marshal(v)
	if err != nil {
		return digest.SHA256{}, err
	}
	return digest.Sum(b), nil
}

// checkUTF8 looks for strings that are not UTF-8 in a value that encoding/json has encoded: it replaces what is wrong in
// them by U+FFFD and says nothing. What encodes itself as JSON is not looked into, since Canonical reads that as it is.
// The value has no cycles, or encoding/json would have refused it.
func checkUTF8(v reflect.Value) error {
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	if v.CanInterface() {
		as := v
		if v.CanAddr() { // then encoding/json calls methods of the pointer, too
			as = v.Addr()
		}
		switch m := as.Interface().(type) {
		case json.Marshaler:
			return nil
		case encoding.TextMarshaler:
			text, err := m.MarshalText()
			if err != nil {
				return err
			}
			return checkText(string(text))
		}
	}
	switch v.Kind() {
	case reflect.String:
		return checkText(v.String())
	case reflect.Pointer, reflect.Interface:
		return checkUTF8(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() && !field.Anonymous || field.Tag.Get("json") == "-" {
				continue
			}
			if err := checkUTF8(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			if err := checkUTF8(key); err != nil {
				return err
			}
			if err := checkUTF8(value); err != nil {
				return err
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := checkUTF8(v.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkText(s string) error {
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: not UTF-8: %.80q", ErrSyntax, s)
	}
	return nil
}
