package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"guild"
	"guild/internal/cli"
	"guild/internal/control"
	"guild/internal/hand/mintd"
)

func (p *program) walletCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:     "wallet",
		Short:   "Money: what is there, what is held, and what becomes of it",
		Example: "  guild wallet balance\n  guild wallet add mint http://127.0.0.1:7780 --unit test\n  guild wallet send 100test",
	}, p.walletBalanceCommand(), p.walletAddCommand(), p.walletFundCommand(), p.walletReceiveCommand(), p.walletSendCommand(), p.walletHistoryCommand(),
		p.walletOwedCommand(), p.walletApproveCommand(), p.walletBudgetCommand(), p.walletFreezeCommand(), p.walletReconcileCommand(), p.walletArbiterCommand(), p.walletBackupCommand(), p.walletRestoreCommand())
}

func (p *program) walletBalanceCommand() *cobra.Command {
	return call(p, p.acting, control.Wallet, &cobra.Command{
		Use:   "balance",
		Short: "What is free, and what is held for providers",
		Long: `balance shows the ledger of each unit at each mint. free can be spent; held is
locked for providers, until the verdict or its locktime; sent is in tokens. The
unit test is play money: it is worthless.`,
		Example: "  guild wallet balance --json",
	}, p.showMoney)
}

func (p *program) showMoney(m control.Money) error {
	if m.Frozen {
		fmt.Fprintln(p.out, "frozen: nothing new is paid (guild wallet freeze --off)")
	}
	if m.Lightning != nil {
		fmt.Fprintf(p.out, "Lightning: %s\n\n", shownLightning(*m.Lightning))
	}
	if m.Bitcoin != nil {
		fmt.Fprintf(p.out, "Bitcoin: %s\n\n", shownBitcoin(*m.Bitcoin))
	}
	none := "nothing is in the wallet yet: guild wallet add --help"
	if m.Lightning != nil || m.Bitcoin != nil {
		none = "nothing was paid or earned yet"
	}
	err := table(p, none, "UNIT,FREE,HELD,PAID,EARNED,SENT,FEES,MINT", func(a control.Asset) []string {
		return []string{unitName(a.Unit), fmt.Sprint(a.Free), fmt.Sprint(a.Held), fmt.Sprint(a.Paid), fmt.Sprint(a.Earned), fmt.Sprint(a.Sent), fmt.Sprint(a.Fees), cli.Cut(cli.Clean(a.Mint), 40)}
	})(m.Assets)
	if err != nil || len(m.Paying) == 0 {
		return err
	}
	fmt.Fprintln(p.out)
	return table(p, "", "JOB,ATTEMPT,AMOUNT,STATE,LOCKED UNTIL", func(o control.Payment) []string {
		return []string{short(o.Job), short(o.Attempt), fmt.Sprintf("%d %s", o.Amount, unitName(o.Unit)), o.State, p.until(o)}
	})(m.Paying)
}

// unitName names a unit. Play money is called so wherever it is shown.
func unitName(unit string) string {
	if unit == mintd.Unit {
		return unit + " (worthless)"
	}
	return cli.Cut(cli.Clean(unit), 20)
}

// until shows the locktime of a payment.
func (p *program) until(o control.Payment) string {
	if o.Until == 0 {
		return "-"
	}
	return time.UnixMilli(o.Until).In(p.now().Location()).Format("2006-01-02 15:04")
}

func (p *program) walletAddCommand() *cobra.Command {
	var unit string
	mint := send(p, p.acting, control.AddMint, &cobra.Command{
		Use:   "mint URL",
		Args:  cli.OneArg("the URL of a mint"),
		Short: "Use ecash of a mint (Cashu)",
		Long: `mint asks the mint whether it has the unit. From then on the wallet takes and
pays ecash of it. A mint holds the money: add only those that you trust with it.`,
		Example: "  guild wallet add mint https://mint.example --unit sat",
	}, func(_ *cobra.Command, args []string) (control.MintNamed, []string, error) {
		return control.MintNamed{Mint: args[0], Unit: unit}, nil, nil
	}, func(a control.Asset) error {
		_, err := fmt.Fprintf(p.out, "added  %s at %s\n", unitName(a.Unit), cli.Clean(a.Mint))
		return err
	})
	mint.Flags().StringVar(&unit, "unit", "sat", "of the ecash")
	return cli.Group(&cobra.Command{
		Use:     "add",
		Short:   "Add something to pay with",
		Example: "  guild wallet add mint https://mint.example --unit sat\n  guild wallet add nwc - < connection.txt\n  guild wallet add lnd - < connection.txt\n  guild wallet add bitcoind - < connection.txt",
	}, mint, p.walletNWCCommand(), p.walletLNDCommand(), p.walletBitcoindCommand())
}

