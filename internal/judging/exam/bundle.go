package exam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"guild"
	"guild/nutshell"
)

// acceptance is the part of a request bundle's manifest about judging.
type acceptance struct {
	File       string                `json:"criteria_file"`
	Scripts    []string              `json:"test_scripts"`
	Verifiable *bool                 `json:"auto_verifiable"`
	Review     bool                  `json:"human_review_required"`
	Checklist  []string              `json:"checklist"`
	Hidden     []nutshell.HiddenTest `json:"hidden_tests"`
}

// Names of criteria below tests/.
const (
	criteriaName       = "criteria.json"
	hiddenName         = "hidden"
	hiddenCriteriaName = "hidden/criteria.json"
	saltsName          = "hidden/.salts.json"
)

// private reports whether a file below tests/ is hidden from every run: it contains expected outputs, or the salts that
// open the commitments.
func private(name string) bool {
	return shortcuts(name) || slices.Contains([]string{criteriaName, hiddenCriteriaName, saltsName}, name)
}

// readBundle reads and checks the request bundle: its criteria and its tests, with the hidden ones.
//
// The tests are staged before the criteria are read, since hidden criteria come with the hidden tests.
func (j *examination) readBundle(ctx context.Context, hiddenDir string) error {
	root, err := os.OpenRoot(j.bundle)
	if err != nil {
		return err
	}
	defer root.Close()
	if j.acceptance, err = readAcceptance(root.FS()); err != nil {
		return err
	}
	if err := j.stage(ctx, hiddenDir); err != nil {
		return err
	}
	if j.criteria, err = readCriteria(root.FS(), j.acceptance); err != nil {
		return err
	}
	return j.addHiddenCriteria()
}

// readAcceptance reads what the manifest says of the acceptance.
func readAcceptance(tree fs.FS) (acceptance, error) {
	var manifest struct {
		Acceptance acceptance `json:"acceptance"`
	}
	b, err := readSome(tree, nutshell.ManifestFile)
	if err == nil {
		err = json.Unmarshal(b, &manifest)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return acceptance{}, undecided("nutshell.json: %w", err)
	}
	return manifest.Acceptance, nil
}

// Read reads the public criteria of a request bundle that is unpacked in bundleDir.
func Read(bundleDir string) (Criteria, error) {
	root, err := os.OpenRoot(bundleDir)
	if err != nil {
		return Criteria{}, err
	}
	defer root.Close()
	return read(root.FS())
}

func read(tree fs.FS) (Criteria, error) {
	a, err := readAcceptance(tree)
	if err != nil {
		return Criteria{}, err
	}
	return readCriteria(tree, a)
}

// readCriteria reads the public criteria. A bundle that only lists scripts has one for each of them, and a bundle with
// only a checklist has none.
func readCriteria(tree fs.FS, a acceptance) (Criteria, error) {
	file := a.File
	if file == "" {
		file = nutshell.CriteriaFile
	}
	b, err := readSome(tree, file)
	none := errors.Is(err, fs.ErrNotExist) && a.File == ""
	switch {
	case err == nil:
		return parseCriteria(b)
	case none && len(a.Scripts) > 0:
		c := Criteria{Framework: "shell"}
		for _, s := range a.Scripts {
			c.Criteria = append(c.Criteria, Entry{Case: Case{caseName: caseName{ID: s}}, Type: "shell", Service: Service{Script: s}})
		}
		return c, c.resolve()
	case none && len(a.Checklist) > 0:
		return Criteria{TimeLimit: defaultTime}, nil
	default:
		return Criteria{}, undecided("acceptance criteria: %w", err)
	}
}

// addHiddenCriteria adds the criteria of tests/hidden/criteria.json, if that exists.
func (j *examination) addHiddenCriteria() error {
	if j.tests == "" || len(j.hidden) == 0 && !j.uncommitted {
		return nil
	}
	root, err := os.OpenRoot(j.tests)
	if err != nil {
		return err
	}
	defer root.Close()
	b, err := readSome(root.FS(), hiddenCriteriaName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return undecided("hidden criteria: %w", err)
	}
	more, err := parseCriteria(b)
	if err != nil {
		return fmt.Errorf("hidden %w", err)
	}
	for _, c := range more.Criteria {
		if slices.ContainsFunc(j.criteria.Criteria, func(other Entry) bool { return other.ID == c.ID }) {
			return undecided("hidden criteria: duplicate id %s", c.ID)
		}
		c.hidden = true
		j.criteria.Criteria = append(j.criteria.Criteria, c)
	}
	return nil
}

// readSome reads a file of the bundle, up to maxCriteriaFile bytes.
func readSome(tree fs.FS, name string) ([]byte, error) {
	f, err := tree.Open(path.Clean(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxCriteriaFile+1))
	if err == nil && len(b) > maxCriteriaFile {
		err = fmt.Errorf("%s: more than %d bytes", name, maxCriteriaFile)
	}
	return b, err
}

// person returns the reasons why a person must decide, or "" if the criteria suffice.
func (j *examination) person() string {
	var why []string
	add := func(holds bool, reason string) {
		if holds {
			why = append(why, reason)
		}
	}
	isFalse := func(b *bool) bool { return b != nil && !*b }
	add(len(j.criteria.Criteria) == 0, "the request has a checklist, but no criteria that a program could verify")
	add(isFalse(j.acceptance.Verifiable) || isFalse(j.criteria.Verifiable), "the request says that it is not auto-verifiable")
	add(j.acceptance.Review || j.criteria.Review, "the request asks for a person's review")
	for _, c := range j.criteria.Criteria {
		add(c.Review, fmt.Sprintf("criterion %s asks for a person's review", c.ID))
	}
	// Criteria that no program can judge are grouped by reason.
	var reasons []string
	ids := map[string][]string{}
	for _, c := range j.criteria.Criteria {
		if c.Unverifiable == "" {
			continue
		}
		if len(ids[c.Unverifiable]) == 0 {
			reasons = append(reasons, c.Unverifiable)
		}
		ids[c.Unverifiable] = append(ids[c.Unverifiable], c.ID)
	}
	for _, reason := range reasons {
		why = append(why, fmt.Sprintf("%s cannot be verified: %s", strings.Join(ids[reason], ", "), reason))
	}
	return cut(strings.Join(why, "; "))
}

// claims reads the delivery's own claims about its tests. The file is hostile and decides nothing, so an unreadable one
// is ignored.
func claims(deliveryDir string) *guild.Claims {
	root, err := os.OpenRoot(deliveryDir)
	if err != nil {
		return nil
	}
	defer root.Close()
	if info, err := root.Lstat(nutshell.ResultFile); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	b, err := readSome(root.FS(), nutshell.ResultFile)
	if err != nil {
		return nil
	}
	result, err := nutshell.ParseResult(b)
	if err != nil {
		return nil
	}
	a := result.AcceptanceResults
	c := guild.Claims{Passed: count(a.TestsPassed), Failed: count(a.TestsFailed), Skipped: count(a.TestsSkipped)}
	if c == (guild.Claims{}) {
		return nil
	}
	return &c
}

// count limits a number that a stranger wrote to a plausible range.
func count(n int64) int { return int(min(max(n, 0), 1_000_000)) }

// scratchDir creates a directory on the host for this examination, which removes it at its end.
func (j *examination) scratchDir(name string) (string, error) {
	if j.scratch == "" {
		dir, err := os.MkdirTemp("", "exam-")
		if err != nil {
			return "", err
		}
		j.scratch = dir
	}
	dir, err := os.MkdirTemp(j.scratch, name+"-")
	if err != nil {
		return "", err
	}
	return filepath.Abs(dir)
}
