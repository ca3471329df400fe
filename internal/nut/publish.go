package nut

import "github.com/spf13/cobra"

func (p *Program) publishCommand() *cobra.Command { return &cobra.Command{Use: "publish", Short: "not written yet"} }
