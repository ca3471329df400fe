package control

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"fiatjaf.com/nostr"
	"fiatjaf.com/nostr/nip19"

	"guild"
	"guild/cashu"
	"guild/cashu/token"
	"guild/internal/hand/lightning"
	"guild/internal/hand/mint"
	"guild/internal/hand/mintd"
	"guild/internal/journal"
	"guild/internal/journal/fact"
	"guild/internal/step/pay"
	"guild/internal/wallet"
)

// Money is the answer to GET /v1/wallet: the ledger of each asset, and the payments that are not over. All amounts are in the
// asset's unit.
type Money struct {
	Assets    []Asset          `json:"assets"`
	Frozen    bool             `json:"frozen"`              // nothing new is paid
	Paying    []Payment        `json:"paying"`              // to providers
	Owed      []Payment        `json:"owed"`                // by customers, who have locked it
	Lightning *LightningWallet `json:"lightning,omitempty"` // the owner's, if it is connected
	Bitcoin   *BitcoinWallet   `json:"bitcoin,omitempty"`   // the owner's, if it is connected
}

// LightningWallet describes the owner's Lightning wallet, as it says: the answer to POST /v1/wallet/lightning.
type LightningWallet struct {
	Alias   string     `json:"alias"`
	Network string     `json:"network"`
	Balance guild.Msat `json:"balance_msat"`     // that the connection can spend
	Reason  string     `json:"reason,omitempty"` // why it does not answer
}

// LightningConnection is the body of POST /v1/wallet/lightning.
type LightningConnection struct {
	Connection string `json:"connection"` // nostr+walletconnect://… or lndconnect://…; the wallet is forgotten when absent
}

// Asset is the ledger of one unit at one mint.
type Asset struct {
	Mint      string `json:"mint"`
	Unit      string `json:"unit"`
	Free      int64  `json:"free"`
	Held      int64  `json:"held"`   // locked for attempts
	Paid      int64  `json:"paid"`   // to providers
	Earned    int64  `json:"earned"` // from customers
	Sent      int64  `json:"sent"`   // in tokens
	Fees      int64  `json:"fees"`   // of the mint, of Lightning, or of the chain
	Lost      int64  `json:"lost,omitempty"`
	Corrected int64  `json:"corrected,omitempty"` // differences that guild wallet reconcile --write closed
	Worthless bool   `json:"worthless,omitempty"` // play money
}

// Payment is money that is locked, or being paid.
type Payment struct {
	Job     string `json:"job,omitempty"`
	Attempt string `json:"attempt,omitempty"`
	Request string `json:"request,omitempty"`
	PubKey  string `json:"pubkey"` // of the other party
	Amount  uint64 `json:"amount"`
	Unit    string `json:"unit"`
	Mint    string `json:"mint,omitempty"` // of ecash
	State   string `json:"state"`
	Until   int64  `json:"until,omitempty"` // Unix ms, the locktime of ecash

	Worthless bool `json:"worthless,omitempty"` // play money
}

// MintNamed is the body of POST /v1/wallet/mints.
type MintNamed struct {
	Mint string `json:"mint"`
	Unit string `json:"unit"`
}

// Amount is the body of POST /v1/wallet/fund and POST /v1/wallet/send.
type Amount struct {
	Amount uint64 `json:"amount"`
	Unit   string `json:"unit"`
	Mint   string `json:"mint,omitempty"` // the only one of the unit when absent
	Memo   string `json:"memo,omitempty"`
	Again  string `json:"again,omitempty"` // the operation of a token that was not seen, or its beginning: the token is written again
}

// Token is the body of POST /v1/wallet/receive, and the answer to POST /v1/wallet/send.
type Token struct {
	Token  string `json:"token"`
	Amount uint64 `json:"amount"` // of an answer
	Unit   string `json:"unit"`
	Mint   string `json:"mint"`

	Worthless bool `json:"worthless,omitempty"` // play money
}

// Moved is the answer to POST /v1/wallet/fund and POST /v1/wallet/receive.
type Moved struct {
	Amount  uint64 `json:"amount"`
	Fee     uint64 `json:"fee,omitempty"` // of the mint, for a token that was received: it is not part of the amount
	Unit    string `json:"unit"`
	Mint    string `json:"mint"`
	Invoice string `json:"invoice,omitempty"` // to be paid first: nothing was moved

	Worthless bool `json:"worthless,omitempty"` // play money
}

// Freezing is the body of POST /v1/wallet/freeze.
type Freezing struct {
	Frozen bool `json:"frozen"`
}

