package node

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/internal/control"
	"guild/internal/hand/mintd"
	"guild/internal/hand/nwc/nwctest"
	"guild/internal/journal/fact"
	"guild/internal/step/judge"
	"guild/internal/step/work"
	"guild/internal/wallet"
	"guild/nip90"
	"guild/verify"
)

// accountsOf returns the ledger of a node's play money.
func accountsOf(n *Node) map[string]int64 {
	for _, b := range n.wallet.Fold().Balances() {
		if b.Unit == mintd.Unit {
			return b.Accounts
		}
	}
	return nil
}

// found returns a judge that always finds the same, by one test.
func found(o guild.Outcome, s guild.Strength) func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
	return func(context.Context, judge.Case) (guild.Verdict, judge.Evidence, error) {
		v := guild.Verdict{Outcome: o, Strength: s, Tier: "none", Expected: 1, Strengths: &guild.Strengths{}}
		test := guild.Test{ID: "t", State: "failed", Layer: guild.LayerCorrectness, Exposure: guild.Visible, Blame: guild.BlameDelivery}
		if o == guild.Success {
			v.Score, v.Passed, v.Strengths.Visible = guild.Micro, 1, 1
			test.State, test.Blame, test.Strength = "passed", "", s
			switch s {
			case guild.Strong:
				v.Strengths.Strong = 1
			case guild.Mixed:
				v.Strengths.Mixed = 1
			}
		} else {
			v.Cause = "t failed"
		}
		v.Tests = []guild.Test{test}
		return v, judge.Evidence("seen"), nil
	}
}

// lightningWallet is a Lightning wallet of others, with an account for a customer and one for a provider.
type lightningWallet struct {
	payments           *bufio.Scanner // a line for each
	customer, provider string         // connections
}

// startLightning runs a wallet that makes an invoice over each amount.
func startLightning(t *testing.T, relay string, amounts ...guild.Msat) lightningWallet {
	t.Helper()
	var bills []nwctest.Invoice
	for i, amount := range amounts {
		preimage := guild.Hash{byte(i), 1}
		bill := nwctest.Invoice{Hash: sha256.Sum256(preimage[:]), Preimage: preimage.Hex(), Amount: amount}
		bill.Text = nwctest.Sign(t, bolt11.Invoice{
			Network: bolt11.Regtest, Amount: amount, Created: time.Now().Truncate(time.Second).UTC(), PaymentHash: bill.Hash, Description: "work",
		})
		bills = append(bills, bill)
	}
	theirs, customer, provider := nostr.SecretKey{31: 1}, nostr.SecretKey{31: 2}, nostr.SecretKey{31: 3}
	connection := "nostr+walletconnect://" + theirs.Public().Hex() + "?relay=" + relay + "&secret="
	return lightningWallet{
		nwctest.Start(t, relay, theirs, bills, customer.Public(), provider.Public()), connection + customer.Hex(), connection + provider.Hex(),
	}
}

// connect connects a node to its account.
func connect(t *testing.T, node *control.Client, connection string) {
	t.Helper()
	shown, err := control.ConnectLightning.Call(t.Context(), node, control.LightningConnection{Connection: connection})
	if err != nil || shown.Alias != "Alby" || shown.Balance != 21_000 {
		t.Fatalf("%+v, %v", shown, err)
	}
}

// TestPrepaid pays over Lightning, between two accounts of a wallet of others.
func TestPrepaid(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	wallets := startLightning(t, url, 500_000)
	prepaid(t, url, func(customer, provider *control.Client) {
		connect(t, customer, wallets.customer)
		connect(t, provider, wallets.provider)
	})
	if !wallets.payments.Scan() {
		t.Error("the wallet paid nothing")
	}
}

// prepaid hires a provider whose invoice over 500 sat is paid before it works. connect gives both nodes their wallets.
func prepaid(t *testing.T, url string, connect func(customer, provider *control.Client)) {
	t.Helper()
	overLightning(t, url, "prepaid", verify.Passed, "the preimage fits the invoice that the provider quoted", connect)
}

