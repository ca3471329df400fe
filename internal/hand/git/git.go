// Package git reads the files of a commit and makes one commit, by the program git. It owns no fact.
//
// It runs no hook of the repository: what a commit brings could be one.
package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNone is the error for a directory that is in no repository, or if git is not installed.
var ErrNone = errors.New("not a git repository")

// ErrUnborn is the error for a repository without a commit.
var ErrUnborn = errors.New("the repository has no commit yet")

// Repo is a repository with a working tree, seen from one of its directories.
type Repo struct {
	Top    string // directory of the working tree
	Prefix string // of the directory below Top, ending in a slash; empty for Top itself
}

// Open returns the repository that a directory is in, or ErrNone. Another error says that there is one which git cannot or will
// not use, such as somebody else's, or one without a working tree.
func Open(ctx context.Context, dir string) (*Repo, error) {
	r := &Repo{Top: dir}
	out, err := r.run(ctx, nil, "rev-parse", "--show-toplevel", "--show-prefix")
	if err != nil && isNone(err) && !marked(dir) {
		if failed, ran := errors.AsType[*Error](err); ran && failed.Says != "" {
			err = nil // it says the same
		}
		err = errors.Join(ErrNone, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	top, prefix, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), "\n")
	return &Repo{Top: top, Prefix: prefix}, nil
}

// isNone reports whether git is not installed, or has found no repository.
func isNone(err error) bool {
	failed, ok := errors.AsType[*Error](err)
	return errors.Is(err, exec.ErrNotFound) || ok && strings.Contains(failed.Says, "not a git repository")
}

// marked reports whether a directory, or one above it, has a repository by its name.
func marked(dir string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return true
	}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return true
		}
		above := filepath.Dir(dir)
		if above == dir {
			return false
		}
		dir = above
	}
}

// Head returns the id of the commit that is checked out.
func (r *Repo) Head(ctx context.Context) (string, error) {
	out, err := r.run(ctx, nil, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if err != nil {
		return "", ErrUnborn
	}
	return strings.TrimSpace(string(out)), nil
}

// Kinds of entries of a commit, as git writes their modes.
const (
	Regular    = "100644"
	Executable = "100755"
	Link       = "120000"
	Module     = "160000" // another repository
)

// File is an entry of a commit.
type File struct {
	Path   string // below the prefix
	Mode   string // Regular, Executable, Link or Module
	Object string
}

// Files lists the entries of a commit below the prefix, sorted by path.
func (r *Repo) Files(ctx context.Context, commit string) ([]File, error) {
	args := []string{"ls-tree", "-r", "-z", "--full-tree", commit}
	if r.Prefix != "" {
		args = append(args, "--", r.Prefix)
	}
	out, err := r.run(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	var all []File
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		meta, path, ok := strings.Cut(line, "\t")
		words := strings.Fields(meta)
		if !ok || len(words) != 3 {
			continue
		}
		all = append(all, File{Path: strings.TrimPrefix(path, r.Prefix), Mode: words[0], Object: words[2]})
	}
	return all, nil
}

// Read passes the content of each file to take, in order. A file of more than most bytes is an error.
func (r *Repo) Read(ctx context.Context, files []File, most int64, take func(f File, content []byte) error) error {
	var ids bytes.Buffer
	for _, f := range files {
		fmt.Fprintln(&ids, f.Object)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := r.command(ctx, &ids, nil, "cat-file", "--batch")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	err = readBatch(bufio.NewReader(out), files, most, take)
	if err != nil {
		cancel()
		_ = cmd.Wait() // the first error counts
		return err
	}
	return cmd.Wait()
}

func readBatch(in *bufio.Reader, files []File, most int64, take func(f File, content []byte) error) error {
	for _, f := range files {
		head, err := in.ReadString('\n')
		words := strings.Fields(head)
		if err != nil || len(words) != 3 {
			return fmt.Errorf("git has no object of %.200q", f.Path)
		}
		size, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil || size > most {
			return fmt.Errorf("%.200q: %s bytes, at most %d", f.Path, words[2], most)
		}
		content := make([]byte, size)
		if _, err := io.ReadFull(in, content); err != nil {
			return err
		}
		if _, err := in.Discard(1); err != nil {
			return err
		}
		if err := take(f, content); err != nil {
			return err
		}
	}
	return nil
}

// Changed lists the tracked files below the prefix that differ from the commit, and the untracked ones that are not
// ignored, as paths below the prefix.
func (r *Repo) Changed(ctx context.Context) (changed, untracked []string, err error) {
	args := []string{"status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=all"}
	if r.Prefix != "" {
		args = append(args, "--", r.Prefix)
	}
	out, err := r.run(ctx, nil, args...)
	if err != nil {
		return nil, nil, err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if len(line) < 4 {
			continue
		}
		path := strings.TrimPrefix(line[3:], r.Prefix)
		if line[:2] == "??" {
			untracked = append(untracked, path)
		} else {
			changed = append(changed, path)
		}
	}
	return changed, untracked, nil
}

// run runs git to its end, and returns what it prints. The error has what git says.
func (r *Repo) run(ctx context.Context, stdin io.Reader, args ...string) ([]byte, error) {
	return r.runWith(ctx, nil, stdin, args...)
}

func (r *Repo) runWith(ctx context.Context, env []string, stdin io.Reader, args ...string) ([]byte, error) {
	cmd := r.command(ctx, stdin, env, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, &Error{Verb: args[0], Says: strings.TrimSpace(stderr.String()), err: err}
	}
	return out, nil
}

// Error is a failure of git.
type Error struct {
	Verb string // of git
	Says string // what it printed on standard error
	err  error
}

func (e *Error) Error() string {
	if e.Says == "" {
		return fmt.Sprintf("git %s: %v", e.Verb, e.err)
	}
	return fmt.Sprintf("git %s: %s", e.Verb, e.Says)
}

func (e *Error) Unwrap() error { return e.err }

// command prepares git. Variables that name another repository, as those of a hook do, are left out. Nothing is fetched, and
// names of files are no patterns.
func (r *Repo) command(ctx context.Context, stdin io.Reader, env []string, args ...string) *exec.Cmd {
	safe := []string{"-C", r.Top, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false"}
	cmd := exec.CommandContext(ctx, "git", append(safe, args...)...)
	cmd.Stdin = stdin
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_EXTERNAL_DIFF":
		default:
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true",
		"GIT_LITERAL_PATHSPECS=1", "GIT_NO_LAZY_FETCH=1"), env...)
	return cmd
}
