package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// command matches a command of guild in a page, after a backquote or on an indented line; with a number after its words it
// is the name of a format.
var command = regexp.MustCompile("(?m)(?:^    |`)(?:bin/)?guild ([a-z-]+(?: [a-z-]+)*)( [0-9])?")

func TestDocumentedCommandsExist(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range append(pages, "../../README.md", "../../examples/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range command.FindAllStringSubmatch(string(text), -1) {
			if found[2] != "" {
				continue
			}
			words := strings.Fields(strings.TrimPrefix(found[1], "help "))
			root := (&program{}).rootCommand()
			cmd, rest, err := root.Find(words)
			if err != nil || cmd == root || cmd.HasSubCommands() && cmd.Name() != "work" && len(rest) > 0 {
				t.Errorf("%s: there is no verb guild %s", filepath.Base(page), found[1])
			}
		}
	}
}
