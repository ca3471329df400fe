package market

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/nut/host"
	"guild/internal/taskserver"
	"guild/nutshell"
	"guild/nutshell/vault"
)

// deliverFlags is what deliver was asked to do.
type deliverFlags struct {
	server                        serverFlags
	dir, request, output, task    string
	status, summary, log          string
	model, by                     string
	used                          []string
	noSubmit, serverGiven, asJSON bool
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
file.

` + aboutServer,
		Example: "  " + p.Hint("deliver --dir work --summary 'All endpoints, with tests'") + "\n" +
			"  " + p.Hint("deliver --dir out --request task.nut -o delivery.nut") + "\n" +
			"  " + p.Hint("deliver --dir work --status blocked --summary 'No access' --no-submit"),
		Args: cli.NoArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.serverGiven = cmd.Flags().Changed("server") || cmd.Flags().Changed("clawnet")
			return p.advised(p.deliver(cmd.Context(), f))
		},
	}
	f.server.add(cmd)
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
	flags.BoolVar(&f.asJSON, "json", false, "print it as JSON")
	return cmd
}

// delivered is what deliver has done.
type delivered struct {
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

func (p program) deliver(ctx context.Context, f deliverFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	w, err := p.findWork(ctx, f)
	if err != nil {
		return err
	}
	defer w.close()
	c, task, err := p.whereTo(f, w)
	if err != nil {
		return err
	}
	if f.output == "" {
		f.output = host.Slug(w.request.Task().Title, "work") + "-delivery.nut"
	}
	made, err := p.writeDelivery(ctx, f, w)
	if err != nil {
		return err
	}
	if c != nil {
		if err := p.handInFile(ctx, c, task, made); err != nil {
			again := p.Hint("submit " + task + " " + f.output)
			if hint := cli.HintOf(p.advised(err)); hint != "" {
				again = hint + "; then " + again
			}
			return cli.WithHint(fmt.Errorf("the delivery is in %s, but not handed in: %w", f.output, err), again)
		}
	}
	return p.printDelivered(made, f.asJSON)
}

// check asks whether the flags make sense.
func (f deliverFlags) check() error {
	statuses := []string{"", nutshell.Completed, nutshell.Partial, nutshell.Blocked, nutshell.Failed}
	if !slices.Contains(statuses, f.status) {
		return cli.WithHint(cli.Usage(fmt.Errorf("--status %.40q is not one of %s", f.status, strings.Join(statuses[1:], ", "))), "as in --status partial")
	}
	if f.task != "" {
		return checkTask(f.task)
	}
	return nil
}

// whereTo is the server and the task that the delivery is for; nil if it is only to be made.
func (p program) whereTo(f deliverFlags, w *work) (*taskserver.Client, string, error) {
	task := f.task
	if task == "" {
		task = w.extension.TaskID
	}
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

// writeDelivery writes the delivery bundle, whole or not at all.
func (p program) writeDelivery(ctx context.Context, f deliverFlags, w *work) (*delivered, error) {
	tree, err := p.deliveryTree(f, w)
	if err != nil {
		return nil, err
	}
	var info nutshell.Info
	err = durable.Write(f.output, func(out io.Writer) (err error) {
		info, err = nutshell.Pack(ctx, tree, out, nutshell.Options{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the delivery: %w", err)
	}
	if err := os.Chmod(f.output, 0o644); err != nil {
		return nil, err
	}
	d, err := p.openDelivery(f.output)
	if err != nil {
		return nil, err
	}
	defer d.done()
	m := d.bundle.Manifest()
	made := &delivered{File: f.output, ID: m.ID(), RequestID: m.RequestID(), Status: d.result.Status, Size: info.Size, Hash: info.Hash, LeftOut: w.leftOut}
	for _, e := range info.Files {
		if strings.HasPrefix(e.Path, nutshell.ArtifactsDir+"/") {
			made.Files++
		}
	}
	for _, s := range info.Skipped {
		made.LeftOut = append(made.LeftOut, s.Path+": "+s.Reason)
	}
	return made, nil
}

// handInFile hands in the file that was made.
func (p program) handInFile(ctx context.Context, c *taskserver.Client, task string, made *delivered) error {
	d, err := p.openDelivery(made.File)
	if err != nil {
		return err
	}
	defer d.done()
	if _, err := p.handIn(ctx, c, task, d); err != nil {
		return err
	}
	made.Submitted, made.TaskID, made.Server = true, task, c.URL()
	return nil
}

// uses reads --credential-used. A name that the request does not know is a mistake.
func (p program) uses(f deliverFlags, request *nutshell.Manifest) ([]vault.Used, error) {
	known := request.Credentials().Scopes
	var all []vault.Used
	for _, text := range f.used {
		u := vault.Used{Name: text, At: p.Now()}
		if name, moment, ok := strings.Cut(text, "@"); ok {
			at, err := time.Parse(time.RFC3339, moment)
			if err != nil {
				return nil, cli.WithHint(cli.Usage(fmt.Errorf("--credential-used %.80q: %.40q is no time", text, moment)), "as in --credential-used staging-db@2026-03-15T10:00:00Z")
			}
			u = vault.Used{Name: name, At: at}
		}
		if len(known) > 0 && !slices.ContainsFunc(known, func(s nutshell.Scope) bool { return s.Name == u.Name }) {
			var names []string
			for _, s := range known {
				names = append(names, s.Name)
			}
			return nil, cli.WithHint(cli.Usage(fmt.Errorf("the request has no credential %.80q", u.Name)), "it has: "+strings.Join(names, ", "))
		}
		all = append(all, u)
	}
	return all, nil
}

func (p program) printDelivered(made *delivered, asJSON bool) error {
	if asJSON {
		made.LeftOut = append([]string{}, made.LeftOut...)
		return cli.PrintJSON(p.Out, made)
	}
	fmt.Fprintf(p.Out, "%s: %s, %s, %d bytes\n", cli.Clean(made.File), cli.Clean(made.Status), cli.Count(made.Files, "file", "files"), made.Size)
	fmt.Fprintf(p.Out, "  answers  %s\n  hash     %s\n", cli.Clean(made.RequestID), made.Hash)
	for _, left := range made.LeftOut {
		fmt.Fprintf(p.Out, "  left out %s\n", cli.Clean(left))
	}
	if made.Submitted {
		_, err := fmt.Fprintf(p.Out, "Handed in for %s at %s. The publisher approves it, which pays the reward.\n", cli.Clean(made.TaskID), cli.Clean(made.Server))
		return err
	}
	_, err := fmt.Fprintf(p.Out, "Hand it in with: %s\n", cli.Clean(p.Hint("submit TASK "+made.File)))
	return err
}
