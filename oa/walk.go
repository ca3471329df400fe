package oa

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/canon"
)

// walk compares a canonical document with its description in one pass. It collects faults and writes the document
// again: unchanged, with defaults, or with numbers in single precision. It builds paths only for faults, because a
// document can have many thousands of values.
type walk struct {
	fill   bool // write defaults and omit null fields
	widen  bool // write numbers of FormatFloat as Single does
	mend   bool // write an empty value in place of one of a wrong type or form
	limit  int  // bytes of output: a few bytes of description can produce many defaults
	faults Faults

	unknown func(path string) // called for undescribed members; can be nil

	d   *jsontext.Decoder
	out []byte
}

// whole processes one document, which must be valid JSON. Its output is not in canonical order.
func (w *walk) whole(f Field, path func() string, text []byte) {
	around := w.d
	w.d = jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true)) // canon has refused duplicates
	w.value(f, path)
	w.d = around
}

// full reports whether to stop checking, because there are MaxFaults faults or the output is over the limit.
func (w *walk) full(path func() string) bool {
	if len(w.faults) == 0 && len(w.out) > w.limit {
		w.faults.add(path(), "is too big with its defaults")
	}
	return len(w.faults) >= MaxFaults || len(w.out) > w.limit
}

// raw copies the next value unchanged.
func (w *walk) raw() jsontext.Value {
	v, err := w.d.ReadValue()
	if err != nil {
		return jsontext.Value("null") // cannot happen: canon accepted the document
	}
	w.out = append(w.out, v...)
	return v
}

// value processes the next value, which f describes.
func (w *walk) value(f Field, path func() string) {
	kind := w.d.PeekKind()
	if got, want := typeOf(kind), f.Type; want != "" && got != want && (got != "number" || want != "integer") {
		w.faults.add(path(), "is %s, want %s", article(got), article(want))
		if w.mend {
			w.d.SkipValue()
			w.out = append(w.out, empty(want)...)
			return
		}
		w.raw()
		return
	}
	switch {
	case w.full(path):
		w.raw()
	case f.Type == "object":
		w.object(f, path)
	case f.Type == "array":
		w.array(f, path)
	case f.Type == "string":
		w.text(f, path)
	case f.Type == "integer" || f.Type == "number":
		w.number(f, path)
	default:
		w.raw()
	}
}

// typeOf returns the JSON type of a value.
func typeOf(kind jsontext.Kind) string {
	switch kind {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case '0':
		return "number"
	case 't', 'f':
		return "boolean"
	}
	return "null"
}

// empty returns the empty value of a JSON type.
func empty(name string) string {
	switch name {
	case "object":
		return "{}"
	case "array":
		return "[]"
	case "string":
		return `""`
	case "boolean":
		return "false"
	}
	return "0"
}

func article(name string) string {
	switch name {
	case "null":
		return name
	case "object", "array", "integer":
		return "an " + name
	}
	return "a " + name
}

// object processes an object: described members by their description, others by f.Values or unchanged. One path
// function serves all members, because an object can have many; it uses the current key.
func (w *walk) object(f Field, path func() string) {
	w.d.ReadToken()
	w.out = append(w.out, '{')
	start := len(w.out)
	var there []string
	var key string
	at := func() string { return member(path(), key) }
	for w.d.PeekKind() == '"' {
		name, _ := w.d.ReadToken()
		key = name.String()
		d, known := f.Properties[key]
		if !known && f.Values != nil {
			d = *f.Values
		}
		null := w.d.PeekKind() == 'n'
		if known && null && !d.Required { // a null in an optional field means absent
			if w.fill {
				w.d.SkipValue()
				continue
			}
			w.key(key, start)
			w.raw()
			continue
		}
		if known {
			there = append(there, key)
		} else if w.unknown != nil && f.Properties != nil && f.Values == nil {
			w.unknown(at())
		}
		w.key(key, start)
		w.value(d, at)
	}
	w.d.ReadToken()
	w.absent(f, there, start, path)
	w.out = append(w.out, '}')
}

