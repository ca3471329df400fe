package nut

import "github.com/spf13/cobra"

func (p *Program) checkCommand() *cobra.Command { return &cobra.Command{Use: "check", Short: "not written yet"} }
