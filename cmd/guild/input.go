package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/internal/control"
)

// maxText is the largest text, in bytes, that is given as an input: more belongs into the bundle.
const maxText = 32 << 10

// parseInputs reads the values of --input.
func parseInputs(ctx context.Context, client *control.Client, texts []string) (inputs []control.Input, err error) {
	for _, text := range texts {
		in, err := parseInput(ctx, client, text)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, in)
	}
	return inputs, nil
}

// parseInput reads a value of --input.
func parseInput(ctx context.Context, client *control.Client, text string) (control.Input, error) {
	if file, ok := strings.CutPrefix(text, "@"); ok {
		return textInput(file)
	}
	scheme, rest, _ := strings.Cut(text, ":")
	switch {
	case rest == "":
	case scheme == "https":
		return urlInput(text)
	case scheme == "url":
		return urlInput(rest)
	case scheme == "text":
		return control.Input{Data: rest, Type: scheme}, nil
	case scheme == "blob" && strings.HasPrefix(rest, "https://"):
		return blobInput(rest)
	case scheme == "blob":
		if _, err := guild.ParseHash(rest); err != nil {
			return control.Input{}, fmt.Errorf("%s: %w", text, err)
		}
		return control.Input{Data: "blob:" + strings.TrimPrefix(rest, "sha256:"), Type: "url"}, nil
	case scheme == "event":
		return eventInput(rest)
	case scheme == "job":
		return jobInput(ctx, client, rest)
	}
	return control.Input{}, fmt.Errorf("%q: want url:…, event:…, job:…, blob:HASH or blob:https://server/HASH, text:… or @FILE", guild.Cut(text, 80))
}

// urlInput makes an input of a URL. Providers fetch over https; in clear only a blob from a server of their own.
func urlInput(text string) (control.Input, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return control.Input{}, fmt.Errorf("%q is not a web URL: want https://host/path", guild.Cut(text, 80))
	}
	return control.Input{Data: text, Type: "url"}, nil
}

// blobInput makes an input of a blob on a Blossom server, whose URL ends with the hash (BUD-01).
func blobInput(text string) (control.Input, error) {
	u, err := url.Parse(text)
	if err != nil {
		return control.Input{}, err
	}
	name := path.Base(u.Path)
	if _, err := guild.ParseHash(strings.TrimSuffix(name, path.Ext(name))); err != nil {
		return control.Input{}, fmt.Errorf("%q is not the URL of a blob: %w", guild.Cut(text, 80), err)
	}
	return urlInput(text)
}

// textInput returns the text of a file as an input.
func textInput(file string) (control.Input, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return control.Input{}, err
	}
	if len(raw) > maxText {
		return control.Input{}, fmt.Errorf("%s has %d bytes, at most %d go as an input: put it into the bundle", file, len(raw), maxText)
	}
	if !utf8.Valid(raw) {
		return control.Input{}, fmt.Errorf("%s is not text: put it into the bundle", file)
	}
	return control.Input{Data: string(raw), Type: "text"}, nil
}

// eventInput returns a Nostr event, given as nevent, note or hex, as an input.
func eventInput(text string) (control.Input, error) {
	if !strings.HasPrefix(text, "nevent1") && !strings.HasPrefix(text, "note1") {
		id, err := nostr.IDFromHex(text)
		if err != nil {
			return control.Input{}, fmt.Errorf("%q is not an event: want nevent1…, note1… or 64 hex digits", guild.Cut(text, 80))
		}
		return control.Input{Data: id.Hex(), Type: "event"}, nil
	}
	_, value, err := nip19.Decode(text)
	if err != nil {
		return control.Input{}, fmt.Errorf("%s: %w", text, err)
	}
	event, ok := value.(nostr.EventPointer)
	if !ok {
		return control.Input{}, fmt.Errorf("%s does not name an event", text)
	}
	in := control.Input{Data: event.ID.Hex(), Type: "event"}
	if len(event.Relays) > 0 {
		in.Relay = event.Relays[0]
	}
	return in, nil
}

// jobInput returns the result of a job as an input: one of ours by the start of its id, or any by the id of its request.
func jobInput(ctx context.Context, client *control.Client, text string) (control.Input, error) {
	if id, err := nostr.IDFromHex(text); err == nil {
		return control.Input{Data: id.Hex(), Type: "job"}, nil
	}
	job, err := control.OneJob.Call(ctx, client, text)
	if e, ok := errors.AsType[*control.ProblemError](err); ok {
		return control.Input{}, errors.New(e.Problem.Error)
	}
	if err != nil {
		return control.Input{}, err
	}
	return control.Input{Data: job.ID, Type: "job"}, nil
}