func (p *program) walletNWCCommand() *cobra.Command {
	return p.walletConnectCommand(&cobra.Command{
		Use:   "nwc CONNECTION|-",
		Short: "Pay and be paid by your Lightning wallet (Nostr Wallet Connect)",
		Long: `nwc connects the node to a Lightning wallet by a connection string, which the
wallet makes: nostr+walletconnect://… Whoever has it can spend what the wallet
allows it, so make one with a budget for guild alone; - reads it from standard
input, which keeps it out of the shell's history. The node stores it.`,
		Example: "  guild wallet add nwc - < connection.txt\n  guild wallet add nwc --forget",
	}, "nostr+walletconnect://", "your Lightning wallet makes one: guild wallet add nwc - reads it from standard input")
}

func (p *program) walletLNDCommand() *cobra.Command {
	return p.walletConnectCommand(&cobra.Command{
		Use:   "lnd CONNECTION|-",
		Short: "Pay and be paid by your lnd node, over its REST API",
		Long: `lnd connects the node to your lnd by lndconnect://HOST:PORT?cert=…&macaroon=…
PORT is that of REST, 8080 usually; cert is the content of tls.cert, and can be
left out if the system trusts the node's certificate; both are in base64. The
macaroon needs no more than this:

  lncli bakemacaroon --save_to guild.macaroon info:read \
    invoices:read invoices:write offchain:read offchain:write
  printf 'lndconnect://127.0.0.1:8080?cert=%s&macaroon=%s' \
    "$(base64 -w0 ~/.lnd/tls.cert)" "$(base64 -w0 guild.macaroon)"

Whoever has it can spend all that is in the node's channels; the limits are your
guild wallet budget. Fees are at most 1 % of a payment, or 10 sat if that is
more. The node stores the connection; - reads it from standard input.`,
		Example: "  guild wallet add lnd - < connection.txt\n  guild wallet add lnd --forget",
	}, "lndconnect://", "guild wallet add lnd --help says how to make one")
}

// walletConnectCommand is a verb that connects a Lightning wallet by a string that begins with a scheme.
func (p *program) walletConnectCommand(verb *cobra.Command, scheme, hint string) *cobra.Command {
	var forget bool
	verb.Args = cli.Arity(cobra.MaximumNArgs(1), "a connection, - for standard input, or --forget")
	cmd := send(p, p.acting, control.ConnectLightning, verb, func(_ *cobra.Command, args []string) (c control.LightningConnection, _ []string, err error) {
		switch {
		case forget && len(args) > 0:
			err = errors.New("--forget takes no connection")
		case forget:
		case len(args) == 0:
			err = cli.WithHint(errors.New("no connection"), hint)
		default:
			c.Connection, err = p.secretArg(args[0])
			if err == nil && !strings.HasPrefix(strings.ToLower(strings.TrimSpace(c.Connection)), strings.TrimSuffix(scheme, "//")) {
				err = cli.WithHint(fmt.Errorf("wallet connection: it does not begin with %s", scheme), hint)
			}
		}
		return c, nil, err
	}, func(w control.LightningWallet) error {
		if w == (control.LightningWallet{}) {
			_, err := fmt.Fprintln(p.out, "forgotten  no Lightning wallet is connected")
			return err
		}
		_, err := fmt.Fprintf(p.out, "connected  %s\n", shownLightning(w))
		return err
	})
	cmd.Flags().BoolVar(&forget, "forget", false, "disconnect the wallet, and delete its connection here")
	return cmd
}

// secretArg returns an argument, or standard input if it is -.
func (p *program) secretArg(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	raw, err := io.ReadAll(io.LimitReader(p.in, 1<<20))
	return strings.TrimSpace(string(raw)), err
}