// Approval is the body of POST /v1/wallet/approve: what a provider gets, or that its price is paid at all, where that waits for a
// person.
type Approval struct {
	Attempt string `json:"attempt"` // or the job; the beginning is enough if it is unique
	Amount  uint64 `json:"amount"`
	Unit    string `json:"unit"`
}

// Budget limits what is locked and paid in a unit: the body of POST /v1/wallet/budgets, and of a list the answer to GET. A limit
// of 0 is none.
type Budget struct {
	Unit     string `json:"unit"`
	Task     string `json:"task,omitempty"`     // that it is for
	Provider string `json:"provider,omitempty"` // npub or hex; neither for all payments
	Job      uint64 `json:"job"`                // for one job
	Daily    uint64 `json:"daily"`              // in a UTC day
	Monthly  uint64 `json:"monthly"`            // in a UTC month
	AskOver  uint64 `json:"ask_over"`           // a larger payment waits for you
	Today    uint64 `json:"today"`              // used, of an answer
	Month    uint64 `json:"month"`
}

// Reconciled is the answer to POST /v1/wallet/reconcile.
type Reconciled struct {
	Coins       int          `json:"coins"` // that the mints were asked about
	Differences []Difference `json:"differences"`
	Imbalances  []Imbalance  `json:"imbalances"`
}

// Difference is ecash of which a mint says something else than the ledger.
type Difference struct {
	Mint   string `json:"mint"`
	Unit   string `json:"unit"`
	Amount uint64 `json:"amount"`
	State  string `json:"state"`            // by the mint
	Held   bool   `json:"held,omitempty"`   // it is locked for a provider
	Booked bool   `json:"booked,omitempty"` // as lost, just now
}

// Imbalance is an account of which the ledger says something else than the ecash is worth.
type Imbalance struct {
	Mint    string `json:"mint"`
	Unit    string `json:"unit"`
	Account string `json:"account"`          // free or held
	Ledger  int64  `json:"ledger"`           // what the ledger has
	Worth   int64  `json:"worth"`            // of the ecash
	Booked  bool   `json:"booked,omitempty"` // the ledger has it now
}

// Movement is an operation of the wallet or a payment over Lightning, in the answer to GET /v1/wallet/history.
type Movement struct {
	At     int64  `json:"at_ms"`
	Op     string `json:"op"`
	Kind   string `json:"kind"`
	Amount uint64 `json:"amount"`
	Fee    uint64 `json:"fee,omitempty"`
	Unit   string `json:"unit"`
	Mint   string `json:"mint"`
	About  string `json:"about,omitempty"` // the attempt or request
	State  string `json:"state"`           // open, done or failed
	Reason string `json:"reason,omitempty"`
	Usage  *Usage `json:"usage,omitempty"` // of an attempt with a price by usage: what the provider claims
	Npub   string `json:"npub,omitempty"`  // of the other party, if it is known

	Worthless bool `json:"worthless,omitempty"` // play money
}

// mintWait limits how long a request waits for a mint. What is not done by then goes on.
const mintWait = 20 * time.Second

func (s *Server) getWallet(r *http.Request) (Money, error) {
	m := Money{Assets: []Asset{}, Paying: []Payment{}, Owed: []Payment{}, Frozen: s.c.Payments.Frozen()}
	for _, b := range s.c.Wallet.Fold().Balances() {
		a := b.Accounts
		m.Assets = append(m.Assets, Asset{
			Mint: b.Mint, Unit: b.Unit, Free: a[wallet.Free], Held: a[wallet.Held], Paid: a[wallet.Paid], Earned: -a[wallet.Earned], Sent: a[wallet.Sent],
			Fees: a[wallet.Fees], Lost: a[wallet.Lost], Corrected: a[wallet.Corrected], Worthless: b.Unit == mintd.Unit,
		})
	}
	for _, p := range s.c.Pay.Paying() {
		m.Paying = append(m.Paying, shownPayment(p))
	}
	for _, p := range s.c.Pay.Owed() {
		m.Owed = append(m.Owed, shownPayment(p))
	}
	if w := s.c.Lightning.Wallet(); w != nil {
		ctx, cancel := context.WithTimeout(r.Context(), lightningWait)
		defer cancel()
		shown, err := describe(ctx, w)
		if err != nil {
			shown.Reason = err.Error()
		}
		m.Lightning = &shown
	}
	m.Bitcoin = s.bitcoin(r)
	return m, nil
}

// lightningWait limits how long a request waits for the owner's Lightning wallet.
const lightningWait = 8 * time.Second

