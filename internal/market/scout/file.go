package scout

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"

	"guild/internal/durable"
	"guild/internal/hand/relay"
)

// file is the format in which a scout stores its relays over a restart.
type file struct {
	Version int     `json:"version"`
	Relays  []place `json:"relays"`
}

const (
	version = 1
	maxFile = 1 << 20 // bytes
)

// load reads the file and omits invalid relays. A missing file is not an error.
func load(path string) ([]place, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tiers of relays: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("tiers of relays: %w", err)
	}
	return decode(b), nil
}

// decode parses the output of encode, and omits relays that a scout would not have written.
func decode(b []byte) []place {
	var kept file
	if json.Unmarshal(b, &kept) != nil || kept.Version != version {
		return nil
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(kept.Relays[:min(len(kept.Relays), mostPersistent+mostPolled+mostSampled)], func(p place) bool {
		url, err := relay.Normalize(p.URL)
		bad := err != nil || url != p.URL || seen[url] || p.Tier < Persistent || p.Tier > Sampled || p.Looks < 0 || p.Looked < 0 ||
			!(p.Yield >= 0 && p.Yield < math.MaxInt32) || !(p.Stable >= 0 && p.Stable <= 1)
		seen[url] = true
		return bad
	})
}

// encode returns the file's content. Relays of the configuration are omitted: their tier is fixed, and a relay that is
// removed from the configuration must not remain.
func encode(places []*place) ([]byte, error) {
	kept := file{Version: version, Relays: []place{}}
	for _, p := range places {
		if !p.ours {
			kept.Relays = append(kept.Relays, *p)
		}
	}
	slices.SortFunc(kept.Relays, func(a, b place) int { return cmp.Or(cmp.Compare(a.Tier, b.Tier), cmp.Compare(a.URL, b.URL)) })
	return json.MarshalIndent(kept, "", " ")
}

// save writes the file.
func (s *Scout) save() error {
	if s.c.File == "" {
		return nil
	}
	s.mu.Lock()
	b, err := encode(s.all())
	s.mu.Unlock()
	if err == nil {
		err = durable.WriteBytes(s.c.File, b)
	}
	if err != nil {
		return fmt.Errorf("tiers of relays: %w", err)
	}
	return nil
}
