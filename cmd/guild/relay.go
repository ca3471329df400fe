package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/hand/relayd"
)

type relayOptions struct {
	Addr string
	Dir  string
}

func (p *program) relayCommand() *cobra.Command {
	var o relayOptions
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Run the embedded relay alone",
		Long: `relay runs the node's embedded Nostr relay and Blossom server without a node, so
that several nodes on this machine can share them. It prints its URL.`,
		Example: "  guild relay\n  guild relay --addr 127.0.0.1:0 --dir ./relay",
		Args:    cli.NoArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return p.runRelay(cmd.Context(), o, cli.AsJSON(cmd)) },
	}
	cmd.Flags().StringVar(&o.Addr, "addr", "", "loopback address to listen on (default: relay.addr, 127.0.0.1:7447)")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "directory for its events and blobs (default: in the data directory)")
	cli.JSONFlag(cmd, "print the addresses as JSON")
	return cmd
}

// relayReport is the output of guild relay --json.
type relayReport struct {
	Relay   string `json:"relay"`   // its URL
	Blossom string `json:"blossom"` // URL of the Blossom server
}

func (p *program) runRelay(ctx context.Context, o relayOptions, asJSON bool) error {
	c, err := p.config()
	if err != nil {
		return err
	}
	if o.Addr == "" {
		o.Addr = c.Relay.Addr
	}
	if o.Dir == "" {
		o.Dir = filepath.Join(c.Paths.Data, "relay")
	}
	r, err := relayd.Open(relayd.Config{Dir: o.Dir, Addr: o.Addr, Name: "guild", Now: p.now, Log: p.logger(p.err)})
	if errors.Is(err, syscall.EADDRINUSE) {
		return cli.WithHint(err, "stop what listens on "+o.Addr+", or choose another address: --addr 127.0.0.1:0 takes a free port")
	}
	if err != nil {
		return err
	}
	err = printed(p, asJSON, relayReport{r.URL(), r.HTTP()}, func(r relayReport) error {
		_, err := fmt.Fprintf(p.out, "relay    %s\nblossom  %s\n", r.Relay, r.Blossom)
		return err
	})
	if err != nil {
		return err
	}
	return r.Run(ctx)
}
