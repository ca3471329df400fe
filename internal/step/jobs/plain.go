package jobs

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild/nip90"
	"guild/nutshell"
)

// errEmpty is the error for a result without content.
var errEmpty = errors.New("the result is empty")

// received returns the delivery in a result. Providers that do not know bundles answer with the work itself. That is no
// fault: it is wrapped in a bundle, and the judge decides by the criteria (the partnership protocol, section 2.2.4). A
// broken delivery is an error.
func (j *Jobs) received(ctx context.Context, e nostr.Event, r nip90.Result, job *Job) (p nip90.Parcel, plain bool, err error) {
	p, err = r.Delivery()
	if !errors.Is(err, nip90.ErrNoBundle) {
		return p, false, err
	}
	if text, ok := r.ToolText(); ok && int(e.Kind) == nip90.ResultKind(nip90.KindTool) {
		r.Content = text
	}
	request, file, err := j.asked(job)
	if err != nil {
		return p, true, err
	}
	content := unfenced(file, r.Content)
	if strings.TrimSpace(content) == "" {
		return p, true, errEmpty
	}
	delivery, err := wrap(ctx, e, cmp.Or(file, outputName(content)), content, request)
	if err != nil {
		return p, true, fmt.Errorf("wrap the result: %w", err)
	}
	return nip90.NewParcel(delivery), true, nil
}

// asked returns the manifest of the job's bundle, or a minimal one if that cannot be read, and the file that it asks for.
func (j *Jobs) asked(job *Job) (m *nutshell.Manifest, file string, err error) {
	b, err := j.bundleOf(job)
	if err != nil {
		return nil, "", err
	}
	opened, err := nutshell.Open(bytes.NewReader(b), int64(len(b)), nutshell.DefaultLimits())
	if err != nil {
		m, err = nutshell.ParseManifest(fmt.Appendf(nil,
			`{"nutshell_version":"0.2.0","bundle_type":"request","id":"nut-%s","task":{"title":"a job"}}`, job.Job))
		return m, "", err
	}
	return opened.Manifest(), fileAsked(opened), nil
}

// wrap makes a delivery bundle of a plain result, with its content as a file. Its bytes follow from the event and the
// request alone.
func wrap(ctx context.Context, e nostr.Event, file, content string, request *nutshell.Manifest) ([]byte, error) {
	artifacts, err := oneFile(file, content)
	if err != nil {
		return nil, err
	}
	tree, err := nutshell.Delivery(request, nil, artifacts, nutshell.DeliveryInfo{
		ID: "nut-" + e.ID.Hex(), Deliverer: nip19.EncodeNpub(e.PubKey), CompletedAt: e.CreatedAt.Time(),
	})
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	if _, err := nutshell.Pack(ctx, tree, &packed, nutshell.Options{}); err != nil {
		return nil, err
	}
	return packed.Bytes(), nil
}

// outputName returns the name of the file for a plain result among the delivered artifacts, if the request names none.
func outputName(content string) string {
	if text := strings.TrimSpace(content); strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		if json.Valid([]byte(text)) {
			return "output.json"
		}
	}
	return "output.txt"
}

// oneFile returns a file system with one file.
func oneFile(name, content string) (fs.FS, error) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
	if err != nil {
		return nil, err
	}
	if _, err := f.Write([]byte(content)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
}
