// Package typed does the typed jobs of the OpenAgents surface and checks the results of others: it runs commands in a
// sandbox (oa.sandbox_run.v1), asks a model behind an OpenAI-compatible endpoint to embed, rerank and read code, and
// repeats a job to compare the results. Package oa owns the formats; this one makes and compares documents. It writes
// no facts, and knows nothing of trust or money: the judge weighs the result of a check.
//
// A typed job is a bundle with an extension in its manifest and the request's envelope in RequestFile. It is opened,
// routed, judged and recorded like any other job. Only its events are different: they have the form that other NIP-90
// providers know, with the payload as an input and without a bundle.
package typed

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"

	"guild"
	"guild/internal/hand/workdir"
	"guild/nutshell"
	"guild/oa"
)

// Paths of the documents in a bundle and a delivery of a typed job.
const (
	RequestFile   = "files/request.json" // the envelope, in the bundle
	ResultFile    = "output.json"        // the result's payload, below the delivered artifacts
	ArtifactsDir  = "artifacts"          // the artifacts of a sandbox run, if they are delivered, below the delivered artifacts
	extensionName = "oa"                 // name of the extension in the manifest
)

// extension is the manifest's extension in the bundle of a typed job.
type extension struct {
	Request string `json:"request"` // RequestFile
}

// Bundle packs the request bundle of a typed job.
func Bundle(ctx context.Context, e oa.Envelope) ([]byte, error) {
	envelope, err := e.Encode()
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal(map[string]any{
		"nutshell_version": nutshell.Version, "bundle_type": nutshell.TypeRequest, "id": "nut-" + e.JobHash.Hex(),
		"task":       map[string]string{"title": e.JobType.String()},
		"extensions": map[string]any{extensionName: extension{RequestFile}, "guild": map[string]string{"task": e.JobType.String(), "compare": e.JobType.String()}},
	}, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	tree, err := files(map[string][]byte{nutshell.ManifestFile: manifest, RequestFile: envelope})
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	if _, err := nutshell.Pack(ctx, tree, &packed, nutshell.Options{}); err != nil {
		return nil, fmt.Errorf("the bundle of %s: %w", e.JobType, err)
	}
	return packed.Bytes(), nil
}

// files returns a file system in memory.
func files(content map[string][]byte) (fs.FS, error) {
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, b := range content {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return nil, err
		}
		if _, err := f.Write(b); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
}

// Requested reads the typed job in a packed bundle. ok is false for a bundle of another kind.
func Requested(packed []byte) (e oa.Envelope, ok bool, err error) {
	b, err := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), nutshell.DefaultLimits())
	if err != nil || !claims(b.Manifest()) {
		return oa.Envelope{}, false, nil // not a bundle, so not a typed job
	}
	text, err := b.ReadFile(RequestFile)
	if err == nil {
		e, err = oa.DecodeEnvelope(text)
	}
	return e, true, err
}

// RequestedIn does the same as Requested for a bundle that was unpacked in dir.
func RequestedIn(dir string) (e oa.Envelope, ok bool, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return oa.Envelope{}, false, err
	}
	defer root.Close()
	m, err := nutshell.ReadManifest(root.FS())
	if errors.Is(err, nutshell.ErrNoManifest) {
		return oa.Envelope{}, false, nil
	}
	if err != nil || !claims(m) {
		return oa.Envelope{}, false, err
	}
	text, err := readFile(root.FS(), RequestFile)
	if err == nil {
		e, err = oa.DecodeEnvelope(text)
	}
	return e, true, err
}

// claims reports whether a manifest says that the bundle is a typed job.
func claims(m *nutshell.Manifest) bool {
	var x extension
	ok, err := m.Extension(extensionName, &x)
	return ok && err == nil && x.Request == RequestFile
}

// Result reads the payload of a delivered result: ResultFile below dir, which is hostile.
func Result(dir string) ([]byte, error) {
	tree, err := workdir.FS(dir, nutshell.DefaultLimits())
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	result, err := readFile(tree, ResultFile)
	if _, plain := fs.Stat(tree, "output.txt"); err != nil && plain == nil { // package jobs delivers a text there if it is not JSON
		return nil, errors.New("outputs is not JSON")
	}
	return result, err
}

// Delivered reads the payload of the result in a packed delivery; nil if it cannot be read.
func Delivered(packed []byte) []byte {
	b, err := nutshell.Open(bytes.NewReader(packed), int64(len(packed)), nutshell.DefaultLimits())
	if err != nil {
		return nil
	}
	result, err := b.ReadFile(nutshell.ArtifactsDir + "/" + ResultFile)
	if err != nil || len(result) > oa.MaxSize {
		return nil
	}
	return result
}

// readFile reads a document of at most oa.MaxSize bytes.
func readFile(tree fs.FS, name string) ([]byte, error) {
	f, err := tree.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no file %s", name)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, oa.MaxSize+1<<10)) // an envelope is a little larger than its payload
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// both decodes a request and its result.
func both[Q, A oa.Payload](request, result []byte) (q Q, a A, err error) {
	q, err = oa.Decode[Q](request)
	if err != nil {
		return q, a, err
	}
	a, err = oa.Decode[A](result)
	return q, a, err
}

// VerificationOf returns how a result must be verified, by its request or else by its job type.
func VerificationOf(types oa.Registry, e oa.Envelope) (oa.Verification, error) {
	s, err := types.Schema(e.JobType)
	if err != nil {
		return oa.Verification{}, err
	}
	if e.JobType.String() == oa.Embedding { // its default depends on other members
		q, err := oa.Decode[oa.EmbeddingRequest](e.Payload)
		return q.Verification, err
	}
	whole, err := s.Complete(oa.Inputs, e.Payload)
	if err != nil {
		return oa.Verification{}, err
	}
	inputs := struct {
		Verification oa.Verification `json:"verification"`
	}{oa.Verification{Mode: s.VerificationMode, Redundancy: 1}}
	if err := json.Unmarshal(whole, &inputs); err != nil {
		return oa.Verification{}, fmt.Errorf("inputs.verification: %w", err)
	}
	return inputs.Verification, nil
}

// JudgeModel returns the model that a request wants for comparing its results, or "".
func JudgeModel(e oa.Envelope) string {
	var inputs struct {
		Verification oa.Verification `json:"verification"`
	}
	if json.Unmarshal(e.Payload, &inputs) != nil {
		return ""
	}
	return inputs.Verification.JudgeModel
}

// CriticalityOf returns the lowest criticality that asks enough providers and, for a vote, needs more than one to
// agree. A redundancy above that of the highest criticality is an error.
func CriticalityOf(v oa.Verification) (guild.Criticality, error) {
	votes := v.Redundancy > 1 && v.Adjudication == oa.MajorityVote
	for _, level := range []guild.Criticality{guild.Low, guild.Medium, guild.High, guild.Critical} {
		if v.Redundancy <= level.Replicas() && (!votes || level.Quorum() > 1) {
			return level, nil
		}
	}
	return "", fmt.Errorf("verification.redundancy is %d, and at most %d providers are asked", v.Redundancy, guild.Critical.Replicas())
}
