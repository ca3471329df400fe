package market

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/hand/taskserver"
	"guild/internal/nut/archive"
	"guild/internal/nut/draft"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/clawnet"
)

// publishFlags say what is published.
type publishFlags struct {
	server          serverFlags
	dir, reward     string
	force, hashOnly bool
}

func (p program) publishCommand() *cobra.Command {
	var f publishFlags
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Make a bundle a task that others can bid for",
		Long: `Check a directory, pack it, and publish it as a task on a task server. The vault
stays with you. Publishing the same again changes nothing; the manifest notes
which task it has become.`,
		Example: p.Examples("publish --dir my-task --reward 500", "publish --dir my-task --server https://tasks.example"),
		Args:    cli.NoArgs(),
	}
	flags := cmd.Flags()
	host.DirFlag(flags, &f.dir)
	flags.StringVar(&f.reward, "reward", "", "what the work is worth; the manifest's extensions.clawnet.reward if not given")
	flags.BoolVar(&f.force, "force", false, "publish even if the check finds gaps")
	flags.BoolVar(&f.hashOnly, "hash-only", false, "keep the bundle until the task is assigned; publish its hash")
	return p.verb(cmd, &f.server, "print it as JSON", func(cmd *cobra.Command, _ []string) (host.Result, error) {
		return p.publish(cmd.Context(), f)
	})
}

// publishResult is a task that was published.
type publishResult struct {
	TaskID     string         `json:"task_id"`
	Server     string         `json:"server"`
	NutshellID string         `json:"nutshell_id"`
	Hash       guild.Hash     `json:"nutshell_hash"`
	Size       int64          `json:"size_bytes"`
	Files      int            `json:"files"`
	Reward     clawnet.Reward `json:"reward"`
	Uploaded   bool           `json:"uploaded"`
	Before     bool           `json:"published_before"`
	VaultKept  bool           `json:"vault_kept"`

	title string
}

func (p program) publish(ctx context.Context, f publishFlags) (host.Result, error) {
	if host.IsFile(f.dir) {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("%s is a file, and publish takes a directory", f.dir)), "unpack it with '"+p.Hint("unpack "+f.dir)+"'")
	}
	tree, m, err := p.OwnTree(f.dir)
	if err != nil {
		return nil, err
	}
	e, err := p.publishable(tree, m, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.dir, err)
	}
	c, err := p.taskServer(f.server, e.Server)
	if err != nil {
		return nil, err
	}
	me, err := c.Peer(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case taskserver.CheckPeer(me) != nil:
	case e.PeerID == "":
		e.PeerID = me
	case e.PeerID != me:
		fmt.Fprintf(p.Err, "warning: extensions.clawnet.peer_id is %s, and the server knows you as %s\n", cli.Clean(e.PeerID), me)
	}
	s, err := archive.Share(ctx, p.Program, f.dir, e)
	if err != nil {
		return nil, err
	}
	defer s.File.Close()
	made, err := p.announce(ctx, c, s, e, me, f.hashOnly)
	if err != nil {
		return nil, err
	}
	if err := note(f.dir, e, made.TaskID, c.URL()); err != nil {
		return nil, fmt.Errorf("%s is published, but that could not be noted: %w", made.TaskID, err)
	}
	p.remember(c.URL())
	return made, nil
}

// publishable returns an error if a bundle must not be published, and else its extension with the reward to publish.
func (p program) publishable(tree fs.FS, m *nutshell.Manifest, f publishFlags) (clawnet.Extension, error) {
	e, _, err := clawnet.FromManifest(m)
	if err != nil {
		return e, err
	}
	if m.BundleType() == nutshell.TypeDelivery {
		return e, cli.WithHint(errors.New("is a delivery, and only requests are published"), "hand it in with '"+p.Hint("submit")+"'")
	}
	if strings.TrimSpace(m.Task().Title) == "" {
		return e, cli.WithHint(errors.New("has no title"), p.Hint("set task.title 'What is to be done' --dir "+f.dir))
	}
	report, err := draft.Check(p.Program, tree, false)
	if err != nil {
		return e, err
	}
	if !report.Ready() && !f.force {
		if err := draft.Print(p.Err, report, false); err != nil {
			return e, err
		}
		return e, cli.WithHint(fmt.Errorf("is %s", report.Status), "fix what is missing, or publish anyway with --force")
	}
	reward := clawnet.Reward{Currency: clawnet.DefaultCurrency}
	if e.Reward != nil {
		reward = *e.Reward
	}
	if f.reward != "" {
		if reward.Amount, err = parseAmount("reward", f.reward); err != nil {
			return e, err
		}
	}
	e.Reward = &reward
	return e, nil
}

