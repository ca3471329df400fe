package nut

import "github.com/spf13/cobra"

func (p *Program) splitCommand() *cobra.Command { return &cobra.Command{Use: "split", Short: "not written yet"} }
