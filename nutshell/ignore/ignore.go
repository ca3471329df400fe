// Package ignore reads .nutignore, the list of what is left out of a bundle. Its patterns are those of a .gitignore at
// the root of the tree: the last pattern that matches wins, "!" includes a path again, and nothing below an excluded
// folder can be included again.
//
// We do not use a library because none that we could import agrees with git. Compared with `git check-ignore` on random
// pattern files, the best of them (go-git's) is wrong about one file in ten of the simplest kind (letters, "*", "/") and
// one in six of all kinds; the others are worse or panic. The tests here compare with git.
//
// Matching takes time proportional to the length of the pattern times that of the path, where git's matcher can take
// exponential time. Upper and lower case differ on every system. The package is pure: it gets the text from the caller.
package ignore

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"guild/nutshell"
)

// File is the path of the file in a bundle's directory.
const File = ".nutignore"

// Bounds of the file.
const (
	maxBytes = 256 << 10
	maxLines = 10_000
	maxLine  = 4_096 // bytes; no path in a bundle is longer
)

// errText is returned for a file in UTF-16, or one that is not text.
var errText = errors.New(File + " has a zero byte; save it as plain UTF-8")

// Patterns are the lines of a .nutignore. The zero value matches nothing. They can be used by many goroutines.
type Patterns struct{ lines []pattern }

// Parse reads a .nutignore. It is a *nutshell.LimitError if the file is larger than 256 KiB, has more than 10,000
// lines or one of more than 4,096 bytes. A malformed pattern matches nothing.
func Parse(b []byte) (*Patterns, error) {
	if len(b) > maxBytes {
		return nil, &nutshell.LimitError{What: "bytes", Limit: maxBytes, Path: File}
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return nil, errText
	}
	p, n := &Patterns{}, 0
	for line := range strings.Lines(strings.TrimPrefix(string(b), "\ufeff")) {
		n++
		if n > maxLines {
			return nil, &nutshell.LimitError{What: "lines", Limit: maxLines, Path: File}
		}
		if len(line) > maxLine {
			return nil, fmt.Errorf("line %d: %w", n, &nutshell.LimitError{What: "bytes of a line", Limit: maxLine, Path: File})
		}
		if one, ok := parseLine(line); ok {
			p.lines = append(p.lines, one)
		}
	}
	return p, nil
}

// Match reports whether a path is left out of the bundle, by its own name or because a folder above it is.
// The path is relative to the root of the tree, with slashes and without a dot for a segment.
func (p *Patterns) Match(path string, isDir bool) bool {
	if p == nil || len(p.lines) == 0 {
		return false
	}
	for i := range len(path) {
		if path[i] == '/' && p.decide(path[:i], true) {
			return true
		}
	}
	return p.decide(path, isDir)
}

// decide matches the patterns with one path, without the folders above it.
func (p *Patterns) decide(path string, isDir bool) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(p.lines) - 1; i >= 0; i-- {
		if one := &p.lines[i]; one.match(path, base, isDir) {
			return !one.negated
		}
	}
	return false
}
