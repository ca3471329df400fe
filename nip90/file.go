package nip90

import (
	"errors"
	"fmt"
	"strconv"

	"fiatjaf.com/nostr"

	"guild"
)

// KindFile is the kind of file metadata (NIP-94).
const KindFile nostr.Kind = 1063

// File is the metadata of a file that an input names by its URL (NIP-94).
type File struct {
	URL  string     // of the file, http or https
	MIME string     // media type; may be empty
	Hash guild.Hash // SHA-256 of the file
	Size int64      // of the file, in bytes; -1 if the metadata does not say it
}

// Event returns the unsigned metadata.
func (f File) Event() nostr.Event {
	tags := nostr.Tags{
		{"url", f.URL}, {"m", f.MIME}, {"x", f.Hash.Hex()}, {"size", strconv.FormatInt(f.Size, 10)}, {"alt", "A file of a job request"},
	}
	return unsigned(int(KindFile), tags, "")
}

// ParseFile reads file metadata.
func ParseFile(e nostr.Event) (File, error) {
	f, err := parseFile(e)
	if err != nil {
		return File{}, fmt.Errorf("file metadata %.8s: %w", e.ID.Hex(), err)
	}
	return f, nil
}

func parseFile(e nostr.Event) (f File, err error) {
	if e.Kind != KindFile {
		return f, fmt.Errorf("kind %d: %w", e.Kind, ErrKind)
	}
	values := map[string]string{}
	for i, tag := range e.Tags {
		if i >= MaxTags {
			return f, fmt.Errorf("%d tags: %w", len(e.Tags), ErrTooBig)
		}
		if len(tag) < 2 {
			continue
		}
		switch name := tag[0]; name {
		case "url", "m", "x", "size":
			if before, again := values[name]; again && before != tag[1] {
				return f, fmt.Errorf("two values of %s: %w", name, ErrMalformed)
			}
			values[name] = tag[1]
		}
	}
	f = File{URL: values["url"], MIME: guild.Cut(guild.Clean(values["m"]), 128), Size: -1}
	if !IsWebURL(f.URL) {
		return f, fmt.Errorf("url %.80q: %w", f.URL, ErrMalformed)
	}
	if f.Hash, err = guild.ParseHash(values["x"]); err != nil {
		return f, fmt.Errorf("x %.80q: %w", values["x"], errors.Join(ErrMalformed, err))
	}
	if text, ok := values["size"]; ok {
		if f.Size, err = strconv.ParseInt(text, 10, 64); err != nil || f.Size < 0 {
			return f, fmt.Errorf("size %.80q: %w", text, ErrMalformed)
		}
	}
	return f, nil
}

// Check returns an error unless a file has the hash of the metadata and, if it says one, the size.
func (f File) Check(hash guild.Hash, size int64) error {
	switch {
	case f.Size >= 0 && size != f.Size:
		return fmt.Errorf("the file has %d bytes, and its metadata says %d", size, f.Size)
	case hash != f.Hash:
		return fmt.Errorf("the file has the hash %.16s…, and its metadata says %.16s…", hash.Hex(), f.Hash.Hex())
	}
	return nil
}

// markerFile marks an e tag of a request as the id of file metadata.
const markerFile = "file"

// Describe has r name the metadata of one of its files, and a relay that has it.
func (r *Request) Describe(metadata nostr.ID, relay string) {
	r.Extra = append(r.Extra, nostr.Tag{"e", metadata.Hex(), relay, markerFile})
}

// Described lists the metadata that r names. Input.Relay has a relay.
func (r Request) Described() (metadata []Input) {
	for _, tag := range r.Extra {
		if tag[0] == "e" && len(tag) >= 2 && value(tag, 3) == markerFile {
			in := Input{Data: tag[1], Type: "event"}
			if relay := value(tag, 2); isRelayURL(relay) {
				in.Relay = relay
			}
			metadata = append(metadata, in)
		}
	}
	return metadata
}
