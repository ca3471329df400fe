package backup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"guild"
	"guild/canon"
)

// rows is a matrix, by the name of the part and the key of the row. Parts without rows are left out.
type rows map[string]map[string]json.RawMessage

// Hash returns the hash of a matrix. It is the same for two nodes that have learned the same, whatever their histories.
// A part without rows does not change it.
func Hash(parts []Part) (guild.Hash, error) {
	all, err := rowsOf(parts)
	if err != nil {
		return guild.Hash{}, err
	}
	return all.hash()
}

// rowsOf returns the rows of all parts in canonical form.
func rowsOf(parts []Part) (rows, error) {
	all := rows{}
	for _, p := range parts {
		of := p.Rows()
		if len(of) == 0 {
			continue
		}
		all[p.Name] = make(map[string]json.RawMessage, len(of))
		for key, row := range of {
			b, err := canon.Canonical(row)
			if err != nil {
				return nil, fmt.Errorf("row %.80q of %s: %w", key, p.Name, err)
			}
			all[p.Name][key] = b
		}
	}
	return all, nil
}

func (r rows) hash() (guild.Hash, error) {
	h, err := canon.HashValue(r)
	if err != nil {
		return h, fmt.Errorf("hash of the matrix: %w", err)
	}
	return h, nil
}

func (r rows) count() (n int) {
	for _, of := range r {
		n += len(of)
	}
	return n
}

func (r rows) equal(other rows) bool {
	return maps.EqualFunc(r, other, func(a, b map[string]json.RawMessage) bool {
		return maps.EqualFunc(a, b, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
	})
}

// difference contains the changes from one matrix to another.
type difference struct {
	Changed rows                `json:"changed,omitempty"`
	Removed map[string][]string `json:"removed,omitempty"` // keys, sorted
}

// since returns the difference from before to r.
func (r rows) since(before rows) difference {
	d := difference{rows{}, map[string][]string{}}
	for name, of := range r {
		changed := map[string]json.RawMessage{}
		for key, row := range of {
			if !bytes.Equal(before[name][key], row) {
				changed[key] = row
			}
		}
		if len(changed) > 0 {
			d.Changed[name] = changed
		}
	}
	for name, of := range before {
		var gone []string
		for key := range of {
			if _, there := r[name][key]; !there {
				gone = append(gone, key)
			}
		}
		if len(gone) > 0 {
			slices.Sort(gone)
			d.Removed[name] = gone
		}
	}
	return d
}

// with applies a difference to r and returns r.
func (r rows) with(d difference) rows {
	for name, of := range d.Changed {
		if r[name] == nil {
			r[name] = map[string]json.RawMessage{}
		}
		maps.Copy(r[name], of)
	}
	for name, keys := range d.Removed {
		for _, key := range keys {
			delete(r[name], key)
		}
		if len(r[name]) == 0 {
			delete(r, name)
		}
	}
	return r
}
