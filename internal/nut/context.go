package nut

import "github.com/spf13/cobra"

func (p *Program) contextCommand() *cobra.Command { return &cobra.Command{Use: "context", Short: "not written yet"} }
