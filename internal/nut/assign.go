package nut

import "github.com/spf13/cobra"

func (p *Program) assignCommand() *cobra.Command { return &cobra.Command{Use: "assign", Short: "not written yet"} }
