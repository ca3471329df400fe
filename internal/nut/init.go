package nut

import "github.com/spf13/cobra"

func (p *Program) initCommand() *cobra.Command { return &cobra.Command{Use: "init", Short: "not written yet"} }
