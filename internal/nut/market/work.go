package market

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"guild"
	"guild/internal/cli"
	"guild/internal/hand/workdir"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/clawnet"
	"guild/nutshell/ignore"
	"guild/nutshell/vault"
)

// deliveryDir is where an agent leaves what it made, in the directory of a request.
const deliveryDir = "delivery"

// work is what there is to deliver.
type work struct {
	request   *nutshell.Manifest
	extension clawnet.Extension

	ready     fs.FS // a tree laid out as a delivery; if nil, the members below are laid out as one
	artifacts fs.FS
	result    json.RawMessage // the worker's own; nil if there is none
	log       []byte
	leftOut   []string // what is not delivered, and why

	close func()
}

// findWork finds the request, and what was made for it.
func (p program) findWork(ctx context.Context, f deliverFlags) (*work, error) {
	info, err := os.Stat(f.dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("%s is not a directory", f.dir)), "hand a bundle in with '"+p.Hint("submit "+f.dir)+"'")
	}
	tree, err := workdir.FS(f.dir, nutshell.Limits{})
	if err != nil {
		return nil, err
	}
	w := &work{close: func() { tree.Close() }}
	for _, s := range tree.Skipped {
		w.leftOut = append(w.leftOut, s.Path+": "+s.Reason)
	}
	if err := p.fillWork(ctx, w, tree, f); err != nil {
		tree.Close()
		return nil, err
	}
	return w, nil
}

func (p program) fillWork(ctx context.Context, w *work, tree fs.FS, f deliverFlags) (err error) {
	apart := false // the request is elsewhere
	if f.request != "" {
		here, err := os.Stat(f.dir)
		if err != nil {
			return err
		}
		there, err := os.Stat(f.request)
		apart = err != nil || !os.SameFile(here, there)
	}
	if apart {
		w.request, err = p.manifestOf(ctx, f.request)
	} else {
		w.request, err = nutshell.ReadManifest(tree)
	}
	if errors.Is(err, nutshell.ErrNoManifest) && !apart {
		return cli.WithHint(fmt.Errorf("%s: %w", f.dir, err), "name the request that this answers with --request")
	}
	if err != nil {
		return err
	}
	if w.extension, _, err = clawnet.FromManifest(w.request); err != nil {
		return err
	}
	isDelivery := w.request.BundleType() == nutshell.TypeDelivery
	switch {
	case apart && isDelivery:
		return cli.Usage(fmt.Errorf("%s is a delivery itself, not a request", f.request))
	case apart: // all of the directory was made
		patterns, err := host.Ignored(tree)
		if err != nil {
			return err
		}
		files, err := host.Files(tree, func(name string, isDir bool) bool { return !patterns.Match(name, isDir) })
		if err != nil {
			return err
		}
		return w.take(tree, files)
	case isDelivery:
		if f.status+f.summary+f.log+f.model != "" || len(f.used) > 0 {
			err := cli.Usage(fmt.Errorf("%s is a delivery already, and says of itself what the flags say", f.dir))
			return cli.WithHint(err, "change its "+nutshell.ResultFile)
		}
		w.ready = tree
		return nil
	}
	changed, err := w.changes(tree)
	if err != nil {
		return err
	}
	if info, err := fs.Stat(tree, deliveryDir); err == nil && info.IsDir() {
		return w.takeDelivery(tree, changed)
	}
	return w.take(tree, changed)
}

