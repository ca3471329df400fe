package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/hand/taskserver"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// deliverFlags describe a delivery, and say where it goes.
type deliverFlags struct {
	server                     serverFlags
	dir, request, output, task string
	status, summary, log       string
	model, by                  string
	used                       []string
	noSubmit, serverGiven      bool
}

func (p program) deliverCommand() *cobra.Command {
	var f deliverFlags
	cmd := &cobra.Command{
		Use:   "deliver",
		Short: "Make a delivery bundle of work that is done, and hand it in",
		Long: `Make the bundle that answers a request. With --request, all of --dir is what was
made. Without, --dir is the directory of the request, in which the work was done:
its folder delivery/ is what was made (artifacts/, result.json, logs/), or else
the files that are new or have changed since it was unpacked. A result.json of
the worker is taken over. Credentials never are.

The delivery of a claimed task is handed in at once; --no-submit only makes the
file.`,
		Example: p.Examples("deliver --dir work --summary 'All endpoints, with tests'", "deliver --dir out --request task.nut -o delivery.nut",
			"deliver --dir work --status blocked --summary 'No access' --no-submit"),
		Args: cli.NoArgs(),
	}
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.StringVar(&f.request, "request", "", "the request that is answered: a bundle or its directory")
	flags.StringVarP(&f.output, "output", "o", "", "the file to write; <title>-delivery.nut if not given")
	flags.StringVar(&f.status, "status", "", "completed, partial, blocked or failed")
	flags.StringVar(&f.summary, "summary", "", "what was done, in a sentence")
	flags.StringVar(&f.log, "log", "", "a file that becomes the execution log")
	flags.StringVar(&f.by, "by", "nutshell", "who did it: the name of an agent or a person")
	flags.StringVar(&f.model, "model", "", "which model did it")
	flags.StringArrayVar(&f.used, "credential-used", nil, "a credential that was used: NAME, or NAME@TIME (RFC 3339)")
	flags.StringVar(&f.task, "task", "", "the task to hand it in for; the one that claim has noted if not given")
	flags.BoolVar(&f.noSubmit, "no-submit", false, "only make the file")
	return p.verb(cmd, &f.server, "print it as JSON", func(cmd *cobra.Command, _ []string) (host.Result, error) {
		f.serverGiven = cmd.Flags().Changed("server") || cmd.Flags().Changed("clawnet")
		return p.deliver(cmd.Context(), f)
	})
}

// deliverResult is a delivery that was made.
type deliverResult struct {
	File      string     `json:"file"`
	ID        string     `json:"id"`
	RequestID string     `json:"request_id"`
	Status    string     `json:"status"`
	Files     int        `json:"files"` // artifacts
	Size      int64      `json:"size_bytes"`
	Hash      guild.Hash `json:"nutshell_hash"`
	LeftOut   []string   `json:"left_out"`
	Submitted bool       `json:"submitted"`
	TaskID    string     `json:"task_id,omitempty"`
	Server    string     `json:"server,omitempty"`
}

