// Package signature makes and checks detached signatures of .nut files with Nostr keys.
//
// A signature is a Nostr event of kind 1063 (NIP-94, file metadata) whose x tag is the hash of the bundle file, so
// that any Nostr program can read, check and publish it. Its bundle tag, the id of the bundle, tells it from the metadata
// of a file that somebody only sends. It is in a file of its own, <bundle>.sig, because one inside of
// the bundle would change the hash that it signs. The file has one event on each line, one for each signer, as it would
// be sent to a relay.
//
// The package is pure. It does not decide which keys to trust: the caller does.
package signature

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Kind is the kind of the event: file metadata.
const Kind nostr.Kind = 1063

// Suffix is added to the name of a bundle's file to name the file of its signatures.
const Suffix = ".sig"

// Limits of a file of signatures that is read.
const (
	MaxFile    = 64 << 10 // bytes of a file of signatures
	MaxSigners = 32       // signatures in it
	maxTags    = 32       // tags of an event
	maxTitle   = 256      // bytes of a title that are signed
)

// Media types of a bundle (section 11 of the specification, which knows the first one).
const (
	MIMEGzip = "application/x-nutshell+gzip"
	MIME     = "application/x-nutshell" // compressed otherwise, or not at all
)

// Errors of signatures.
var (
	ErrNotSignature = errors.New("not a signature of a bundle")
	ErrOther        = errors.New("the signature is for another bundle")
	ErrForged       = errors.New("the signature is forged")
	ErrTooMany      = errors.New("too many signatures for one bundle")
)

// Subject is the bundle file that is signed. The signature depends on Hash only; the rest is for readers of the event who
// do not have the file.
type Subject struct {
	Hash  guild.Hash // of the whole file
	Size  int64      // of the whole file, in bytes
	MIME  string     // MIMEGzip or MIME
	ID    string     // of the bundle, "nut-…"
	Title string     // of its task
	URL   string     // where the file is; may be empty
}

// Signature is a valid signature: Signer has signed this bundle file, and says that it was at At.
type Signature struct {
	Signer nostr.PubKey
	At     time.Time
	Size   int64  // of the file, as the signer says; 0 if they do not
	ID     string // of the bundle, as the signer says
	Title  string // of its task, as the signer says
	Event  guild.Verified
}

// MediaType returns the media type of a bundle that begins with these bytes; six are enough.
func MediaType(head []byte) string {
	const magic = 4
	if len(head) > magic && bytes.HasPrefix(head[magic:], []byte{0x1f, 0x8b}) {
		return MIMEGzip
	}
	return MIME
}

// Event returns the unsigned event for s. Texts are cut, and control characters removed, because other programs compute
// wrong event ids with them.
func Event(s Subject, at time.Time) nostr.Event {
	title := guild.Cut(guild.Clean(s.Title), maxTitle)
	tags := nostr.Tags{{"x", s.Hash.Hex()}, {"m", s.MIME}, {"size", strconv.FormatInt(s.Size, 10)}}
	if s.URL != "" {
		tags = append(nostr.Tags{{"url", guild.Clean(s.URL)}}, tags...)
	}
	tags = append(tags, nostr.Tag{"bundle", guild.Clean(s.ID)}, nostr.Tag{"alt", "Signature of the Nutshell bundle: " + title})
	return nostr.Event{Kind: Kind, CreatedAt: nostr.Timestamp(at.Unix()), Tags: tags, Content: title}
}

// Verify reads a file of signatures and checks each of them against the hash of the bundle file. If one is invalid, none
// is returned, and the error is ErrNotSignature, ErrOther, ErrForged or ErrTooMany; otherwise there is at least one. Of
// two by the same key the newer one counts.
func Verify(file []byte, hash guild.Hash) ([]Signature, error) {
	events, err := parse(file)
	if err != nil {
		return nil, err
	}
	var all []Signature
	for i, e := range events {
		s, err := verify(e, hash)
		if err != nil {
			return nil, fmt.Errorf("signature %d: %w", i+1, err)
		}
		all = with(all, s)
	}
	return all, nil
}

// verify checks one event, cheap checks first.
func verify(e nostr.Event, hash guild.Hash) (Signature, error) {
	s, x, err := read(e)
	if err != nil {
		return Signature{}, err
	}
	v, err := guild.Verify(e)
	if err != nil {
		return Signature{}, fmt.Errorf("%w: %w", ErrForged, err)
	}
	if x != hash {
		return Signature{}, fmt.Errorf("%w: it is for %v, this is %v", ErrOther, x, hash)
	}
	s.Event = v
	return s, nil
}

// read returns the signature in an event, without verifying it.
func read(e nostr.Event) (s Signature, hash guild.Hash, err error) {
	wrong := func(why string) (Signature, guild.Hash, error) {
		return Signature{}, guild.Hash{}, fmt.Errorf("%w: %s", ErrNotSignature, why)
	}
	x, one := only(e.Tags, "x")
	size, _ := only(e.Tags, "size")
	id, named := only(e.Tags, "bundle")
	hash, err = guild.ParseHash(x)
	switch {
	case e.Kind != Kind:
		return wrong(fmt.Sprintf("the event is of kind %d, not %d", e.Kind, Kind))
	case !one || err != nil || x != hash.Hex():
		return wrong("the event has no single x tag with 64 hex digits")
	case !named:
		return wrong("the event has no single bundle tag: it describes a file, and signs no bundle")
	}
	s = Signature{Signer: e.PubKey, At: e.CreatedAt.Time().UTC(), ID: id, Title: guild.Cut(e.Content, maxTitle)}
	if n, err := strconv.ParseInt(size, 10, 64); err == nil && n > 0 {
		s.Size = n
	}
	return s, hash, nil
}

// only returns the value of a tag that the event has exactly once.
func only(tags nostr.Tags, name string) (value string, one bool) {
	n := 0
	for _, tag := range tags {
		if len(tag) >= 2 && tag[0] == name {
			value = tag[1]
			n++
		}
	}
	if n != 1 {
		return "", false
	}
	return value, true
}

// with adds a signature, or replaces an older one by the same key.
func with(all []Signature, s Signature) []Signature {
	i := slices.IndexFunc(all, func(other Signature) bool { return other.Signer == s.Signer })
	switch {
	case i < 0:
		return append(all, s)
	case !s.At.Before(all[i].At):
		all[i] = s
	}
	return all
}

// Add returns a file of signatures with v added. file is the old file, nil if there is none; its signatures must be valid
// for the same bundle. Of two by the same key the newer one is kept.
func Add(file []byte, v guild.Verified) ([]byte, error) {
	s, hash, err := read(v.Event())
	if err != nil {
		return nil, err
	}
	s.Event = v
	var all []Signature
	if file != nil {
		if all, err = Verify(file, hash); err != nil {
			return nil, err
		}
	}
	if all = with(all, s); len(all) > MaxSigners {
		return nil, fmt.Errorf("%w: %d, more than %d", ErrTooMany, len(all), MaxSigners)
	}
	return format(all)
}

func format(all []Signature) ([]byte, error) {
	var b []byte
	for _, s := range all {
		one, err := line(s.Event.Event())
		if err != nil {
			return nil, err
		}
		b = append(b, one...)
	}
	if len(b) > MaxFile {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooMany, len(b), MaxFile)
	}
	return b, nil
}
