package nut

import "github.com/spf13/cobra"

func (p *Program) claimCommand() *cobra.Command { return &cobra.Command{Use: "claim", Short: "not written yet"} }