func (p program) deliver(ctx context.Context, f deliverFlags) (host.Result, error) {
	statuses := []string{nutshell.Completed, nutshell.Partial, nutshell.Blocked, nutshell.Failed}
	if f.status != "" && !slices.Contains(statuses, f.status) {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("--status %.40q is not one of %s", f.status, strings.Join(statuses, ", "))), "as in --status partial")
	}
	if f.task != "" {
		if err := checkTask(f.task); err != nil {
			return nil, err
		}
	}
	w, err := p.findWork(ctx, f)
	if err != nil {
		return nil, err
	}
	defer w.close()
	c, task, err := p.recipient(f, w)
	if err != nil {
		return nil, err
	}
	if f.output == "" {
		f.output = host.Slug(w.request.Task().Title, "work") + "-delivery.nut"
	}
	tree, err := p.deliveryTree(f, w)
	if err != nil {
		return nil, err
	}
	var info nutshell.Info
	err = p.WriteOutput(f.output, func(out io.Writer) (err error) {
		info, err = nutshell.Pack(ctx, tree, out, nutshell.Options{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the delivery: %w", err)
	}
	d, err := p.openDelivery(f.output)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	m := d.Manifest()
	made := &deliverResult{
		File: f.output, ID: m.ID(), RequestID: m.RequestID(), Status: d.result.Status, Files: artifacts(info.Files),
		Size: info.Size, Hash: info.Hash, LeftOut: append([]string{}, w.leftOut...),
	}
	for _, s := range info.Skipped {
		made.LeftOut = append(made.LeftOut, s.Path+": "+s.Reason)
	}
	if c == nil {
		return made, nil
	}
	if _, err := p.handIn(ctx, c, task, d); err != nil {
		again := p.Hint("submit " + task + " " + f.output)
		if hint := cli.HintOf(p.advised(err)); hint != "" {
			again = hint + "; then " + again
		}
		return nil, cli.WithHint(fmt.Errorf("the delivery is in %s, but not handed in: %w", f.output, err), again)
	}
	made.Submitted, made.TaskID, made.Server = true, task, c.URL()
	return made, nil
}

// recipient returns the server and the task that the delivery is for. The client is nil if the delivery is only made.
func (p program) recipient(f deliverFlags, w *work) (*taskserver.Client, string, error) {
	task := cmp.Or(f.task, w.extension.TaskID)
	if f.noSubmit || task == "" && !f.serverGiven {
		return nil, "", nil
	}
	if task == "" {
		err := cli.Usage(errors.New("the request notes no task that it was claimed from"))
		return nil, "", cli.WithHint(err, "name it with --task, or leave out --server")
	}
	if err := taskserver.CheckID(task); err != nil {
		return nil, "", cli.WithHint(fmt.Errorf("extensions.clawnet.task_id: %w", err), "name the task with --task, or add --no-submit")
	}
	c, err := p.taskServer(f.server, w.extension.Server)
	if err != nil && cli.CodeOf(err) != cli.ExitUsage {
		err = cli.WithHint(err, cli.HintOf(err)+", or --no-submit to make the file only")
	}
	return c, task, err
}

// uses parses --credential-used. A name that the request does not know is an error.
func (p program) uses(f deliverFlags, request *nutshell.Manifest) ([]vault.Used, error) {
	var known []string
	for _, s := range request.Credentials().Scopes {
		known = append(known, s.Name)
	}
	var all []vault.Used
	for _, text := range f.used {
		u := vault.Used{Name: text, At: p.Now()}
		if name, moment, ok := strings.Cut(text, "@"); ok {
			at, err := time.Parse(time.RFC3339, moment)
			if err != nil {
				return nil, cli.WithHint(cli.Usage(fmt.Errorf("--credential-used %.80q: %.40q is not a time", text, moment)), "as in --credential-used staging-db@2026-03-15T10:00:00Z")
			}
			u = vault.Used{Name: name, At: at}
		}
		if len(known) > 0 && !slices.Contains(known, u.Name) {
			return nil, cli.WithHint(cli.Usage(fmt.Errorf("the request has no credential %.80q", u.Name)), "it has: "+strings.Join(known, ", "))
		}
		all = append(all, u)
	}
	return all, nil
}

// Print implements host.Result.
func (r *deliverResult) Print(p *host.Program) error {
	fmt.Fprintf(p.Out, "%s: %s, %s, %d bytes\n", cli.Clean(r.File), cli.Clean(r.Status), cli.Count(r.Files, "file", "files"), r.Size)
	fmt.Fprintf(p.Out, "  answers  %s\n  hash     %s\n", cli.Clean(r.RequestID), r.Hash)
	for _, left := range r.LeftOut {
		fmt.Fprintf(p.Out, "  left out %s\n", cli.Clean(left))
	}
	if r.Submitted {
		_, err := fmt.Fprintf(p.Out, "Handed in for %s at %s. The publisher approves it, which pays the reward.\n", cli.Clean(r.TaskID), cli.Clean(r.Server))
		return err
	}
	_, err := fmt.Fprintf(p.Out, "Hand it in with: %s\n", cli.Clean(p.Hint("submit TASK "+r.File)))
	return err
}