func shownLightning(w control.LightningWallet) string {
	name := cli.Cut(cli.Clean(cmp.Or(w.Alias, "Lightning wallet")), 40)
	if w.Reason != "" {
		return fmt.Sprintf("%s does not answer: %s", name, cli.Clean(w.Reason))
	}
	return fmt.Sprintf("%s on %s, which may spend %s", name, cli.Clean(cmp.Or(w.Network, "mainnet")), w.Balance)
}

// amountArg reads the argument of a verb that moves money.
func amountArg(text, mint string) (control.Amount, error) {
	amount, unit, err := guild.ParseAmount(text)
	if err == nil && unit == "" {
		err = noUnit(amount)
	}
	return control.Amount{Amount: amount, Unit: unit, Mint: mint}, err
}

func (p *program) walletFundCommand() *cobra.Command {
	var mint string
	cmd := send(p, p.acting, control.FundWallet, &cobra.Command{
		Use:     "fund AMOUNT",
		Args:    cli.OneArg("an amount"),
		Short:   "Get ecash of a mint: play money at once, other for an invoice",
		Example: "  guild wallet fund 1000test",
	}, func(_ *cobra.Command, args []string) (control.Amount, []string, error) {
		want, err := amountArg(args[0], mint)
		return want, nil, err
	}, func(m control.Moved) error {
		if m.Invoice != "" {
			if m.Worthless {
				fmt.Fprintf(p.err, "%d %s is more than the mint gives away: it wants an invoice to be paid, though play money is worth nothing\n", m.Amount, unitName(m.Unit))
			}
			_, err := fmt.Fprintf(p.out, "to pay first:\n%s\n", cli.Clean(m.Invoice))
			return err
		}
		return p.showMoved(m)
	})
	cmd.Flags().StringVar(&mint, "mint", "", "URL (default: the only one of the unit)")
	return cmd
}

func (p *program) showMoved(m control.Moved) error {
	fee := ""
	if m.Fee > 0 {
		fee = fmt.Sprintf(", after the mint's fee of %d", m.Fee)
	}
	_, err := fmt.Fprintf(p.out, "received  %d %s at %s%s\n", m.Amount, unitName(m.Unit), cli.Clean(m.Mint), fee)
	return err
}

func (p *program) walletReceiveCommand() *cobra.Command {
	return send(p, p.acting, control.ReceiveToken, &cobra.Command{
		Use:   "receive TOKEN|-",
		Args:  cli.OneArg("a token, or - for standard input"),
		Short: "Take the ecash of a token",
		Long: `receive exchanges the ecash of a token at its mint, which must be in the wallet.
After that nobody else who has the token can spend it.`,
		Example: "  guild wallet receive cashuB…\n  guild wallet receive - < token.txt",
	}, func(_ *cobra.Command, args []string) (control.Token, []string, error) {
		text, err := p.secretArg(args[0])
		return control.Token{Token: text}, nil, err
	}, p.showMoved)
}

func (p *program) walletSendCommand() *cobra.Command {
	var mint, memo, again string
	cmd := send(p, p.acting, control.SendToken, &cobra.Command{
		Use:   "send AMOUNT",
		Args:  cli.Arity(cobra.MaximumNArgs(1), "an amount, or --again"),
		Short: "Write a token: whoever has it has the money",
		Long: `send takes an amount out of the wallet and prints it as a token (Cashu). If you
did not see the token, because the mint was slow, --again prints it once more.`,
		Example: "  guild wallet send 100test --memo thanks\n  guild wallet send --again 5f21ab03…",
	}, func(_ *cobra.Command, args []string) (want control.Amount, _ []string, err error) {
		switch {
		case again == "" && len(args) == 1:
			want, err = amountArg(args[0], mint)
		case again == "" || len(args) == 1:
			return want, nil, errors.New("give an amount, or --again with an operation of guild wallet history")
		}
		want.Memo, want.Again = memo, again
		return want, nil, err
	}, func(t control.Token) error {
		fmt.Fprintf(p.err, "%d %s of %s\n", t.Amount, unitName(t.Unit), cli.Clean(t.Mint))
		_, err := fmt.Fprintln(p.out, t.Token)
		return err
	})
	cmd.Flags().StringVar(&mint, "mint", "", "URL (default: the only one of the unit)")
	cmd.Flags().StringVar(&memo, "memo", "", "words for who receives it")
	cmd.Flags().StringVar(&again, "again", "", "the operation of a token that was made before, or its beginning (guild wallet history)")
	return cmd
}

