package nutshell

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"time"
)

// Paths in a delivery bundle: the folder of the files that were made, the log of the work, and its trajectory (package
// replay).
const (
	ArtifactsDir   = "delivery/artifacts"
	LogFile        = "delivery/logs/execution.log"
	TrajectoryFile = "delivery/logs/REPLAY.jsonl"
)

// MaxTrajectory limits the size of TrajectoryFile that is written or read, in bytes.
const MaxTrajectory = 4 << 20

// DeliveryInfo describes a delivery. It comes from the caller because this package has neither a clock nor randomness.
type DeliveryInfo struct {
	ID          string    // "nut-…"
	Deliverer   string    // name of the agent or person
	CompletedAt time.Time // written in UTC, to the second

	Model  string // which model did it; left out if empty
	Status string // Completed if empty; the worker's own word wins
	Log    []byte // becomes LogFile; left out if empty

	Trajectory []byte // becomes TrajectoryFile; left out if empty
}

// Delivery lays out the bundle that answers the request req, for Pack to write: nutshell.json,
// delivery/result.json, the artifacts under ArtifactsDir, the log and the trajectory. Nothing of the artifacts is held
// in memory.
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
	if len(result) > 0 {
		own, err := parseResult(result)
		if err != nil {
			return nil, err
		}
		info.Status = cmp.Or(own.Status, info.Status)
	}
	merged, err := mergeResult(req, result, made, info)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{ManifestFile: manifest, ResultFile: merged}
	if len(info.Log) > 0 {
		files[LogFile] = info.Log
	}
	if len(info.Trajectory) > 0 {
		files[TrajectoryFile] = info.Trajectory
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
		ParentID  string    `json:"parent_id,omitempty"` // of a part of a task, so that the parts can be merged
		CreatedAt string    `json:"created_at"`
		Task      task      `json:"task"`
		Publisher publisher `json:"publisher"`
	}{identity: identify(req, info), ParentID: req.ParentID(), CreatedAt: moment(info.CompletedAt), Task: task{req.Task().Title}, Publisher: publisher{info.Deliverer}})
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

// ownResult makes the result without that of the worker. Who says that the work is completed says so of all of it, and of
// each line of the request's checklist; of other work only its worker knows how far it went.
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
	type checked struct {
		Item   string `json:"item"`
		Status string `json:"status"`
	}
	type acceptance struct {
		Checklist []checked `json:"checklist"`
	}
	type log struct {
		FullLog string `json:"full_log"`
	}
	own := struct {
		identity
		CompletedAt string      `json:"completed_at"`
		Deliverer   deliverer   `json:"deliverer"`
		Status      string      `json:"status"`
		Percentage  int         `json:"completion_percentage,omitempty"`
		Artifacts   artifacts   `json:"artifacts"`
		Acceptance  *acceptance `json:"acceptance_results,omitempty"`
		Log         *log        `json:"execution_log,omitempty"`
	}{
		identity: identify(req, info), CompletedAt: moment(info.CompletedAt),
		Deliverer: deliverer{info.Deliverer, info.Model}, Status: cmp.Or(info.Status, Completed),
	}
	outcome := "skipped"
	if own.Status == Completed {
		own.Percentage, outcome = 100, "passed"
	}
	if items := req.Acceptance().Checklist; len(items) > 0 {
		own.Acceptance = new(acceptance)
		for _, item := range items {
			own.Acceptance.Checklist = append(own.Acceptance.Checklist, checked{item, outcome})
		}
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
