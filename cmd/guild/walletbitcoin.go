package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/hand/bitcoind"
)

func (p *program) walletBitcoindCommand() *cobra.Command {
	var forget bool
	cmd := send(p, p.acting, control.ConnectBitcoin, &cobra.Command{
		Use:   "bitcoind CONNECTION|-",
		Short: "Pay and be paid on the chain by your Bitcoin wallet",
		Long: `bitcoind connects the node to the wallet of your bitcoind over JSON-RPC, for
guild hire --settle onchain and for customers that pay so:

  bitcoind://USER:PASSWORD@HOST:PORT?confirmations=3&wallet=NAME
  bitcoind://HOST:PORT?cookie=/home/me/.bitcoin/.cookie

The port is 8332 if none is given. Work for a customer begins once its payment
has the confirmations, 3 if that is left out. wallet=NAME is for a bitcoind that
has several loaded. A btcwallet in front of a btcd needs cert=…, the text of its
rpc.cert in base64; it pays only with coins at addresses that begin with 1, and
cannot spend over JSON-RPC what it earns. To pay, the wallet must be unlocked
(walletpassphrase).

Whoever has it can spend all that is in the wallet; the limits are your guild
wallet budget, which counts the fees: at most 10 % of a payment, or 2500 sat if
that is more. The node stores the connection; - reads it from standard input.`,
		Example: "  guild wallet add bitcoind - < connection.txt\n  guild wallet add bitcoind --forget",
		Args:    cli.Arity(cobra.MaximumNArgs(1), "a connection, - for standard input, or --forget"),
	}, func(_ *cobra.Command, args []string) (c control.BitcoinConnection, _ []string, err error) {
		switch {
		case forget && len(args) > 0:
			err = errors.New("--forget takes no connection")
		case forget:
		case len(args) == 0:
			err = errors.New("a connection is needed (guild wallet add bitcoind --help says how to make one)")
		default:
			c.Connection, err = p.secretArg(args[0])
			if err == nil && !strings.HasPrefix(strings.TrimSpace(c.Connection), bitcoind.Scheme) {
				err = fmt.Errorf("a connection begins with %s (guild wallet add bitcoind --help)", bitcoind.Scheme)
			}
		}
		return c, nil, err
	}, func(w control.BitcoinWallet) error {
		if w == (control.BitcoinWallet{}) {
			_, err := fmt.Fprintln(p.out, "forgotten  no Bitcoin wallet is connected")
			return err
		}
		_, err := fmt.Fprintf(p.out, "connected  %s\n", shownBitcoin(w))
		return err
	})
	cmd.Flags().BoolVar(&forget, "forget", false, "disconnect the wallet, and delete its connection here")
	return cmd
}

func shownBitcoin(w control.BitcoinWallet) string {
	if w.Reason != "" {
		return "it does not answer: " + cli.Clean(w.Reason)
	}
	return fmt.Sprintf("%s, with %d sat to spend", cli.Clean(w.Network), w.Balance/1000)
}
