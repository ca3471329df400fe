package market

import (
	"context"
	"crypto/sha256"
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
	"guild/internal/nut/host"
	"guild/internal/workdir"
	"guild/nutshell"
	"guild/nutshell/clawnet"
	"guild/nutshell/ignore"
	"guild/nutshell/vault"
)

// deliveryDir is where an agent leaves what it has made, in the directory of a request.
const deliveryDir = "delivery"

// work is what there is to deliver.
type work struct {
	request   *nutshell.Manifest
	extension clawnet.Extension

	ready     fs.FS // a delivery that only needs packing; nil if it is to be laid out
	artifacts fs.FS
	result    json.RawMessage // the worker's own; nil if there is none
	log       []byte
	leftOut   []string // what is not taken, and why

	close func()
}

// findWork looks for the request, and for what was made.
func (p program) findWork(ctx context.Context, f deliverFlags) (*work, error) {
	info, err := os.Stat(f.dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("%s is no directory", f.dir)), "hand a bundle in with '"+p.Hint("submit "+f.dir)+"'")
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
		w.close()
		return nil, err
	}
	return w, nil
}

func (p program) fillWork(ctx context.Context, w *work, tree fs.FS, f deliverFlags) (err error) {
	apart := f.request != "" && !sameDir(f.request, f.dir)
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
	switch {
	case apart && w.request.BundleType() == nutshell.TypeDelivery:
		return cli.Usage(fmt.Errorf("%s is a delivery itself, not a request", f.request))
	case apart:
		return w.takeAll(tree)
	case w.request.BundleType() == nutshell.TypeDelivery:
		return w.takeReady(tree, f)
	case hasFolder(tree, deliveryDir):
		return w.takeDelivery(tree)
	}
	return w.takeChanges(tree)
}

// manifestOf is the manifest of a bundle or a directory.
func (p program) manifestOf(ctx context.Context, name string) (*nutshell.Manifest, error) {
	if host.IsFile(name) {
		b, _, done, err := p.OpenBundle(name)
		if err != nil {
			return nil, err
		}
		defer done()
		return b.Manifest(), nil
	}
	tree, done, err := p.OpenTree(ctx, name)
	if err != nil {
		return nil, err
	}
	defer done()
	return nutshell.ReadManifest(tree)
}

func hasFolder(tree fs.FS, name string) bool {
	info, err := fs.Stat(tree, name)
	return err == nil && info.IsDir()
}

// takeAll takes a whole directory.
func (w *work) takeAll(tree fs.FS) error {
	patterns, err := host.Ignored(tree)
	if err != nil {
		return err
	}
	files, err := host.Files(tree, func(name string, isDir bool) bool { return !patterns.Match(name, isDir) })
	if err != nil {
		return err
	}
	w.artifacts = host.Subset(tree, files)
	w.result, err = nutshell.WorkerResult(w.artifacts)
	return err
}

// takeReady takes a directory that is laid out as a delivery.
func (w *work) takeReady(tree fs.FS, f deliverFlags) error {
	if f.status+f.summary+f.log+f.model != "" || len(f.used) > 0 {
		err := cli.Usage(fmt.Errorf("%s is a delivery already, and says of itself what the flags say", f.dir))
		return cli.WithHint(err, "change its "+nutshell.ResultFile)
	}
	w.ready = tree
	return nil
}

// takeDelivery takes the folder delivery/ of a request's directory.
func (w *work) takeDelivery(tree fs.FS) error {
	within, err := host.Files(tree, func(name string, _ bool) bool { return name == deliveryDir || strings.HasPrefix(name, deliveryDir+"/") })
	if err != nil {
		return err
	}
	var artifacts []string
	for _, name := range within {
		switch {
		case strings.HasPrefix(name, nutshell.ArtifactsDir+"/"):
			artifacts = append(artifacts, strings.TrimPrefix(name, nutshell.ArtifactsDir+"/"))
		case name == nutshell.ResultFile:
			if w.result, err = fs.ReadFile(tree, name); err != nil {
				return err
			}
		case name == nutshell.LogFile:
			if w.log, err = readLog(tree.Open, name); err != nil {
				return err
			}
		default:
			w.leftOut = append(w.leftOut, name+": is neither artifact, result nor log")
		}
	}
	w.artifacts = host.Subset(nothing{}, nil)
	if len(artifacts) > 0 {
		below, err := fs.Sub(tree, nutshell.ArtifactsDir)
		if err != nil {
			return err
		}
		w.artifacts = host.Subset(below, artifacts)
	}
	changed, err := w.changes(tree)
	for _, name := range changed {
		w.leftOut = append(w.leftOut, name+": has changed, and is not in "+nutshell.ArtifactsDir)
	}
	return err
}

// takeChanges takes the files of a request's directory that are not the request's.
func (w *work) takeChanges(tree fs.FS) error {
	changed, err := w.changes(tree)
	if err != nil {
		return err
	}
	w.artifacts = host.Subset(tree, changed)
	w.result, err = nutshell.WorkerResult(w.artifacts)
	return err
}

// changes are the files that are new or are not what files.tree says. Credentials, hidden tests and what .nutignore
// names do not count.
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
		was, listed := known[name]
		same, err := isSame(tree, name, was)
		if err != nil {
			return nil, err
		}
		if !listed || !same {
			changed = append(changed, name)
		}
	}
	return changed, nil
}

// ownFiles are the files of a request with their hashes: those of its list, and those that it refers to, of which the
// list of a directory that was never packed says nothing.
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

// isSame reports whether a file has this hash. Without one to compare it counts as the same.
func isSame(tree fs.FS, name, hash string) (bool, error) {
	want, err := guild.ParseHash(hash)
	if err != nil {
		return true, nil // the reference program lists files without hashes
	}
	f, err := tree.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return false, err
	}
	return guild.Hash(sum.Sum(nil)) == want, nil
}

// maxLog is the size of an execution log at most, in bytes.
const maxLog = 16 << 20

func readLog[F io.ReadCloser](open func(string) (F, error), name string) ([]byte, error) {
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLog+1))
	if err == nil && len(b) > maxLog {
		err = cli.WithHint(fmt.Errorf("%s is more than %d bytes", name, maxLog), "put it among the artifacts")
	}
	return b, err
}

// deliveryTree is the bundle as a tree, for packing.
func (p program) deliveryTree(f deliverFlags, w *work) (fs.FS, error) {
	if w.ready != nil {
		return w.ready, nil
	}
	made, err := fs.ReadDir(w.artifacts, ".")
	if err != nil {
		return nil, err
	}
	result, err := p.resultFor(f, w)
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

// resultFor is the worker's result with what the flags say in it.
func (p program) resultFor(f deliverFlags, w *work) (json.RawMessage, error) {
	result, err := overridden(w.result, map[string]string{"status": f.status, "summary": f.summary})
	if err != nil {
		return nil, err
	}
	used, err := p.uses(f, w.request)
	if err != nil {
		return nil, err
	}
	return vault.MarkUsed(result, used)
}

// overridden sets members of a JSON object, those that are not empty. Without any it stays as it is.
func overridden(object json.RawMessage, members map[string]string) (json.RawMessage, error) {
	all := make(map[string]json.RawMessage)
	if len(object) > 0 {
		if _, err := nutshell.WorkerResult(oneFile{"result.json", object}); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(object, &all); err != nil {
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
		return object, nil
	}
	return json.Marshal(all)
}
