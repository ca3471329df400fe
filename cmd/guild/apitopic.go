package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/control"
)

// apiErrors lists the codes of errors with their statuses.
const apiErrors = `
An answer with a status of 400 or more is {"error":…,"hint":…,"code":…}:

  usage         400  the request makes no sense; 409 of a ruling not waited for
  missing       404  no such thing, or not yet
  ambiguous     409  several things fit
  refused       409  not possible in the present state
  unsealed      409  no seal over that entry yet
  quarantined   409  a repair of the journal lost entries of it
  internal      500  the node failed
  unpublished, unsaved, unrestored
                502  relays or Blossom servers did not do their part
  unsandboxed   503  a delivery could not be judged here: nothing is hired
  full          507  the disk is full
`

// apiTopic has the text of "guild help api": the routes of the control API.
func apiTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString("A running node answers these requests on its socket, which guild doctor names.\n" +
		"docs/API.md has examples, docs/json.schema.json the fields of answers.\n")
	b.WriteString(apiErrors)
	for _, r := range control.Routes() {
		fmt.Fprintf(&b, "\n  %s\n      %s\n", r.Pattern, strings.ReplaceAll(r.About, "\n", "\n      "))
	}
	return &cobra.Command{Use: "api", Short: "Routes of a node's HTTP API", Long: strings.TrimSuffix(b.String(), "\n")}
}
