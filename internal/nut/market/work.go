package market

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/internal/cli"
	"guild/internal/hand/workdir"
	"guild/internal/nut/credential"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/ignore"
	"guild/nutshell/object"
	"guild/nutshell/vault"
)

// deliveryDir is the folder of a request's directory in which an agent leaves its work.
const deliveryDir = "delivery"

// work has the files to deliver, and the request that they answer.
type work struct {
	tree    *workdir.Tree // the person's directory; the caller closes it
	request *nutshell.Manifest

	ready     bool // the directory is laid out as a delivery; if not, the members below are laid out as one
	artifacts fs.FS
	result    json.RawMessage // the worker's own; nil if there is none
	log       []byte
	leftOut   []string // what is not delivered, and why
}

// findWork finds the request, and what was made for it.
func (p program) findWork(f deliverFlags) (w *work, err error) {
	here, err := os.Stat(f.dir)
	if err != nil {
		return nil, err
	}
	if !here.IsDir() {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("%s is not a directory", f.dir)), "hand a bundle in with '"+p.Hint("submit "+f.dir)+"'")
	}
	tree, err := workdir.FS(f.dir, nutshell.Limits{})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			tree.Close()
		}
	}()
	w = &work{tree: tree}
	for _, s := range tree.Skipped {
		w.leftOut = append(w.leftOut, s.Path+": "+s.Reason)
	}
	var made []string
	if there, err := os.Stat(f.request); f.request != "" && (err != nil || !os.SameFile(here, there)) {
		// The request is elsewhere: all of the directory was made.
		if w.request, err = p.ManifestOf(f.request); err != nil {
			return nil, err
		}
		if w.request.BundleType() == nutshell.TypeDelivery {
			return nil, cli.Usage(fmt.Errorf("%s is a delivery itself, not a request", f.request))
		}
		if made, err = w.made(func(string) bool { return false }, nil); err != nil {
			return nil, err
		}
	} else {
		w.request, err = nutshell.ReadManifest(tree)
		if errors.Is(err, nutshell.ErrNoManifest) {
			return nil, cli.WithHint(fmt.Errorf("%s: %w", f.dir, err), "name the request that this answers with --request")
		}
		if err != nil {
			return nil, err
		}
		if w.request.BundleType() == nutshell.TypeDelivery {
			if f.status+f.summary+f.log+f.model != "" || len(f.used) > 0 {
				err := cli.Usage(fmt.Errorf("%s is a delivery already, and says of itself what the flags say", f.dir))
				return nil, cli.WithHint(err, "change its "+nutshell.ResultFile)
			}
			w.ready = true
			return w, nil
		}
		apart := []string{deliveryDir, nutshell.HiddenDir, nutshell.ManifestFile, ignore.File}
		made, err = w.made(func(name string) bool { return slices.Contains(apart, name) || w.request.HoldsCredentials(name) }, ownFiles(w.request))
		if err != nil {
			return nil, err
		}
		if info, err := fs.Stat(tree, deliveryDir); err == nil && info.IsDir() {
			return w, w.takeDelivery(made)
		}
	}
	w.artifacts = host.Subset(tree, made)
	w.result, err = nutshell.WorkerResult(w.artifacts)
	return w, err
}

// made lists the files that are new, or differ from the known ones, by their hashes. It leaves out those that skip reports
// true for, such as credentials and hidden tests, and those that .nutignore names.
func (w *work) made(skip func(name string) bool, known map[string]string) ([]string, error) {
	patterns, err := host.Ignored(w.tree)
	if err != nil {
		return nil, err
	}
	files, err := host.Files(w.tree, func(name string, isDir bool) bool {
		return name != vault.UsedFile && !skip(name) && !patterns.Match(name, isDir)
	})
	if err != nil {
		return nil, err
	}
	var made []string
	for _, name := range files {
		text, listed := known[name]
		want, err := guild.ParseHash(text)
		if listed && err != nil {
			continue // the reference program lists files without hashes: they count as unchanged
		}
		if listed {
			got, _, err := host.HashFile(w.tree, name)
			if err != nil {
				return nil, err
			}
			if got == want {
				continue
			}
		}
		made = append(made, name)
	}
	return made, nil
}