// announce makes the task, unless it is there already, and uploads the bundle.
func (p program) announce(ctx context.Context, c *taskserver.Client, s *archive.Shared, e clawnet.Extension, me string, hashOnly bool) (publishResult, error) {
	made := publishResult{
		Server: c.URL(), NutshellID: s.Manifest.ID(), Hash: s.Info.Hash, Size: s.Info.Size, Files: len(s.Info.Files),
		Reward: *e.Reward, VaultKept: s.Vault != "", title: s.Manifest.Task().Title,
	}
	t, before, err := p.publishedBefore(ctx, c, s, e, me)
	if err != nil {
		return made, err
	}
	if !before {
		if t, err = c.Create(ctx, s.Manifest, e, s.Info.Hash); err != nil {
			return made, err
		}
	}
	made.TaskID, made.Before = t.ID, before
	if t.Reward.Cmp(e.Reward.Amount) != 0 {
		fmt.Fprintf(p.Err, "warning: the server has taken the reward of %s for %s\n", e.Reward.Amount, t.Reward)
	}
	if hashOnly || before && t.Status != taskserver.Open {
		return made, nil
	}
	if err := c.Upload(ctx, t.ID, s.Content(), s.Info.Size, s.Info.Hash); err != nil {
		return made, cli.WithHint(fmt.Errorf("%s is published, but its bundle is not there yet: %w", t.ID, err), "publish again: it goes on where it stopped")
	}
	made.Uploaded = true
	return made, nil
}

// publishedBefore finds the task that a bundle has become. If its content has changed since, that is an error.
func (p program) publishedBefore(ctx context.Context, c *taskserver.Client, s *archive.Shared, e clawnet.Extension, me string) (taskserver.Task, bool, error) {
	t, found, err := p.notedTask(ctx, c, s.Manifest.ID(), e)
	if err == nil && !found {
		t, found, err = c.Find(ctx, s.Manifest.ID(), me)
	}
	if err != nil || !found {
		return t, false, err
	}
	// After a submission a server may have the delivery's hash there.
	if t.Status == taskserver.Open && !t.Hash.IsZero() && t.Hash != s.Info.Hash {
		err := fmt.Errorf("%s was published with other content, and an open task does not change", titled(t))
		return t, true, cli.WithHint(err, "withdraw it on the server, and give the bundle a new id with '"+p.Hint("set id nut-…")+"'")
	}
	return t, true, nil
}

// notedTask gets the task that the manifest's notes name.
func (p program) notedTask(ctx context.Context, c *taskserver.Client, nutshellID string, e clawnet.Extension) (taskserver.Task, bool, error) {
	if e.TaskID == "" || e.Server != c.URL() || taskserver.CheckID(e.TaskID) != nil {
		return taskserver.Task{}, false, nil
	}
	t, err := c.Task(ctx, e.TaskID)
	if taskserver.IsStatus(err, http.StatusNotFound) {
		return t, false, nil
	}
	return t, err == nil && t.NutshellID == nutshellID, err
}

// Print implements host.Result.
func (r publishResult) Print(p *host.Program) error {
	was := "Published"
	if r.Before {
		was = "Published before:"
	}
	fmt.Fprintf(p.Out, "%s %q as %s at %s\n", was, cli.Cut(cli.Clean(r.title), 60), r.TaskID, r.Server)
	fmt.Fprintf(p.Out, "  reward  %s\n", cli.Clean(r.Reward.String()))
	fmt.Fprintf(p.Out, "  bundle  %s, %s, %d bytes\n", r.NutshellID, cli.Count(r.Files, "file", "files"), r.Size)
	fmt.Fprintf(p.Out, "  hash    %s\n", r.Hash)
	if !r.Uploaded && !r.Before {
		fmt.Fprintln(p.Out, "  The bundle stays here until the task is assigned.")
	}
	if r.VaultKept {
		fmt.Fprintln(p.Out, "  The vault stays here: seal it for the one who gets the task.")
	}
	_, err := fmt.Fprintf(p.Out, "See what is bid: %s\n", p.Hint("bids "+r.TaskID))
	return err
}
