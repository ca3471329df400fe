package work

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"guild"
	"guild/internal/hand/fetch"
	"guild/internal/hand/workdir"
	"guild/internal/journal/fact"
	"guild/nip90"
	"guild/nutshell"
)

// Where a request that came without a bundle has what was in it.
const (
	plainInputs       = "files/inputs"
	plainParams       = "files/params.json"
	plainRequirements = "context/requirements.md"
)

// maxAnswer is the longest text that is a result by itself, in bytes. A longer one travels as a delivery bundle.
const maxAnswer = 40 << 10

// isPlain reports whether a request is of somebody who knows no bundles, and says something all the same.
func isPlain(r nip90.Request) bool {
	_, err := r.Bundle()
	return errors.Is(err, nip90.ErrNoBundle) && (len(r.Inputs) > 0 || strings.TrimSpace(r.Content) != "")
}

// material is what a worker gets to work on.
type material struct {
	raw    []byte // the packed bundle
	inline bool   // it was in the event, and so is in the journal
	plain  bool   // it was made of a request without one
	inputs string // directory of what was given beside it; empty without any
}

// material brings what a request is about into directories below dir.
func (w *Work) material(ctx context.Context, s Service, r fact.RequestReceived, request nip90.Request, dir string) (m material, err error) {
	if isPlain(request) {
		m.plain = true
		m.raw, err = w.wrap(ctx, s, r, request, filepath.Join(dir, "plain"))
		return m, err
	}
	if m.raw, m.inline, err = w.bundle(ctx, request); err != nil {
		return m, fmt.Errorf("the bundle: %w", err)
	}
	if inputs := inputsOf(request); len(inputs) > 0 {
		m.inputs = filepath.Join(dir, "inputs")
		err = w.bring(ctx, r, inputs, m.inputs)
	}
	return m, err
}

// bundle brings the request's bundle: it came along, inline, or waits where the request says.
func (w *Work) bundle(ctx context.Context, r nip90.Request) (raw []byte, inline bool, err error) {
	p, err := r.Bundle()
	if err != nil || p.Inline != nil {
		return p.Inline, true, err
	}
	raw, err = w.carried(ctx, p)
	return raw, false, err
}

// carried fetches a bundle that was too large for an event.
func (w *Work) carried(ctx context.Context, p nip90.Parcel) ([]byte, error) {
	if p.Size > maxBundle {
		return nil, fmt.Errorf("%d bytes are too many", p.Size)
	}
	place := fact.Place{URL: p.URL}
	if p.Key != nil {
		place.Key = fmt.Sprintf("%x", p.Key[:])
	}
	body, err := w.c.Payloads.Fetch(ctx, place, p.Hash, p.Size)
	if err != nil {
		return nil, fetch.Discreet(err)
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, p.Size))
}

// wrap makes the bundle that a request without one stands for, so that its worker finds the same directory as
// always. The same request with the same inputs gives the same bytes.
func (w *Work) wrap(ctx context.Context, s Service, r fact.RequestReceived, request nip90.Request, dir string) ([]byte, error) {
	if err := w.bring(ctx, r, inputsOf(request), filepath.Join(dir, plainInputs)); err != nil {
		return nil, err
	}
	if err := layOutPlain(dir, plainManifest(s, r, request), request); err != nil {
		return nil, err
	}
	tree, err := workdir.FS(dir, nutshell.DefaultLimits())
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	inputs, err := fs.Glob(tree, plainInputs+"/*")
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	if _, err := nutshell.Pack(ctx, tree, &packed, nutshell.Options{Include: inputs}); err != nil {
		return nil, err
	}
	if packed.Len() > maxBundle {
		return nil, fmt.Errorf("%d bytes are too many", packed.Len())
	}
	return packed.Bytes(), nil
}

// layOutPlain writes what a request says, beside its inputs.
func layOutPlain(dir string, manifest any, request nip90.Request) error {
	files := map[string]any{nutshell.ManifestFile: manifest, plainParams: paramsOf(request)}
	for name, v := range files {
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	if strings.TrimSpace(request.Content) == "" {
		return nil
	}
	file := filepath.Join(dir, plainRequirements)
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(guild.Clean(request.Content)), 0o644)
}

