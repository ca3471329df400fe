package nut_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/nut"
	"guild/internal/nut/host"
)

var (
	hinted = regexp.MustCompile(`(?:\.Hint\("|Within\([a-z.]+, "|[a-z]: \{program\} )([a-z][^"]*)`)
	flag   = regexp.MustCompile(`--([a-z-]+)`)
)

// What a hint tells a person to type must be there.
func TestHintsNameVerbsAndFlags(t *testing.T) {
	root := cli.Group(&cobra.Command{Use: "nutshell"}, nut.Commands(&host.Program{Name: "nutshell"})...)
	n := 0
	for _, dir := range []string{".", "../../nutshell"} {
		err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
				return err
			}
			text, err := os.ReadFile(dir + "/" + p)
			for _, hint := range hinted.FindAllStringSubmatch(string(text), -1) {
				n++
				cmd, _, err := root.Find(strings.Fields(hint[1]))
				if err != nil || cmd == root {
					t.Errorf("%s: no verb %q", p, hint[1])
					continue
				}
				for _, f := range flag.FindAllStringSubmatch(hint[1], -1) {
					if f[1] != "help" && cmd.Flag(f[1]) == nil {
						t.Errorf("%s: %s has no flag --%s", p, cmd.CommandPath(), f[1])
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 50 {
		t.Errorf("%d hints were found", n)
	}
}
