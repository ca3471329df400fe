package verify

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"

	"guild"
	"guild/canon"
)

// wireEvent is an event as NIP-01 encodes it.
type wireEvent struct {
	ID        string     `json:"id"`
	PubKey    string     `json:"pubkey"`
	CreatedAt int64      `json:"created_at"`
	Kind      uint16     `json:"kind"`
	Tags      [][]string `json:"tags"`
	Content   string     `json:"content"`
	Sig       string     `json:"sig"`
}

// readEvent reads an event with a correct id and signature. The event must have exactly the seven fields of NIP-01, so
// that the file contains nothing that the signature does not cover.
func readEvent(b []byte) (guild.Verified, error) {
	canonical, err := canon.Canonical(b)
	if err != nil {
		return guild.Verified{}, err
	}
	var w wireEvent
	if err := json.Unmarshal(canonical, &w); err != nil {
		return guild.Verified{}, err
	}
	// Encoding the event again and comparing finds missing, additional and misspelt members in one step.
	again, err := canon.Marshal(w)
	if err != nil {
		return guild.Verified{}, err
	}
	e := nostr.Event{CreatedAt: nostr.Timestamp(w.CreatedAt), Kind: nostr.Kind(w.Kind), Tags: make(nostr.Tags, len(w.Tags)), Content: w.Content}
	exact := bytes.Equal(again, canonical) && w.Tags != nil &&
		fromHex(e.ID[:], w.ID) && fromHex(e.PubKey[:], w.PubKey) && fromHex(e.Sig[:], w.Sig)
	for i, tag := range w.Tags {
		exact = exact && tag != nil
		e.Tags[i] = tag
	}
	if !exact {
		return guild.Verified{}, errors.New("not exactly the fields of an event (NIP-01)")
	}
	return guild.Verify(e)
}

// event reads the event in a file.
func (c contents) event(name string) (guild.Verified, error) {
	b, ok := c.files[name]
	if !ok {
		return guild.Verified{}, missing(name)
	}
	v, err := readEvent(b)
	if err != nil {
		return guild.Verified{}, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// fromHex decodes lower-case hex digits into dst. It reports whether s has exactly the digits that dst needs.
func fromHex(dst []byte, s string) bool {
	if !isHex(s, len(dst)) {
		return false
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}

// isHex reports whether s is size bytes in lower-case hex digits.
func isHex(s string, size int) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == hex.EncodedLen(size)
}
