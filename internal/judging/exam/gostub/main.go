package gostub

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// resultsFD is the descriptor of the results in a sandbox.
const resultsFD = 3

// Main runs in a sandbox: "describe ROOT GOROOT DIR…" writes the description of the packages in the directories to the
// results; "select ROOT GOROOT DIR…" reads a description from standard input, replaces the test files in the
// directories by those that can be split, and writes the selection.
func Main(args []string) {
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("want a verb, the module's root and GOROOT, not %q", args)
	}
	root, goroot, dirs := args[1], args[2], args[3:]
	results := json.NewEncoder(os.NewFile(resultsFD, "results"))
	if args[0] == "describe" {
		d, err := Describe(root, goroot, dirs)
		if err != nil {
			return err
		}
		return results.Encode(d)
	}
	var d Description
	if err := json.NewDecoder(os.Stdin).Decode(&d); err != nil {
		return err
	}
	s, err := Select(root, goroot, &d, dirs)
	if err != nil {
		return err
	}
	if err := s.Write(root, dirs); err != nil {
		return err
	}
	s.Files = nil
	return results.Encode(s)
}

// Write replaces the test files in the directories of a module by the selected ones.
func (s *Selection) Write(root string, dirs []string) error {
	for _, dir := range dirs {
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), "_test.go") {
				continue
			}
			if err := os.Remove(filepath.Join(root, dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for name, text := range s.Files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
