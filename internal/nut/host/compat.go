package host

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

// CompatFlag adds --compat, by which --json prints the members that the reference program prints.
func CompatFlag(cmd *cobra.Command, compat *bool) {
	cmd.Flags().BoolVar(compat, "compat", false, "with --json: the members that the reference program prints")
}

// Compat is a result whose JSON is that of the reference program.
type Compat struct {
	Result
	JSON any
}

// MarshalJSON implements json.Marshaler.
func (c Compat) MarshalJSON() ([]byte, error) { return json.Marshal(c.JSON) }
