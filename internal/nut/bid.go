package nut

import "github.com/spf13/cobra"

func (p *Program) bidCommand() *cobra.Command { return &cobra.Command{Use: "bid", Short: "not written yet"} }
