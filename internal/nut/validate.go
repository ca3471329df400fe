package nut

import "github.com/spf13/cobra"

func (p *Program) validateCommand() *cobra.Command { return &cobra.Command{Use: "validate", Short: "not written yet"} }