// describe asks a wallet about itself.
func describe(ctx context.Context, w lightning.Wallet) (shown LightningWallet, err error) {
	info, err := w.Info(ctx)
	if err == nil {
		shown.Alias, shown.Network = info.Alias, info.Network
		shown.Balance, err = w.Balance(ctx)
	}
	if _, refused := errors.AsType[*lightning.RefusedError](err); refused { // not all connections may ask for it
		err = nil
	}
	return shown, err
}

func (s *Server) postLightning(r *http.Request, given LightningConnection) (LightningWallet, error) {
	if s.c.Lightning.Wallet() != nil && s.c.Payments.Ordered() { // another wallet would not know what became of it
		return LightningWallet{}, refused("guild wallet balance shows it", errors.New("an invoice is open with the wallet that is connected now"))
	}
	if given.Connection == "" {
		return LightningWallet{}, s.c.Lightning.Disconnect()
	}
	ctx, cancel := context.WithTimeout(r.Context(), mintWait)
	defer cancel()
	w, err := s.c.Lightning.Connect(ctx, strings.TrimSpace(given.Connection))
	if err != nil {
		return LightningWallet{}, &refusal{error: err, status: http.StatusBadGateway, code: "lightning", hint: "does the wallet run, and does it allow this connection to pay?"}
	}
	return describe(ctx, w)
}

func shownPayment(p pay.Open) Payment {
	shown := Payment{PubKey: p.Party.Hex(), Amount: p.Amount, Unit: p.Unit, Mint: p.Mint, State: p.State, Worthless: p.Unit == mintd.Unit}
	if !p.Until.IsZero() {
		shown.Until = p.Until.UnixMilli()
	}
	if p.Job == (guild.JobID{}) {
		shown.Request = p.ID.Hex()
	} else {
		shown.Job, shown.Attempt = p.Job.String(), p.ID.Hex()
	}
	return shown
}

func (s *Server) postMint(r *http.Request, m MintNamed) (Asset, error) {
	a := wallet.Asset{Mint: strings.TrimRight(m.Mint, "/"), Unit: m.Unit}
	if err := s.c.Wallet.AddMint(r.Context(), a); err != nil {
		if _, answered := errors.AsType[*url.Error](err); !answered && !errors.Is(err, context.DeadlineExceeded) {
			return Asset{}, mintRefused("--unit names the unit: play money is "+mintd.Unit, err)
		}
		return Asset{}, mintFailed(err)
	}
	return Asset{Mint: a.Mint, Unit: a.Unit, Worthless: a.Unit == mintd.Unit}, nil
}

// mintFailed says that a mint could not be used.
func mintFailed(err error) error {
	switch {
	case errors.Is(err, wallet.ErrNoMint), errors.Is(err, wallet.ErrShort):
		return refused("guild wallet balance shows what there is", err)
	case errors.Is(err, journal.ErrQuarantined), errors.Is(err, journal.ErrFull): // they have hints of their own
		return err
	case errors.Is(err, mint.ErrSpent), strings.Contains(err.Error(), "(code 11001)"): // a recorded refusal is text
		return mintRefused("somebody has received this token already; ask its sender for another one", err)
	}
	return mintRefused("is the mint running, and is its address right?", err)
}

func mintRefused(hint string, err error) error {
	return &refusal{error: err, status: http.StatusBadGateway, code: "mint", hint: hint}
}

// nothing refuses to move an amount of 0.
func (want Amount) nothing() error {
	if want.Amount > 0 || want.Again != "" {
		return nil
	}
	return wrongUsage("write how much, such as 100"+want.Unit, fmt.Errorf("0 %s is nothing to move", want.Unit))
}

func (s *Server) postFund(r *http.Request, want Amount) (Moved, error) {
	if err := want.nothing(); err != nil {
		return Moved{}, err
	}
	a, err := s.c.Wallet.AssetOf(want.Unit, want.Mint)
	if err != nil {
		return Moved{}, mintFailed(err)
	}
	op, invoice, err := s.c.Wallet.Fund(r.Context(), a, want.Amount)
	if err == nil && op != "" {
		err = s.awaitMint(r.Context(), op)
	}
	if err != nil {
		return Moved{}, mintFailed(err)
	}
	return Moved{Amount: want.Amount, Unit: a.Unit, Mint: a.Mint, Invoice: invoice, Worthless: a.Unit == mintd.Unit}, nil
}

// awaitMint returns when a mint has done an operation.
func (s *Server) awaitMint(ctx context.Context, op string) error {
	ctx, cancel := context.WithTimeout(ctx, mintWait)
	defer cancel()
	return s.c.Wallet.Wait(ctx, op)
}

