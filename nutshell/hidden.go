package nutshell

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"guild"
)

// Hidden tests are files of a request that stay with the customer until the work is judged. The bundle has a commitment
// to each, the hash of a random salt and the content, so that the customer cannot change a test afterwards. The salts
// stay with the customer as well; a salt and the file are enough to check a commitment.
const (
	HiddenDir = "tests/hidden"
	SaltsFile = HiddenDir + "/.salts.json" // the side file, which never leaves the customer
)

// saltSize is the length of a salt in bytes.
const saltSize = 32

// ErrHidden is a hidden test that does not match its commitment, or has none.
var ErrHidden = errors.New("a hidden test that was not committed to")

// Commit returns a commitment to each file below HiddenDir of a tree, sorted by path, with salts from random. A
// commitment in known that matches its file is kept, so that committing again changes nothing.
func Commit(ctx context.Context, fsys fs.FS, random io.Reader, known []guild.Commitment) ([]guild.Commitment, error) {
	var all []guild.Commitment
	err := eachHidden(ctx, fsys, DefaultLimits(), func(p string, content []byte) error {
		i := slices.IndexFunc(known, func(c guild.Commitment) bool { return c.Path == p && Opens(c, content) })
		if i >= 0 {
			all = append(all, known[i])
			return nil
		}
		salt := make([]byte, saltSize)
		if _, err := io.ReadFull(random, salt); err != nil {
			return fmt.Errorf("a salt for %.200q: %w", p, err)
		}
		all = append(all, guild.Commitment{Path: p, Hash: commitment(salt, content), Salt: hex.EncodeToString(salt)})
		return nil
	})
	return all, err
}

// commitment is the hash of a salt and a file.
func commitment(salt, content []byte) guild.Hash {
	return guild.Hash(sha256.Sum256(slices.Concat(salt, content)))
}

// Opens reports whether the salt of a commitment and the content of a file give its hash.
func Opens(c guild.Commitment, content []byte) bool {
	salt, err := hex.DecodeString(c.Salt)
	if err != nil || len(salt) != saltSize {
		return false
	}
	sum := commitment(salt, content)
	return subtle.ConstantTimeCompare(sum[:], c.Hash[:]) == 1
}

// eachHidden calls fn with each regular file below HiddenDir, sorted by path, without the side file.
func eachHidden(ctx context.Context, fsys fs.FS, l Limits, fn func(p string, content []byte) error) error {
	if _, err := fs.Stat(fsys, HiddenDir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	total := int64(0)
	return fs.WalkDir(fsys, HiddenDir, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil || d.IsDir() || p == SaltsFile:
			return err
		case !d.Type().IsRegular():
			return &EntryError{p, irregular(d.Type())}
		}
		if err := l.checkPath(p); err != nil {
			return err
		}
		content, err := readHidden(ctx, fsys, p, l.File)
		if err != nil {
			return err
		}
		if total += int64(len(content)); total > l.Total {
			return &LimitError{What: "Total", Limit: l.Total, Path: p}
		}
		return fn(p, content)
	})
}

func readHidden(ctx context.Context, fsys fs.FS, p string, most int64) ([]byte, error) {
	f, err := fsys.Open(p)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(reader{ctx, f}, most+1))
	if err != nil {
		return nil, fmt.Errorf("%.200q: %w", p, err)
	}
	if int64(len(content)) > most {
		return nil, &LimitError{What: "File", Limit: most, Path: p}
	}
	return content, nil
}

// Salts returns the content of SaltsFile: the commitments with their salts.
func Salts(commitments []guild.Commitment) ([]byte, error) {
	b, err := json.MarshalIndent(struct {
		Hidden []guild.Commitment `json:"hidden_tests"`
	}{commitments}, "", "  ")
	return append(b, '\n'), err
}

// ParseSalts reads a side file that Salts wrote. Its errors are those of ParseManifest.
func ParseSalts(b []byte) ([]guild.Commitment, error) {
	text, err := parseDocument(SaltsFile, b)
	if err != nil {
		return nil, err
	}
	var file struct {
		Hidden []guild.Commitment `json:"hidden_tests"`
	}
	if err := json.Unmarshal(text.raw, &file); err != nil {
		return nil, &ManifestError{File: SaltsFile, Reason: err.Error()}
	}
	for i, c := range file.Hidden {
		if !IsHidden(c.Path) {
			return nil, &ManifestError{SaltsFile, fmt.Sprintf("hidden_tests.%d.path", i), "is not below " + HiddenDir}
		}
	}
	return file.Hidden, nil
}

// IsHidden reports whether a path is that of a file or folder that stays with the customer.
func IsHidden(p string) bool {
	return strings.HasPrefix(p, HiddenDir+"/") && path.Clean(p) == p && unsafePath(p) == ""
}

// commitTo writes the commitments into the manifest if the tree has hidden tests. Each of them must match.
func (m *Manifest) commitTo(ctx context.Context, fsys fs.FS, o Options) error {
	byPath := make(map[string]guild.Commitment, len(o.Hidden))
	for _, c := range o.Hidden {
		byPath[c.Path] = c
	}
	var tests []HiddenTest
	err := eachHidden(ctx, fsys, o.Limits, func(p string, content []byte) error {
		c, ok := byPath[p]
		if !ok || !Opens(c, content) {
			return fmt.Errorf("%.200q: %w", p, ErrHidden)
		}
		tests = append(tests, HiddenTest{p, c.Hash})
		return nil
	})
	if err != nil {
		return err
	}
	if len(tests) != len(o.Hidden) {
		return fmt.Errorf("%d commitments for %d hidden tests: %w", len(o.Hidden), len(tests), ErrHidden)
	}
	if len(tests) == 0 {
		return nil
	}
	return m.set(change{[]string{"acceptance", "hidden_tests"}, tests})
}

// withoutHidden removes the hidden tests from files.tree.
func (m *Manifest) withoutHidden() error {
	raw, ok := m.text.get("files", "tree")
	if !ok || !bytes.Contains(raw, []byte(HiddenDir)) {
		return nil
	}
	var lines []json.RawMessage
	if err := decode(ManifestFile, raw, &lines); err != nil {
		return err
	}
	kept := make([]json.RawMessage, 0, len(lines))
	for i, line := range lines {
		if !IsHidden(m.read.Files.Tree[i].Path) {
			kept = append(kept, line)
		}
	}
	if len(kept) == len(lines) {
		return nil
	}
	return m.set(change{[]string{"files", "tree"}, kept})
}
