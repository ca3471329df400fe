package agents

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
	"guild/nipae"
)

// File is a file of a definition.
type File struct {
	nip90.File
	Name string // in its alt tag or else the last part of its URL's path, if one of them is a plain name; else the hash
}

// MaxFile limits one file of a definition, in bytes.
const MaxFile = 16 << 20

// Attach uploads a file for a definition, and publishes its metadata (kind 1063), to which the definition refers.
func (s *Step) Attach(ctx context.Context, name, mime string, content []byte) (nipae.Reference, error) {
	s.acting.Lock()
	defer s.acting.Unlock()
	if len(content) > MaxFile {
		return nipae.Reference{}, fmt.Errorf("%s has %d bytes: at most %d", name, len(content), MaxFile)
	}
	if before, ok := s.fold.file(name, guild.Sum(content)); ok {
		return nipae.Reference{ID: before, Relay: firstOf(s.c.Relays.Ours())}, nil
	}
	url, err := s.c.Files.Upload(ctx, content)
	if err != nil {
		return nipae.Reference{}, fmt.Errorf("upload %s: %w", name, err)
	}
	e := nip90.File{URL: url, MIME: mime, Hash: guild.Sum(content), Size: int64(len(content))}.Event()
	e.Tags.Find("alt")[1] = name
	v, err := s.sign(ctx, s.c.Owner, e, 0)
	if err != nil {
		return nipae.Reference{}, fmt.Errorf("sign the metadata of %s: %w", name, err)
	}
	if err := s.record(ctx, nil, []guild.Verified{v}); err != nil {
		return nipae.Reference{}, fmt.Errorf("attach %s: %w", name, err)
	}
	return nipae.Reference{ID: v.Event().ID, Relay: firstOf(s.c.Relays.Ours())}, nil
}

// maxFiles limits the files of one definition.
const maxFiles = 32

// checkFiles refuses too many files, and two attached files of one name: an agent could not get both.
func (s *Step) checkFiles(d nipae.Definition) error {
	if len(d.Files) > maxFiles {
		return fmt.Errorf("files: %w: %d, at most %d", nipae.ErrTooBig, len(d.Files), maxFiles)
	}
	names := map[string]bool{}
	for _, reference := range d.Files {
		e, ok := s.fold.signed(reference.ID)
		if !ok {
			continue // of another publisher, and checked when it is installed
		}
		f, err := fileOf(e)
		if err != nil {
			return err
		}
		name := strings.ToLower(f.Name)
		if names[name] {
			return fmt.Errorf("files: %w: two are called %s", nipae.ErrInvalid, f.Name)
		}
		names[name] = true
	}
	return nil
}

// files fetches the files of a definition to the blobs, and returns their metadata (kind 1063). All of them are needed.
func (s *Step) files(ctx context.Context, d nipae.Definition) (all []nostr.Event, err error) {
	if len(d.Files) > maxFiles {
		return nil, fmt.Errorf("the definition has %d files: at most %d", len(d.Files), maxFiles)
	}
	names := map[string]guild.Hash{}
	for _, reference := range d.Files {
		var relays []string
		if reference.Relay != "" {
			relays = []string{reference.Relay}
		}
		v, err := s.fetch(ctx, reference.ID, slices.Concat(relays, s.c.Relays.Of(ctx, d.PubKey)))
		if err != nil {
			return nil, fmt.Errorf("metadata %.8s of a file: %w", reference.ID.Hex(), err)
		}
		f, err := fileOf(v.Event())
		before, again := names[strings.ToLower(f.Name)]
		switch {
		case err != nil:
		case again && before == f.Hash:
			continue
		case again:
			err = fmt.Errorf("another file of it is named %.80q, too", f.Name)
		default:
			err = s.c.Files.Fetch(ctx, f)
		}
		if err != nil {
			return nil, fmt.Errorf("the definition's file %.8s: %w", reference.ID.Hex(), err)
		}
		names[strings.ToLower(f.Name)] = f.Hash
		all = append(all, v.Event())
	}
	return all, nil
}

// fileName is the form of a file's name in the directory that a worker gets.
var fileName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)

// fileOf reads the metadata of a file (NIP-94).
func fileOf(e nostr.Event) (File, error) {
	f, err := nip90.ParseFile(e)
	if err != nil {
		return File{}, err
	}
	name := ""
	if alt := e.Tags.Find("alt"); alt != nil {
		name = alt[1]
	}
	if u, err := url.Parse(f.URL); err == nil && !fileName.MatchString(name) {
		name = path.Base(u.Path)
	}
	if !fileName.MatchString(name) {
		name = f.Hash.Hex()
	}
	return File{f, name}, nil
}
