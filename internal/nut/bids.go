package nut

import "github.com/spf13/cobra"

func (p *Program) bidsCommand() *cobra.Command { return &cobra.Command{Use: "bids", Short: "not written yet"} }
