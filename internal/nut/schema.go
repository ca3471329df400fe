package nut

import "github.com/spf13/cobra"

func (p *Program) schemaCommand() *cobra.Command { return &cobra.Command{Use: "schema", Short: "not written yet"} }
