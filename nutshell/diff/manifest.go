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
	Old    json.RawMessage `json:"old,omitempty"` // as it is written in A, without white space and needless escapes
	New    json.RawMessage `json:"new,omitempty"` // the same of B
}

// compareManifests compares two manifests without regard to white space, the order of members and how strings are escaped;
// 1.0 and 1 differ. Of files.tree only the roles are compared, by path.
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

// compact returns a value without white space, in which equal strings are written alike. Numbers stay as they are written.
func compact(raw []byte) jsontext.Value {
	v := jsontext.Value(slices.Clone(raw))
	if v.Compact(jsontext.PreserveRawStrings(false)) != nil {
		return jsontext.Value(raw)
	}
	return v
}

// members returns the members of an object, or the elements of a list with their numbers as names.
func members(v jsontext.Value) object.Members {
	all, _ := object.Parse(v) // it was parsed before; nothing if it is not an object
	for i, e := range object.Elements(v) {
		all = append(all, object.Member{Name: strconv.Itoa(i), Value: e})
	}
	return all
}

func compareValues(found *[]Member, path []string, a, b jsontext.Value) {
	if bytes.Equal(a, b) {
		return
	}
	isList := a.Kind() == '['
	if a.Kind() != b.Kind() || !isList && a.Kind() != '{' {
		*found = append(*found, Member{Path: nutshell.Path(path...), Change: Changed, Old: json.RawMessage(a), New: json.RawMessage(b)})
		return
	}
	before, after := members(a), members(b)
	for isList && len(before) > 0 && len(after) > 0 && bytes.Equal(before[0].Value, after[0].Value) {
		before, after = before[1:], after[1:] // what both lists begin with
	}
	for isList && len(before) > 0 && len(after) > 0 && bytes.Equal(before[len(before)-1].Value, after[len(after)-1].Value) {
		before, after = before[:len(before)-1], after[:len(after)-1] // what both end with
	}
	there := make(map[string]jsontext.Value, len(after))
	for _, m := range after {
		there[m.Name] = m.Value
	}
	for _, m := range before {
		below := append(slices.Clone(path), m.Name)
		if other, ok := there[m.Name]; ok {
			compareValues(found, below, m.Value, other)
			delete(there, m.Name)
		} else {
			*found = append(*found, Member{Path: nutshell.Path(below...), Change: Removed, Old: json.RawMessage(m.Value)})
		}
	}
	for _, m := range after {
		if _, ok := there[m.Name]; ok {
			*found = append(*found, Member{Path: nutshell.Path(append(slices.Clone(path), m.Name)...), Change: Added, New: json.RawMessage(m.Value)})
		}
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
		m := Member{Path: nutshell.Path("files", "tree", e.Path, "role"), Change: Changed}
		if old != "" {
			m.Old = json.RawMessage(object.Quote(old))
		}
		if e.Role != "" {
			m.New = json.RawMessage(object.Quote(e.Role))
		}
		if m.Old == nil {
			m.Change = Added
		} else if m.New == nil {
			m.Change = Removed
		}
		found = append(found, m)
	}
	return found
}
