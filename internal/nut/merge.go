package nut

import "github.com/spf13/cobra"

func (p *Program) mergeCommand() *cobra.Command { return &cobra.Command{Use: "merge", Short: "not written yet"} }
