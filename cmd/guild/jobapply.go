package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/hand/git"
	"guild/internal/nut/project"
)

// workFlags adds the flags that choose a delivery.
func (o *fetchOptions) workFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.Attempt, "attempt", "", "which attempt, when there are several")
	cmd.Flags().BoolVar(&o.Rejected, "rejected", false, "take a delivery that was not accepted, too")
}

func (p *program) jobDiffCommand() *cobra.Command {
	var o fetchOptions
	cmd := p.local(&cobra.Command{
		Use:   "diff JOB",
		Short: "Show what a delivery changes",
		Long: `diff shows what the accepted delivery of a job changes in the files that were
sent, as git does: git apply takes it. What job apply leaves out, and files that
run by themselves, are named first, on standard error. A delivery that was not
accepted is only shown with --rejected.

JOB is a job's id or the beginning of one.`,
		Example: "  guild job diff 5f21c9aa\n  guild job diff 5f21c9aa --json | jq -r '.files[].path'",
	}, func(cmd *cobra.Command, args []string) (result *cli.Result, err error) {
		err = p.reading(cmd.Context(), func(client *control.Client, _ bool) error {
			changes, err := changesOf(cmd.Context(), client, args[0], o)
			if err == nil {
				result = &cli.Result{JSON: changes, Show: func() error { return p.showChanges(changes) }}
			}
			return err
		})
		return result, err
	})
	o.workFlags(cmd)
	return cmd
}

// changesOf asks what the chosen delivery of a job changes.
func changesOf(ctx context.Context, client *control.Client, id string, o fetchOptions) (control.Changes, error) {
	job, err := control.OneJob.Call(ctx, client, id)
	if err != nil {
		return control.Changes{}, err
	}
	a, err := deliveryOf(job, o)
	if err != nil {
		return control.Changes{}, err
	}
	return control.WorkChanges.Call(ctx, client, job.ID, a.ID, fmt.Sprint(o.Rejected))
}

// showChanges prints what a delivery changes. On a terminal its lines, which a stranger wrote, are made safe; elsewhere
// they stay as they are, so that git apply takes them.
func (p *program) showChanges(c control.Changes) error {
	p.warnOfChanges(c)
	colour, person := cli.Colours(p.out), cli.IsTerminal(p.out)
	for _, f := range c.Files {
		if f.LeftOut != "" {
			continue
		}
		switch {
		case f.Text == "":
			fmt.Fprintf(p.err, "%s: %s: %s\n", f.Change, cli.Clean(f.Path), cli.Clean(noteOf(f)))
		case !person:
			fmt.Fprint(p.out, f.Text)
		default:
			for line := range strings.Lines(f.Text) {
				fmt.Fprintln(p.out, painted(safe(line), colour))
			}
		}
	}
	return nil
}

// safe makes a line safe for a terminal, and keeps its tabs.
func safe(line string) string {
	parts := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	for i := range parts {
		parts[i] = cli.Clean(parts[i])
	}
	return strings.Join(parts, "\t")
}

// noteOf says what is known of a file without a diff.
func noteOf(f control.FileChange) string {
	if f.Note != "" {
		return f.Note + ", " + cli.Size(f.Size)
	}
	return "mode " + f.Mode
}

// painted colours a line of a diff.
func painted(line string, colour bool) string {
	if !colour {
		return line
	}
	c := colours()
	switch {
	case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
		return c.title.Render(line)
	case strings.HasPrefix(line, "+"):
		return c.good.Render(line)
	case strings.HasPrefix(line, "-"):
		return c.bad.Render(line)
	}
	return line
}

// warnOfChanges names what was not accepted, what is left out, and what runs by itself.
func (p *program) warnOfChanges(c control.Changes) {
	if !c.Accepted {
		fmt.Fprintf(p.err, "warning: this delivery was not accepted: it is %s\n", cli.Clean(c.State))
	}
	for _, f := range c.Files {
		switch {
		case f.LeftOut != "":
			fmt.Fprintf(p.err, "left out: %s: %s\n", cli.Clean(f.Path), f.LeftOut)
		case f.Runs != "":
			fmt.Fprintf(p.err, "look at this first: %s: %s\n", cli.Clean(f.Path), f.Runs)
		}
	}
}

// applyOptions are the flags of job apply.
type applyOptions struct {
	fetchOptions
	Branch string
	Yes    bool
}

