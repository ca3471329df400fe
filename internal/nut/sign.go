package nut

import "github.com/spf13/cobra"

func (p *Program) signCommand() *cobra.Command { return &cobra.Command{Use: "sign", Short: "not written yet"} }
