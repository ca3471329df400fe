package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/receipt"
	"guild/verify"
)

func (p *program) receiptCommand() *cobra.Command {
	show := &cobra.Command{
		Use:   "show JOB|RECEIPT",
		Short: "Print the receipt of a job",
		Long: `show prints the receipt of a job: on a terminal what it says, otherwise the
receipt itself as JSON.`,
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
		Example: "  guild receipt ls\n  guild receipt export 5f21c9aa && guild verify receipt-*.zip",
	}, p.receiptLsCommand(), show, p.receiptExportCommand())
}

func (p *program) receiptLsCommand() *cobra.Command {
	return call(p, p.reading, control.Receipts, &cobra.Command{
		Use:     "ls",
		Short:   "List receipts, the newest first",
		Example: "  guild receipt ls\n  guild receipt ls --json | jq -r '.[0].receipt'",
	}, table(p, "no receipts yet: work that is judged or paid for has one", "RECEIPT,AGE,JOB,PROVIDER,TASK,OUTCOME", func(r control.ListedReceipt) []string {
		return []string{r.Receipt, age(p.now(), r.At), r.Job[:8], cli.Cut(cli.Clean(cmp.Or(r.Name, cli.ShortNpub(r.Provider))), 19),
			cli.Cut(cli.Clean(r.Task), 14), cmp.Or(string(r.Outcome), unjudged)}
	}))
}

// unjudged is shown for the outcome of a receipt without one.
const unjudged = "no verdict"

func (p *program) runReceiptShow(ctx context.Context, id string, asJSON bool) error {
	return p.reading(ctx, func(client *control.Client, _ bool) error {
		document, err := control.Receipt.Call(ctx, client, id)
		if err != nil {
			return err
		}
		if asJSON {
			_, err = fmt.Fprintf(p.out, "%s\n", bytes.TrimSpace(document))
			return err
		}
		if !cli.IsTerminal(p.out) {
			return cli.PrintJSON(p.out, json.RawMessage(document))
		}
		return showReceipt(p.out, document)
	})
}

// showReceipt prints a receipt for a person.
func showReceipt(w io.Writer, document []byte) error {
	var r struct {
		ID       string     `json:"receipt_id"`
		Job      string     `json:"job"`
		Task     string     `json:"task"`
		Outcome  string     `json:"outcome"`
		Provider string     `json:"provider_id"`
		Time     string     `json:"timestamp"`
		Amount   guild.Msat `json:"amount_msats"`
		Asset    string     `json:"asset_id"`
		Bundle   string     `json:"bundle_hash"`
		Delivery string     `json:"delivery_hash"`
		Verdict  string     `json:"verdict_hash"`
		Passed   *int       `json:"passed"`
		Expected *int       `json:"expected"`

		Refund *receipt.Refund `json:"refund"`
	}
	if err := json.Unmarshal(document, &r); err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	outcome := cmp.Or(r.Outcome, unjudged)
	if r.Passed != nil && r.Expected != nil {
		outcome += fmt.Sprintf(", %d of %d tests passed", *r.Passed, *r.Expected)
	}
	paid := "nothing"
	if r.Amount > 0 {
		paid = verify.InAsset(r.Amount, r.Asset)
	} else if r.Refund != nil {
		paid += "; " + verify.InAsset(r.Refund.AmountMsats, r.Refund.AssetID) + " came back"
	}
	for _, field := range [][2]string{
		{"receipt", r.ID}, {"job", r.Job}, {"task", r.Task}, {"outcome", outcome}, {"provider", r.Provider}, {"at", r.Time},
		{"paid", paid}, {"bundle", r.Bundle}, {"delivery", r.Delivery}, {"verdict", r.Verdict},
	} {
		fmt.Fprintf(w, "%-9s %s\n", field[0], cli.Clean(field[1]))
	}
	_, err := fmt.Fprintf(w, "\nguild receipt export %s writes what proves it\n", short(r.Job))
	return err
}
