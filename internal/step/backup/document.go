package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"

	"guild"
	"guild/canon"
	"guild/internal/hand/blossom"
	"guild/internal/hand/dm"
)

// version is the version of the snapshot and of the message.
const version = 1

// Limits of the data that is written and read, in bytes.
const (
	maxDocument   = 256 << 20 // JSON
	maxSealed     = 64 << 20  // what Blossom servers usually accept, including guild's own
	maxDifference = 24 << 10
	maxMessage    = dm.MaxRumor - 1024 // as a JSON string

	maxURLs = 16
	maxURL  = 1024
)

// ErrTooLarge is returned for a matrix that is too large for a backup.
var ErrTooLarge = fmt.Errorf("a backup has at most %d MiB of JSON, and %d MiB sealed", maxDocument>>20, maxSealed>>20)

// document is the snapshot: canonical JSON, compressed with zstd, and sealed.
type document struct {
	Version int    `json:"version"`
	Guild   string `json:"guild"`   // public key, hex
	Made    int64  `json:"made"`    // Unix ms
	Through uint64 `json:"through"` // the last entry that is certainly in it
	Parts   rows   `json:"parts"`
}

// seal returns the snapshot as it is stored.
func (d document) seal() ([]byte, blossom.Sealed, error) {
	plain, err := canon.Marshal(d)
	if err != nil {
		return nil, blossom.Sealed{}, err
	}
	if len(plain) > maxDocument {
		return nil, blossom.Sealed{}, fmt.Errorf("%w, and this one %d bytes of JSON", ErrTooLarge, len(plain))
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, blossom.Sealed{}, err
	}
	var stored bytes.Buffer
	sealed, err := blossom.Seal(bytes.NewReader(w.EncodeAll(plain, nil)), &stored)
	if err == nil && sealed.Size > maxSealed {
		err = fmt.Errorf("%w, and this one %d bytes", ErrTooLarge, sealed.Size)
	}
	return stored.Bytes(), sealed, err
}

// open opens the snapshot that a message names, and checks that it belongs to the message.
func (m message) open(stored []byte, us nostr.PubKey) (rows, error) {
	key, err := blossom.ParseKey(m.Key)
	if err != nil {
		return nil, err
	}
	if len(stored) > maxSealed || guild.Sum(stored) != m.Backup {
		return nil, errors.New("the stored blob has another hash")
	}
	var packed bytes.Buffer
	if err := blossom.OpenSealed(bytes.NewReader(stored), &packed, key, m.Plain, maxSealed); err != nil {
		return nil, err
	}
	d, err := unpack(&packed)
	if err != nil {
		return nil, err
	}
	if d.Guild != us.Hex() || d.Made != m.Made || d.Through != m.Through {
		return nil, errors.New("the snapshot does not match the message")
	}
	return d.Parts, m.check(d.Parts)
}

// unpack decompresses and decodes a snapshot.
func unpack(packed io.Reader) (document, error) {
	var d document
	r, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxDocument), zstd.WithDecoderLowmem(true))
	if err != nil {
		return d, fmt.Errorf("snapshot: %w", err)
	}
	defer r.Close()
	plain, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err == nil && len(plain) > maxDocument {
		err = ErrTooLarge
	}
	if err == nil {
		err = json.Unmarshal(plain, &d)
	}
	switch {
	case err != nil:
		return document{}, fmt.Errorf("snapshot: %w", err)
	case d.Version != version:
		return document{}, fmt.Errorf("snapshot of version %d: %w", d.Version, ErrNewer)
	case d.Parts == nil:
		return document{}, errors.New("snapshot: no parts")
	}
	return d, nil
}

// check compares the hash of rows with the matrix that the message names.
func (m message) check(all rows) error {
	h, err := all.hash()
	if err == nil && h != m.Matrix {
		err = errors.New("the matrix does not match the message")
	}
	return err
}

// messageType distinguishes messages about backups from others.
const messageType = "guild.backup"

// message is the content of a private message to this node about a backup, as JSON.
//
// Key opens the snapshot, so the message is only ever sent encrypted to this node itself. Whoever has the node's
// identity can restore what it has learned.
type message struct {
	Type    string     `json:"type"`
	Version int        `json:"version"`
	Backup  guild.Hash `json:"backup"` // of the sealed snapshot; addresses the blob
	URLs    []string   `json:"urls"`
	Key     string     `json:"key"`    // opens it; hex
	Plain   guild.Hash `json:"plain"`  // of the compressed snapshot
	Size    int64      `json:"size"`   // bytes, sealed
	Matrix  guild.Hash `json:"matrix"` // see the function Hash
	Rows    int        `json:"rows"`
	Made    int64      `json:"made"`    // Unix ms
	Through uint64     `json:"through"` // the last entry of the journal that is certainly in it
	Policy  guild.Hash `json:"policy"`  // in force

	Previous   guild.Hash  `json:"previous,omitzero"` // the backup on which Difference is based; zero if it is based on nothing
	Difference *difference `json:"difference,omitempty"`
	Truncated  bool        `json:"truncated,omitempty"` // the difference is too large and left out
}

// encode returns the message as JSON. It leaves the difference out if that is too large.
func (m message) encode(d difference) (string, error) {
	m.Difference = &d
	text, err := canon.Marshal(m)
	if err != nil {
		return "", err
	}
	alone, err := canon.Marshal(d)
	if err != nil {
		return "", err
	}
	quoted, err := json.Marshal(string(text))
	if err != nil {
		return "", err
	}
	// Relays refuse large events. The snapshot has everything, so only the possibility to restore without it is lost.
	if len(alone) > maxDifference || len(quoted) > maxMessage {
		m.Difference, m.Truncated, m.Previous = nil, true, guild.Hash{}
		text, err = canon.Marshal(m)
	}
	return string(text), err
}

// errOther matches errors about a message that is ignored: it is about something else, or invalid.
var errOther = errors.New("not a message about a backup")

// decodeMessage decodes the content of a message to this node. Errors match errOther or ErrNewer.
func decodeMessage(content string) (message, error) {
	var m message
	if len(content) > dm.MaxContent || json.Unmarshal([]byte(content), &m) != nil || m.Type != messageType {
		return message{}, errOther
	}
	if m.Version != version {
		return message{}, fmt.Errorf("message about a backup, of version %d: %w", m.Version, ErrNewer)
	}
	if _, err := blossom.ParseKey(m.Key); err != nil || m.Backup.IsZero() || m.Plain.IsZero() || m.Matrix.IsZero() || m.Made <= 0 {
		return message{}, fmt.Errorf("%w: something is missing", errOther)
	}
	if len(m.URLs) > maxURLs || slices.ContainsFunc(m.URLs, func(u string) bool { return len(u) > maxURL }) {
		return message{}, fmt.Errorf("%w: too many places", errOther)
	}
	if m.Truncated {
		m.Difference = nil
	}
	return m, nil
}

// id returns the name of the backup in facts.
func (m message) id() string { return m.Backup.Hex() }
