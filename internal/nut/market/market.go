// Package market has the verbs for a task server: they publish a bundle as a task, bid for it, assign and claim it, hand
// in the delivery and approve it. Package taskserver is the client; nothing that the server sends is trusted.
package market

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/hand/key"
	"guild/internal/hand/taskserver"
	"guild/internal/nut/host"
	"guild/nutshell"
	"guild/nutshell/clawnet"
	"guild/nutshell/vault"
)

// Commands returns the verbs.
func Commands(p *host.Program) []*cobra.Command {
	own := program{p}
	return []*cobra.Command{
		own.publishCommand(), own.bidsCommand(), own.bidCommand(), own.assignCommand(), own.claimCommand(),
		own.deliverCommand(), own.submitCommand(), own.approveCommand(),
	}
}

// program is the program that the verbs are part of.
type program struct{ *host.Program }

// Environment variables of the verbs. The token is not a flag, because other users of the machine can see flags.
const (
	envServer = "GUILD_TASK_SERVER"
	envToken  = "GUILD_TASK_TOKEN"
)

// server is the task server of a verb, as its flags say it.
type server struct {
	program
	url      string
	insecure bool
}

// verb completes the declaration of a verb that talks to a task server: its flags, its help, --json, and what a person
// can do about errors. --clawnet is the reference program's name for --server.
func (p program) verb(cmd *cobra.Command, usage string, run func(ctx context.Context, s *server, args []string) (host.Result, error)) *cobra.Command {
	s := &server{program: p}
	cmd.Long += "\n\nThe task server is --server, else " + envServer + ", else " + taskserver.Default + ".\nA token for it is taken from " + envToken + "."
	flags := cmd.Flags()
	flags.StringVar(&s.url, "server", "", "URL of the task server ("+envServer+"; "+taskserver.Default+")")
	flags.StringVarP(&s.url, "clawnet", "c", "", "the same as --server")
	flags.BoolVar(&s.insecure, "insecure-http", false, "allow http to another machine, which anybody on the way can read")
	_ = flags.MarkHidden("clawnet") // the flag exists
	return p.Verb(cmd, usage, func(cmd *cobra.Command, args []string) (host.Result, error) {
		result, err := run(cmd.Context(), s, args)
		return result, p.advised(err)
	})
}

// taskVerb completes the declaration of a verb about the task that is its argument: it gets the task from the server
// before it runs the verb.
func (p program) taskVerb(cmd *cobra.Command, usage string, run func(ctx context.Context, c *taskserver.Client, t taskserver.Task) (host.Result, error)) *cobra.Command {
	if cmd.Args == nil {
		cmd.Args = taskID
	}
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	return p.verb(cmd, usage, func(ctx context.Context, s *server, args []string) (host.Result, error) {
		c, err := s.client("")
		if err != nil {
			return nil, err
		}
		var t taskserver.Task
		if len(args) > 0 {
			if t, err = c.Task(ctx, args[0]); err != nil {
				return nil, err
			}
		}
		return run(ctx, c, t)
	})
}

// client returns the client of the server that the person named, or else of noted, the one in a manifest. The person
// must have used that before: a bundle from a stranger must not choose who gets the token.
func (s *server) client(noted string) (*taskserver.Client, error) {
	url := cmp.Or(s.url, os.Getenv(envServer))
	if url == "" && noted != "" && noted != taskserver.Default {
		if !slices.Contains(s.knownServers(), noted) {
			err := fmt.Errorf("the manifest names the task server %s, which you have not used before", noted)
			return nil, cli.WithHint(err, "if you trust it with this work, add --server "+noted)
		}
		url = noted
	}
	config := taskserver.Config{URL: cmp.Or(url, taskserver.Default), InsecureHTTP: s.insecure}
	if token := key.TakeEnv(envToken); token != "" {
		config.Token = vault.NewSecret([]byte(token))
	}
	client, err := taskserver.New(config)
	if errors.Is(err, taskserver.ErrPlainHTTP) {
		return nil, cli.WithHint(cli.Usage(err), "use https; or --insecure-http, if nobody is on the way")
	}
	if err != nil {
		return nil, cli.WithHint(cli.Usage(err), "as in --server "+taskserver.Default)
	}
	return client, nil
}

// serversFile lists the servers that the person has used, one a line.
const serversFile = "task-servers"

// knownServers returns the servers that the person has used before. An unreadable list counts as empty.
func (p program) knownServers() []string {
	dir, err := p.ConfigDir()
	if err != nil {
		return nil
	}
	b, _ := os.ReadFile(filepath.Join(dir, serversFile))
	return strings.Fields(string(b))
}

