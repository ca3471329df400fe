package viewer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"guild/internal/cli"
	"guild/nutshell"
	"guild/nutshell/check"
	"guild/nutshell/vault"
)

// maxShown bounds the part of a file that a page shows, in bytes. The raw file is shown whole.
const maxShown = 1 << 20

// shown is a tree as a page has it.
type shown struct {
	tree     fs.FS
	manifest *nutshell.Manifest // nil if it cannot be read
	fault    error              // why not
	secret   []string           // paths that the manifest says are credentials, in lower case
}

// shownFile is a file that is shown.
type shownFile struct {
	Path    string
	Size    int64
	Hash    string // hex; empty if it is not known
	changed time.Time
}

func newShown(tree fs.FS) *shown {
	s := &shown{tree: tree, secret: []string{path.Dir(vault.File)}}
	if s.manifest, s.fault = nutshell.ReadManifest(tree); s.fault != nil {
		return s
	}
	for _, p := range []string{s.manifest.Credentials().Vault, s.manifest.APIs().CredentialRef} {
		if p = path.Clean(p); p != "." {
			s.secret = append(s.secret, strings.ToLower(p))
		}
	}
	return s
}

// withholds reports whether a path is not shown: dot files, credentials, keys and hidden tests, whatever their case.
func (s *shown) withholds(name string) bool {
	lower := strings.ToLower(name)
	for _, p := range append(slices.Clone(s.secret), nutshell.HiddenDir) {
		if lower == p || strings.HasPrefix(lower, p+"/") {
			return true
		}
	}
	base := path.Base(lower)
	return strings.HasPrefix(lower, ".") || strings.Contains(lower, "/.") || strings.HasPrefix(base, "id_") && path.Ext(base) == "" ||
		slices.Contains([]string{".key", ".pem", ".p12", ".pfx", ".ppk", ".jks", ".keystore", ".kdbx"}, path.Ext(base))
}

// files lists what is shown, and counts what is not.
func (s *shown) files() (files []shownFile, withheld int, err error) {
	err = fs.WalkDir(s.tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if s.withholds(name) {
			withheld++
			return nil
		}
		info, err := d.Info()
		if err == nil {
			files = append(files, shownFile{Path: name, Size: info.Size(), changed: info.ModTime()})
		}
		return err
	})
	return files, withheld, err
}

// indexPage is the data of the page of the bundle.
type indexPage struct {
	Name, Title, Fault string
	Facts              []fact
	Lists              []namedList
	Credentials        []nutshell.Scope
	Verdict            string
	Ready              bool
	Items              []check.Item
	Files              []shownFile
	Withheld           int
}

type fact struct{ Name, Value string }

type namedList struct {
	Name  string
	Lines []string
}

func (v *Viewer) index(w http.ResponseWriter, s *shown) {
	files, withheld, err := s.files()
	if err != nil {
		refuse(w, http.StatusInternalServerError, "The bundle cannot be read: "+cli.Clean(err.Error()))
		return
	}
	for i, f := range files {
		if hash, err := v.hash(s, f); err == nil {
			files[i].Hash = hash.Hex()
		}
	}
	page := indexPage{Name: cli.Clean(v.Name), Title: "A bundle without a title", Files: files, Withheld: withheld}
	if s.fault != nil {
		page.Fault = s.fault.Error()
		show(w, "index", page)
		return
	}
	page.describe(s.manifest)
	if r, err := check.Tree(s.tree, check.Options{Now: v.Now(), Program: v.Program, Packed: v.Packed}); err == nil {
		page.Verdict, page.Ready, page.Items = r.Verdict(), r.Ready(), r.Items
	}
	show(w, "index", page)
}

// describe takes over what a person wants to know of a manifest.
func (page *indexPage) describe(m *nutshell.Manifest) {
	if t := m.Task().Title; t != "" {
		page.Title = t
	}
	effort, harness := m.Task().EstimatedEffort, m.Harness()
	page.fact("Summary", m.Task().Summary)
	page.fact("Type", m.BundleType())
	page.fact("Id", m.ID())
	page.fact("Version", m.Version())
	page.fact("Priority", m.Task().Priority)
	page.fact("Effort", effort)
	page.fact("From", strings.Join(nonEmpty(m.Publisher().Name, m.Publisher().Contact, m.Publisher().Tool), ", "))
	page.fact("Created", string(m.CreatedAt()))
	page.fact("Expires", string(m.ExpiresAt()))
	page.fact("Skills", strings.Join(m.Tags().SkillsRequired, ", "))
	page.fact("Domains", strings.Join(m.Tags().Domains, ", "))
	page.fact("Strategy", strings.Join(nonEmpty(harness.AgentTypeHint, harness.ExecutionStrategy), ", "))
	if harness.ContextBudgetHint > 0 {
		page.fact("Context budget", strconv.FormatFloat(100*harness.ContextBudgetHint, 'f', -1, 64)+" %")
	}
	page.list("Constraints", harness.Constraints)
	page.list("Acceptance", m.Acceptance().Checklist)
	page.Credentials = m.Credentials().Scopes
}

func (page *indexPage) fact(name, value string) {
	if value != "" {
		page.Facts = append(page.Facts, fact{name, value})
	}
}

func (page *indexPage) list(name string, lines []string) {
	if len(lines) > 0 {
		page.Lists = append(page.Lists, namedList{name, lines})
	}
}

func nonEmpty(all ...string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// open opens a file that is shown.
func (s *shown) open(name string) (fs.File, shownFile, error) {
	if !fs.ValidPath(name) || s.withholds(name) {
		return nil, shownFile{}, fs.ErrNotExist
	}
	f, err := s.tree.Open(name)
	if err != nil {
		return nil, shownFile{}, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		f.Close()
		return nil, shownFile{}, err
	}
	return f, shownFile{Path: name, Size: info.Size(), changed: info.ModTime()}, nil
}

// filePage is the data of the page of a file.
type filePage struct {
	Name string
	File shownFile
	Text string
	Why  string // the text is not there, or not whole
}

func (v *Viewer) file(w http.ResponseWriter, s *shown, name string) {
	f, info, err := s.open(name)
	if err != nil {
		notThere(w)
		return
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxShown))
	if err != nil {
		refuse(w, http.StatusInternalServerError, "The file cannot be read.")
		return
	}
	page := filePage{Name: cli.Clean(v.Name), File: info}
	if hash, err := v.hash(s, info); err == nil {
		page.File.Hash = hash.Hex()
	}
	text, ok := readable(b)
	switch {
	case !ok:
		page.Why = "This file is not text."
	case info.Size > maxShown:
		page.Text, page.Why = text, fmt.Sprintf("These are the first %s of it.", cli.Size(maxShown))
	default:
		page.Text = text
	}
	show(w, "file", page)
}

// readable returns bytes as text, if they are. The last character may have been cut.
func readable(b []byte) (string, bool) {
	for range utf8.UTFMax - 1 {
		if utf8.Valid(b) || len(b) == 0 {
			break
		}
		b = b[:len(b)-1]
	}
	text := string(b)
	return text, utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// raw sends a file as it is. Whatever it may be, a browser gets it as plain text.
func (v *Viewer) raw(w http.ResponseWriter, s *shown, name string) {
	f, info, err := s.open(name)
	if err != nil {
		if errors.Is(err, nutshell.ErrChanged) {
			refuse(w, http.StatusConflict, "The file is being changed.")
			return
		}
		notThere(w)
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Length", strconv.FormatInt(info.Size, 10))
	io.Copy(w, f)
}
