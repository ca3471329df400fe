// Package ignore reads .nutignore, the file that says what stays out of a bundle. Its patterns are those of a
// .gitignore at the root of the tree, and mean what they mean to git: the last one that matches wins, "!" takes a
// path back in, and nothing can be taken back in below a folder that is out.
//
// It is our own because no library that can be required gives git's answers. Against `git check-ignore` and random
// files of patterns, the best of them (go-git's) is wrong about one file in ten of the plainest kind (letters, "*",
// "/") and one in six of all kinds; the others are further off or panic. The tests here ask git the same questions
// and want the same answers.
//
// Matching takes time in proportion to the length of a pattern times that of a path, whatever the pattern is, where
// git's own matcher can take exponentially long. Upper and lower case are told apart on every system. The package is
// pure: it is given the text, and never looks at the disk.
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

// errText is what a file is that was saved as UTF-16, or is no text at all.
var errText = errors.New(File + " has a zero byte; save it as plain UTF-8")

// Patterns are the lines of a .nutignore. The zero value matches nothing. They can be used by many goroutines.
type Patterns struct{ lines []pattern }

// Parse reads a .nutignore. It is a *nutshell.LimitError if the file is larger than 256 KiB, has more than 10,000
// lines or one of more than 4,096 bytes. Any other text is a file of patterns: one that is malformed matches nothing.
func Parse(b []byte) (*Patterns, error) {
	if len(b) > maxBytes {
		return nil, &nutshell.LimitError{What: "bytes", Limit: maxBytes, Path: File}
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return nil, errText
	}
	p, n := &Patterns{}, 0
	for line := range strings.Lines(strings.TrimPrefix(string(b), "\ufeff")) {
		if n++; n > maxLines {
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

// Match reports whether a path stays out of the bundle, because of its own name or because a folder above it does.
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

// decide asks the patterns about one path, and nothing about what is above it.
func (p *Patterns) decide(path string, isDir bool) bool {
	base := path[strings.LastIndexByte(path, '/')+1:]
	for i := len(p.lines) - 1; i >= 0; i-- {
		if one := &p.lines[i]; one.match(path, base, isDir) {
			return !one.negated
		}
	}
	return false
}
