package archive

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/cli/viewer"
	"guild/internal/nut/host"
)

// servePort is the port that serve listens on by default.
const servePort = 3000

func (p program) serveCommand() *cobra.Command {
	var port int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "serve [FILE.nut|DIR]",
		Short: "Look at a bundle in your browser",
		Long: `Show a bundle, or a directory as it is at each moment, on a page of this
machine: what is asked for, what is still missing, and the files with their
sizes and hashes.

The first line that is printed is the page's address. It has a token in it,
without which nothing is shown, and no other machine can reach it. The page is
for reading: it runs no scripts, shows every file as plain text, and leaves out
dot files, keys, the vault and hidden tests. Ctrl-C ends it.`,
		Example:           p.Examples("serve my-task.nut", "serve my-task --port 0"),
		Args:              cli.Arity(cobra.MaximumNArgs(1), "a bundle or a directory"),
		ValidArgsFunction: host.CompleteBundles,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.serve(cmd.Context(), append(args, ".")[0], port, asJSON)
		},
	}
	cmd.Flags().IntVarP(&port, "port", "p", servePort, "port to listen on; 0 takes a free one")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the address as JSON")
	p.LimitFlag(cmd)
	return cmd
}

// serve shows a bundle until the context ends.
func (p program) serve(ctx context.Context, path string, port int, asJSON bool) error {
	if port < 0 || port > 65535 {
		return cli.Usage(fmt.Errorf("%d is not a port", port))
	}
	trees, packed, done, err := p.trees(ctx, path)
	if err != nil {
		return err
	}
	defer done()
	token := make([]byte, 24)
	if _, err := io.ReadFull(p.Random, token); err != nil {
		return err
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return cli.WithHint(fmt.Errorf("port %d is taken", port), "'--port 0' takes a free one")
	}
	if err != nil {
		return err
	}
	v := viewer.New(viewer.Config{
		Port: l.Addr().(*net.TCPAddr).Port, Token: hex.EncodeToString(token),
		Trees: trees, Name: path, Packed: packed, Program: p.Name, Now: p.Now,
	})
	if asJSON {
		err = cli.PrintLine(p.Out, map[string]string{"url": v.URL()})
	} else {
		_, err = fmt.Fprintf(p.Out, "%s\nshowing %s; Ctrl-C ends it\n", v.URL(), cli.Clean(path))
	}
	if err != nil {
		l.Close()
		return err
	}
	return run(ctx, l, v)
}

// run answers requests until the context ends, and then waits up to two seconds for those under way.
func run(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 2 * time.Minute,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if server.Shutdown(grace) != nil {
		server.Close()
	}
	<-failed
	return nil
}

// trees returns a function that opens the tree to show. A bundle is unpacked once; a directory is read anew each time.
func (p program) trees(ctx context.Context, path string) (open func() (fs.FS, func(), error), packed bool, done func(), err error) {
	tree, done, err := p.OpenTree(ctx, path)
	if err != nil {
		return nil, false, nil, err
	}
	if !host.IsFile(path) {
		done()
		return func() (fs.FS, func(), error) { return p.OpenTree(ctx, path) }, false, func() {}, nil
	}
	return func() (fs.FS, func(), error) { return tree, func() {}, nil }, true, done, nil
}