// takeDelivery delivers the folder delivery/ of a request's directory. What has changed outside it is left out.
func (w *work) takeDelivery(changed []string) error {
	files, err := host.Files(w.tree, func(name string, _ bool) bool { return name == deliveryDir || strings.HasPrefix(name, deliveryDir+"/") })
	if err != nil {
		return err
	}
	var artifacts []string
	for _, name := range files {
		artifact, ok := strings.CutPrefix(name, nutshell.ArtifactsDir+"/")
		switch {
		case ok:
			artifacts = append(artifacts, artifact)
		case name == nutshell.ResultFile: // read below
		case name == nutshell.LogFile:
			w.log, err = readLog(w.tree.Open, name)
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
	delivery, err := fs.Sub(w.tree, deliveryDir)
	if err == nil {
		w.result, err = nutshell.WorkerResult(delivery)
	}
	if err != nil {
		return err
	}
	if len(artifacts) > 0 {
		delivery, err = fs.Sub(w.tree, nutshell.ArtifactsDir)
	}
	w.artifacts = host.Subset(delivery, artifacts)
	return err
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

// maxLog limits the size of an execution log, in bytes.
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
	if w.ready {
		return w.tree, nil
	}
	made, err := fs.ReadDir(w.artifacts, ".")
	if err != nil {
		return nil, err
	}
	used, err := p.uses(f, w.request)
	if err != nil {
		return nil, err
	}
	if len(made) == 0 && (f.status == "" || f.status == nutshell.Completed) && w.result == nil {
		err := fmt.Errorf("%s has nothing to deliver: no file is new or has changed", f.dir)
		return nil, cli.WithHint(err, "put what was made into "+nutshell.ArtifactsDir+", or say --status blocked")
	}
	result := w.result
	if f.status+f.summary != "" || f.percentage >= 0 {
		o, err := object.Parse([]byte(cmp.Or(string(result), "{}")))
		if err != nil {
			return nil, err
		}
		for _, flag := range [][2]string{{"status", f.status}, {"summary", f.summary}} {
			if flag[1] != "" {
				o = o.WithText(flag[0], flag[1])
			}
		}
		if f.percentage >= 0 {
			if status := o.Value("status"); f.percentage < 100 && (status == nil || string(status) == string(object.Quote(nutshell.Completed))) {
				err := cli.Usage(fmt.Errorf("--percentage %d: completed work is done in full", f.percentage))
				return nil, cli.WithHint(err, fmt.Sprintf("as in --status partial --percentage %d", f.percentage))
			}
			o = o.With("completion_percentage", jsontext.Value(strconv.Itoa(f.percentage)))
		}
		result = json.RawMessage(o.Text())
	}
	result, err = vault.MarkUsed(result, used)
	if err != nil {
		return nil, err
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

// uses parses --credential-used, and reads what 'vault get' has noted. A name that the request does not know is an error.
func (p program) uses(f deliverFlags, request *nutshell.Manifest) ([]vault.Used, error) {
	var known []string
	for _, s := range request.Credentials().Scopes {
		known = append(known, s.Name)
	}
	var all []vault.Used
	for _, text := range f.used {
		u := vault.Used{Name: text, At: p.Now()}
		if name, moment, ok := strings.Cut(text, "@"); ok {
			at, err := time.Parse(time.RFC3339, moment)
			if err != nil {
				return nil, cli.WithHint(cli.Usage(fmt.Errorf("--credential-used %.80q: %.40q is not a time", text, moment)), "as in --credential-used staging-db@2026-03-15T10:00:00Z")
			}
			u = vault.Used{Name: name, At: at}
		}
		if len(known) > 0 && !slices.Contains(known, u.Name) {
			return nil, cli.WithHint(cli.Usage(fmt.Errorf("the request has no credential %.80q", u.Name)), "it has: "+strings.Join(known, ", "))
		}
		all = append(all, u)
	}
	for _, path := range []string{f.dir, f.request} {
		if path == "" {
			continue
		}
		noted, err := credential.UsesOf(path)
		if err != nil {
			return nil, err
		}
		all = append(all, noted...)
	}
	return all, nil
}

// refuseSecrets returns an error if a delivery holds a value of the request's vault. A vault that no key at hand opens
// without a question is not searched for, and that is said.
func (p program) refuseSecrets(ctx context.Context, f deliverFlags, w *work, tree fs.FS) error {
	if w.ready || w.request.Credentials().Vault == "" {
		return nil
	}
	silent := *p.Program
	silent.In, silent.Out, silent.Err = strings.NewReader(""), io.Discard, io.Discard
	silent.AskSecret = func(string) ([]byte, error) { return nil, cli.ErrNoTerminal }
	v, err := credential.OpenOf(ctx, &silent, credential.Source{Path: cmp.Or(f.request, f.dir), Identities: f.identities, Insecure: true})
	if err != nil {
		fmt.Fprintf(p.Err, "warning: the delivery was not searched for secrets of the vault: %s\n", cli.Clean(err.Error()))
		return nil
	}
	file, name, err := v.Search(tree)
	if err != nil || name == "" {
		return err
	}
	err = fmt.Errorf("%s holds a secret of the credential %s, and was not packed", file, name)
	return cli.WithHint(err, "take it out; if it was published anywhere, give the credential a new value with '"+p.Hint("vault rotate "+name)+"'")
}