// paramsOf is what a worker reads of the parameters: a text for each, or a list where there are several. What opens
// something is left out.
func paramsOf(r nip90.Request) map[string]any {
	values := map[string][]string{}
	for _, p := range r.Params {
		if p.Key != nip90.ParamBundleKey && p.Key != nip90.ParamVault {
			values[guild.Clean(p.Key)] = append(values[guild.Clean(p.Key)], p.Values...)
		}
	}
	params := map[string]any{}
	for key, all := range values {
		for i := range all {
			all[i] = guild.Clean(all[i])
		}
		params[key] = all
		if len(all) == 1 {
			params[key] = all[0]
		}
	}
	return params
}

// plainManifest is the manifest of a request that came without a bundle.
func plainManifest(s Service, r fact.RequestReceived, request nip90.Request) any {
	type task struct {
		Title   string `json:"title"`
		Summary string `json:"summary,omitempty"`
	}
	type files struct {
		Requirements string `json:"requirements"`
	}
	type origin struct {
		Task     string `json:"task"`
		Request  string `json:"request"` // id of the event
		Customer string `json:"customer"`
		Kind     int    `json:"kind"`
		Output   string `json:"output,omitempty"` // MIME type that is wanted
	}
	title, summary := plainTitle(s, request)
	m := struct {
		Version    string            `json:"nutshell_version"`
		Type       string            `json:"bundle_type"`
		ID         string            `json:"id"`
		Task       task              `json:"task"`
		Context    *files            `json:"context,omitempty"`
		Extensions map[string]origin `json:"extensions"`
	}{
		Version: nutshell.Version, Type: nutshell.TypeRequest, ID: "nut-" + r.Request.Hex(), Task: task{title, summary},
		Extensions: map[string]origin{"guild": {
			Task: r.Task, Request: r.Request.Hex(), Customer: r.Customer.Hex(), Kind: r.Kind, Output: guild.Clean(request.Output),
		}},
	}
	if strings.TrimSpace(request.Content) != "" {
		m.Context = &files{plainRequirements}
	}
	return m
}

// plainTitle is what a request is about: what it says in its content, else in its first text.
func plainTitle(s Service, r nip90.Request) (title, summary string) {
	const longestTitle, longestSummary = 120, 4000
	text := strings.TrimSpace(guild.Clean(r.Content))
	if i := slices.IndexFunc(r.Inputs, func(in nip90.Input) bool { return in.Type == "text" }); text == "" && i >= 0 {
		text = strings.TrimSpace(guild.Clean(r.Inputs[i].Data))
	}
	first, _, _ := strings.Cut(text, "\n")
	title = strings.TrimSpace(guild.Cut(strings.Join(strings.Fields(first), " "), longestTitle))
	return cmp.Or(title, s.Task, "A request"), guild.Cut(text, longestSummary)
}

// plainAnswer is what goes to a customer who knows no bundles: the text of the one file that a worker left, or of
// the one that it called output. It is nil where there is no such text; then the customer gets the bundle.
func plainAnswer(left fs.FS) (*string, error) {
	var all, outputs []string
	err := fs.WalkDir(left, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || name == resultName {
			return err
		}
		all = append(all, name)
		if base, _, _ := strings.Cut(name, "."); base == "output" {
			outputs = append(outputs, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(outputs) != 1 {
		outputs = all
	}
	if len(outputs) != 1 {
		return nil, nil
	}
	info, err := fs.Stat(left, outputs[0])
	if err != nil || info.Size() > maxAnswer {
		return nil, err
	}
	b, err := fs.ReadFile(left, outputs[0])
	if err != nil || !utf8.Valid(b) || bytes.ContainsRune(b, 0) {
		return nil, err
	}
	text := string(b)
	return &text, nil
}

// resultName is the file in which a worker says how it went.
var resultName = path.Base(nutshell.ResultFile)

// unsuccessful is why a worker says that nothing came of it, for a customer who would not find that in a bundle.
func unsuccessful(own json.RawMessage) error {
	var said struct {
		Status  string `json:"status"`
		Summary string `json:"summary"`
	}
	if own == nil || json.Unmarshal(own, &said) != nil {
		return nil
	}
	if said.Status != nutshell.Failed && said.Status != nutshell.Blocked {
		return nil
	}
	if said.Summary == "" {
		return fmt.Errorf("the worker says that it %s", map[string]string{nutshell.Failed: "failed", nutshell.Blocked: "is blocked"}[said.Status])
	}
	return fmt.Errorf("the worker says: %s", said.Summary)
}
