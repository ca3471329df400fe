package nut

import "github.com/spf13/cobra"

func (p *Program) deliverCommand() *cobra.Command { return &cobra.Command{Use: "deliver", Short: "not written yet"} }
