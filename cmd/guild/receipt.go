package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
)

func (p *program) receiptCommand() *cobra.Command {
	show := &cobra.Command{
		Use:               "show JOB|RECEIPT",
		Short:             "Print the receipt of a job",
		Example:           "  guild receipt show 5f21c9aa\n  guild receipt show 5f21c9aa | jq .outcome",
		Args:              cli.OneArg("a job or a receipt id"),
		ValidArgsFunction: p.completeJobs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.runReceiptShow(cmd.Context(), args[0], cli.AsJSON(cmd))
		},
	}
	cli.JSONFlag(show, "print it on one line, as it was hashed")
	return cli.Group(&cobra.Command{
		Use:     "receipt",
		Short:   "Show receipts and export their evidence",
		Example: "  guild receipt show 5f21c9aa\n  guild receipt export 5f21c9aa && guild verify receipt-*.zip",
	}, show, p.receiptExportCommand())
}

func (p *program) runReceiptShow(ctx context.Context, id string, asJSON bool) error {
	return p.reading(ctx, func(client *control.Client, _ bool) error {
		receipt, err := control.Receipt.Call(ctx, client, id)
		if err != nil {
			return err
		}
		if asJSON {
			_, err = fmt.Fprintf(p.out, "%s\n", bytes.TrimSpace(receipt))
			return err
		}
		return cli.PrintJSON(p.out, json.RawMessage(receipt))
	})
}
