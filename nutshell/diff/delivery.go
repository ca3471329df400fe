package diff

import (
	"maps"
	"path"
	"slices"
	"strings"

	"guild/nutshell"
)

// Delivery compares the request with the result that the deliverer states.
type Delivery struct {
	Status     string             `json:"status"`
	Percentage float64            `json:"completion_percentage"`
	Summary    string             `json:"summary,omitempty"`
	Passed     int64              `json:"tests_passed"`
	Failed     int64              `json:"tests_failed"`
	Skipped    int64              `json:"tests_skipped"`
	Checklist  []Answer           `json:"checklist"` // the request's, then what only the delivery has
	Artifacts  []ArtifactClaim    `json:"artifacts"` // by path
	Scopes     []CredentialAnswer `json:"credentials"`
}

// Answer is a line of a checklist and its status.
type Answer struct {
	Item   string `json:"item"`
	Asked  bool   `json:"asked"`            // the request has it
	Status string `json:"status,omitempty"` // by the delivery; empty if it does not say
}

// ArtifactClaim is a file that is among the artifacts or named by the result.
type ArtifactClaim struct {
	Path    string `json:"path"`
	Claimed string `json:"claimed,omitempty"` // "created" or "modified", by the result
	There   bool   `json:"there"`
	Request string `json:"request,omitempty"` // the file of the request that has the same name
}

// CredentialAnswer is a credential that the request offers or the delivery says that it used.
type CredentialAnswer struct {
	Name    string             `json:"name"`
	Offered bool               `json:"offered"`
	Used    bool               `json:"used"`
	At      nutshell.Timestamp `json:"at,omitempty"` // of the last use
}

func answers(asked []string, given []nutshell.ChecklistItem) []Answer {
	statuses := make(map[string][]string, len(given)) // an item may be there twice
	for _, c := range given {
		statuses[strings.TrimSpace(c.Item)] = append(statuses[strings.TrimSpace(c.Item)], c.Status)
	}
	all := []Answer{}
	for _, item := range asked {
		a := Answer{Item: item, Asked: true}
		if left := statuses[strings.TrimSpace(item)]; len(left) > 0 {
			a.Status, statuses[strings.TrimSpace(item)] = left[0], left[1:]
		}
		all = append(all, a)
	}
	for _, c := range given {
		if left := statuses[strings.TrimSpace(c.Item)]; len(left) > 0 {
			all = append(all, Answer{Item: c.Item, Status: left[0]})
			statuses[strings.TrimSpace(c.Item)] = left[1:]
		}
	}
	return all
}

// claims lists the artifacts in the tree and those that the result names.
func claims(request, delivery *tree) []ArtifactClaim {
	byPath := map[string]*ArtifactClaim{}
	claim := func(p string) *ArtifactClaim {
		if byPath[p] == nil {
			_, there := delivery.files[p]
			byPath[p] = &ArtifactClaim{Path: p, There: there, Request: counterpart(request, p)}
		}
		return byPath[p]
	}
	for p := range delivery.files {
		if strings.HasPrefix(p, nutshell.ArtifactsDir+"/") {
			claim(p)
		}
	}
	for _, f := range delivery.result.Artifacts.FilesCreated {
		claim(path.Clean(f.Path)).Claimed = "created"
	}
	for _, f := range delivery.result.Artifacts.FilesModified {
		claim(path.Clean(f.Path)).Claimed = "modified"
	}
	all := []ArtifactClaim{}
	for _, p := range slices.Sorted(maps.Keys(byPath)) {
		all = append(all, *byPath[p])
	}
	return all
}

// counterpart returns the file of the request with the same path as an artifact, or with that path below files/.
func counterpart(request *tree, artifact string) string {
	name, ok := strings.CutPrefix(artifact, nutshell.ArtifactsDir+"/")
	if !ok {
		return ""
	}
	for _, p := range []string{name, "files/" + name} {
		if _, ok := request.files[p]; ok && p != nutshell.ManifestFile {
			return p
		}
	}
	return ""
}

// artifactChanges pairs the artifacts with their counterparts in the request.
func artifactChanges(request, delivery *tree) []pair {
	var all []pair
	for _, p := range slices.Sorted(maps.Keys(delivery.files)) {
		if !strings.HasPrefix(p, nutshell.ArtifactsDir+"/") {
			continue
		}
		after := delivery.files[p]
		before, ok := request.files[counterpart(request, p)]
		switch {
		case !ok:
			all = append(all, pair{b: &after, change: Added})
		case before.Hash != after.Hash || before.Mode != after.Mode:
			all = append(all, pair{a: &before, b: &after, change: Changed})
		}
	}
	return all
}

func credentials(offered []nutshell.Scope, used []nutshell.CredentialUse) []CredentialAnswer {
	all := []CredentialAnswer{}
	at := map[string]int{}
	add := func(name string) *CredentialAnswer {
		i, ok := at[name]
		if !ok {
			i = len(all)
			at[name] = i
			all = append(all, CredentialAnswer{Name: name})
		}
		return &all[i]
	}
	for _, s := range offered {
		add(s.Name).Offered = true
	}
	for _, u := range used {
		c := add(u.Name)
		c.Used, c.At = true, u.At
	}
	return all
}