func (p *program) walletHistoryCommand() *cobra.Command {
	return call(p, p.acting, control.WalletHistory, &cobra.Command{
		Use:     "history",
		Short:   "All operations and payments, the oldest first",
		Example: "  guild wallet history --json",
	}, table(p, "nothing was moved yet", "TIME,OP,KIND,AMOUNT,FEE,STATE,ABOUT,WITH,CLAIM", func(m control.Movement) []string {
		claim := ""
		if m.Usage != nil {
			claim = claimOf(*m.Usage)
		}
		with := ""
		if m.Npub != "" {
			with = cli.ShortNpub(m.Npub)
		}
		return []string{p.until(control.Payment{Until: m.At}), short(m.Op), m.Kind, fmt.Sprintf("%d %s", m.Amount, unitName(m.Unit)), fmt.Sprint(m.Fee),
			strings.TrimSuffix(m.State+": "+cli.Cut(cli.Clean(m.Reason), 40), ": "), short(m.About), with, claim}
	}))
}

func (p *program) walletOwedCommand() *cobra.Command {
	return call(p, p.acting, control.Wallet, &cobra.Command{
		Use:   "owed",
		Short: "What customers have locked for work here",
		Long: `owed lists the money that customers have locked for requests to this node, or
that your Lightning wallet holds for them. It is yours once the customer
releases it by its verdict; after the locktime it can take it back. What it paid
before the work is yours at once; on the chain it is listed until it has the
confirmations.`,
		Example: "  guild wallet owed",
	}, func(m control.Money) error {
		return table(p, "no customer has locked anything", "REQUEST,CUSTOMER,AMOUNT,STATE,LOCKED UNTIL", func(o control.Payment) []string {
			return []string{short(o.Request), short(o.PubKey), fmt.Sprintf("%d %s", o.Amount, unitName(o.Unit)), o.State, p.until(o)}
		})(m.Owed)
	})
}

func (p *program) walletApproveCommand() *cobra.Command {
	return send(p, p.acting, control.ApprovePayment, &cobra.Command{
		Use:   "approve JOB|ATTEMPT AMOUNT",
		Args:  cli.Arity(cobra.ExactArgs(2), "a job or an attempt, and an amount"),
		Short: "Decide about money that waits for you",
		Long: `approve decides about money that the verdict does not: of weak work, or of work
that was done in part; about an invoice that could not be paid when it was due;
and, with 0, that your Lightning wallet did not pay what it says nothing about,
or that a Bitcoin transaction which is in doubt never pays.
Without a decision ecash is yours again at the locktime, and an invoice expires.

About a price over guild wallet budget --ask-over it decides before the work:
the price allows it, and the verdict still says what the provider gets of it; 0
refuses it.`,
		Example: "  guild wallet approve 5f21ab03 500test\n  guild wallet approve 5f21ab03 0test",
	}, func(_ *cobra.Command, args []string) (control.Approval, []string, error) {
		want, err := amountArg(args[1], "")
		return control.Approval{Attempt: args[0], Amount: want.Amount, Unit: want.Unit}, nil, err
	}, func(o control.Payment) error {
		_, err := fmt.Fprintf(p.out, "decided  attempt %s of job %s\n", short(o.Attempt), short(o.Job))
		return err
	})
}