func (s *Server) postReceive(r *http.Request, given Token) (Moved, error) {
	if _, err := token.Parse(given.Token); err != nil {
		return Moved{}, wrongUsage("a token begins with cashuA or cashuB, and must be whole", fmt.Errorf("this is no token: %w", err))
	}
	planned, err := s.c.Wallet.Receive(r.Context(), given.Token)
	if err == nil {
		err = s.awaitMint(r.Context(), planned.Op)
	}
	if err != nil {
		return Moved{}, mintFailed(err)
	}
	return Moved{
		Amount: planned.Amount - planned.Fee, Fee: planned.Fee, Unit: planned.Unit, Mint: planned.Mint, Worthless: planned.Unit == mintd.Unit,
	}, nil
}

func (s *Server) postSend(r *http.Request, want Amount) (Token, error) {
	if s.c.Payments.Frozen() {
		return Token{}, refused("guild wallet freeze --off", errors.New("the wallet is frozen"))
	}
	if err := want.nothing(); err != nil {
		return Token{}, err
	}
	op, err := s.tokenOf(r.Context(), want.Again)
	if err != nil {
		return Token{}, err
	}
	if op == "" {
		a, err := s.c.Wallet.AssetOf(want.Unit, want.Mint)
		if err != nil {
			return Token{}, mintFailed(err)
		}
		if op, err = s.c.Wallet.Send(r.Context(), a, want.Amount); err != nil {
			return Token{}, mintFailed(err)
		}
	}
	if err := s.awaitMint(r.Context(), op); err != nil {
		return Token{}, mintFailed(fmt.Errorf("operation %s: %w", op, err))
	}
	t, err := s.c.Wallet.Token(op, guild.Clean(want.Memo))
	if err != nil {
		return Token{}, missing("guild wallet history lists the operations", err)
	}
	amount, err := cashu.Worth(t.Proofs)
	if err != nil {
		return Token{}, err
	}
	text, err := t.V4()
	return Token{Token: text, Amount: amount, Unit: t.Unit, Mint: t.Mint, Worthless: t.Unit == mintd.Unit}, err
}

// tokenOf returns the operation with this beginning that made a token; "" if that is empty.
func (s *Server) tokenOf(ctx context.Context, begin string) (string, error) {
	const hint = "guild wallet history lists the operations"
	if begin == "" {
		return "", nil
	}
	begin = strings.ToLower(strings.TrimRight(begin, "…"))
	var found []string
	for m, err := range s.c.Wallet.History(ctx) {
		switch {
		case err != nil:
			return "", err
		case m.Kind == wallet.Send && strings.HasPrefix(m.Op, begin):
			found = append(found, m.Op)
		}
	}
	switch len(found) {
	case 0:
		return "", missing(hint, fmt.Errorf("no operation %.64q made a token", begin))
	case 1:
		return found[0], nil
	}
	return "", ambiguous(hint, fmt.Errorf("%.64q is the beginning of %d operations: write more of it", begin, len(found)))
}

// postFind looks for ecash of the wallet's words at each mint that was added.
func (s *Server) postFind(r *http.Request) ([]Moved, error) {
	all := []Moved{}
	for _, a := range s.c.Wallet.Fold().Mints() {
		amount, err := s.c.Wallet.Restore(r.Context(), a)
		if err != nil {
			return nil, mintFailed(err)
		}
		all = append(all, Moved{Amount: amount, Unit: a.Unit, Mint: a.Mint, Worthless: a.Unit == mintd.Unit})
	}
	return all, nil
}

func (s *Server) getBudgets(*http.Request) ([]Budget, error) {
	all := []Budget{}
	for _, b := range s.c.Pay.Budgets() {
		shown := Budget{Unit: b.Unit, Task: b.Task, Job: b.Job, Daily: b.Daily, Monthly: b.Monthly, AskOver: b.AskOver, Today: b.Today, Month: b.Month}
		if b.Provider != nostr.ZeroPK {
			shown.Provider = nip19.EncodeNpub(b.Provider)
		}
		all = append(all, shown)
	}
	return all, nil
}

