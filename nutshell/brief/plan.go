package brief

import (
	"cmp"
	"context"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"guild/nutshell"
)

// candidate is a file that may be shown.
type candidate struct {
	path, role string
	reason     string // why it cannot be shown; empty if it can
	rank       int    // of its role
	place      int    // in files.tree
}

// ranks is the order of the roles. Other roles come last.
var ranks = map[string]int{
	"requirements": 0, "architecture": 1, "references": 2, "additional": 3,
	"specification": 4, "scaffold": 5, "reference": 6, "result": 7, "criteria": 8, "endpoints": 9,
}

const otherRank = 10

// plan lists the files of a bundle in the order in which they are shown, without the manifest.
func plan(ctx context.Context, fsys fs.FS, m *nutshell.Manifest, exclude func(string, bool) bool) ([]candidate, error) {
	there, err := nutshell.RegularFiles(ctx, fsys, func(p string, isDir bool) bool {
		return p == nutshell.HiddenDir || strings.HasPrefix(path.Base(p), ".") || exclude != nil && exclude(p, isDir)
	})
	if err != nil {
		return nil, err
	}
	all := referenced(m, there)
	known := make(map[string]bool)
	for _, c := range all {
		known[c.path] = true
	}
	places := make(map[string]int)
	roles := ownRoles(m)
	for i, e := range m.Files().Tree {
		places[e.Path] = i
		if roles[e.Path] == "" {
			roles[e.Path] = shortRole(e.Role)
		}
	}
	for _, p := range there {
		if known[p] {
			continue
		}
		place, ok := places[p]
		if !ok {
			place = math.MaxInt
		}
		all = append(all, newCandidate(p, cmp.Or(roles[p], "file"), place))
	}
	for i := range all {
		if all[i].reason == "" && m.HoldsCredentials(all[i].path) {
			all[i].reason = "credentials are not for the context"
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int {
		return cmp.Or(a.rank-b.rank, cmp.Compare(a.place, b.place), 0)
	})
	return all, nil
}

func newCandidate(p, role string, place int) candidate {
	rank, ok := ranks[role]
	if !ok {
		rank = otherRank
	}
	return candidate{path: p, role: role, rank: rank, place: place}
}

// referenced returns the files that the manifest's context names, also those that are missing.
func referenced(m *nutshell.Manifest, there []string) []candidate {
	c := m.Context()
	all := []candidate{newCandidate(c.Requirements, "requirements", 0), newCandidate(c.Architecture, "architecture", 0), newCandidate(c.References, "references", 0)}
	for i, p := range c.Additional {
		all = append(all, newCandidate(p, "additional", i))
	}
	seen := map[string]bool{"": true, nutshell.ManifestFile: true}
	all = slices.DeleteFunc(all, func(c candidate) bool {
		again := seen[c.path]
		seen[c.path] = true
		return again
	})
	for i := range all {
		if p := all[i].path; !fs.ValidPath(p) {
			all[i].reason = "is not a path of the bundle"
		} else if _, ok := slices.BinarySearch(there, p); !ok {
			all[i].reason = "missing"
		}
	}
	return all
}

// ownRoles returns the roles of the files that the manifest names outside of files.tree.
func ownRoles(m *nutshell.Manifest) map[string]string {
	roles := map[string]string{nutshell.ResultFile: "result", m.APIs().EndpointsSpec: "endpoints", m.Acceptance().CriteriaFile: "criteria"}
	for _, p := range m.Acceptance().TestScripts {
		roles[p] = "test"
	}
	delete(roles, "")
	return roles
}

// shortRole returns a role that is safe in a line of the brief, "file" for others.
func shortRole(role string) string {
	if len(role) > 40 || strings.Trim(role, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
		return "file"
	}
	switch role {
	case "requirements", "architecture", "references", "additional", "result", "criteria", "endpoints", "manifest":
		return "file" // the manifest says elsewhere which those are
	}
	return role
}
