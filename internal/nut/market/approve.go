package market

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/hand/taskserver"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/clawnet"
)

func (p program) approveCommand() *cobra.Command {
	var output string
	var yes bool
	cmd := &cobra.Command{
		Use:   "approve TASK",
		Short: "Look at a delivery, and accept it, which pays the reward",
		Long: `Show what was handed in for a task, ask, and accept it. The server then pays the
reward; there is no way back. With -o the delivery is kept, to look at before.`,
		Example: p.Examples("approve task-1 -o delivery.nut", "approve task-1 --yes"),
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "keep the delivery in this file")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return p.taskVerb(cmd, "print it as JSON; with --yes", func(ctx context.Context, c *taskserver.Client, t taskserver.Task) (host.Result, error) {
		r := &approveResult{TaskID: t.ID, By: t.AssignedTo, Reward: t.Reward, Credentials: []string{}, Approved: t.Status == taskserver.Approved, task: t}
		if r.Approved {
			return r, nil
		}
		if t.Status != taskserver.Submitted {
			return nil, fmt.Errorf("%s is %s: nothing was handed in that could be approved", titled(t), cli.Clean(t.Status))
		}
		r.Words = t.Result
		err := p.inspect(ctx, c, r, output)
		if err != nil {
			return nil, err
		}
		if !cli.AsJSON(cmd) {
			p.printDelivery(r)
		}
		if !yes && (cli.AsJSON(cmd) || !p.Asks()) {
			err := errors.New("nothing was approved: no person can be asked")
			return nil, cli.WithHint(cli.Usage(err), "approve it with '"+p.Hint("approve "+r.TaskID+" --yes")+"'")
		}
		if !yes {
			a, err := p.Asker(ctx)
			if err != nil {
				return nil, err
			}
			answer, err := a.Choose(fmt.Sprintf("Approve it, and pay %s to %s?", r.Reward, r.By), "no", "no", "yes")
			if err == nil && answer != "yes" {
				err = errors.New("nothing was approved")
			}
			if err != nil {
				return nil, err
			}
		}
		if r.Paid, err = c.Approve(ctx, t.ID); err != nil {
			return nil, err
		}
		r.Approved = true
		return r, nil
	})
}

// approveResult is a delivery as its publisher sees it. All of it is the deliverer's own word.
type approveResult struct {
	TaskID      string           `json:"task_id"`
	By          string           `json:"by"`
	Reward      clawnet.Decimal  `json:"reward"`
	Words       string           `json:"words"` // of the submission
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

// inspect describes in r what was handed in, and keeps it in a file if output names one.
func (p program) inspect(ctx context.Context, c *taskserver.Client, r *approveResult, output string) error {
	b, got, err := p.download(ctx, c, r.TaskID, guild.Hash{})
	if taskserver.IsStatus(err, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer b.Close()
	m := b.Manifest()
	if m.BundleType() != nutshell.TypeDelivery {
		return nil // the request is still there: only words were handed in
	}
	// The hash was named at submission, in words or by the server. While a task is one of a request, the server names the
	// request's hash.
	var wanted []guild.Hash
	for _, text := range anyHash.FindAllString(r.task.Result, -1) {
		if h, err := guild.ParseHash(text); err == nil {
			wanted = append(wanted, h)
		}
	}
	if r.task.BundleType == nutshell.TypeDelivery && !r.task.Hash.IsZero() {
		wanted = append(wanted, r.task.Hash)
	}
	r.Verified = slices.Contains(wanted, got)
	if len(wanted) > 0 && !r.Verified {
		return cli.WithHint(&taskserver.HashError{Want: wanted[0], Got: got}, "nothing was approved; ask "+cli.Clean(r.By)+" to hand it in again")
	}
	result, err := resultOf(b)
	if id := m.RequestID(); err == nil && r.task.NutshellID != "" && id != "" && id != r.task.NutshellID {
		err = fmt.Errorf("it answers %.80s, and the task is about %.80q", id, r.task.NutshellID)
	}
	if err != nil {
		return fmt.Errorf("the delivery of %s: %w", r.TaskID, err)
	}
	r.Bundle, r.Hash, r.Status, r.Summary = true, got.String(), result.Status, result.Summary
	r.Passed, r.Failed = result.AcceptanceResults.TestsPassed, result.AcceptanceResults.TestsFailed
	r.Files = artifacts(b.Files())
	for _, use := range result.ExecutionLog.Uses() {
		r.Credentials = append(r.Credentials, use.Name)
	}
	if output == "" {
		return nil
	}
	return p.WriteOutput(output, func(w io.Writer) error { _, err := io.Copy(w, b.Content()); return err })
}

// anyHash finds hashes in words.
var anyHash = regexp.MustCompile(`\b[0-9a-f]{64}\b`)

// artifacts counts the artifacts among the files of a delivery.
func artifacts(files []nutshell.Entry) (n int) {
	for _, e := range files {
		if strings.HasPrefix(e.Path, nutshell.ArtifactsDir+"/") {
			n++
		}
	}
	return n
}

// printDelivery shows what was handed in.
func (p program) printDelivery(r *approveResult) {
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

// Print implements host.Result.
func (r *approveResult) Print(p *host.Program) error {
	if r.Paid == nil {
		_, err := fmt.Fprintf(p.Out, "%s is approved\n", titled(r.task))
		return err
	}
	_, err := fmt.Fprintf(p.Out, "Approved: %s paid to %s\n", r.Paid, cli.Clean(r.By))
	return err
}
