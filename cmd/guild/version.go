package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"guild/internal/cli"
)

// buildReport is the output of version --json.
type buildReport struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p *program) versionCommand() *cobra.Command {
	return p.local(&cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Example: "  guild version\n  guild version --json",
	}, func(*cobra.Command, []string) (*cli.Result, error) {
		b := build()
		return &cli.Result{JSON: b, Show: func() error {
			_, err := fmt.Fprintf(p.out, "guild %s %s %s\n", b.Version, b.Platform, b.Go)
			return err
		}}, nil
	})
}

// build reads what the Go tool recorded in the program.
func build() buildReport {
	b := buildReport{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}
