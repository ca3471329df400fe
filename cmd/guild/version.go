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
	Revision string `json:"revision,omitempty"` // of the repository
	Modified bool   `json:"modified,omitempty"` // the tree had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (p *program) versionCommand() *cobra.Command {
	return p.local(&cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `version prints the version, the platform, the version of Go, and the revision of
the source if it was built in its repository. A revision that is called modified
was built with changes that were not committed.`,
		Example: "  guild version\n  guild version --json",
	}, func(*cobra.Command, []string) (*cli.Result, error) {
		b := build()
		return &cli.Result{JSON: b, Show: func() error { return p.showVersion(b) }}, nil
	})
}

func (p *program) showVersion(b buildReport) error {
	revision := ""
	if b.Revision != "" {
		revision = " revision " + b.Revision[:min(12, len(b.Revision))]
	}
	if b.Modified {
		revision += ", modified"
	}
	_, err := fmt.Fprintf(p.out, "guild %s %s %s%s\n", b.Version, b.Platform, b.Go, revision)
	return err
}

// build reads what the Go tool recorded in the program.
func build() buildReport {
	b := buildReport{Version: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		b.read(info)
	}
	return b
}

func (b *buildReport) read(info *debug.BuildInfo) {
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
}