func (p *program) jobApplyCommand() *cobra.Command {
	var o applyOptions
	cmd := p.local(&cobra.Command{
		Use:   "apply JOB",
		Short: "Commit the work of a job in the repository here",
		Long: `apply commits what the accepted delivery of a job changes, in the repository of
the current directory: on the branch that is checked out, or on a new one. The
commit has the job and its receipt as trailers. What changed in the repository
meanwhile is merged; conflicts are shown as git does, and git cherry-pick
--continue or --abort goes on from there.

It refuses a working tree with changes that are not committed. Your tests stay
as they are: a delivered version of one is left out, and so is a directory .git.
Files that run by themselves, such as those of CI, git hooks, .envrc,
conftest.py, package.json and editor tasks, are listed and asked for; --yes
takes them. No hook runs. A delivery that was not accepted is only taken with
--rejected.

JOB is a job's id or the beginning of one.`,
		Example: "  guild job apply 5f21c9aa\n  guild job apply 5f21c9aa --branch guild/5f21c9aa",
	}, func(cmd *cobra.Command, args []string) (result *cli.Result, err error) {
		err = p.reading(cmd.Context(), func(client *control.Client, _ bool) error {
			result, err = p.runJobApply(cmd.Context(), client, args[0], o, cli.AsJSON(cmd))
			return err
		})
		return result, err
	})
	o.workFlags(cmd)
	cmd.Flags().StringVar(&o.Branch, "branch", "", "a new branch to commit on, and to switch to")
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "take files that run by themselves without asking")
	return cmd
}

// applied is the JSON of job apply.
type applied struct {
	Job     string               `json:"job"`
	Attempt string               `json:"attempt"`
	Receipt string               `json:"receipt,omitempty"`
	Commit  string               `json:"commit"`
	Branch  string               `json:"branch,omitempty"` // that was made for it
	Files   []control.FileChange `json:"files"`            // without their diffs
}

func (p *program) runJobApply(ctx context.Context, client *control.Client, id string, o applyOptions, asJSON bool) (*cli.Result, error) {
	repo, err := git.Open(ctx, ".")
	if err != nil {
		return nil, cli.WithHint(cli.Usage(err), "run it in the repository that the work is for; guild job fetch writes it anywhere")
	}
	job, err := control.OneJob.Call(ctx, client, id)
	if err != nil {
		return nil, err
	}
	c, err := changesOf(ctx, client, id, o.fetchOptions)
	if err != nil {
		return nil, err
	}
	if err := p.mayRun(ctx, c, false, o.Yes, asJSON); err != nil {
		return nil, err
	}
	work, err := openWork(ctx, client, c)
	if err != nil {
		return nil, err
	}
	defer work.Close()
	repo.Prefix = work.Prefix
	commit, err := repo.Commit(ctx, edits(work), message(job, c), o.Branch)
	if err != nil {
		return nil, applyError(err)
	}
	made := applied{Job: c.Job, Attempt: c.Attempt, Receipt: c.Receipt, Commit: commit, Branch: o.Branch, Files: c.Files}
	for i := range made.Files {
		made.Files[i].Text = ""
	}
	return &cli.Result{JSON: made, Show: func() error { return p.showApplied(made) }}, nil
}

// openWork gets the delivery with its request.
func openWork(ctx context.Context, client *control.Client, c control.Changes) (*project.Work, error) {
	request, err := control.JobRequest.Call(ctx, client, c.Job)
	if err != nil {
		return nil, err
	}
	delivery, err := control.Delivery.Call(ctx, client, c.Job, c.Attempt)
	if err != nil {
		return nil, err
	}
	return project.OpenWork(ctx, request, delivery)
}

// edits returns the changes of a delivery that are taken over.
func edits(w *project.Work) (all []git.Change) {
	for _, c := range w.Changes {
		if c.LeftOut == "" {
			all = append(all, git.Change{Path: c.Path, Before: w.Before(c), After: w.After(c),
				WasExecutable: c.Old != nil && c.Old.Mode == "0755", Executable: c.New.Mode == "0755"})
		}
	}
	return all
}

// message returns the message of a commit.
func message(job control.Job, c control.Changes) string {
	title := strings.TrimLeft(cli.Clean(job.Title), "# ")
	if title == "" {
		title = "Work of job " + short(job.ID)
	}
	name := cli.Clean(c.Name)
	if name == "" {
		name = "a provider"
	}
	not := ""
	if !c.Accepted {
		not = "; the delivery was not accepted"
	}
	text := fmt.Sprintf("%s\n\nDone by %s for job %s%s.\n\nGuild-Job: %s\nGuild-Provider: %s\n", title, name, short(job.ID), not, job.ID, c.Provider)
	if c.Receipt != "" {
		text += "Guild-Receipt: " + cli.Clean(c.Receipt) + "\n"
	}
	return text
}

// mayRun lists the files that run by themselves, and asks whether to take them; of all the delivery's, or of those that are not
// left out.
func (p *program) mayRun(ctx context.Context, c control.Changes, all, yes, asJSON bool) error {
	p.warnOfChanges(c)
	n := 0
	for _, f := range c.Files {
		if (all || f.LeftOut == "") && f.Runs != "" {
			n++
		}
	}
	if n == 0 || yes {
		return nil
	}
	ask, err := p.nut().Asker(ctx)
	if asJSON || err != nil {
		err := fmt.Errorf("nothing was changed: %s", cli.Count(n, "delivered file runs by itself", "delivered files run by themselves"))
		return cli.WithHint(cli.Usage(err), "look at them with guild job diff "+short(c.Job)+"; --yes takes them")
	}
	take, err := ask.Yes("Take them?")
	if err == nil && !take {
		err = errors.New("nothing was changed")
	}
	return err
}