// overLightning is a hire that is paid over Lightning by some settlement, and what verifiers say of the payment.
func overLightning(t *testing.T, url, how string, state verify.State, detail string, connect func(customer, provider *control.Client)) {
	t.Helper()
	tape := newTape()
	customer := startNode(t, url, func(n *Config) {
		n.Examine, n.Appended, n.Socket = found(guild.Success, guild.Strong), tape.take, socket(t)
	})
	provider := startNode(t, url, func(n *Config) {
		n.Socket, n.Workers = socket(t), []Worker{{Task: "echo", Do: echo, Price: 500_000, Unit: "sat"}}
	})
	client := control.Dial(customer.c.Socket)
	connect(client, control.Dial(provider.c.Socket))
	job := hire(t, client, control.Hire{Tries: 1, Settle: &control.Settlement{How: how, Unit: "sat", Most: 600}})
	until(t, tape, func(r fact.AttemptRecorded) bool { return r.Receipt != "" })
	if job.Ending != guild.JobAccepted {
		t.Fatalf("%s: %s", job.Ending, job.Reason)
	}
	checkPayment(t, client, job, state, detail)
	for _, a := range provider.wallet.Fold().Balances() {
		if a.Asset == wallet.Lightning && a.Accounts[wallet.Earned] != -500_000 {
			t.Errorf("the provider has earned %d msat", -a.Accounts[wallet.Earned])
		}
	}
}

// TestForgedZapReceiptPaysNothing answers a provider's invoice with a receipt that the customer signed itself (NIP-57).
func TestForgedZapReceiptPaysNothing(t *testing.T) {
	t.Parallel()
	url := startRelay(t)
	wallets, priced := startLightning(t, url, 500_000), newCrew()
	close(priced.may)
	client, provider := start(t, url, func(n *Config) {
		n.Workers = []Worker{{Task: "echo", Do: priced.do, Price: 500_000, Unit: "sat"}, {Task: "free", Do: echo}}
	})
	connect(t, client, wallets.provider)
	customer := newPeer(t, url)
	ask := func(task string) nostr.Event {
		r := nip90.Request{Kind: 5000, Provider: &provider}
		r.Set(nip90.ParamJobType, task)
		if err := r.SetBundle(nip90.NewParcel(bundle(t))); err != nil {
			t.Fatal(err)
		}
		e, err := r.Event()
		if err != nil {
			t.Fatal(err)
		}
		return customer.publish(e)
	}
	asked := ask("echo")
	wants, err := nip90.ParseFeedback(customer.next(nip90.KindFeedback), nil)
	if err != nil || wants.Status != nip90.PaymentRequired || wants.Invoice == "" {
		t.Fatalf("%+v, %v", wants, err)
	}
	zap, err := json.Marshal(customer.sign(nostr.Event{Kind: 9734, Tags: append(answers(asked),
		nostr.Tag{"p", provider.Hex()}, nostr.Tag{"amount", "500000"}, nostr.Tag{"relays", url})}).Event())
	if err != nil {
		t.Fatal(err)
	}
	customer.publish(nostr.Event{Kind: 9735, Tags: nostr.Tags{
		{"p", provider.Hex()}, {"e", asked.ID.Hex()}, {"P", customer.pubkey.Hex()}, {"bolt11", wants.Invoice}, {"description", string(zap)},
		{"preimage", nostr.ID{1}.Hex()},
	}})
	ask("free")
	customer.next(6000)
	if priced.peak() != 0 || slices.Contains(facts(t, client, "ledger"), "invoice.settled") {
		t.Error("it works for what its own wallet has not received")
	}
}

