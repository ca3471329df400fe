package nut

import "github.com/spf13/cobra"

func (p *Program) submitCommand() *cobra.Command { return &cobra.Command{Use: "submit", Short: "not written yet"} }