// applyError adds what to do about a commit that git refused.
func applyError(err error) error {
	if _, dirty := errors.AsType[*git.DirtyError](err); dirty {
		return cli.WithHint(err, "commit or stash them first; nothing was changed")
	}
	if _, conflict := errors.AsType[*git.ConflictError](err); conflict {
		return cli.WithHint(err, "resolve them, git add, and git cherry-pick --continue; or git cherry-pick --abort")
	}
	switch {
	case errors.Is(err, git.ErrElsewhere):
		return cli.WithHint(fmt.Errorf("%w; nothing was changed", err), "run it in the repository that the work is for; guild job fetch writes it anywhere")
	case errors.Is(err, git.ErrNobody):
		return cli.WithHint(fmt.Errorf("%w; nothing was changed", err), "git config --global user.name 'Your Name'; git config --global user.email you@example.com")
	case errors.Is(err, git.ErrNothing):
		return cli.WithHint(fmt.Errorf("%w: the repository has the work already, or nothing of it is taken", err), "guild job diff shows it")
	case errors.Is(err, git.ErrUnborn):
		return cli.WithHint(err, "commit what the work is based on first")
	}
	return err
}

func (p *program) showApplied(a applied) error {
	n, added, removed := 0, 0, 0
	for _, f := range a.Files {
		if f.LeftOut == "" {
			n, added, removed = n+1, added+f.Added, removed+f.Removed
		}
	}
	where := ""
	if a.Branch != "" {
		where = " on " + cli.Clean(a.Branch)
	}
	_, err := fmt.Fprintf(p.out, "committed %s%s: %s, +%d −%d lines\n", short(a.Commit), where, cli.Count(n, "file", "files"), added, removed)
	return err
}

func (p *program) jobOpenCommand() *cobra.Command {
	var o fetchOptions
	var yes bool
	cmd := p.local(&cobra.Command{
		Use:   "open JOB",
		Short: "Look at the delivered files in your editor",
		Long: `open writes the delivered files into a directory, as job fetch does, and opens
that with the program of $VISUAL or $EDITOR, or else of the desktop. A directory
that has them already is opened as it is. An editor may run what it finds there:
such files are listed and asked for; --yes takes them. With --json nothing is
opened.

JOB is a job's id or the beginning of one.`,
		Example: "  guild job open 5f21c9aa\n  VISUAL=code guild job open 5f21c9aa --to work",
	}, func(cmd *cobra.Command, args []string) (*cli.Result, error) {
		var result *cli.Result
		var dir string
		err := p.reading(cmd.Context(), func(client *control.Client, _ bool) error {
			c, err := changesOf(cmd.Context(), client, args[0], o)
			if err != nil {
				return err
			}
			if err := p.mayRun(cmd.Context(), c, true, yes, cli.AsJSON(cmd)); err != nil {
				return err
			}
			if o.Dir == "" {
				o.Dir = short(c.Job)
			}
			dir, o.Again = o.Dir, true
			result, err = p.runJobFetch(cmd.Context(), client, args[0], o)
			return err
		})
		if err != nil {
			return nil, err
		}
		if cli.AsJSON(cmd) {
			return result, nil // an editor would keep a program waiting for a person
		}
		return result, p.openWith(cmd.Context(), dir, "xdg-open", "open")
	})
	cmd.Flags().StringVar(&o.Dir, "to", "", "directory to make (default: the beginning of the job's id)")
	o.workFlags(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "open files that run by themselves without asking")
	return cmd
}

// openWith opens a file or a directory with the person's editor, or else with the first of some other programs.
func (p *program) openWith(ctx context.Context, dir string, others ...string) error {
	for _, program := range append([]string{os.Getenv("VISUAL"), os.Getenv("EDITOR")}, others...) {
		words := strings.Fields(program)
		if len(words) == 0 {
			continue
		}
		path, err := exec.LookPath(words[0])
		if err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, path, append(words[1:], dir)...)
		cmd.Stdin, cmd.Stderr = p.in, p.err
		cmd.Stdout = p.err // standard output is for what the verb prints
		if out, ok := p.out.(*os.File); ok && cli.IsTerminal(out) {
			cmd.Stdout = out
		}
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s %s: %w", words[0], dir, err)
		}
		return nil
	}
	return cli.WithHint(fmt.Errorf("%s is there, and no editor to open it", dir), "set VISUAL or EDITOR")
}
