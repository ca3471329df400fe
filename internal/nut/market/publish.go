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
	p.LimitFlag(cmd)
	return p.verb(cmd, "print it as JSON", func(ctx context.Context, s *server, _ []string) (host.Result, error) {
		return s.publish(ctx, f)
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

func (s *server) publish(ctx context.Context, f publishFlags) (host.Result, error) {
	if host.IsFile(f.dir) {
		return nil, cli.WithHint(cli.Usage(fmt.Errorf("%s is a file, and publish takes a directory", f.dir)), "unpack it with '"+s.Hint("unpack "+f.dir)+"'")
	}
	tree, m, err := s.OwnTree(f.dir)
	if err != nil {
		return nil, err
	}
	e, err := s.publishable(tree, m, f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.dir, err)
	}
	c, err := s.client(e.Server)
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
		fmt.Fprintf(s.Err, "warning: extensions.clawnet.peer_id is %s, and the server knows you as %s\n", cli.Clean(e.PeerID), me)
	}
	packed, err := archive.Share(ctx, s.Program, f.dir, e)
	if err != nil {
		return nil, err
	}
	defer packed.File.Close()
	t, before, err := s.published(ctx, c, packed, e, me)
	if err == nil && !before {
		t, err = c.Create(ctx, packed.Manifest, e, packed.Info.Hash)
	}
	if err != nil {
		return nil, err
	}
	made := publishResult{
		TaskID: t.ID, Server: c.URL(), NutshellID: m.ID(), Hash: packed.Info.Hash, Size: packed.Info.Size, Files: len(packed.Info.Files),
		Reward: *e.Reward, Before: before, VaultKept: packed.Vault != "", title: m.Task().Title,
		Uploaded: !f.hashOnly && (!before || t.Status == taskserver.Open),
	}
	if t.Reward.Cmp(e.Reward.Amount) != 0 {
		fmt.Fprintf(s.Err, "warning: the server has taken the reward of %s for %s\n", e.Reward.Amount, t.Reward)
	}
	if made.Uploaded {
		if err := c.Upload(ctx, t.ID, packed.Content(), packed.Info.Size, packed.Info.Hash); err != nil {
			return nil, cli.WithHint(fmt.Errorf("%s is published, but its bundle is not there yet: %w", t.ID, err), "publish again: it goes on where it stopped")
		}
	}
	e.TaskID, e.Server = t.ID, c.URL()
	if err := host.RewriteManifest(f.dir, e.Write); err != nil {
		return nil, fmt.Errorf("%s is published, but that could not be noted: %w", t.ID, err)
	}
	s.remember(c.URL())
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

// published finds the task that a bundle has become: the one that the manifest notes, or else an open one with the
// bundle's id. If its content has changed since, that is an error.
func (p program) published(ctx context.Context, c *taskserver.Client, s *archive.Shared, e clawnet.Extension, me string) (t taskserver.Task, found bool, err error) {
	id := s.Manifest.ID()
	if e.TaskID != "" && e.Server == c.URL() && taskserver.CheckID(e.TaskID) == nil {
		t, err = c.Task(ctx, e.TaskID)
		found = err == nil && t.NutshellID == id
		if taskserver.IsStatus(err, http.StatusNotFound) {
			err = nil
		}
	}
	if err == nil && !found {
		t, found, err = c.Find(ctx, id, me)
	}
	// After a submission a server may have the delivery's hash there.
	if err == nil && found && t.Status == taskserver.Open && !t.Hash.IsZero() && t.Hash != s.Info.Hash {
		err = fmt.Errorf("%s was published with other content, and an open task does not change", titled(t))
		err = cli.WithHint(err, "withdraw it on the server, and give the bundle a new id with '"+p.Hint("set id nut-…")+"'")
	}
	return t, found, err
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
