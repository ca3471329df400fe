package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/control"
)

// apiTopic has the text of "guild help api": the routes of the control API.
func apiTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("A running node answers these requests on its socket, which guild doctor names.\n" +
		"docs/API.md has the conventions, docs/json.schema.json the fields of answers.\n")
	for _, r := range control.Routes() {
		fmt.Fprintf(&b, "\n  %s\n      %s\n", r.Pattern, strings.ReplaceAll(r.About, "\n", "\n      "))
	}
	return &cobra.Command{Use: "api", Short: "Routes of a node's HTTP API", Long: strings.TrimSuffix(b.String(), "\n")}
}
