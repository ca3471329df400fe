package nut

import "github.com/spf13/cobra"

func (p *Program) diffCommand() *cobra.Command { return &cobra.Command{Use: "diff", Short: "not written yet"} }
