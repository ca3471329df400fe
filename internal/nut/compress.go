package nut

import "github.com/spf13/cobra"

func (p *Program) compressCommand() *cobra.Command { return &cobra.Command{Use: "compress", Short: "not written yet"} }
