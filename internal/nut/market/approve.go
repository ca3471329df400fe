package market

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/taskserver"
	"guild/nutshell"
	"guild/nutshell/clawnet"
)

// approveFlags is what approve was asked to do.
type approveFlags struct {
	server    serverFlags
	output    string
	yes, json bool
}

func (p program) approveCommand() *cobra.Command {
	var f approveFlags
	cmd := &cobra.Command{
		Use:   "approve TASK",
		Short: "Look at a delivery, and accept it, which pays the reward",
		Long: `Show what was handed in for a task, ask, and accept it. The server then pays the
reward; there is no way back. With -o the delivery is kept, to look at before.

` + aboutServer,
		Example: "  " + p.Hint("approve task-1 -o delivery.nut") + "\n  " + p.Hint("approve task-1 --yes"),
		Args:    taskID(),

		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.advised(p.approve(cmd.Context(), f, args[0]))
		},
	}
	f.server.add(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.output, "output", "o", "", "keep the delivery in this file")
	flags.BoolVarP(&f.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&f.json, "json", false, "print it as JSON; with --yes")
	return cmd
}

// review is a delivery as its publisher sees it.
type review struct {
	TaskID      string           `json:"task_id"`
	By          string           `json:"by"`
	Reward      clawnet.Decimal  `json:"reward"`
	Words       string           `json:"words"` // what was said at submission
	Bundle      bool             `json:"bundle"`
	Verified    bool             `json:"verified"` // it is the bundle that was named at submission
	Hash        string           `json:"nutshell_hash,omitempty"`
	Status      string           `json:"status,omitempty"`
	Summary     string           `json:"summary,omitempty"`
	Passed      int64            `json:"tests_passed"`
	Failed      int64            `json:"tests_failed"`
	Files       int              `json:"files"`
	Credentials []string         `json:"credentials_used"`
	Approved    bool             `json:"approved"`
	Paid        *clawnet.Decimal `json:"reward_paid,omitempty"`

	task taskserver.Task
}

func (p program) approve(ctx context.Context, f approveFlags, id string) error {
	c, err := p.taskServer(f.server, "")
	if err != nil {
		return err
	}
	t, err := c.Task(ctx, id)
	if err != nil {
		return err
	}
	if t.Status == taskserver.Approved {
		return p.printApproved(&review{TaskID: id, By: t.AssignedTo, Reward: t.Reward, Approved: true, Credentials: []string{}, task: t}, f.json)
	}
	if t.Status != taskserver.Submitted {
		return fmt.Errorf("%s is %s: nothing was handed in that could be approved", titled(t), cli.Clean(t.Status))
	}
	r, err := p.review(ctx, c, t, f.output)
	if err != nil {
		return err
	}
	if !f.json {
		p.printReview(r)
	}
	if err := p.agreed(ctx, r, f.yes); err != nil {
		return err
	}
	receipt, err := c.Approve(ctx, id)
	if err != nil {
		return err
	}
	r.Approved, r.Paid = true, receipt.RewardPaid
	return p.printApproved(r, f.json)
}

// review looks at what was handed in, and keeps it in a file if one is named.
func (p program) review(ctx context.Context, c *taskserver.Client, t taskserver.Task, output string) (*review, error) {
	r := &review{TaskID: t.ID, By: t.AssignedTo, Reward: t.Reward, Words: t.Result, Credentials: []string{}, task: t}
	d, err := p.download(ctx, c, t.ID, guild.Hash{})
	if taskserver.IsStatus(err, http.StatusNotFound) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.file.Close()
	if d.bundle.Manifest().BundleType() != nutshell.TypeDelivery {
		return r, nil // the request is still there: only words were handed in
	}
	if err := r.vouch(d.hash); err != nil {
		return nil, err
	}
	if err := r.describe(d); err != nil {
		return nil, fmt.Errorf("the delivery of %s: %w", t.ID, err)
	}
	return r, keep(d, output)
}

