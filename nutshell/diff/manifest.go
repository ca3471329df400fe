package diff

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"guild/nutshell"
	"guild/nutshell/object"
)

// Member is a member of the manifest, or an element of a list in it, that differs.
type Member struct {
	Path   string          `json:"path"` // as nutshell.Manifest.Set takes it
	Change string          `json:"change"`
	Old    json.RawMessage `json:"old,omitempty"` // as it is written in A, without white space
	New    json.RawMessage `json:"new,omitempty"` // as it is written in B
}

// compareManifests compares two manifests without regard to white space and the order of members; 1.0 and 1 differ. Of
// files.tree only the roles are compared, by path.
func compareManifests(a, b *nutshell.Manifest) []Member {
	var found []Member
	compareValues(&found, nil, withoutTree(a), withoutTree(b))
	return append(found, compareTrees(a.Files().Tree, b.Files().Tree)...)
}

func withoutTree(m *nutshell.Manifest) jsontext.Value {
	raw := m.Bytes()
	if short, err := nutshell.ParseManifest(raw); err == nil && short.Remove("files.tree") == nil {
		raw = short.Bytes()
	}
	return compact(raw)
}

// compact returns a value without white space.
func compact(raw []byte) jsontext.Value {
	v := jsontext.Value(slices.Clone(raw))
	if v.Compact(jsontext.PreserveRawStrings(true)) != nil {
		return jsontext.Value(raw)
	}
	return v
}

// members returns the members of an object, or the elements of a list with their numbers as names.
func members(v jsontext.Value) object.Members {
	all, _ := object.Parse(v) // what was parsed can be parsed again, if it is an object
	for i, e := range object.Elements(v) {
		all = append(all, object.Member{Name: strconv.Itoa(i), Value: e})
	}
	return all
}

func compareValues(found *[]Member, path []string, a, b jsontext.Value) {
	switch {
	case bytes.Equal(a, b):
	case a.Kind() == '{' && b.Kind() == '{':
		compareObjects(found, path, members(a), members(b))
	case a.Kind() == '[' && b.Kind() == '[':
		compareLists(found, path, members(a), members(b))
	default:
		*found = append(*found, Member{Path: nutshell.Path(path...), Change: Changed, Old: json.RawMessage(a), New: json.RawMessage(b)})
	}
}

func compareObjects(found *[]Member, path []string, a, b object.Members) {
	there := make(map[string]jsontext.Value, len(b))
	for _, p := range b {
		there[p.Name] = p.Value
	}
	for _, p := range a {
		if other, ok := there[p.Name]; ok {
			compareValues(found, below(path, p), p.Value, other)
			delete(there, p.Name)
		} else {
			*found = append(*found, Member{Path: nutshell.Path(below(path, p)...), Change: Removed, Old: json.RawMessage(p.Value)})
		}
	}
	for _, p := range b {
		if _, ok := there[p.Name]; ok {
			*found = append(*found, Member{Path: nutshell.Path(below(path, p)...), Change: Added, New: json.RawMessage(p.Value)})
		}
	}
}

func below(path []string, p object.Member) []string { return append(slices.Clone(path), p.Name) }

// compareLists compares two lists without the elements that both begin or end with.
func compareLists(found *[]Member, path []string, a, b object.Members) {
	same := func(x, y object.Member) bool { return bytes.Equal(x.Value, y.Value) }
	for len(a) > 0 && len(b) > 0 && same(a[0], b[0]) {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && same(a[len(a)-1], b[len(b)-1]) {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	both := min(len(a), len(b))
	for i := range both {
		compareValues(found, below(path, a[i]), a[i].Value, b[i].Value)
	}
	for _, p := range a[both:] {
		*found = append(*found, Member{Path: nutshell.Path(below(path, p)...), Change: Removed, Old: json.RawMessage(p.Value)})
	}
	for _, p := range b[both:] {
		*found = append(*found, Member{Path: nutshell.Path(below(path, p)...), Change: Added, New: json.RawMessage(p.Value)})
	}
}

// compareTrees compares the roles of files that both lists have.
func compareTrees(a, b []nutshell.TreeEntry) []Member {
	was := make(map[string]string, len(a))
	for _, e := range a {
		was[e.Path] = e.Role
	}
	var found []Member
	for _, e := range b {
		old, ok := was[e.Path]
		if !ok || old == e.Role {
			continue
		}
		m := Member{Path: nutshell.Path("files", "tree", e.Path, "role"), Change: Changed, Old: text(old), New: text(e.Role)}
		switch "" {
		case old:
			m.Change = Added
		case e.Role:
			m.Change = Removed
		}
		found = append(found, m)
	}
	return found
}

// text returns a string as JSON, nil if it is empty.
func text(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	b, _ := jsontext.AppendQuote(nil, s) // what was parsed is UTF-8
	return b
}
