package nut

import "github.com/spf13/cobra"

func (p *Program) setCommand() *cobra.Command { return &cobra.Command{Use: "set", Short: "not written yet"} }
