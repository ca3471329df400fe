package exam

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"guild"
	"guild/nutshell"
)

// stage determines the directory that runs see as tests/. With hidden tests it is a copy of the bundle's tests with the
// hidden ones added, each checked against its commitment. Without, it is the bundle's own directory.
func (j *examination) stage(ctx context.Context, hiddenDir string) error {
	own := filepath.Join(j.bundle, "tests")
	if hiddenDir == "" {
		hiddenDir = filepath.Join(own, hiddenName)
	}
	if isDir(own) {
		j.tests = own
	}
	if !isDir(hiddenDir) {
		if n := len(j.acceptance.Hidden); n > 0 {
			j.warnings = append(j.warnings, fmt.Sprintf("%d hidden tests were committed to, but are missing and were not used", n))
		}
		return nil
	}
	staged, err := j.scratchDir("tests")
	if err != nil {
		return err
	}
	if j.tests != "" {
		if err := copyTree(ctx, own, staged, func(name string) bool { return name == hiddenName }); err != nil {
			return undecided("the bundle's tests: %w", err)
		}
	}
	if err := copyTree(ctx, hiddenDir, filepath.Join(staged, hiddenName), nil); err != nil {
		return undecided("the hidden tests: %w", err)
	}
	j.tests = staged
	return j.openCommitments(ctx)
}

// openCommitments checks the hidden tests that were copied to the staged directory.
func (j *examination) openCommitments(ctx context.Context) error {
	salts, err := readSalts(filepath.Join(j.tests, hiddenName))
	if err != nil {
		return undecided("%s: %w", nutshell.SaltsFile, err)
	}
	files := map[string][]byte{}
	if err := eachFile(ctx, filepath.Join(j.tests, hiddenName), func(name string, content []byte) error {
		if name != filepath.Base(nutshell.SaltsFile) {
			files[nutshell.HiddenDir+"/"+name] = content
		}
		return nil
	}); err != nil {
		return undecided("the hidden tests: %w", err)
	}
	if len(j.acceptance.Hidden) == 0 {
		j.takeUncommitted(files, salts)
		return nil
	}
	for _, promised := range j.acceptance.Hidden {
		content, here := files[promised.Path]
		if !here {
			return undecided("hidden test %q was committed to and is missing", promised.Path)
		}
		c := guild.Commitment{Path: promised.Path, Hash: promised.Hash, Salt: salts[promised.Path].Salt}
		if !nutshell.Opens(c, content) {
			return undecided("hidden test %q does not match the commitment to it", promised.Path)
		}
		j.hidden = append(j.hidden, c)
		delete(files, promised.Path)
	}
	// A file without a commitment could have been added after the delivery was seen.
	for name := range files {
		return undecided("hidden test %q was not committed to", name)
	}
	return nil
}

// takeUncommitted uses the hidden tests of a directory whose manifest has no commitments yet, because packing adds
// them. It lists those with a salt in the side file, and a warning names the others.
func (j *examination) takeUncommitted(files map[string][]byte, salts map[string]guild.Commitment) {
	var unknown []string
	for name, content := range files {
		if c, known := salts[name]; known && nutshell.Opens(c, content) {
			j.hidden = append(j.hidden, c)
		} else {
			unknown = append(unknown, name)
		}
	}
	slices.SortFunc(j.hidden, func(a, b guild.Commitment) int { return strings.Compare(a.Path, b.Path) })
	slices.Sort(unknown)
	j.uncommitted = len(unknown) > 0
	if j.uncommitted {
		j.warnings = append(j.warnings, "hidden tests without a commitment: "+cut(strings.Join(unknown, ", ")))
	}
}

// readSalts reads the side file with the salts, by path; without the file there are none.
func readSalts(dir string) (map[string]guild.Commitment, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	b, err := readSome(root.FS(), filepath.Base(nutshell.SaltsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list, err := nutshell.ParseSalts(b)
	salts := make(map[string]guild.Commitment, len(list))
	for _, c := range list {
		salts[c.Path] = c
	}
	return salts, err
}

// copyTree copies files and directories within the limits of survey. Anything else in the tree is an error.
func copyTree(ctx context.Context, from, to string, skip func(string) bool) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	return eachFile(ctx, from, func(name string, content []byte) error {
		if top, _, _ := strings.Cut(name, "/"); skip != nil && skip(top) {
			return nil
		}
		if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return err
		}
		return root.WriteFile(name, content, 0o700) // executable, because a script may be run directly
	})
}

// eachFile reads the regular files of a tree. A link, device or socket in it is an error.
func eachFile(ctx context.Context, dir string, fn func(name string, content []byte) error) error {
	names, err := survey(dir, map[string]bool{})
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		content, err := root.ReadFile(name)
		if err != nil {
			return err
		}
		if err := fn(filepath.ToSlash(name), content); err != nil {
			return err
		}
	}
	return nil
}
