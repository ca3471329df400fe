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

// Files of the bundle that is made of a request without one.
const (
	plainInputs       = "files/inputs"
	plainParams       = "files/params.json"
	plainRequirements = "context/requirements.md"
)

// maxAnswer is the longest text that is sent as a plain result, in bytes. A longer one is sent as a delivery bundle.
const maxAnswer = 40 << 10

// isPlain reports whether a request has no bundle but inputs or content: its customer knows NIP-90 and no bundles.
func isPlain(r nip90.Request) bool {
	_, err := r.Bundle()
	return errors.Is(err, nip90.ErrNoBundle) && (len(r.Inputs) > 0 || strings.TrimSpace(r.Content) != "")
}

// material is the bundle and the inputs that a worker gets.
type material struct {
	raw    []byte // the packed bundle
	inline bool   // the bundle was in the event, so the journal has it
	plain  bool   // the bundle was made of a request without one
	inputs string // directory with the inputs; empty without any
}

// material fetches the bundle of a request, or makes one, and fetches its inputs into a directory below dir.
func (w *Work) material(ctx context.Context, s Service, r fact.RequestReceived, request nip90.Request, dir string) (m material, err error) {
	described, err := w.described(ctx, r, request)
	if err != nil {
		return m, err
	}
	if isPlain(request) {
		m.plain = true
		m.raw, err = w.wrap(ctx, s, r, request, described, filepath.Join(dir, "plain"))
		return m, err
	}
	if m.raw, m.inline, err = w.bundle(ctx, request, described); err != nil {
		return m, fmt.Errorf("the bundle: %w", err)
	}
	if inputs := inputsOf(request); len(inputs) > 0 {
		m.inputs = filepath.Join(dir, "inputs")
		err = w.bring(ctx, r, inputs, described, m.inputs)
	}
	return m, err
}

// bundle returns the request's bundle, and whether it was inline in the event.
func (w *Work) bundle(ctx context.Context, r nip90.Request, described map[string]nip90.File) (raw []byte, inline bool, err error) {
	p, err := r.Bundle()
	if err != nil || p.Inline != nil {
		return p.Inline, true, err
	}
	if f, ok := described[p.URL]; ok && p.Key == nil {
		if err := f.Check(p.Hash, p.Size); err != nil {
			return nil, false, err
		}
	}
	raw, err = w.fetch(ctx, p)
	return raw, false, err
}

// fetch downloads a bundle that is too large for an event.
func (w *Work) fetch(ctx context.Context, p nip90.Parcel) ([]byte, error) {
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

// wrap makes a bundle of a request without one, so that the worker finds the same files as in any bundle. The same request
// with the same inputs gives the same bytes.
func (w *Work) wrap(ctx context.Context, s Service, r fact.RequestReceived, request nip90.Request, described map[string]nip90.File, dir string) ([]byte, error) {
	if err := w.bring(ctx, r, inputsOf(request), described, filepath.Join(dir, plainInputs)); err != nil {
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

// layOutPlain writes the manifest, the parameters and the content of a request beside its inputs.
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

// paramsOf returns the parameters for the worker: a text for each, or a list of several. Keys and credentials are left out.
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

// plainManifest returns the manifest of a bundle that is made of a request.
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

// plainTitle returns the first line of a request's content, else of its first text, and that text.
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

// plainAnswer returns the text for a customer that knows no bundles: that of the only file that a worker left, or of the
// file that it named output. It is nil if there is no such text; then the customer gets the bundle.
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

// resultName is the file with the worker's own report.
var resultName = path.Base(nutshell.ResultFile)

// unsuccessful returns an error if the worker's own report says that it failed. A customer that knows no bundles would not
// see the report.
func unsuccessful(own json.RawMessage) error {
	var report struct {
		Status  string `json:"status"`
		Summary string `json:"summary"`
	}
	if own == nil || json.Unmarshal(own, &report) != nil {
		return nil
	}
	if report.Status != nutshell.Failed && report.Status != nutshell.Blocked {
		return nil
	}
	if report.Summary == "" {
		return fmt.Errorf("the worker says that it %s", map[string]string{nutshell.Failed: "failed", nutshell.Blocked: "is blocked"}[report.Status])
	}
	return fmt.Errorf("the worker says: %s", report.Summary)
}
