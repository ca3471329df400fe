package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/nut/host"
	"guild/nutshell/vault"
)

func (p program) vaultEditCommand() *cobra.Command {
	var f vaultFlags
	var scratch string
	cmd := &cobra.Command{
		Use:   "edit",
		Short: "Open the vault in your editor",
		Long: `Open the vault's JSON in $VISUAL, $EDITOR or vi, and seal it again when the
editor is closed. What is wrong with it is said, and you can go back to it.
While you edit, the vault is a private file in memory ($XDG_RUNTIME_DIR or
/dev/shm); it is overwritten and removed at the end, also when the command is
stopped. An editor that keeps copies elsewhere keeps them: see to that in its
settings.`,
		Example: "  " + p.Hint("vault edit") + "\n  EDITOR=nano " + p.Hint("vault edit --dir my-task"),
		Args:    cli.NoArgs(),
	}
	f.add(cmd)
	cmd.Flags().StringVar(&scratch, "scratch", "", "a `directory` in memory to edit in, if neither is there")
	_ = cmd.MarkFlagDirname("scratch")
	return p.Verb(cmd, "print what is in the vault afterwards as JSON", func(cmd *cobra.Command, _ []string) (host.Result, error) {
		// Ctrl-C may have been meant for the editor, so the context may have ended.
		s, err := p.edit(cmd.Context(), f, sealing{always: true}, func(s *safe) error {
			edited, err := p.inEditor(cmd.Context(), s.v, scratch)
			if err == nil && string(edited.Document().Reveal()) == string(s.v.Document().Reveal()) {
				err = errUnchanged
			}
			s.v = edited
			return err
		})
		if errors.Is(err, errUnchanged) {
			_, err := fmt.Fprintln(p.Err, errUnchanged)
			return nil, err
		}
		if err != nil {
			return nil, err
		}
		return s.view(), nil
	})
}

var errUnchanged = errors.New("nothing was changed")

// inEditor lets the person edit a vault until it is valid or they give up.
func (p program) inEditor(ctx context.Context, v *vault.Vault, scratch string) (edited *vault.Vault, err error) {
	dir, held, err := privateDir(scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, wipe(dir), held.Close()) }()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	file := filepath.Join(dir, "vault.json")
	if err := os.WriteFile(file, v.Document().Reveal(), 0o600); err != nil {
		return nil, err
	}
	for {
		if err := p.runEditor(file, signals); err != nil {
			return nil, err
		}
		raw, err := readFile(file, vault.MaxSealed)
		if err != nil {
			return nil, err
		}
		edited, err := vault.Parse(vault.NewSecret(raw))
		if err == nil {
			return edited, nil
		}
		wrong := fmt.Errorf("the vault was not changed: %w", err)
		a, err := p.Asker(context.WithoutCancel(ctx))
		if err != nil {
			return nil, wrong // nobody can be asked to go back
		}
		fmt.Fprintln(p.Err, cli.Clean(wrong.Error()))
		if again, err := a.Yes("Edit it again?"); err != nil || !again {
			return nil, cli.Shown(wrong)
		}
	}
}

// secretVariables are kept from editors.
var secretVariables = []string{ageKeyVariable, "NOSTR_SECRET_KEY", "GUILD_PASSPHRASE", "GUILD_TASK_TOKEN", "SOPS_AGE_KEY", "VAULT_TOKEN", "BAO_TOKEN"}

// runEditor runs the editor to its end. Ctrl-C is left to the editor; SIGTERM and SIGHUP end it.
func (p program) runEditor(file string, signals <-chan os.Signal) error {
	editor := defaultEditor
	for _, name := range []string{"EDITOR", "VISUAL"} {
		if set := os.Getenv(name); set != "" {
			editor = set
		}
	}
	cmd := editorCommand(editor, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.In, p.Out, p.Err
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(secretVariables, name)
	})
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				return cli.WithHint(fmt.Errorf("the editor (%s): %w", editor, err), "the vault was not changed; $EDITOR says which editor to use")
			}
			return nil
		case s := <-signals:
			if s == os.Interrupt {
				continue
			}
			_ = cmd.Process.Signal(s)
			<-done
			return context.Canceled
		}
	}
}

// privateName begins the names of the directories that a vault is edited in.
const privateName = "nutshell-vault-"

// privateDir makes a directory in memory that only the person can enter, locked until held is closed. It wipes what
// killed edits left there.
func privateDir(scratch string) (dir string, held *os.File, err error) {
	places := []string{os.Getenv("XDG_RUNTIME_DIR"), "/dev/shm"}
	if scratch != "" {
		places = []string{scratch}
	}
	for _, place := range places {
		if place == "" || !inMemory(place) && scratch == "" {
			continue
		}
		sweep(place)
		dir, err := os.MkdirTemp(place, privateName) // 0700
		if err != nil {
			continue
		}
		held, err := durable.LockDir(dir)
		return dir, held, err
	}
	err = errors.New("there is no directory in memory to edit the vault in")
	return "", nil, cli.WithHint(err, "name a directory that is never written to a disk with --scratch")
}

// sweep wipes the directories of edits that are not locked any more. Those of other users cannot be opened.
func sweep(place string) {
	left, _ := filepath.Glob(filepath.Join(place, privateName+"*"))
	for _, dir := range left {
		if f, err := durable.LockDir(dir); err == nil {
			_ = wipe(dir) // the next edit tries again
			f.Close()
		}
	}
}

// wipe overwrites the files of a directory and removes it.
func wipe(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, missing := os.Lstat(path)
		if missing != nil || !info.Mode().IsRegular() {
			continue // links and folders are only removed, not overwritten
		}
		f, failed := os.OpenFile(path, os.O_WRONLY, 0)
		if failed == nil {
			_, failed = io.CopyN(f, zeros{}, info.Size())
			failed = errors.Join(failed, f.Sync(), f.Close())
		}
		err = errors.Join(err, failed)
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// zeros reads as endless zero bytes.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
