package nut

import "github.com/spf13/cobra"

func (p *Program) approveCommand() *cobra.Command { return &cobra.Command{Use: "approve", Short: "not written yet"} }
