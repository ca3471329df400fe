package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// deliverFlags describe a delivery, and say where it goes.
type deliverFlags struct {
	dir, request, output, task string
	status, summary, log       string
	model, by                  string
	used, identities           []string
	percentage                 int // below zero if it was not given
	noSubmit                   bool
}

func (p program) deliverCommand() *cobra.Command {
	var f deliverFlags
	cmd := &cobra.Command{
		Use:   "deliver",
		Short: "Make a delivery bundle of work that is done, and hand it in",
		Long: `Make the bundle that answers a request. With --request, all of --dir is what was
made. Without, --dir is the directory of the request, in which the work was
done: its folder delivery/ is what was made (artifacts/, result.json, logs/), or
else the files that are new or have changed since it was unpacked. A result.json
of the worker is taken over. Credentials never are: a file that holds a value of
the vault is refused. What 'vault get' has opened is listed.

The delivery of a claimed task is handed in at once; --no-submit only makes the
file.`,
		Example: p.Examples("deliver --dir work --summary 'All endpoints, with tests'", "deliver --dir out --request task.nut -o delivery.nut",
			"deliver --dir work --status blocked --summary 'No key' --no-submit"),
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
	flags.IntVar(&f.percentage, "percentage", -1, "how much is done; 100 if it is completed, and no default otherwise")
	flags.Lookup("percentage").DefValue = "0" // which the help does not show; it has no default
	flags.StringArrayVarP(&f.identities, "identity", "i", nil, "`file` of a key that opens the vault, whose secrets must not be delivered (repeatable)")
	flags.StringArrayVar(&f.used, "credential-used", nil, "a credential that was used: NAME, or NAME@TIME (RFC 3339)")
	flags.StringVar(&f.task, "task", "", "the task to hand it in for; the one that claim has noted if not given")
	flags.BoolVar(&f.noSubmit, "no-submit", false, "only make the file")
	return p.verb(cmd, "print it as JSON", func(ctx context.Context, s *server, _ []string) (host.Result, error) {
		return s.deliver(ctx, f)
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

func (s *server) deliver(ctx context.Context, f deliverFlags) (host.Result, error) {
	statuses := []string{nutshell.Completed, nutshell.Partial, nutshell.Blocked, nutshell.Failed}
	if f.status != "" && !slices.Contains(statuses, f.status) {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("--status %.40q is not one of %s", f.status, strings.Join(statuses, ", "))), "as in --status partial")
	}
	if f.percentage < -1 || f.percentage > 100 {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("--percentage %d is not between 0 and 100", f.percentage)), "as in --percentage 60")
	}
	if f.task != "" {
		if err := checkTask(f.task); err != nil {
			return nil, err
		}
	}
	w, err := s.findWork(f)
	if err != nil {
		return nil, err
	}
	defer w.tree.Close()
	c, task, err := s.recipient(f, w)
	if err != nil {
		return nil, err
	}
	if f.output == "" {
		f.output = host.Slug(w.request.Task().Title, "work") + "-delivery.nut"
	}
	tree, err := s.deliveryTree(f, w)
	if err != nil {
		return nil, err
	}
	if err := s.refuseSecrets(ctx, f, w, tree); err != nil {
		return nil, fmt.Errorf("the delivery: %w", err)
	}
	var info nutshell.Info
	err = s.WriteOutput(f.output, func(out io.Writer) (err error) {
		info, err = nutshell.Pack(ctx, tree, out, nutshell.Options{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the delivery: %w", err)
	}
	d, err := s.openDelivery(f.output)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	m := d.Manifest()
	made := &deliverResult{
		File: f.output, ID: m.ID(), RequestID: m.RequestID(), Status: d.result.Status, Files: artifacts(info.Files),
		Size: info.Size, Hash: info.Hash, LeftOut: append([]string{}, w.leftOut...),
	}
	for _, skipped := range info.Skipped {
		made.LeftOut = append(made.LeftOut, skipped.Path+": "+skipped.Reason)
	}
	if c == nil {
		return made, nil
	}
	if _, err := s.handIn(ctx, c, task, d); err != nil {
		again := s.Hint("submit " + task + " " + f.output)
		if hint := cli.HintOf(s.advised(err)); hint != "" {
			again = hint + "; then " + again
		}
		return nil, cli.WithHint(fmt.Errorf("the delivery is in %s, but not handed in: %w", f.output, err), again)
	}
	made.Submitted, made.TaskID, made.Server = true, task, c.URL()
	return made, nil
}

// recipient returns the server and the task that the delivery is for. The client is nil if the delivery is only made.
func (s *server) recipient(f deliverFlags, w *work) (*taskserver.Client, string, error) {
	e, _, err := clawnet.FromManifest(w.request)
	if err != nil {
		return nil, "", err
	}
	task := cmp.Or(f.task, e.TaskID)
	switch {
	case f.noSubmit || task == "" && s.url == "":
		return nil, "", nil
	case task == "":
		err := cli.Usage(errors.New("the request notes no task that it was claimed from"))
		return nil, "", cli.WithHint(err, "name it with --task, or leave out --server")
	}
	if err := taskserver.CheckID(task); err != nil {
		return nil, "", cli.WithHint(fmt.Errorf("extensions.clawnet.task_id: %w", err), "name the task with --task, or add --no-submit")
	}
	c, err := s.client(e.Server)
	if err != nil && cli.CodeOf(err) != cli.ExitUsage {
		err = cli.WithHint(err, cli.HintOf(err)+", or --no-submit to make the file only")
	}
	return c, task, err
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

func (p program) submitCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "submit [TASK] FILE.nut",
		Short: "Hand in a delivery bundle",
		Long: `Upload a delivery, and tell the publisher that the work is done. Without a task,
it is the one that the manifest in --dir notes, as claim has written it.`,
		Example:           p.Examples("submit count-words-delivery.nut --dir work", "submit task-1 count-words-delivery.nut"),
		Args:              cli.Arity(cobra.RangeArgs(1, 2), "a task and a delivery bundle"),
		ValidArgsFunction: host.CompleteBundles,
	}
	host.DirFlag(cmd.Flags(), &dir)
	return p.verb(cmd, "print it as JSON", func(ctx context.Context, s *server, args []string) (host.Result, error) {
		file, task, server := args[len(args)-1], args[0], ""
		if len(args) == 1 {
			_, e, err := s.noted(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, nutshell.ErrNoManifest) {
				return nil, err
			}
			task, server = e.TaskID, e.Server
		}
		if task == "" {
			err := cli.Usage(fmt.Errorf("%s notes no task that it was claimed from", dir))
			return nil, cli.WithHint(err, "name the task, as in "+s.Hint("submit task-1 "+file)+", or the directory with --dir")
		}
		if err := checkTask(task); err != nil {
			return nil, err
		}
		d, err := s.openDelivery(file)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		c, err := s.client(server)
		if err != nil {
			return nil, err
		}
		made, err := s.handIn(ctx, c, task, d)
		if err != nil {
			return nil, err
		}
		return made, nil
	})
}

// delivery is a delivery bundle in a file of this machine.
type delivery struct {
	*host.Bundle
	path   string
	hash   guild.Hash
	result *nutshell.Result
}

// openDelivery opens a bundle, which must be a delivery with a result. The caller closes it.
func (p program) openDelivery(path string) (*delivery, error) {
	b, err := p.OpenBundle(path)
	if err != nil {
		return nil, err
	}
	d := &delivery{Bundle: b, path: path}
	d.hash, err = b.Hash()
	if kind := b.Manifest().BundleType(); err == nil && kind != nutshell.TypeDelivery {
		err = cli.WithHint(fmt.Errorf("is a %.40q, and only deliveries are handed in", kind), "make one with '"+p.Hint("deliver")+"'")
	}
	if err == nil {
		d.result, err = resultOf(b)
	}
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

// resultOf reads the result of a delivery.
func resultOf(b *host.Bundle) (*nutshell.Result, error) {
	raw, err := b.ReadFile(nutshell.ResultFile)
	if err != nil {
		return nil, err
	}
	return nutshell.ParseResult(raw)
}

// submitResult is a delivery that was handed in.
type submitResult struct {
	TaskID string     `json:"task_id"`
	Server string     `json:"server"`
	Hash   guild.Hash `json:"nutshell_hash"`
	Status string     `json:"status"` // of the work
	Before bool       `json:"submitted_before"`

	task taskserver.Task
}

// handIn uploads a delivery and submits it, unless it was handed in before.
func (p program) handIn(ctx context.Context, c *taskserver.Client, id string, d *delivery) (*submitResult, error) {
	t, err := c.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	made := &submitResult{TaskID: id, Server: c.URL(), Hash: d.hash, Status: d.result.Status, task: t}
	request := d.Manifest().RequestID()
	switch {
	case t.NutshellID != "" && request != "" && t.NutshellID != request:
		return nil, fmt.Errorf("%s answers %.80s, and %s is about %.80q", d.path, request, titled(t), t.NutshellID)
	case t.Status == taskserver.Submitted && (t.Hash == d.hash || strings.Contains(t.Result, d.hash.Hex())):
		made.Before = true
		return made, nil
	case t.Status != taskserver.Assigned:
		err := fmt.Errorf("%s is %s: nothing can be handed in", titled(t), cli.Clean(t.Status))
		return nil, cli.WithHint(err, "a task must be yours first: '"+p.Hint("claim "+id)+"', or '"+p.Hint("bid "+id)+"'")
	}
	if err := c.Upload(ctx, id, d.Content(), d.Size, d.hash); err != nil {
		return nil, err
	}
	// The publisher reads these words. The hash is in them, because a server may not keep it otherwise.
	words := d.result.Status + ". Delivery bundle: " + d.hash.String()
	if d.result.Summary != "" {
		words = d.result.Status + ": " + strings.TrimSpace(d.result.Summary) + "\nDelivery bundle: " + d.hash.String()
	}
	if err := c.Submit(ctx, id, words, d.hash); err != nil {
		return nil, err
	}
	p.remember(c.URL())
	return made, nil
}

// Print implements host.Result.
func (r *submitResult) Print(p *host.Program) error {
	was := "Handed in"
	if r.Before {
		was = "Handed in before:"
	}
	work := "why the work is " + r.Status
	switch r.Status {
	case nutshell.Completed:
		work = "the work"
	case nutshell.Partial:
		work = "a part of the work"
	}
	_, err := fmt.Fprintf(p.Out, "%s %s for %s at %s\n  hash  %s\nThe publisher approves it, which pays the reward.\n", was, work, titled(r.task), r.Server, r.Hash)
	return err
}
