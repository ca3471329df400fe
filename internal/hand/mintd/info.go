package mintd

import (
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"guild/cashu"
)

const worthless = "Play money of a guild node, in the unit \"test\". It is worthless: it is given away, and nobody redeems it."

// info is the mint information (NUT-06).
type info struct {
	Name        string         `json:"name"`
	PubKey      string         `json:"pubkey"`
	Version     string         `json:"version"`
	Description string         `json:"description"`
	Motd        string         `json:"motd"`
	Time        int64          `json:"time"`
	NUTs        map[string]any `json:"nuts"`
}

type methods struct {
	Methods  []method `json:"methods"`
	Disabled bool     `json:"disabled"`
}

type method struct {
	Method      string `json:"method"`
	Unit        string `json:"unit"`
	MinAmount   uint64 `json:"min_amount"`
	MaxAmount   uint64 `json:"max_amount"`
	Description bool   `json:"description,omitzero"` // mint quotes may have one
}

type supported struct {
	Supported bool `json:"supported"`
}

func (m *Mint) info(string) (any, error) {
	bolt11 := method{Method: "bolt11", Unit: Unit, MinAmount: 1, MaxAmount: maxQuote}
	described := bolt11
	described.Description = true
	nuts := map[string]any{"4": methods{Methods: []method{described}}, "5": methods{Methods: []method{bolt11}}}
	for _, nut := range []string{"7", "8", "9", "10", "11", "12", "14", "20"} {
		nuts[nut] = supported{Supported: true}
	}
	return info{
		Name:        "guild play money (worthless)",
		PubKey:      hex.EncodeToString(m.node.PubKey().SerializeCompressed()),
		Version:     "guild/1",
		Description: worthless,
		Motd:        worthless,
		Time:        m.options.Now().Unix(),
		NUTs:        nuts,
	}, nil
}

// keyList is the answer of NUT-01 and of NUT-02 for one keyset.
type keyList struct {
	Keysets []keysWithState `json:"keysets"`
}

type keysWithState struct {
	cashu.Keyset `json:",inline"`
	Active       bool `json:"active"`
}

func (m *Mint) keys(k *keyset) keyList {
	return keyList{[]keysWithState{{k.Keyset, k == m.active}}}
}

func (m *Mint) activeKeys(string) (any, error) { return m.keys(m.active), nil }

func (m *Mint) keysOf(id string) (any, error) {
	k, ok := m.keysets[id]
	if !ok {
		return nil, refuse(codeKeyset, "keyset %.70q is unknown", id)
	}
	return m.keys(k), nil
}

// keysetList is the answer of NUT-02.
type keysetList struct {
	Keysets []keysetState `json:"keysets"`
}

type keysetState struct {
	ID     string `json:"id"`
	Unit   string `json:"unit"`
	Active bool   `json:"active"`
	Fee    uint64 `json:"input_fee_ppk"`
}

func (m *Mint) listKeysets(string) (any, error) {
	all := keysetList{}
	for _, k := range slices.SortedFunc(maps.Values(m.keysets), func(a, b *keyset) int { return strings.Compare(a.ID, b.ID) }) {
		all.Keysets = append(all.Keysets, keysetState{ID: k.ID, Unit: Unit, Active: k == m.active, Fee: k.Fee})
	}
	return all, nil
}
