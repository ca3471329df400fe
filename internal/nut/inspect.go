package nut

import "github.com/spf13/cobra"

func (p *Program) inspectCommand() *cobra.Command { return &cobra.Command{Use: "inspect", Short: "not written yet"} }