func (p *program) walletBudgetCommand() *cobra.Command {
	job, daily, monthly, askOver := amountFlag{units: true}, amountFlag{units: true}, amountFlag{units: true}, amountFlag{units: true}
	var task, provider string
	show := table(p, "no budget limits what is paid", "UNIT,FOR,JOB,DAY,USED,MONTH,USED,ASK OVER", func(b control.Budget) []string {
		limit := func(n uint64) string {
			if n == 0 {
				return "-"
			}
			return fmt.Sprint(n)
		}
		return []string{unitName(b.Unit), cmp.Or(cli.Clean(b.Task), cli.Cut(b.Provider, 20), "all"), limit(b.Job), limit(b.Daily), fmt.Sprint(b.Today), limit(b.Monthly), fmt.Sprint(b.Month), limit(b.AskOver)}
	})
	cmd := p.local(&cobra.Command{
		Use:   "budget",
		Short: "Limit what is locked and paid, or show the limits",
		Long: `budget shows all limits, or sets those of a unit: for all payments, for a task,
or for a provider. A payment must be within each of them. Setting replaces all
limits together: leave one out, or give 0, to remove it. What comes back from an
escrow is free again.

--ask-over is for each payment alone: a larger one waits for you before anything
is locked or paid (guild wallet balance). You have seven minutes from the
provider's quote. After that the next provider is asked.`,
		Example: "  guild wallet budget --job 500sat --daily 2000sat --monthly 20000sat\n  guild wallet budget --task python --daily 1000sat --ask-over 200sat\n  guild wallet budget",
	}, func(cmd *cobra.Command, _ []string) (*cli.Result, error) {
		limits := control.Budget{Task: task, Provider: provider, Job: job.amount, Daily: daily.amount, Monthly: monthly.amount, AskOver: askOver.amount}
		for _, f := range []amountFlag{job, daily, monthly, askOver} {
			switch {
			case f.unit == "":
			case limits.Unit == "" || limits.Unit == f.unit:
				limits.Unit = f.unit
			default:
				return nil, cli.Usage(fmt.Errorf("%s and %s: the limits have one unit", f.unit, limits.Unit))
			}
		}
		switch {
		case limits.Unit == "" && task+provider != "":
			return nil, cli.Usage(errors.New("no limit: add one, such as --daily 1000sat"))
		case limits.Unit == "":
			return answerOf(cmd.Context(), p.acting, control.Budgets, show)
		}
		var all []control.Budget
		err := p.acting(cmd.Context(), func(client *control.Client, _ bool) (err error) {
			all, err = control.SetBudget.Call(cmd.Context(), client, limits)
			return err
		})
		if err != nil {
			return nil, err
		}
		return &cli.Result{JSON: all, Show: func() error { return show(all) }}, nil
	})
	cmd.Flags().StringVar(&task, "task", "", "limit what is paid for this task only")
	cmd.Flags().StringVar(&provider, "provider", "", "limit what is paid to this provider only (npub or hex)")
	cmd.Flags().Var(&job, "job", "for one job, as 500sat")
	cmd.Flags().Var(&daily, "daily", "in a UTC day")
	cmd.Flags().Var(&monthly, "monthly", "in a UTC month")
	cmd.Flags().Var(&askOver, "ask-over", "a payment over this waits for you")
	return cmd
}

func (p *program) walletFreezeCommand() *cobra.Command {
	var off bool
	cmd := send(p, p.acting, control.FreezeWallet, &cobra.Command{
		Use:   "freeze",
		Short: "Pay nothing new from now on",
		Long: `freeze stops all new payments, also of jobs that are open. What is locked
already is released by its verdict all the same. --off allows payments again.`,
		Example: "  guild wallet freeze\n  guild wallet freeze --off",
	}, func(*cobra.Command, []string) (control.Freezing, []string, error) {
		return control.Freezing{Frozen: !off}, nil, nil
	}, func(f control.Freezing) error {
		state := "payments are allowed"
		if f.Frozen {
			state = "frozen: nothing new is paid"
		}
		_, err := fmt.Fprintln(p.out, state)
		return err
	})
	cmd.Flags().BoolVar(&off, "off", false, "allow payments again")
	return cmd
}

func (p *program) walletReconcileCommand() *cobra.Command {
	var write bool
	cmd := p.local(&cobra.Command{
		Use:   "reconcile",
		Short: "Compare the ledger with the ecash and the mints",
		Long: `reconcile asks the mints about all ecash of the wallet, and compares the ledger
with it. It fails if anything differs, as after a repair of the journal that
lost entries. Ecash that the ledger lacks is found by guild wallet restore.

--write books what differs: ecash that its mint calls spent is lost, and what
the ledger has too much or too little is corrected. What is pending stays, and
until a day after its locktime what is held for a provider: the payment can
still find out.`,
		Example: "  guild wallet reconcile --json\n  guild wallet reconcile --write",
	}, func(cmd *cobra.Command, _ []string) (*cli.Result, error) {
		var r control.Reconciled
		err := p.acting(cmd.Context(), func(client *control.Client, _ bool) (err error) {
			r, err = control.Reconcile.Call(cmd.Context(), client, strconv.FormatBool(write))
			return err
		})
		if err != nil {
			return nil, err
		}
		return &cli.Result{JSON: r, Show: func() error { return p.showReconciled(r) }}, differing(r, write)
	})
	cmd.Flags().BoolVar(&write, "write", false, "book what differs")
	return cmd
}

