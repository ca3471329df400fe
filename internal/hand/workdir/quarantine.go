package workdir

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"guild/nutshell"
)

// foreign lists the names, in lower case, of configuration that coding agents, editors and shells use without asking: hooks,
// tool servers, tasks, permissions.
//
// Files of instructions, such as AGENTS.md, are among them. An agent takes them for orders of its owner, but a stranger may
// ask only in nutshell.json and context/, which an agent reads as the task. The files are moved, not deleted, so that they
// can still be read.
var foreign = map[string]bool{
	".git": true, ".hg": true, ".svn": true, ".jj": true, ".husky": true, ".envrc": true,
	".vscode": true, ".idea": true, ".zed": true, ".devcontainer": true, ".devcontainer.json": true,
	".claude": true, ".claude.json": true, ".mcp.json": true, "claude.md": true, "claude.local.md": true,
	".codex": true, "agents.md": true, "agents.override.md": true, "agent.md": true,
	".gemini": true, "gemini.md": true, "copilot-instructions.md": true,
	".cursor": true, ".cursorrules": true, ".windsurf": true, ".windsurfrules": true,
	".aider": true, ".aider.conf.yml": true, ".continue": true, ".cline": true, ".clinerules": true,
	".roo": true, ".roorules": true, ".roomodes": true, ".goose": true, ".goosehints": true,
	".opencode": true, "opencode.json": true, "opencode.jsonc": true, ".amp": true, ".kiro": true, ".junie": true,
}

// isForeign reports whether a file or folder with this name is moved.
func isForeign(base string) bool {
	lower := strings.ToLower(base)
	return foreign[lower] || strings.HasSuffix(lower, ".instructions.md")
}

// HoldsForeign reports whether Quarantine would move a file of the unpacked bundle.
func HoldsForeign(b *nutshell.Bundle) bool {
	return nutshell.RefuseVersionControl(b.Files()) != nil || slices.ContainsFunc(b.Files(), func(e nutshell.Entry) bool { return IsForeign(e.Path) })
}

// IsForeign reports whether Quarantine would move the file with a path in a bundle.
func IsForeign(name string) bool { return slices.ContainsFunc(strings.Split(name, "/"), isForeign) }

// Quarantine moves the configuration of agents, editors and version control in an unpacked bundle out of dir, from anywhere in
// the tree, into dir + ".quarantine", under the same paths. It returns the paths that were moved, sorted. It makes no folder
// if there are none.
func Quarantine(dir string) ([]string, error) {
	dir = filepath.Clean(dir)
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	base := filepath.Base(dir)
	found, err := findForeign(root, base)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		to := path.Join(base+".quarantine", p)
		if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
			return nil, err
		}
		if err := root.Rename(path.Join(base, p), to); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// findForeign lists the foreign files and folders below base, relative to it, without those inside foreign folders.
func findForeign(root *os.Root, base string) ([]string, error) {
	tree, err := fs.Sub(root.FS(), base)
	if err != nil {
		return nil, err
	}
	var all, found []string
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, p)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	versioned := nutshell.VersionControl(all)
	err = fs.WalkDir(tree, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == "." || !isForeign(d.Name()) && (d.IsDir() || !versioned(p)) {
			return err
		}
		found = append(found, p)
		if d.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	return found, err
}
