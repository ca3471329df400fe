package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Change is a file that a commit adds or changes.
type Change struct {
	Path   string // below the prefix
	Before string // file with the content that the change was made to; empty if there was none
	After  string // file with the new content

	WasExecutable, Executable bool
}

// ConflictError is the error of a commit that git could not merge with what is there. The working tree has the conflicts.
type ConflictError struct{ Paths []string }

func (e *ConflictError) Error() string { return "conflicts in " + strings.Join(e.Paths, ", ") }

// ErrNothing is the error of a commit that would change nothing.
var ErrNothing = errors.New("nothing to change")

// ErrElsewhere is the error of a commit to a repository with none of the files that the work changes.
var ErrElsewhere = errors.New("the repository has none of the files that the work changes")

// ErrNobody is the error of a commit by a person whose name or address git does not know.
var ErrNobody = errors.New("git does not know who you are")

// DirtyError is the error of a commit over changes that are not committed, or over files that git does not track.
type DirtyError struct {
	Paths     []string
	Untracked bool
}

func (e *DirtyError) Error() string {
	if e.Untracked {
		return e.Paths[0] + " is there and not committed"
	}
	if len(e.Paths) == 1 {
		return e.Paths[0] + " has changes that are not committed"
	}
	return fmt.Sprintf("%d files have changes that are not committed, such as %s", len(e.Paths), e.Paths[0])
}

// Commit commits changes on the branch that is checked out, or on a new one, and returns the id of the commit. What was
// changed since Before is merged, as git cherry-pick does: with a *ConflictError the person goes on by
// git cherry-pick --continue, or --abort. It refuses a working tree with changes that are not committed: a *DirtyError.
func (r *Repo) Commit(ctx context.Context, changes []Change, message, branch string) (string, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return "", err
	}
	whole := &Repo{Top: r.Top}
	dirty, _, err := whole.Changed(ctx)
	if err != nil {
		return "", err
	}
	if len(dirty) > 0 {
		return "", &DirtyError{Paths: dirty}
	}
	if err := r.fits(ctx, head, changes); err != nil {
		return "", err
	}
	made, err := r.pick(ctx, head, changes, message)
	if err != nil {
		return "", err
	}
	if branch != "" {
		if _, err := r.run(ctx, nil, "switch", "--quiet", "--no-guess", "-c", branch); err != nil {
			return "", err
		}
	}
	if _, err := r.run(ctx, nil, "cherry-pick", made); err != nil {
		names, failed := r.run(ctx, nil, "diff", "--name-only", "--diff-filter=U", "-z")
		if failed == nil && len(names) > 0 {
			return "", &ConflictError{strings.Split(strings.TrimSuffix(string(names), "\x00"), "\x00")}
		}
		return "", r.undo(ctx, err, branch)
	}
	return r.Head(ctx)
}

// fits refuses changes that would replace files which git does not track, perhaps because it ignores them, and those to files of
// which the commit has none.
func (r *Repo) fits(ctx context.Context, head string, changes []Change) error {
	files, err := r.Files(ctx, head)
	if err != nil {
		return err
	}
	tracked := map[string]bool{}
	for _, f := range files {
		tracked[f.Path] = true
	}
	var there []string
	changed, known := 0, 0
	for _, c := range changes {
		if c.Before != "" {
			changed++
		}
		if c.Before != "" && tracked[c.Path] {
			known++
		}
		if _, err := os.Lstat(filepath.Join(r.Top, r.Prefix+c.Path)); err == nil && !tracked[c.Path] {
			there = append(there, c.Path)
		}
	}
	if len(there) > 0 {
		return &DirtyError{Paths: there, Untracked: true}
	}
	if changed > 0 && known == 0 {
		return ErrElsewhere
	}
	return nil
}

// undo takes back a pick that git has stopped without a conflict, and the branch that was made for it. git stops at a commit that
// changes nothing any more.
func (r *Repo) undo(ctx context.Context, err error, branch string) error {
	if _, none := r.run(ctx, nil, "rev-parse", "--verify", "--quiet", "CHERRY_PICK_HEAD"); none == nil {
		err = ErrNothing
		if _, failed := r.run(ctx, nil, "cherry-pick", "--abort"); failed != nil {
			return errors.Join(err, failed)
		}
	}
	if branch == "" {
		return err
	}
	for _, args := range [][]string{{"switch", "--quiet", "-"}, {"branch", "--quiet", "-D", branch}} {
		if _, failed := r.run(ctx, nil, args...); failed != nil {
			return errors.Join(err, failed)
		}
	}
	return err
}

// pick makes a commit of the changes for git cherry-pick. Its parent is HEAD, or a commit on HEAD that has the files as
// they were before the changes.
func (r *Repo) pick(ctx context.Context, head string, changes []Change, message string) (string, error) {
	dir, err := os.MkdirTemp("", "guild-git-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	if _, err := r.runWith(ctx, index, nil, "read-tree", head); err != nil {
		return "", err
	}
	was, err := r.runWith(ctx, index, nil, "write-tree")
	if err != nil {
		return "", err
	}
	before, err := r.write(ctx, index, head, changes, func(c Change) (string, bool) { return c.Before, c.WasExecutable })
	if err != nil {
		return "", err
	}
	after, err := r.write(ctx, index, head, changes, func(c Change) (string, bool) { return c.After, c.Executable })
	if err != nil {
		return "", err
	}
	if after == before || after == strings.TrimSpace(string(was)) {
		return "", ErrNothing
	}
	parent := head
	if before != strings.TrimSpace(string(was)) {
		if parent, err = r.commitTree(ctx, before, head, "as it was given to the provider"); err != nil {
			return "", err
		}
	}
	return r.commitTree(ctx, after, parent, message)
}

func (r *Repo) commitTree(ctx context.Context, tree, parent, message string) (string, error) {
	out, err := r.run(ctx, strings.NewReader(message), "commit-tree", tree, "-p", parent, "-F", "-")
	if failed, ok := errors.AsType[*Error](err); ok && (strings.Contains(failed.Says, "tell me who you are") || strings.Contains(failed.Says, "empty ident name")) {
		return "", ErrNobody
	}
	return strings.TrimSpace(string(out)), err
}

// write puts a version of each changed file into the index, and returns the tree. head is any commit's id.
func (r *Repo) write(ctx context.Context, index []string, head string, changes []Change, version func(Change) (file string, executable bool)) (string, error) {
	var names, lines bytes.Buffer
	for _, c := range changes {
		if file, _ := version(c); file != "" {
			fmt.Fprintln(&names, file)
		}
	}
	out, err := r.run(ctx, &names, "hash-object", "-w", "--no-filters", "--stdin-paths")
	if err != nil {
		return "", err
	}
	objects := strings.Fields(string(out))
	for _, c := range changes {
		file, executable := version(c)
		if file == "" {
			fmt.Fprintf(&lines, "0 %s\t%s\x00", strings.Repeat("0", len(head)), r.Prefix+c.Path)
			continue
		}
		mode := Regular
		if executable {
			mode = Executable
		}
		fmt.Fprintf(&lines, "%s %s\t%s\x00", mode, objects[0], r.Prefix+c.Path)
		objects = objects[1:]
	}
	if _, err := r.runWith(ctx, index, &lines, "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	out, err = r.runWith(ctx, index, nil, "write-tree")
	return strings.TrimSpace(string(out)), err
}
