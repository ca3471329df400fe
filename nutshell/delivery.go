package nutshell

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// Paths in a delivery bundle: the folder of the files that were made, and the log of the work.
const (
	ArtifactsDir = "delivery/artifacts"
	LogFile      = "delivery/logs/execution.log"
)

// DeliveryInfo describes a delivery. It comes from the caller because this package has neither a clock nor randomness.
type DeliveryInfo struct {
	ID          string    // "nut-…"
	Deliverer   string    // name of the agent or person
	CompletedAt time.Time // written in UTC, to the second

	Model  string // which model did it; left out if empty
	Status string // Completed if empty; the worker's own word wins
	Log    []byte // becomes LogFile; left out if empty
}

// Delivery lays out the bundle that answers the request req, for Pack to write: nutshell.json,
// delivery/result.json, the artifacts under ArtifactsDir, and the log. Nothing of the artifacts is held in
// memory.
//
// The worker's own result, if there is one (WorkerResult finds it), is merged into delivery/result.json: its
// members win and its unknown ones are kept, but what identifies the delivery (nutshell_version, bundle_type,
// request_id and id) is ours. Its errors are those of ParseManifest.
func Delivery(req *Manifest, result json.RawMessage, artifacts fs.FS, info DeliveryInfo) (fs.FS, error) {
	manifest, err := deliveryManifest(req, info)
	if err != nil {
		return nil, err
	}
	made, err := listArtifacts(artifacts)
	if err != nil {
		return nil, err
	}
	merged, err := mergeResult(req, result, made, info)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{ManifestFile: manifest, ResultFile: merged}
	if len(info.Log) > 0 {
		files[LogFile] = info.Log
	}
	return overlay{files, artifacts}, nil
}

// WorkerResult returns the result.json at the top of a worker's files, or nil if there is none. The error says why one
// cannot be merged: it is not JSON, its status is unknown, or a member has the wrong type.
func WorkerResult(artifacts fs.FS) (json.RawMessage, error) {
	raw, err := ReadDocument(artifacts, "result.json")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := parseResult(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// identity is the first members of a delivery's manifest and of its result.
type identity struct {
	Version    string `json:"nutshell_version"`
	BundleType string `json:"bundle_type"`
	RequestID  string `json:"request_id"`
	ID         string `json:"id"`
}

// owned are the members of a result that a worker cannot set.
var owned = []string{"nutshell_version", "bundle_type", "request_id", "id"}

func identify(req *Manifest, info DeliveryInfo) identity {
	return identity{Version: Version, BundleType: TypeDelivery, RequestID: req.ID(), ID: info.ID}
}

// moment writes a time as the specification does.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// deliveryManifest makes the manifest. It has the title of the request, so that a person knows what was delivered.
func deliveryManifest(req *Manifest, info DeliveryInfo) ([]byte, error) {
	type task struct {
		Title string `json:"title"`
	}
	type publisher struct {
		Name string `json:"name"`
	}
	text, err := written(ManifestFile, struct {
		identity
		CreatedAt string    `json:"created_at"`
		Task      task      `json:"task"`
		Publisher publisher `json:"publisher"`
	}{identity: identify(req, info), CreatedAt: moment(info.CompletedAt), Task: task{req.Task().Title}, Publisher: publisher{info.Deliverer}})
	if err != nil {
		return nil, err
	}
	m, err := newManifest(text)
	if err != nil {
		return nil, err
	}
	if _, err := m.Validate(); err != nil {
		return nil, err
	}
	return text.raw, nil
}

// written makes an indented document of v.
func written(file string, v any) (document, error) {
	raw, err := encode(v)
	if err != nil {
		return document{}, &ManifestError{File: file, Reason: err.Error()}
	}
	return parseDocument(file, indented(raw, "", "  "))
}

// listArtifacts returns the paths that the artifacts have in the bundle, sorted.
func listArtifacts(artifacts fs.FS) ([]string, error) {
	var made []string
	err := fs.WalkDir(artifacts, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			made = append(made, ArtifactsDir+"/"+p)
		}
		return err
	})
	slices.Sort(made)
	return made, err
}

// mergeResult makes delivery/result.json.
func mergeResult(req *Manifest, worker json.RawMessage, made []string, info DeliveryInfo) ([]byte, error) {
	own, err := ownResult(req, made, info)
	if err != nil {
		return nil, err
	}
	if len(worker) == 0 {
		return own, nil
	}
	if _, err := parseResult(worker); err != nil {
		return nil, err
	}
	r, err := ParseResult(indented(mergeMembers(own, worker, owned, tables()[ResultFile]), "", "  "))
	if err != nil {
		return nil, err
	}
	return r.Raw, nil
}

// ownResult makes the result without that of the worker.
func ownResult(req *Manifest, made []string, info DeliveryInfo) ([]byte, error) {
	type deliverer struct {
		Name  string `json:"name"`
		Model string `json:"model,omitempty"`
	}
	type artifact struct {
		Path string `json:"path"`
	}
	type artifacts struct {
		Created []artifact `json:"files_created"`
	}
	type log struct {
		FullLog string `json:"full_log"`
	}
	own := struct {
		identity
		CompletedAt string    `json:"completed_at"`
		Deliverer   deliverer `json:"deliverer"`
		Status      string    `json:"status"`
		Artifacts   artifacts `json:"artifacts"`
		Log         *log      `json:"execution_log,omitempty"`
	}{
		identity: identify(req, info), CompletedAt: moment(info.CompletedAt),
		Deliverer: deliverer{info.Deliverer, info.Model}, Status: cmp.Or(info.Status, Completed),
	}
	for _, p := range made {
		own.Artifacts.Created = append(own.Artifacts.Created, artifact{p})
	}
	if len(info.Log) > 0 {
		own.Log = &log{LogFile}
	}
	text, err := written(ResultFile, own)
	if err != nil {
		return nil, err
	}
	_, err = ParseResult(text.raw)
	return text.raw, err
}
