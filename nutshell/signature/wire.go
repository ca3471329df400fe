package signature

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxTime is the last second of the year 9999.
const maxTime = 253402300799

// wire is an event in the JSON form of NIP-01. All members are required.
type wire struct {
	ID        *string     `json:"id"`
	PubKey    *string     `json:"pubkey"`
	CreatedAt *int64      `json:"created_at"`
	Kind      *uint16     `json:"kind"`
	Tags      *[][]string `json:"tags"`
	Content   *string     `json:"content"`
	Sig       *string     `json:"sig"`
}

// parse reads the events of a file, which must have at least one and nothing else.
func parse(file []byte) ([]nostr.Event, error) {
	if len(file) > MaxFile {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrNotSignature, MaxFile)
	}
	d := jsontext.NewDecoder(bytes.NewReader(file))
	var all []nostr.Event
	for {
		e, err := next(d)
		switch {
		case errors.Is(err, io.EOF) && len(all) > 0:
			return all, nil
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: the file is empty", ErrNotSignature)
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrNotSignature, err)
		}
		if all = append(all, e); len(all) > MaxSigners {
			return nil, fmt.Errorf("%w: more than %d", ErrTooMany, MaxSigners)
		}
	}
}

// next reads one event. At the end of the file it is io.EOF.
func next(d *jsontext.Decoder) (nostr.Event, error) {
	if d.PeekKind() == jsontext.KindInvalid {
		_, err := d.ReadToken()
		if err == nil {
			err = errors.New("is not JSON")
		}
		return nostr.Event{}, err
	}
	var w wire
	if err := json.UnmarshalDecode(d, &w, json.RejectUnknownMembers(true)); err != nil {
		return nostr.Event{}, notEOF(err)
	}
	return w.event()
}

// notEOF turns io.EOF into io.ErrUnexpectedEOF: an event that ends too early is not the end of the file.
func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// event checks the form of each member.
func (w wire) event() (nostr.Event, error) {
	var e nostr.Event
	if w.ID == nil || w.PubKey == nil || w.CreatedAt == nil || w.Kind == nil || w.Tags == nil || w.Content == nil || w.Sig == nil {
		return e, errors.New("a member of the event is missing")
	}
	if len(*w.Tags) > maxTags {
		return e, fmt.Errorf("%d tags, more than %d", len(*w.Tags), maxTags)
	}
	if *w.CreatedAt < 0 || *w.CreatedAt > maxTime {
		return e, errors.New("created_at is out of range")
	}
	if err := cmp.Or(unhex(e.ID[:], "id", *w.ID), unhex(e.PubKey[:], "pubkey", *w.PubKey), unhex(e.Sig[:], "sig", *w.Sig)); err != nil {
		return e, err
	}
	e.CreatedAt, e.Kind, e.Content = nostr.Timestamp(*w.CreatedAt), nostr.Kind(*w.Kind), *w.Content
	for _, tag := range *w.Tags {
		e.Tags = append(e.Tags, tag)
	}
	return e, nil
}

// unhex decodes lower-case hex digits, which must fill to.
func unhex(to []byte, name, text string) error {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(to) || hex.EncodeToString(b) != text {
		return fmt.Errorf("%s: want %d lower-case hex digits", name, hex.EncodedLen(len(to)))
	}
	copy(to, b)
	return nil
}

// line returns the event in the form of NIP-01, on one line.
func line(e nostr.Event) ([]byte, error) {
	id, key, sig := e.ID.Hex(), e.PubKey.Hex(), hex.EncodeToString(e.Sig[:])
	at, kind, tags := int64(e.CreatedAt), uint16(e.Kind), make([][]string, 0, len(e.Tags))
	for _, tag := range e.Tags {
		tags = append(tags, tag)
	}
	b, err := json.Marshal(wire{ID: &id, PubKey: &key, CreatedAt: &at, Kind: &kind, Tags: &tags, Content: &e.Content, Sig: &sig})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSignature, err)
	}
	return append(b, '\n'), nil
}
