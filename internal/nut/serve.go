package nut

import "github.com/spf13/cobra"

func (p *Program) serveCommand() *cobra.Command { return &cobra.Command{Use: "serve", Short: "not written yet"} }