// differing returns an error if something differs and is not booked.
func differing(r control.Reconciled, write bool) error {
	open := slices.ContainsFunc(r.Differences, func(d control.Difference) bool { return !d.Booked }) ||
		slices.ContainsFunc(r.Imbalances, func(i control.Imbalance) bool { return !i.Booked })
	switch {
	case !open:
		return nil
	case write:
		return cli.WithHint(errors.New("some ecash is not decided, and is not booked"), "guild wallet reconcile, when its mint or its locktime has decided")
	}
	return cli.WithHint(errors.New("the ledger differs from the ecash"), "guild wallet reconcile --write books it; guild wallet restore finds what the ledger lacks")
}

func (p *program) showReconciled(r control.Reconciled) error {
	if len(r.Differences)+len(r.Imbalances) == 0 {
		_, err := fmt.Fprintf(p.out, "balanced: the mints agree about %s\n", cli.Count(r.Coins, "coin", "coins"))
		return err
	}
	booked := func(is bool, as string) string {
		if is {
			return as
		}
		return "-"
	}
	if len(r.Differences) > 0 {
		err := table(p, "", "UNIT,AMOUNT,THE MINT SAYS,BOOKED,MINT", func(d control.Difference) []string {
			state := d.State
			if d.Held {
				state += ", held"
			}
			return []string{unitName(d.Unit), fmt.Sprint(d.Amount), state, booked(d.Booked, "lost"), cli.Cut(cli.Clean(d.Mint), 40)}
		})(r.Differences)
		if err != nil {
			return err
		}
	}
	if len(r.Imbalances) == 0 {
		return nil
	}
	return table(p, "", "UNIT,ACCOUNT,THE LEDGER HAS,ITS ECASH,BOOKED,MINT", func(i control.Imbalance) []string {
		return []string{unitName(i.Unit), i.Account, fmt.Sprint(i.Ledger), fmt.Sprint(i.Worth),
			booked(i.Booked, "corrected"), cli.Cut(cli.Clean(i.Mint), 40)}
	})(r.Imbalances)
}

func (p *program) walletBackupCommand() *cobra.Command {
	var show bool
	cmd := p.local(&cobra.Command{
		Use:   "backup",
		Short: "Show the words that the wallet's secrets are derived from",
		Long: `backup prints the 12 words of the wallet (BIP-39). Whoever has them has the
money; with them another Cashu wallet restores the ecash (NUT-13).`,
		Example: "  guild wallet backup --show",
	}, func(*cobra.Command, []string) (*cli.Result, error) {
		if !show {
			return nil, cli.WithHint(errors.New("the words are all that a thief needs"), "guild wallet backup --show, where nobody looks on")
		}
		c, err := p.config()
		if err != nil {
			return nil, err
		}
		raw, err := os.ReadFile(filepath.Join(c.Paths.Data, "wallet.words"))
		if err != nil {
			return nil, cli.WithHint(fmt.Errorf("there is no wallet yet: %w", err), "guild wallet balance makes one")
		}
		words := strings.TrimSpace(string(raw))
		return &cli.Result{JSON: walletWords{words}, Show: func() error {
			_, err := fmt.Fprintln(p.out, words)
			return err
		}}, nil
	})
	cmd.Flags().BoolVar(&show, "show", false, "print them")
	return cmd
}

func (p *program) walletRestoreCommand() *cobra.Command {
	return call(p, p.acting, control.RestoreWallet, &cobra.Command{
		Use:   "restore",
		Short: "Find ecash of the wallet's words after a loss of the journal",
		Long: `restore asks each mint of the wallet for ecash that was made with its words
(NUT-09, NUT-13) and that the ledger does not know. A token that it has lost and
that nobody took is found, too; what is locked for a provider is not, for that
needs the journal. To use other words, write them into wallet.words in the data
directory before the node first starts.`,
		Example: "  guild wallet add mint https://mint.example --unit sat\n  guild wallet restore",
	}, table(p, "no mint is in the wallet: guild wallet add mint URL", "FOUND,MINT", func(m control.Moved) []string {
		return []string{fmt.Sprintf("%d %s", m.Amount, unitName(m.Unit)), cli.Cut(cli.Clean(m.Mint), 60)}
	}))
}

// walletWords is the answer of guild wallet backup.
type walletWords struct {
	Words string `json:"words"`
}