// manifestOf returns the manifest of a bundle file or a directory.
func (p program) manifestOf(ctx context.Context, name string) (*nutshell.Manifest, error) {
	if host.IsFile(name) {
		b, err := p.OpenBundle(name)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		return b.Manifest(), nil
	}
	tree, done, err := p.OpenTree(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done()
	return nutshell.ReadManifest(tree)
}

// take delivers some files of a tree.
func (w *work) take(tree fs.FS, files []string) (err error) {
	w.artifacts = host.Subset(tree, files)
	w.result, err = nutshell.WorkerResult(w.artifacts)
	return err
}

// takeDelivery delivers the folder delivery/ of a request's directory. What has changed outside it is left out.
func (w *work) takeDelivery(tree fs.FS, changed []string) error {
	files, err := host.Files(tree, func(name string, _ bool) bool { return name == deliveryDir || strings.HasPrefix(name, deliveryDir+"/") })
	if err != nil {
		return err
	}
	var artifacts []string
	for _, name := range files {
		artifact, ok := strings.CutPrefix(name, nutshell.ArtifactsDir+"/")
		switch {
		case ok:
			artifacts = append(artifacts, artifact)
		case name == nutshell.ResultFile:
			w.result, err = fs.ReadFile(tree, name)
		case name == nutshell.LogFile:
			w.log, err = readLog(tree.Open, name)
		default:
			w.leftOut = append(w.leftOut, name+": is neither artifact, result nor log")
		}
		if err != nil {
			return err
		}
	}
	for _, name := range changed {
		w.leftOut = append(w.leftOut, name+": has changed, and is not in "+nutshell.ArtifactsDir)
	}
	below := tree
	if len(artifacts) > 0 {
		if below, err = fs.Sub(tree, nutshell.ArtifactsDir); err != nil {
			return err
		}
	}
	w.artifacts = host.Subset(below, artifacts)
	return nil
}

// changes returns the files that are new, or are not what files.tree says. It leaves out credentials, hidden tests and
// what .nutignore names.
func (w *work) changes(tree fs.FS) ([]string, error) {
	patterns, err := host.Ignored(tree)
	if err != nil {
		return nil, err
	}
	secret := path.Clean(w.request.Credentials().Vault)
	apart := []string{deliveryDir, path.Dir(vault.File), nutshell.HiddenDir, secret, nutshell.ManifestFile, ignore.File}
	files, err := host.Files(tree, func(name string, isDir bool) bool {
		return !slices.Contains(apart, name) && !patterns.Match(name, isDir)
	})
	if err != nil {
		return nil, err
	}
	known := ownFiles(w.request)
	var changed []string
	for _, name := range files {
		text, listed := known[name]
		want, err := guild.ParseHash(text)
		if listed && err != nil {
			continue // the reference program lists files without hashes: they count as unchanged
		}
		if listed {
			got, _, err := host.HashFile(tree, name)
			if err != nil {
				return nil, err
			}
			if got == want {
				continue
			}
		}
		changed = append(changed, name)
	}
	return changed, nil
}

// ownFiles returns the files of a request with their hashes: those in its list, and those that its manifest names,
// which the list of a directory that was never packed lacks.
func ownFiles(m *nutshell.Manifest) map[string]string {
	c, a := m.Context(), m.Acceptance()
	known := make(map[string]string)
	for _, list := range [][]string{{c.Requirements, c.Architecture, c.References, m.APIs().EndpointsSpec, a.CriteriaFile}, c.Additional, a.TestScripts} {
		for _, name := range list {
			known[path.Clean(name)] = ""
		}
	}
	for _, image := range m.Resources().Images {
		known[path.Clean(image.Path)] = ""
	}
	for _, e := range m.Files().Tree {
		known[e.Path] = e.Hash
	}
	return known
}

// maxLog is how large an execution log may be, in bytes.
const maxLog = 16 << 20

func readLog[F io.ReadCloser](open func(string) (F, error), name string) ([]byte, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return host.ReadAtMost(f, maxLog, cli.WithHint(fmt.Errorf("%s is more than %d bytes", name, maxLog), "put it among the artifacts"))
}

// deliveryTree returns the delivery as a tree, for packing.
func (p program) deliveryTree(f deliverFlags, w *work) (fs.FS, error) {
	if w.ready != nil {
		return w.ready, nil
	}
	made, err := fs.ReadDir(w.artifacts, ".")
	if err != nil {
		return nil, err
	}
	used, err := p.uses(f, w.request)
	if err != nil {
		return nil, err
	}
	result, err := w.resultWith(map[string]string{"status": f.status, "summary": f.summary})
	if err == nil {
		result, err = vault.MarkUsed(result, used)
	}
	if err != nil {
		return nil, err
	}
	if len(made) == 0 && (f.status == "" || f.status == nutshell.Completed) && w.result == nil {
		err := fmt.Errorf("%s has nothing to deliver: no file is new or has changed", f.dir)
		return nil, cli.WithHint(err, "put what was made into "+nutshell.ArtifactsDir+", or say --status blocked")
	}
	if f.log != "" {
		if w.log, err = readLog(os.Open, f.log); err != nil {
			return nil, err
		}
	}
	id, err := host.NewID(p.Random)
	if err != nil {
		return nil, err
	}
	return nutshell.Delivery(w.request, result, w.artifacts, nutshell.DeliveryInfo{
		ID: id, Deliverer: f.by, CompletedAt: p.Now(), Model: f.model, Log: w.log,
	})
}

// resultWith returns the worker's result with these members set, those that are not empty.
func (w *work) resultWith(members map[string]string) (json.RawMessage, error) {
	all := make(map[string]json.RawMessage)
	if len(w.result) > 0 {
		if _, err := nutshell.WorkerResult(host.WithFile(w.artifacts, "result.json", w.result)); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(w.result, &all); err != nil {
			return nil, err
		}
	}
	changed := false
	for name, text := range members {
		if text == "" {
			continue
		}
		value, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		all[name], changed = value, true
	}
	if !changed {
		return w.result, nil
	}
	return json.Marshal(all)
}