func TestEscrow(t *testing.T) {
	for name, c := range map[string]struct {
		outcome    guild.Outcome
		strength   guild.Strength
		paid, back int64
	}{
		"strong work gets what was agreed": {guild.Success, guild.Strong, 500, 9500},
		"mixed work gets its share":        {guild.Success, guild.Mixed, 200, 9800},
		"a cheat gets nothing":             {guild.Failure, guild.Unverified, 0, 10000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			customer, provider, ours := withPlayMoney(t, c.outcome, c.strength, echo)
			client := control.Dial(customer.c.Socket)
			job := hire(t, client, control.Hire{Tries: 1, Settle: &control.Settlement{How: "escrow", Unit: mintd.Unit, Most: 600, Mixed: 40}})
			until(t, ours, func(r fact.AttemptRecorded) bool { return r.Receipt != "" })
			eventually(t, "both have what is theirs", func() bool {
				return accountsOf(provider)[wallet.Free] == c.paid && accountsOf(customer)[wallet.Free] == c.back
			})
			if held := accountsOf(customer)[wallet.Held]; held != 0 {
				t.Errorf("%d are still held", held)
			}
			if c.paid == 0 {
				checkPayment(t, client, job, verify.Absent, "500 test (play money, worth nothing) that were locked for it are the customer's again")
				return
			}
			checkPayment(t, client, job, verify.Passed, "it is signed by the mint's keys as they were handed over",
				fmt.Sprintf("%d test (play money, worth nothing) in ecash that was locked to the key in the provider's quote", c.paid))
		})
	}
}

// withPlayMoney starts a customer with a mint of play money, whose judge finds what is given, and a provider that takes 500 for a job.
func withPlayMoney(
	t *testing.T, o guild.Outcome, s guild.Strength, do func(context.Context, work.Assignment) error,
) (customer, provider *Node, ours tape) {
	t.Helper()
	url := startRelay(t)
	ours = newTape()
	customer = startNode(t, url, func(n *Config) {
		n.MintAddr, n.Examine, n.Appended, n.Socket = "127.0.0.1:0", found(o, s), ours.take, socket(t)
	})
	eventually(t, "the customer has play money", func() bool { return accountsOf(customer)[wallet.Free] == grant })
	provider = startNode(t, url, func(n *Config) {
		n.Workers = []Worker{{Task: "echo", Do: do, Price: 500_000, Unit: mintd.Unit}}
	})
	if err := provider.wallet.AddMint(t.Context(), customer.wallet.Fold().Mints()[0]); err != nil {
		t.Fatal(err)
	}
	return customer, provider, ours
}

// TestProviderHearsThatItsQuoteIsNotPaid checks that a request whose quote is over the bid does not wait for its price.
func TestProviderHearsThatItsQuoteIsNotPaid(t *testing.T) {
	t.Parallel()
	customer, provider, ours := withPlayMoney(t, guild.Success, guild.Strong, echo)
	job := hire(t, control.Dial(customer.c.Socket), control.Hire{Tries: 1, Settle: &control.Settlement{How: "escrow", Unit: mintd.Unit, Most: 400}})
	until(t, ours, func(f fact.AttemptRefused) bool { return f.Unpaid })
	eventually(t, "the provider waits no longer", func() bool {
		s, seen := provider.work.Services()[0], provider.folds.customers.Of(customer.pubkey)
		return seen.Asked == 1 && seen.Withdrawn == 0 && s.Unpaid == 0 && s.Failed == 0
	})
	finish(t, control.Dial(customer.c.Socket), job.ID)
}

