package work

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/internal/hand/fetch"
	"guild/internal/journal/fact"
	"guild/nip90"
)

// Bounds on the inputs of one request.
const (
	maxInputs      = 16
	maxInputsTotal = 64 << 20         // bytes
	maxLookup      = 15 * time.Second // to find one event
)

// indexFile lists the inputs. It is in their directory.
const indexFile = "inputs.json"

// given is one element of inputs.json.
type given struct {
	Type   string     `json:"type"` // url, event, job or text
	Marker string     `json:"marker,omitempty"`
	Source string     `json:"source,omitempty"` // the URL, or the id of the event; empty for text
	File   string     `json:"file"`             // its name, beside inputs.json
	SHA256 guild.Hash `json:"sha256"`
	Size   int64      `json:"size"` // bytes
}

// inputsOf lists the inputs of a request other than its bundle.
func inputsOf(r nip90.Request) []nip90.Input {
	return slices.DeleteFunc(slices.Clone(r.Inputs), func(in nip90.Input) bool { return in.Marker == nip90.MarkerBundle })
}

// checkInputs returns an error if an input can never be fetched, so that the request is refused at once.
func (w *Work) checkInputs(r nip90.Request) error {
	inputs := inputsOf(r)
	if len(inputs) > maxInputs {
		return fmt.Errorf("%d inputs, and this provider takes %d", len(inputs), maxInputs)
	}
	for _, in := range inputs {
		if err := w.checkInput(in); err != nil {
			return fmt.Errorf("input %.100q: %w", in.Data, err)
		}
	}
	return nil
}

func (w *Work) checkInput(in nip90.Input) error {
	switch in.Type {
	case "url":
		return w.c.Inputs.Check(in.Data)
	case "event", "job":
		if _, err := nostr.IDFromHex(in.Data); err != nil {
			return errors.New("invalid event id")
		}
	}
	return nil
}

// bring makes a directory with the inputs of a request and inputs.json.
func (w *Work) bring(ctx context.Context, r fact.RequestReceived, inputs []nip90.Input, described map[string]nip90.File, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	total, all := int64(0), []given{}
	for i, in := range inputs {
		content, extension, err := w.content(ctx, r, in)
		if total += int64(len(content)); err == nil && total > maxInputsTotal {
			err = fmt.Errorf("the inputs have more than the %d bytes that this provider takes", maxInputsTotal)
		}
		if f, ok := described[in.Data]; ok && err == nil && in.Type == "url" {
			err = f.Check(guild.Sum(content), int64(len(content)))
		}
		if err != nil {
			return fmt.Errorf("input %.100q: %w", in.Data, err)
		}
		g := given{Type: in.Type, Marker: in.Marker, File: fmt.Sprintf("%02d%s", i+1, extension), SHA256: guild.Sum(content), Size: int64(len(content))}
		if in.Type != "text" {
			g.Source = in.Data
		}
		if err := os.WriteFile(filepath.Join(dir, g.File), content, 0o644); err != nil {
			return err
		}
		all = append(all, g)
	}
	index, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, indexFile), append(index, '\n'), 0o644)
}

// described finds the metadata of files that a request names (NIP-94), by the URL of the file. Metadata that cannot be
// read, or that the customer has not signed, is an error: the request relies on it.
func (w *Work) described(ctx context.Context, r fact.RequestReceived, request nip90.Request) (map[string]nip90.File, error) {
	named := request.Described()
	if len(named) > maxInputs+1 { // the bundle is one more
		return nil, fmt.Errorf("metadata of %d files, and this provider takes %d inputs", len(named), maxInputs)
	}
	files := map[string]nip90.File{}
	for _, one := range named {
		e, err := w.event(ctx, one.Data, one.Relay)
		if err != nil {
			return nil, fmt.Errorf("file metadata %.8s: %w", one.Data, err)
		}
		if e.PubKey != r.Customer {
			return nil, fmt.Errorf("file metadata %.8s: it is not signed by the customer", one.Data)
		}
		f, err := nip90.ParseFile(e)
		if err != nil {
			return nil, err
		}
		files[f.URL] = f
	}
	return files, nil
}

// content fetches an input. It returns the extension of a file for it too.
func (w *Work) content(ctx context.Context, r fact.RequestReceived, in nip90.Input) (content []byte, extension string, err error) {
	switch in.Type {
	case "url":
		var b bytes.Buffer
		_, err = w.c.Inputs.Fetch(ctx, in.Data, &b)
		return b.Bytes(), extensionOf(in.Data), err
	case "event":
		e, err := w.event(ctx, in.Data, in.Relay)
		if err != nil {
			return nil, "", err
		}
		content, err = json.Marshal(e)
		return content, ".json", err
	case "job":
		return w.resultOf(ctx, r, in)
	}
	if in.Marker == nip90.MarkerJob || strings.HasPrefix(in.Marker, nip90.MarkerJob+":") {
		return w.held(ctx, in.Data)
	}
	return []byte(in.Data), ".txt", nil
}

// extensionOf returns the extension in the path of a URL, or ".bin" if that is empty or odd.
func extensionOf(location string) string {
	const longest = 9
	u, err := url.Parse(location)
	if err != nil {
		return ".bin"
	}
	extension := strings.ToLower(path.Ext(u.Path))
	isOdd := func(c rune) bool { return (c < 'a' || c > 'z') && (c < '0' || c > '9') }
	if len(extension) < 2 || len(extension) > longest || strings.ContainsFunc(extension[1:], isOdd) {
		return ".bin"
	}
	return extension
}

