package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/durable"
	"guild/internal/key"
	"guild/internal/nut/host"
	"guild/internal/taskserver"
	"guild/nutshell"
	"guild/nutshell/clawnet"
	"guild/nutshell/vault"
)

// Environment variables of the verbs that talk to a task server. The token is no flag, because other users of the
// machine see those.
const (
	envServer = "GUILD_TASK_SERVER"
	envToken  = "GUILD_TASK_TOKEN"
)

// serverFlags name a task server and say how it may be reached.
type serverFlags struct {
	url      string
	insecure bool
}

// add adds the flags. --clawnet is the reference program's name for --server.
func (f *serverFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "server", "", "URL of the task server ("+envServer+"; "+taskserver.Default+")")
	flags.StringVarP(&f.url, "clawnet", "c", "", "the same as --server")
	flags.BoolVar(&f.insecure, "insecure-http", false, "allow http to another machine, which anybody on the way can read")
	_ = flags.MarkHidden("clawnet") // it is there
}

// aboutServer is what the help of every verb that talks to a task server ends with.
const aboutServer = `The task server is --server, else ` + envServer + `, else ` + taskserver.Default + `.
A token for it is taken from ` + envToken + `.`

// taskServer is the client of the server that a person named, or of the one that noted is, if the person has used
// that before: a bundle from elsewhere must not choose who gets the token.
func (p program) taskServer(f serverFlags, noted string) (*taskserver.Client, error) {
	url := cmp.Or(f.url, os.Getenv(envServer))
	if url == "" && noted != "" && noted != taskserver.Default {
		if !slices.Contains(p.knownServers(), noted) {
			err := fmt.Errorf("the manifest names the task server %s, which you have not used before", noted)
			return nil, cli.WithHint(err, "if you trust it with this work, add --server "+noted)
		}
		url = noted
	}
	config := taskserver.Config{URL: cmp.Or(url, taskserver.Default), InsecureHTTP: f.insecure}
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

// serversFile is where the servers that a person has used are kept, a line each.
const serversFile = "task-servers"

// knownServers are the servers that the person has used before. None is as good as an unreadable list.
func (p program) knownServers() []string {
	dir, err := p.ConfigDir()
	if err != nil {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(dir, serversFile))
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

// remember notes that the person uses a server. What was done there is done, so that a note which cannot be written
// is a warning.
func (p program) remember(server string) {
	known := p.knownServers()
	if server == taskserver.Default || slices.Contains(known, server) {
		return
	}
	if err := p.writeServers(append(known, server)); err != nil {
		fmt.Fprintf(p.Err, "warning: it could not be noted that you use %s: %s\n", server, cli.Clean(err.Error()))
	}
}

func (p program) writeServers(known []string) error {
	dir, err := p.ConfigDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.WriteBytes(filepath.Join(dir, serversFile), []byte(strings.Join(known, "\n")+"\n"))
}

// advised adds what a person can do about an error of a task server.
func (p program) advised(err error) error {
	if err == nil || cli.HintOf(err) != "" {
		return err
	}
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
	} {
		if known.is {
			return cli.WithHint(err, known.hint)
		}
	}
	if _, wrong := errors.AsType[*taskserver.HashError](err); wrong {
		return cli.WithHint(err, "nothing was kept of it; tell the publisher, who can upload the right one")
	}
	return err
}

// taskID is the arity of verbs about one task.
func taskID() cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cli.OneArg("the id of a task")(cmd, args); err != nil {
			return err
		}
		return checkTask(args[0])
	}
}

// checkTask is a usage error if id is none.
func checkTask(id string) error {
	if err := taskserver.CheckID(id); err != nil {
		return cli.WithHint(cli.Usage(err), "the id is what publish has printed")
	}
	return nil
}

// parseAmount reads an amount of money from a flag.
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

// titled is a task for people: its id and its title.
func titled(t taskserver.Task) string {
	if t.Title == "" {
		return t.ID
	}
	return fmt.Sprintf("%s %q", t.ID, cli.Cut(cli.Clean(t.Title), 60))
}

// downloaded is a bundle that a task server gave, in a file without a name.
type downloaded struct {
	file   *os.File
	bundle *nutshell.Bundle
	hash   guild.Hash
	size   int64
}

// download brings the bundle of a task and looks through it. The caller closes its file.
func (p program) download(ctx context.Context, c *taskserver.Client, id string, want guild.Hash) (*downloaded, error) {
	f, err := host.Unnamed()
	if err != nil {
		return nil, err
	}
	d := &downloaded{file: f}
	if d.hash, err = c.Download(ctx, id, f, want, host.MaxInput); err == nil {
		d.size, err = f.Seek(0, io.SeekEnd)
	}
	if err == nil {
		d.bundle, err = nutshell.Open(f, d.size, nutshell.Limits{})
		if err != nil {
			err = cli.WithHint(fmt.Errorf("the bundle of %s: %w", id, err), "nothing was unpacked; tell the publisher")
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return d, nil
}

// noted is the extension of a directory's manifest, with where its task is.
func noted(dir string) (*nutshell.Manifest, clawnet.Extension, error) {
	f, err := host.OpenRegular(filepath.Join(dir, nutshell.ManifestFile))
	if err != nil {
		return nil, clawnet.Extension{}, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, nutshell.DefaultLimits().File))
	if err != nil {
		return nil, clawnet.Extension{}, err
	}
	m, err := nutshell.ParseManifest(raw)
	if err != nil {
		return nil, clawnet.Extension{}, err
	}
	e, _, err := clawnet.FromManifest(m)
	return m, e, err
}