// TestPrepaidInEcash pays a stranger's provider before it works, which is paid whatever the verdict.
func TestPrepaidInEcash(t *testing.T) {
	t.Parallel()
	customer, provider, ours := withPlayMoney(t, guild.Failure, guild.Unverified, echo)
	client := control.Dial(customer.c.Socket)
	job := hire(t, client, control.Hire{Tries: 1, Settle: &control.Settlement{How: "prepaid", Unit: mintd.Unit, Most: 600}})
	until(t, ours, func(r fact.AttemptRecorded) bool { return r.Receipt != "" })
	eventually(t, "the provider has claimed it", func() bool { return accountsOf(provider)[wallet.Free] == 500 })
	if accountsOf(customer)[wallet.Paid] != 500 || accountsOf(customer)[wallet.Held] != 0 {
		t.Errorf("the customer has %v", accountsOf(customer))
	}
	job = finish(t, client, job.ID)
	if m := job.Attempts[0].Money; m == nil || m.State != "paid" || m.Paid != 500_000 {
		t.Errorf("%+v", m)
	}
	checkPayment(t, client, job, verify.Passed, "locked to the key in the provider's quote alone")
}

// checkPayment exports a job's receipts, and checks what both verifiers say of the payment.
func checkPayment(t *testing.T, client *control.Client, job control.Job, state verify.State, words ...string) (reports []verify.Report) {
	t.Helper()
	x := newExports(t)
	x.add(t, client, job)
	x.agree(t)
	for _, report := range x.files {
		line := report.Checks[slices.IndexFunc(report.Checks, func(c verify.Check) bool { return c.Name == "payment" })]
		for _, want := range words {
			if line.State != state || !strings.Contains(line.Detail, want) {
				t.Errorf("%+v", line)
			}
		}
		reports = append(reports, report)
	}
	return reports
}

// tired is a worker that does nothing.
func tired(context.Context, work.Assignment) error { return errors.New("tired") }

// TestLockForNoWorkHasItsReceipt locks money for a provider that delivers nothing, and takes it back.
func TestLockForNoWorkHasItsReceipt(t *testing.T) {
	t.Parallel()
	customer, _, ours := withPlayMoney(t, guild.Success, guild.Strong, tired)
	client := control.Dial(customer.c.Socket)
	job := hire(t, client, control.Hire{Tries: 1, Settle: &control.Settlement{How: "escrow", Unit: mintd.Unit, Most: 600}})
	until(t, ours, func(r fact.AttemptRecorded) bool { return r.Unjudged })
	eventually(t, "the money is back", func() bool { return accountsOf(customer)[wallet.Free] == grant })
	for _, r := range checkPayment(t, client, job, verify.Absent, "500 test (play money, worth nothing) that were locked for it are the customer's again") {
		if r.Grade != verify.Claim || r.Facts.Refunded != 500_000 || r.Facts.Outcome != "" {
			t.Errorf("%s: %+v", r.Grade, r.Facts)
		}
	}
	listed, err := control.Receipts.Call(t.Context(), client)
	if err != nil || len(listed) != 1 || listed[0].Outcome != "" {
		t.Errorf("%+v, %v", listed, err)
	}
}

// TestWithheldWorkIsPaid hires a provider that is paid before the work, and does nothing for it. The receipt shows both.
func TestWithheldWorkIsPaid(t *testing.T) {
	t.Parallel()
	customer, provider, ours := withPlayMoney(t, guild.Success, guild.Strong, tired)
	client := control.Dial(customer.c.Socket)
	job := hire(t, client, control.Hire{Tries: 1, Settle: &control.Settlement{How: "prepaid", Unit: mintd.Unit, Most: 600}})
	eventually(t, "the attempt knows what was paid", func() bool {
		m := finish(t, client, job.ID).Attempts[0].Money
		return m != nil && m.State == "paid" && m.Paid == 500_000
	})
	eventually(t, "the provider has claimed it", func() bool { return accountsOf(provider)[wallet.Free] == 500 })
	until(t, ours, func(r fact.AttemptRecorded) bool { return r.Unjudged })
	for _, r := range checkPayment(t, client, job, verify.Passed, "locked to the key in the provider's quote alone") {
		if r.Grade != verify.Claim || r.Facts.Amount != 500_000 || r.Facts.Delivered != 0 {
			t.Errorf("%s: %+v", r.Grade, r.Facts)
		}
	}
}
