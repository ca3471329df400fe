package nut

import "github.com/spf13/cobra"

func (p *Program) rotateCommand() *cobra.Command { return &cobra.Command{Use: "rotate", Short: "not written yet"} }