func (s *Server) postBudget(r *http.Request, b Budget) ([]Budget, error) {
	if b.Unit == "" {
		return nil, wrongUsage("amounts have a unit, such as 1000sat", errors.New("the budget of which unit?"))
	}
	set := fact.BudgetSet{Unit: b.Unit, Task: b.Task, Job: b.Job, Daily: b.Daily, Monthly: b.Monthly, AskOver: b.AskOver}
	if b.Provider != "" {
		var err error
		if set.Provider, err = parsePubKey(b.Provider); err != nil {
			return nil, wrongUsage("guild market ls shows the providers", err)
		}
		if b.Task != "" {
			return nil, wrongUsage("set two budgets", errors.New("a budget is for a task or for a provider"))
		}
	}
	if err := s.c.Pay.SetBudget(r.Context(), set); err != nil {
		return nil, err
	}
	return s.getBudgets(r)
}

func (s *Server) postFreeze(r *http.Request, f Freezing) (Freezing, error) {
	return f, s.c.Pay.Freeze(r.Context(), f.Frozen)
}

func (s *Server) postApproval(r *http.Request, a Approval) (Payment, error) {
	const hint = "guild wallet balance shows what waits for you"
	begin := strings.ToLower(a.Attempt)
	var found []pay.Open
	for _, p := range s.c.Pay.Paying() {
		if begin != "" && p.Waits && (strings.HasPrefix(p.ID.Hex(), begin) || strings.HasPrefix(p.Job.String(), begin)) {
			found = append(found, p)
		}
	}
	switch {
	case len(found) == 0:
		return Payment{}, missing(hint, fmt.Errorf("no money waits for you for %.64q", a.Attempt))
	case len(found) > 1:
		return Payment{}, wrongUsage(hint, fmt.Errorf("%.64q: money for %d attempts waits for you: name one", a.Attempt, len(found)))
	case found[0].Unit != a.Unit:
		return Payment{}, wrongUsage(hint, fmt.Errorf("%d %s: the money is in %s", a.Amount, a.Unit, found[0].Unit))
	}
	if err := s.c.Pay.Approve(r.Context(), found[0].ID, a.Amount); err != nil {
		return Payment{}, refused(hint, err)
	}
	return shownPayment(found[0]), nil
}

func (s *Server) postReconcile(r *http.Request) (Reconciled, error) {
	found, err := s.c.Wallet.Reconcile(r.Context())
	if err != nil {
		return Reconciled{}, mintFailed(err)
	}
	write, left := r.URL.Query().Get("write") == "true", found.Differences
	if write {
		if left, err = s.c.Wallet.Correct(r.Context(), found); err != nil {
			return Reconciled{}, err
		}
	}
	done := Reconciled{Coins: found.Coins, Differences: []Difference{}, Imbalances: []Imbalance{}}
	for _, d := range found.Differences {
		done.Differences = append(done.Differences, Difference{
			Mint: d.Mint, Unit: d.Unit, Amount: d.Amount, State: d.State, Held: d.Held, Booked: !slices.Contains(left, d),
		})
	}
	for _, i := range found.Imbalances {
		account := "free"
		if i.Account == wallet.Held {
			account = "held"
		}
		done.Imbalances = append(done.Imbalances, Imbalance{
			Mint: i.Mint, Unit: i.Unit, Account: account, Ledger: i.Ledger, Worth: i.Coins, Booked: write,
		})
	}
	return done, nil
}

func (s *Server) getHistory(r *http.Request) ([]Movement, error) {
	all := []Movement{}
	for m, err := range s.c.Wallet.History(r.Context()) {
		if err != nil {
			return nil, err
		}
		moved := Movement{
			At: m.At, Op: m.Op, Kind: m.Kind, Amount: m.Amount, Fee: m.Fee, Unit: m.Unit, Mint: m.Mint, About: m.About, State: m.State, Reason: m.Reason,
			Worthless: m.Unit == mintd.Unit,
		}
		if id, err := nostr.IDFromHex(m.About); err == nil {
			a, _, ours := s.c.Fold.Attempt(id)
			moved.Usage = usageOf(a)
			if ours {
				moved.Npub = nip19.EncodeNpub(a.Provider.PubKey)
			} else if customer, asked := s.customerOf(id); asked {
				moved.Npub = nip19.EncodeNpub(customer)
			}
		}
		all = append(all, moved)
	}
	return all, nil
}

// customerOf returns the customer of a request to us, if it is remembered.
func (s *Server) customerOf(request nostr.ID) (nostr.PubKey, bool) {
	if s.c.Work == nil {
		return nostr.ZeroPK, false
	}
	return s.c.Work.CustomerOf(request)
}

// unitWords names a unit in a text. Play money is called so wherever it is shown.
func unitWords(unit string) string {
	if unit == mintd.Unit {
		return unit + " (worthless)"
	}
	return unit
}
