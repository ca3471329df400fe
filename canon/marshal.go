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
// strings with invalid UTF-8. It writes a float64 of 1 as 1; use AppendFloat for 1.0.
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

// HashValue returns the SHA-256 of the result of Marshal.
func HashValue(v any) (digest.SHA256, error) {
	b, err := Marshal(v)
	if err != nil {
		return digest.SHA256{}, err
	}
	return digest.Sum(b), nil
}

// checkUTF8 returns an error if a value contains a string with invalid UTF-8. It is necessary because encoding/json
// replaces invalid bytes by U+FFFD without an error. Values that encode themselves as JSON are not checked here;
// Canonical reads their output. The value has no cycles, because encoding/json has accepted it.
func checkUTF8(v reflect.Value) error {
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil
	}
	if v.CanInterface() {
		as := v
		if v.CanAddr() { // encoding/json then also calls methods of the pointer
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
