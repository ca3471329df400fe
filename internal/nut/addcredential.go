package nut

import "github.com/spf13/cobra"

func (p *Program) addCredentialCommand() *cobra.Command { return &cobra.Command{Use: "add-credential", Short: "not written yet"} }
