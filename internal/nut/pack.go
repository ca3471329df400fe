package nut

import "github.com/spf13/cobra"

func (p *Program) packCommand() *cobra.Command { return &cobra.Command{Use: "pack", Short: "not written yet"} }