// anyHash finds hashes in words.
var anyHash = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// vouch compares a delivery with the hash that was named when it was handed in, in the words or by the server. A
// task that is still one of a request names the request's.
func (r *review) vouch(got guild.Hash) error {
	wanted := anyHash.FindAllString(r.task.Result, -1)
	if r.task.BundleType == nutshell.TypeDelivery && !r.task.Hash.IsZero() {
		wanted = append(wanted, r.task.Hash.Hex())
	}
	for _, want := range wanted {
		r.Verified = r.Verified || want == got.Hex()
	}
	if len(wanted) == 0 || r.Verified {
		return nil
	}
	want, err := guild.ParseHash(wanted[0])
	if err != nil {
		return err
	}
	return cli.WithHint(&taskserver.HashError{Want: want, Got: got}, "nothing was approved; ask "+cli.Clean(r.By)+" to hand it in again")
}

// describe says what the delivery says of itself.
func (r *review) describe(d *downloaded) error {
	result, err := resultOf(d.bundle)
	if err != nil {
		return err
	}
	m := d.bundle.Manifest()
	if id := m.RequestID(); r.task.NutshellID != "" && id != "" && id != r.task.NutshellID {
		return fmt.Errorf("it answers %.80s, and the task is about %.80q", id, r.task.NutshellID)
	}
	r.Bundle, r.Hash, r.Status, r.Summary = true, d.hash.String(), result.Status, result.Summary
	r.Passed, r.Failed = result.AcceptanceResults.TestsPassed, result.AcceptanceResults.TestsFailed
	for _, e := range d.bundle.Files() {
		if strings.HasPrefix(e.Path, nutshell.ArtifactsDir+"/") {
			r.Files++
		}
	}
	for _, use := range result.ExecutionLog.Uses() {
		r.Credentials = append(r.Credentials, use.Name)
	}
	return nil
}

// keep writes a bundle to a file, whole or not at all.
func keep(d *downloaded, path string) error {
	if path == "" {
		return nil
	}
	err := durable.Write(path, func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(d.file, 0, d.size))
		return err
	})
	if err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}

// agreed asks the person.
func (p program) agreed(ctx context.Context, r *review, yes bool) error {
	if yes {
		return nil
	}
	if !p.Asks() {
		err := errors.New("nothing was approved: there is nobody to ask")
		return cli.WithHint(cli.Usage(err), "approve it with '"+p.Hint("approve "+r.TaskID+" --yes")+"'")
	}
	a, err := p.Asker(ctx)
	if err != nil {
		return err
	}
	answer, err := a.Choose(fmt.Sprintf("Approve it, and pay %s to %s?", r.Reward, r.By), "no", "no", "yes")
	if err == nil && answer != "yes" {
		err = errors.New("nothing was approved")
	}
	return err
}

// printReview shows what was handed in. All of it is the deliverer's own word.
func (p program) printReview(r *review) {
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(p.Out, "  %-12s %s\n", name, cli.Clean(text))
		}
	}
	fmt.Fprintln(p.Out, titled(r.task))
	line("by", r.By)
	if !r.Bundle {
		line("bundle", "none: only words were handed in")
		line("words", cli.Cut(cli.Clean(r.Words), 500))
		return
	}
	line("status", r.Status)
	line("summary", cli.Cut(cli.Clean(r.Summary), 500))
	if r.Passed+r.Failed > 0 {
		line("tests", fmt.Sprintf("%d passed, %d failed, by their own count", r.Passed, r.Failed))
	}
	line("files", fmt.Sprint(r.Files))
	line("credentials", strings.Join(r.Credentials, ", "))
	line("hash", r.Hash)
	if !r.Verified {
		line("", "⚠ nothing says that this is the bundle that was handed in")
	}
}

func (p program) printApproved(r *review, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(p.Out, r)
	}
	if r.Paid == nil {
		_, err := fmt.Fprintf(p.Out, "%s is approved\n", titled(r.task))
		return err
	}
	_, err := fmt.Fprintf(p.Out, "Approved: %s paid to %s\n", r.Paid, cli.Clean(r.By))
	return err
}