// find asks our relays, and the one that the customer names, for stored events.
func (w *Work) find(ctx context.Context, f nostr.Filter, hint string) ([]guild.Verified, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLookup)
	defer cancel()
	relays := slices.Clone(w.c.Relays.Ours())
	if hint != "" && !slices.Contains(relays, hint) {
		relays = append(relays, hint)
	}
	found, err := w.c.Relays.Find(ctx, f, relays)
	if len(found) > 0 || err == nil {
		return found, nil // that one relay is down does not matter if another had the event
	}
	return nil, fetch.Discreet(err)
}

// event finds the event with an id.
func (w *Work) event(ctx context.Context, id, hint string) (nostr.Event, error) {
	want, err := nostr.IDFromHex(id)
	if err != nil {
		return nostr.Event{}, errors.New("invalid event id")
	}
	found, err := w.find(ctx, nostr.Filter{IDs: []nostr.ID{want}, Limit: 1}, hint)
	if err != nil {
		return nostr.Event{}, err
	}
	for _, v := range found {
		if v.Event().ID == want {
			return v.Event(), nil
		}
	}
	return nostr.Event{}, errors.New("no relay that this provider reads has the event")
}

// resultOf returns the content of the result of another job. The input names the job's request or the result itself.
//
// Anybody can publish a result to any request, so the result must be signed by a provider that the request names. If the
// request names none, the customer must name the result: only it knows which one it accepted.
func (w *Work) resultOf(ctx context.Context, r fact.RequestReceived, in nip90.Input) ([]byte, string, error) {
	named, err := w.event(ctx, in.Data, in.Relay)
	if err != nil {
		return nil, "", err
	}
	if nip90.IsRequest(int(named.Kind)) {
		result, err := w.answerTo(ctx, named, in.Relay)
		if err != nil {
			return nil, "", err
		}
		return w.read(ctx, r, result)
	}
	about := nip90.Correlate(named).Request
	if !nip90.IsResult(int(named.Kind)) || about == (nostr.ID{}) {
		return nil, "", fmt.Errorf("an event of kind %d is neither a job nor a result", named.Kind)
	}
	request, err := w.event(ctx, about.Hex(), in.Relay)
	if err != nil {
		return nil, "", fmt.Errorf("the request %.8s of that result: %w", about.Hex(), err)
	}
	if asked := askedBy(request); !isAnswer(named, request) || len(asked) > 0 && !slices.Contains(asked, named.PubKey) {
		return nil, "", errors.New("its request did not ask the provider of that result")
	}
	return w.read(ctx, r, named)
}

// isAnswer reports whether the kind and the reference of a result fit a request.
func isAnswer(result, request nostr.Event) bool {
	return int(result.Kind) == nip90.ResultKind(int(request.Kind)) && nip90.Correlate(result).Request == request.ID
}

// askedBy lists the providers that a request names.
func askedBy(request nostr.Event) (asked []nostr.PubKey) {
	for tag := range request.Tags.FindAll("p") {
		if p, err := nostr.PubKeyFromHex(tag[1]); err == nil {
			asked = append(asked, p)
		}
	}
	return asked
}

// answerTo finds the result of a request by one of the providers that it names.
func (w *Work) answerTo(ctx context.Context, request nostr.Event, hint string) (nostr.Event, error) {
	const enough = 20
	asked := askedBy(request)
	if len(asked) == 0 {
		return nostr.Event{}, errors.New("that request names no provider: name the result itself")
	}
	found, err := w.find(ctx, nostr.Filter{
		Kinds: []nostr.Kind{nostr.Kind(nip90.ResultKind(int(request.Kind)))}, Authors: asked,
		Tags: nostr.TagMap{"e": {request.ID.Hex()}}, Limit: enough,
	}, hint)
	if err != nil {
		return nostr.Event{}, err
	}
	for _, v := range found {
		if result := v.Event(); slices.Contains(asked, result.PubKey) && isAnswer(result, request) {
			return result, nil
		}
	}
	return nostr.Event{}, errors.New("no relay that this provider reads has a result of that job")
}

// read returns the bundle or the text of a result of another job. A result that we encrypted for this customer is
// decrypted if the answer to this request is encrypted as well.
func (w *Work) read(ctx context.Context, r fact.RequestReceived, result nostr.Event) (content []byte, extension string, err error) {
	var open nip90.Opener
	if result.PubKey == w.c.PubKey && r.Encrypted {
		open = func(_ nostr.PubKey, text string) (string, error) { return w.c.Keyer.Decrypt(ctx, text, r.Customer) }
	}
	parsed, err := nip90.ParseResult(result, open)
	if errors.Is(err, nip90.ErrEncrypted) {
		return nil, "", errors.New("the result of that job is encrypted, and not for this provider: send it in the request")
	}
	if err != nil {
		return nil, "", err
	}
	return w.held(ctx, parsed.Content)
}

// held returns the bundle that the content of a result delivers, or the text that it is.
func (w *Work) held(ctx context.Context, text string) (content []byte, extension string, err error) {
	p, err := nip90.DecodeParcel(text)
	switch {
	case err != nil && json.Valid([]byte(text)):
		return []byte(text), ".json", nil
	case err != nil:
		return []byte(text), ".txt", nil
	case p.Inline != nil:
		return p.Inline, ".nut", nil
	}
	content, err = w.fetch(ctx, p)
	return content, ".nut", err
}
