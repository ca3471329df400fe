package project

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"guild/nutshell"
	"guild/nutshell/diff"
)

// Change is a file of a delivery that differs from that of the request.
type Change struct {
	diff.File        // its Path is that in the project
	Before    string // path in the request; empty for a new file
	After     string // path in the delivery
	Runs      string // as RunsItself
	LeftOut   string // why it is not taken over; empty if it is
}

// Changes returns what a delivery changes in the project that its request was made of, sorted by path. Any request with
// files/ will do.
func Changes(ctx context.Context, request, delivery fs.FS) ([]Change, error) {
	made, err := nutshell.RegularFiles(ctx, delivery, nil)
	if err != nil {
		return nil, err
	}
	given, err := nutshell.RegularFiles(ctx, request, nil)
	if err != nil {
		return nil, err
	}
	is := make(map[string]bool, len(given))
	for _, p := range given {
		is[p] = true
	}
	m, err := nutshell.ReadManifest(request)
	if err != nil {
		return nil, err
	}
	from := originOf(m)
	p := plan{framework: from.Framework}
	at := places(made, slices.ContainsFunc(given, func(p string) bool { return strings.HasPrefix(p, "files/files/") }))
	var pairs []diff.Pair
	for _, name := range slices.Sorted(maps.Keys(at)) {
		one := diff.Pair{B: at[name], As: from.Prefix + name} // git apply takes paths below the top of a repository
		if before := path.Join(filesDir, name); is[before] {
			one.A = before
		}
		if test := p.place(name); p.isTest(name) && is[test] {
			one.A = test
		}
		pairs = append(pairs, one)
	}
	versioned := nutshell.VersionControl(slices.Collect(maps.Keys(at)))
	compared, err := diff.Files(ctx, request, delivery, pairs)
	if err != nil {
		return nil, err
	}
	all := []Change{}
	for _, f := range compared {
		i := slices.IndexFunc(pairs, func(p diff.Pair) bool { return p.As == f.Path })
		f.Text = modes(f) + f.Text
		f.Path = strings.TrimPrefix(f.Path, from.Prefix)
		c := Change{File: f, Before: pairs[i].A, After: at[f.Path], Runs: RunsItself(f.Path)}
		switch {
		case versioned(f.Path):
			c.LeftOut = "git runs what is there"
		case strings.HasPrefix(c.Before, testsDir+"/"):
			c.LeftOut = "it is one of your tests, and the verdict is by yours"
		case f.Path == "result.json" && c.Before == "":
			c.LeftOut = "it is the worker's report"
		}
		all = append(all, c)
	}
	return all, nil
}

// modes returns the lines by which git learns that a file is executable now, or not any more; none if it stays what it was.
func modes(c diff.File) string {
	const executable = "0755"
	head := fmt.Sprintf("diff --git a/%[1]s b/%[1]s\n", c.Path)
	switch {
	case c.Note != "": // there are no lines of it, either
		return ""
	case c.Old == nil && c.New.Mode == executable:
		return head + "new file mode 10" + c.New.Mode + "\n"
	case c.Old != nil && c.Old.Mode != c.New.Mode:
		return head + "old mode 10" + c.Old.Mode + "\nnew mode 10" + c.New.Mode + "\n"
	}
	return ""
}

// origin is the part of a manifest that describes the project from which the request was made.
type origin struct {
	Framework string `json:"framework,omitempty"` // by which its tests have their places
	Prefix    string `json:"prefix,omitempty"`    // of the project in its repository, ending in a slash
}

// originOf returns the zero value for a request that was made in another way.
func originOf(m *nutshell.Manifest) origin {
	var ours struct {
		Project origin `json:"project"`
	}
	if ok, err := m.Extension("guild", &ours); !ok || err != nil {
		return origin{}
	}
	return ours.Project
}

// places returns the artifact for each path in the project, as the judge lays them out: files/ among the artifacts are
// laid over the others, unless the project has such a folder itself.
func places(made []string, own bool) map[string]string {
	at := map[string]string{}
	var over []string
	for _, p := range made {
		name, ok := strings.CutPrefix(p, nutshell.ArtifactsDir+"/")
		switch {
		case !ok:
		case !own && strings.HasPrefix(name, filesDir+"/"):
			over = append(over, p)
		default:
			at[name] = p
		}
	}
	for _, p := range over {
		at[strings.TrimPrefix(p, nutshell.ArtifactsDir+"/"+filesDir+"/")] = p
	}
	return at
}
