package project

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"guild/internal/hand/git"
	"guild/nutshell"
	"guild/nutshell/ignore"
)

// tree is a project: the files of the commit that is checked out, or those of a directory without git.
type tree struct {
	dir     *os.Root
	repo    *git.Repo // nil without git
	commit  string
	files   []git.File // regular files only; without git they have no Object
	leftOut []nutshell.Skipped

	changed, untracked []string
}

// open reads the names of a project's files.
func open(ctx context.Context, dir string) (*tree, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t := &tree{dir: root}
	t.repo, err = git.Open(ctx, dir)
	if errors.Is(err, git.ErrNone) {
		err = t.walk(ctx)
	} else if err == nil {
		err = t.list(ctx)
	}
	if err != nil {
		root.Close()
		return nil, err
	}
	return t, nil
}

// list reads the commit. Links and other repositories are left out, because a bundle has neither.
func (t *tree) list(ctx context.Context) (err error) {
	if t.commit, err = t.repo.Head(ctx); err != nil {
		return err
	}
	if t.changed, t.untracked, err = t.repo.Changed(ctx); err != nil {
		return err
	}
	all, err := t.repo.Files(ctx, t.commit)
	if err != nil {
		return err
	}
	ignored, err := t.patterns(ignore.File)
	if err != nil {
		return err
	}
	for _, f := range all {
		switch {
		case f.Mode == git.Link:
			t.leftOut = append(t.leftOut, nutshell.Skipped{Path: f.Path, Reason: "is a symbolic link"})
		case f.Mode == git.Module:
			t.leftOut = append(t.leftOut, nutshell.Skipped{Path: f.Path, Reason: "is a submodule"})
		case ignored.Match(f.Path, false):
			t.leftOut = append(t.leftOut, nutshell.Skipped{Path: f.Path, Reason: nutshell.ReasonExcluded})
		case f.Path != ignore.File:
			t.files = append(t.files, f)
		}
	}
	return nil
}

// usual are patterns of what no project without git means to send. A .nutignore can include them again.
const usual = "__pycache__/\n*.pyc\n.pytest_cache/\n.mypy_cache/\n.venv/\nvenv/\nnode_modules/\n.DS_Store\n.git/\n"

// walk reads the names in a directory without git.
func (t *tree) walk(ctx context.Context) error {
	ignored, err := t.patterns(".gitignore", ignore.File)
	if err != nil {
		return err
	}
	return fs.WalkDir(t.dir.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil || p == ".":
			return err
		case ignored.Match(p, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir() || p == ignore.File:
		case !d.Type().IsRegular():
			t.leftOut = append(t.leftOut, nutshell.Skipped{Path: p, Reason: "is not a regular file"})
		default:
			info, err := d.Info()
			if err != nil {
				return err
			}
			f := git.File{Path: p, Mode: git.Regular}
			if info.Mode()&0o111 != 0 {
				f.Mode = git.Executable
			}
			t.files = append(t.files, f)
		}
		return nil
	})
}

// patterns reads files of patterns, the strongest last. Without git the usual ones come first.
func (t *tree) patterns(names ...string) (*ignore.Patterns, error) {
	var all []byte
	if t.repo == nil {
		all = append(all, usual...)
	}
	for _, name := range names {
		raw, err := t.own(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(append(all, raw...), '\n')
	}
	return ignore.Parse(all)
}

// own reads a file of the directory, committed or not.
func (t *tree) own(name string) ([]byte, error) {
	f, err := t.dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	most := nutshell.DefaultLimits().File
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%.200q: more than %d bytes", name, most)
	}
	return raw, err
}

// read passes the content of files to take.
func (t *tree) read(ctx context.Context, files []git.File, take func(f git.File, content []byte) error) error {
	if t.repo != nil {
		return t.repo.Read(ctx, files, nutshell.DefaultLimits().File, take)
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		raw, err := t.own(f.Path)
		if err == nil {
			err = take(f, raw)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// one returns the content of a file, nil if the project has none of that name.
func (t *tree) one(ctx context.Context, name string) (content []byte, err error) {
	i := slices.IndexFunc(t.files, func(f git.File) bool { return f.Path == name })
	if i < 0 {
		return nil, nil
	}
	err = t.read(ctx, t.files[i:i+1], func(_ git.File, raw []byte) error { content = raw; return nil })
	return content, err
}

// below lists the regular files at or below a name in the directory, committed or not, without what Python and editors
// leave there. A link on the way is an error, because the files have other names where it leads.
func (t *tree) below(name string) (files []string, err error) {
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, err := t.dir.Lstat(name[:i])
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%.200q is a link: name the folder itself", name[:i])
		}
	}
	junk, err := ignore.Parse([]byte(usual))
	if err != nil {
		return nil, err
	}
	err = fs.WalkDir(t.dir.FS(), name, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case junk.Match(p, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir() || path.Base(p) == path.Base(nutshell.SaltsFile):
		case !d.Type().IsRegular():
			return fmt.Errorf("%.200q is not a regular file", p)
		default:
			files = append(files, p)
		}
		return nil
	})
	return files, err
}

// within reports whether a name is one of the roots, or below one.
func within(name string, roots []string) (root string, is bool) {
	for _, root := range roots {
		if name == root || strings.HasPrefix(name, root+"/") {
			return root, true
		}
	}
	return "", false
}