func (w *walk) key(key string, start int) {
	if len(w.out) > start {
		w.out = append(w.out, ',')
	}
	w.out, _ = jsontext.AppendQuote(w.out, key)
	w.out = append(w.out, ':')
}

// absent adds a fault for each missing required member and writes the defaults of the others.
func (w *walk) absent(f Field, there []string, start int, path func() string) {
	var missing []string
	for name, d := range f.Properties {
		if (d.Required || w.fill && d.Default != nil) && !slices.Contains(there, name) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		d := f.Properties[name]
		if d.Required {
			w.faults.add(member(path(), name), "is missing")
			continue
		}
		w.key(name, start)
		w.whole(d, func() string { return member(path(), name) }, d.Default)
	}
}

func (w *walk) array(f Field, path func() string) {
	w.d.ReadToken()
	w.out = append(w.out, '[')
	var items Field
	if f.Items != nil {
		items = *f.Items
	}
	i := 0 // shared by all elements: a vector has thousands
	at := func() string { return element(path(), i) }
	for kind := w.d.PeekKind(); kind != ']' && kind != jsontext.KindInvalid; kind = w.d.PeekKind() {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.value(items, at)
		i++
	}
	w.d.ReadToken()
	w.out = append(w.out, ']')
}

// text checks a string against the enum and the format.
func (w *walk) text(f Field, path func() string) {
	raw := w.raw()
	if f.Enum == nil && f.Format != FormatSHA256 {
		return
	}
	unquoted, _ := jsontext.AppendUnquote(nil, raw)
	text := string(unquoted)
	if f.Enum != nil && !slices.Contains(f.Enum, text) {
		w.faults.add(path(), "is %.40q, want one of %s", text, strings.Join(f.Enum, ", "))
	}
	if f.Format != FormatSHA256 {
		return
	}
	if _, err := guild.ParseHash(text); err != nil {
		w.faults.add(path(), "is %.80q, want 64 hex digits of a SHA-256", text)
		if w.mend {
			w.out = append(w.out[:len(w.out)-len(raw)], `""`...)
		}
	}
}

// number checks a number against its type and range. With widen it writes the value in the form of Single.
func (w *walk) number(f Field, path func() string) {
	raw, err := w.d.ReadValue()
	if err != nil {
		return // cannot happen: canon accepted the document
	}
	text := string(raw)
	switch {
	case f.Type == "integer" && !isInteger(text):
		w.faults.add(path(), "is %.40s, want an integer of 64 bits", text)
		if w.mend {
			raw = jsontext.Value("0")
		}
	case f.Minimum != "" && compareNumbers(text, string(f.Minimum)) < 0:
		w.faults.add(path(), "is %.40s, want at least %s", text, f.Minimum)
	case f.Maximum != "" && compareNumbers(text, string(f.Maximum)) > 0:
		w.faults.add(path(), "is %.40s, want at most %s", text, f.Maximum)
	}
	if f.Format != FormatFloat {
		w.out = append(w.out, raw...)
		return
	}
	x := Number(text).Float()
	single := float64(float32(x)) // parsed as double first, as serde_json does
	if math.IsInf(single, 0) {
		w.faults.add(path(), "is %.40s, beyond single precision", text)
	}
	if w.widen && single != x {
		w.out = canon.AppendFloat(w.out, single)
		return
	}
	w.out = append(w.out, raw...)
}

// isInteger reports whether a number in its canonical form is a signed or unsigned 64-bit integer.
func isInteger(text string) bool {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return text != "-0"
	}
	_, err := strconv.ParseUint(text, 10, 64)
	return err == nil
}

// compareNumbers compares two numbers, exactly if both are integers.
func compareNumbers(a, b string) int {
	if isInteger(a) && isInteger(b) {
		x, _ := new(big.Int).SetString(a, 10)
		y, _ := new(big.Int).SetString(b, 10)
		return x.Cmp(y)
	}
	return cmp.Compare(Number(a).Float(), Number(b).Float())
}