// remember notes that the person uses a server. If it cannot, it only warns: what was done at the server is done.
func (p program) remember(server string) {
	known := p.knownServers()
	if server == taskserver.Default || slices.Contains(known, server) {
		return
	}
	dir, err := p.ConfigDir()
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = durable.WriteBytes(filepath.Join(dir, serversFile), []byte(strings.Join(append(known, server), "\n")+"\n"))
	}
	if err != nil {
		fmt.Fprintf(p.Err, "warning: it could not be noted that you use %s: %s\n", server, cli.Clean(err.Error()))
	}
}

// advised adds to an error of a task server what a person can do about it.
func (p program) advised(err error) error {
	if err == nil || cli.HintOf(err) != "" {
		return err
	}
	_, otherHash := errors.AsType[*taskserver.HashError](err)
	for _, known := range []struct {
		is   bool
		hint string
	}{
		{errors.Is(err, taskserver.ErrUnreachable), "start the task server, or name another with --server or " + envServer},
		{errors.Is(err, taskserver.ErrStalled), "try again later: nothing has been changed here"},
		{errors.Is(err, taskserver.ErrRedirect), "name the server that it leads to with --server, if you trust that one"},
		{errors.Is(err, taskserver.ErrNotTaskServer), "is the address that of a task server? see --server"},
		{taskserver.IsStatus(err, http.StatusUnauthorized), "set " + envToken + " to your token for the server"},
		{taskserver.IsStatus(err, http.StatusNotFound), "'" + p.Hint("claim --list") + "' lists the open tasks"},
		{otherHash, "nothing was kept of it; tell the publisher, who can upload the right one"},
	} {
		if known.is {
			return cli.WithHint(err, known.hint)
		}
	}
	return err
}

// taskID checks the arguments of verbs about one task.
func taskID(cmd *cobra.Command, args []string) error {
	if err := cli.OneArg("the id of a task")(cmd, args); err != nil {
		return err
	}
	return checkTask(args[0])
}

func checkTask(id string) error {
	if err := taskserver.CheckID(id); err != nil {
		return cli.WithHint(cli.Usage(err), "the id is what publish has printed")
	}
	return nil
}

// parseAmount parses an amount of money in a flag.
func parseAmount(flag, text string) (clawnet.Decimal, error) {
	d, err := clawnet.ParseDecimal(text)
	if err == nil && d.Sign() < 0 {
		err = fmt.Errorf("%s is negative", text)
	}
	if err != nil {
		return d, cli.WithHint(cli.Usage(fmt.Errorf("--%s: %w", flag, err)), "as in --"+flag+" 500")
	}
	return d, nil
}

// titled returns a task's id and title, for people.
func titled(t taskserver.Task) string {
	if t.Title == "" {
		return t.ID
	}
	return fmt.Sprintf("%s %q", t.ID, cli.Cut(cli.Clean(t.Title), 60))
}

// listing is tasks or bids. As JSON it is the list alone.
type listing[T any] struct {
	all  []T
	none string // is printed if there is nothing
	head []string
	row  func(T) []string
}

// MarshalJSON implements json.Marshaler.
func (l listing[T]) MarshalJSON() ([]byte, error) { return json.Marshal(l.all) }

// Print implements host.Result.
func (l listing[T]) Print(p *host.Program) error {
	if len(l.all) == 0 {
		_, err := fmt.Fprintln(p.Out, l.none)
		return err
	}
	rows := [][]string{l.head}
	for _, v := range l.all {
		rows = append(rows, l.row(v))
	}
	return cli.Table(p.Out, rows)
}

// download gets the bundle of a task, checks it, and returns it with the hash of its file. The caller closes it.
func (p program) download(ctx context.Context, c *taskserver.Client, id string, want guild.Hash) (*host.Bundle, guild.Hash, error) {
	f, err := host.Unnamed()
	if err != nil {
		return nil, guild.Hash{}, err
	}
	hash, err := c.Download(ctx, id, f, want, host.MaxInput)
	if err != nil {
		f.Close()
		return nil, guild.Hash{}, err
	}
	b, err := p.ReadBundle(f)
	if err != nil {
		return nil, guild.Hash{}, cli.WithHint(fmt.Errorf("the bundle of %s: %w", id, err), "nothing was unpacked; tell the publisher")
	}
	return b, hash, nil
}

// noted reads the manifest of a directory, and the notes in it of where its task is.
func (p program) noted(dir string) (*nutshell.Manifest, clawnet.Extension, error) {
	_, m, err := p.OwnTree(dir)
	if err != nil {
		return nil, clawnet.Extension{}, err
	}
	e, _, err := clawnet.FromManifest(m)
	if err != nil {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	return m, e, err
}
