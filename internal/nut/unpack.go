package nut

import "github.com/spf13/cobra"

func (p *Program) unpackCommand() *cobra.Command { return &cobra.Command{Use: "unpack", Short: "not written yet"} }
