package exam

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"guild/internal/sandbox"
)

// Places in a judged sandbox.
const (
	judgeDir = "/judge"
	testsDir = "/judge/tests"
)

// maxFiles bounds what is laid out for one run.
const maxFiles = 20_000

// layout is what the sandboxes of one judgement are made of.
type layout struct {
	files     string   // the request bundle's files/; empty if it has none
	artifacts []string // the delivery's directories, the later over the earlier
	tests     []sandbox.Mount
	fault     string   // what is wrong with the delivery, so that nothing of it is run
	Delivered []string // names of the delivery's files, for the evidence
}

// layOut finds the directories and looks at the delivery before any of it is used.
func (j *examination) layOut(deliveryDir string) error {
	seen := map[string]bool{}
	if dir := filepath.Join(j.bundle, "files"); isDir(dir) {
		j.layout.files = dir
		if _, err := survey(dir, seen); err != nil {
			return undecided("the bundle's files: %w", err)
		}
	}
	tests, err := testMounts(filepath.Join(j.bundle, "tests"))
	if err != nil {
		return undecided("the bundle's tests: %w", err)
	}
	j.layout.tests = tests
	artifacts := filepath.Join(deliveryDir, "delivery", "artifacts")
	for _, dir := range []string{artifacts, filepath.Join(artifacts, "files")} {
		if !isDir(dir) {
			continue
		}
		names, err := survey(dir, seen)
		if err != nil {
			j.layout.fault = "the delivery cannot be laid out: " + err.Error()
			return nil
		}
		j.layout.artifacts = append(j.layout.artifacts, dir)
		j.layout.Delivered = names
	}
	if len(j.layout.Delivered) == 0 {
		j.layout.fault = "the delivery has no artifacts"
	}
	return nil
}

func isDir(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir()
}

// survey lists a tree that will be laid over what was seen before, and refuses what cannot be: links and
// devices, too much of it, and a file where there is a directory.
func survey(dir string, seen map[string]bool) (files []string, err error) {
	var size int64
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		wasDir, known := seen[name]
		switch {
		case !d.IsDir() && !d.Type().IsRegular():
			return fmt.Errorf("%q is not a file", name)
		case known && wasDir != d.IsDir():
			return fmt.Errorf("%q is both a file and a directory", name)
		case len(seen) >= maxFiles:
			return fmt.Errorf("more than %d files", maxFiles)
		}
		seen[name] = d.IsDir()
		if d.IsDir() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if size += info.Size(); size > sandbox.DefaultDisk/2 {
			return fmt.Errorf("more than %d bytes", sandbox.DefaultDisk/2)
		}
		files = append(files, name)
		return nil
	})
	return files, err
}

// testMounts shows tests/ entry by entry, so that criteria.json, which has the expected outputs, stays out.
func testMounts(dir string) ([]sandbox.Mount, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var mounts []sandbox.Mount
	for _, e := range entries {
		if e.Name() == "criteria.json" {
			continue
		}
		if !e.IsDir() && !e.Type().IsRegular() {
			return nil, fmt.Errorf("%q is not a file", e.Name())
		}
		mounts = append(mounts, sandbox.Mount{Host: filepath.Join(dir, e.Name()), Inside: path.Join(testsDir, e.Name())})
	}
	return mounts, nil
}

// copies are the workspace: the request's files, and over them the delivery's unless it is to stay out.
func (l layout) copies(delivered bool, skip func(string) bool) []sandbox.Copy {
	var c []sandbox.Copy
	if l.files != "" {
		c = append(c, sandbox.Copy{Host: l.files, Inside: sandbox.Workspace})
	}
	if !delivered {
		return c
	}
	for _, dir := range l.artifacts {
		c = append(c, sandbox.Copy{Host: dir, Inside: sandbox.Workspace, Skip: skip})
	}
	return c
}
