package nut

import "github.com/spf13/cobra"

func (p *Program) vaultCommand() *cobra.Command { return &cobra.Command{Use: "vault", Short: "not written yet"} }
