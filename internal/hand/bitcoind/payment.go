package bitcoind

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"guild/bitcoin"
)

// Limits of a transaction that we make.
const (
	Dust = 546 // sat; less is not carried by the network

	usualRate = 10  // sat for a vbyte, if the node cannot estimate
	mostRate  = 500 // sat for a vbyte
	mostCoins = 100 // that are spent at once
)

// ErrFunds means that the wallet has not enough that is confirmed and not locked.
var ErrFunds = errors.New("the Bitcoin wallet has too little that is confirmed")

// ErrFee means that the fee would be over the limit.
var ErrFee = errors.New("the fee is too high")

// ErrUnsigned means that the wallet signs nothing for us, as a locked one does.
var ErrUnsigned = errors.New("the Bitcoin wallet does not sign: unlock it for longer than the job takes (walletpassphrase)")

// coin is a confirmed output that the wallet can spend.
type coin struct {
	bitcoin.Outpoint
	satoshis int64
}

// coins lists what can be spent, the largest first. What is locked is not listed, and of a btcwallet only the coins for which it signs:
// those of the oldest kind of address (P2PKH).
func (w *Wallet) coins(ctx context.Context) (all []coin, err error) {
	var wire []struct {
		ID        string  `json:"txid"`
		N         uint32  `json:"vout"`
		Amount    float64 `json:"amount"`
		Script    string  `json:"scriptPubKey"` // in hex
		Spendable *bool   `json:"spendable"`
		Safe      *bool   `json:"safe"`
	}
	if err := w.call(ctx, &wire, "listunspent", 1); err != nil {
		return nil, err
	}
	var nothing any
	err = w.call(ctx, &nothing, signMethod, "") // is refused, for one of two reasons
	if err != nil && !isRefused(err) {
		return nil, err
	}
	old := isRefused(err, noMethod)
	for _, one := range wire {
		hash := strings.HasPrefix(one.Script, "76a914") && len(one.Script) == 50
		if one.Spendable != nil && !*one.Spendable || one.Safe != nil && !*one.Safe || old && !hash {
			continue
		}
		n, err := satoshis(one.Amount)
		if err != nil {
			return nil, err
		}
		all = append(all, coin{bitcoin.Outpoint{ID: one.ID, N: one.N}, n})
	}
	slices.SortStableFunc(all, func(a, b coin) int { return cmp.Compare(b.satoshis, a.satoshis) })
	return all, nil
}

// Order is a signed transaction. Store it before Send.
type Order struct {
	Raw string `json:"raw"` // in hex
	ID  string `json:"txid"`
	N   int    `json:"vout"`    // the output that pays
	Fee int64  `json:"fee_sat"` // in sat
}

// Prepare signs a transaction that pays an amount to an address, in sat, with a fee of at most mostFee, and locks what it spends in the
// wallet, so that no other one spends it. Nothing is sent. A restart of the wallet's program ends the locks.
func (w *Wallet) Prepare(ctx context.Context, address string, amount, mostFee int64) (Order, error) {
	script, _, err := bitcoin.Script(address)
	if err == nil && amount < Dust {
		err = fmt.Errorf("%d sat are dust: the network carries no less than %d", amount, Dust)
	}
	if err != nil {
		return Order{}, err
	}
	rate := w.rate(ctx)
	w.spending.Lock()
	defer w.spending.Unlock()
	all, err := w.coins(ctx)
	if err != nil {
		return Order{}, err
	}
	inputs, fee, change, err := choose(all, amount, rate)
	switch {
	case err != nil:
		return Order{}, err
	case fee > mostFee:
		return Order{}, fmt.Errorf("%w: %d sat, and the limit is %d", ErrFee, fee, mostFee)
	}
	outputs := []bitcoin.Output{{Satoshis: amount, Script: script}}
	if change > 0 {
		var to string
		if err := w.call(ctx, &to, "getrawchangeaddress"); err != nil {
			return Order{}, err
		}
		back, err := bitcoin.ChangeScript(to)
		if err != nil {
			return Order{}, err
		}
		outputs = append(outputs, bitcoin.Output{Satoshis: change, Script: back})
	}
	spent := make([]bitcoin.Outpoint, len(inputs))
	locks := make([]map[string]any, len(inputs))
	for i, c := range inputs {
		spent[i], locks[i] = c.Outpoint, map[string]any{"txid": c.ID, "vout": c.N}
	}
	unsigned, err := bitcoin.Unsigned(spent, outputs)
	if err != nil {
		return Order{}, err
	}
	raw, err := w.sign(ctx, hex.EncodeToString(unsigned))
	if err != nil {
		return Order{}, err
	}
	o, err := checkOrder(raw, spent, outputs)
	if err != nil {
		return Order{}, err
	}
	var done bool
	if err := w.call(ctx, &done, "lockunspent", false, locks); err != nil {
		return Order{}, err
	}
	o.Fee = fee
	return o, nil
}

// choose chooses coins that are worth an amount and the fee. What would come back as dust goes to the fee.
func choose(all []coin, amount, rate int64) (inputs []coin, fee, change int64, err error) {
	const frame, input, output = 11, 148, 34 // bytes, of the largest usual kind
	sum := int64(0)
	fee = rate * (frame + input + 2*output) // if there is no coin
	for _, c := range all[:min(len(all), mostCoins)] {
		inputs, sum = append(inputs, c), sum+c.satoshis
		fee = rate * int64(frame+len(inputs)*input+2*output)
		change = sum - amount - fee
		if change >= Dust {
			return inputs, fee, change, nil
		}
		if least := fee - rate*output; sum >= amount+least {
			return inputs, sum - amount, 0, nil
		}
	}
	return nil, 0, 0, fmt.Errorf("%w: %d sat, and %d and a fee of %d are needed", ErrFunds, sum, amount, fee)
}

// rate returns what the node takes to be the fee of the next hour, in sat for a vbyte, between 1 and a limit.
func (w *Wallet) rate(ctx context.Context) int64 {
	var smart struct {
		Rate float64 `json:"feerate"` // BTC for 1000 vbytes
	}
	if err := w.call(ctx, &smart, "estimatesmartfee", 6); err != nil || smart.Rate <= 0 {
		if err := w.call(ctx, &smart.Rate, "estimatefee", 6); err != nil || smart.Rate <= 0 {
			return usualRate
		}
	}
	n, err := satoshis(smart.Rate)
	if err != nil {
		return usualRate
	}
	return min(max((n+999)/1000, 1), mostRate)
}

// signMethod is the method by which bitcoind signs. btcwallet has only an older one.
const signMethod = "signrawtransactionwithwallet"

// sign has the wallet sign a transaction.
func (w *Wallet) sign(ctx context.Context, raw string) (string, error) {
	var signed struct {
		Hex      string `json:"hex"`
		Complete bool   `json:"complete"`
	}
	err := w.call(ctx, &signed, signMethod, raw)
	if isRefused(err, noMethod) {
		err = w.call(ctx, &signed, "signrawtransaction", raw)
	}
	switch {
	case isRefused(err, locked) || err == nil && !signed.Complete: // as bitcoind and btcwallet say that they are locked
		return "", ErrUnsigned
	case err != nil:
		return "", err
	}
	return signed.Hex, nil
}

// checkOrder reads what the wallet has signed: it must be what was asked for.
func checkOrder(raw string, inputs []bitcoin.Outpoint, outputs []bitcoin.Output) (Order, error) {
	b, err := hex.DecodeString(raw)
	if err != nil || len(b) > bitcoin.MaxTransaction {
		return Order{}, errors.New("the Bitcoin wallet signed no transaction in hex")
	}
	t, err := bitcoin.ParseTransaction(b)
	if err != nil {
		return Order{}, err
	}
	same := func(a, b bitcoin.Output) bool {
		return a.Satoshis == b.Satoshis && string(a.Script) == string(b.Script)
	}
	n, ok := t.Pays(outputs[0].Script, outputs[0].Satoshis)
	if !ok || !slices.Equal(t.Inputs, inputs) || !slices.EqualFunc(t.Outputs, outputs, same) {
		return Order{}, errors.New("the Bitcoin wallet signed another transaction than was asked for")
	}
	return Order{Raw: raw, ID: t.ID, N: n}, nil
}

// Send has a transaction sent, for the first time or again. It is no error if the network or a block has it already.
func (w *Wallet) Send(ctx context.Context, o Order) error {
	var id string
	err := w.call(ctx, &id, "sendrawtransaction", o.Raw)
	if !isRefused(err) {
		return err
	}
	var raw string
	if known := w.call(ctx, &raw, "getrawtransaction", o.ID); known == nil && raw == o.Raw {
		return nil
	}
	if seen, unknown := w.transaction(ctx, o.ID); unknown == nil && seen.Confirmations > 0 {
		return nil
	}
	return err
}

// Release unlocks what an order that was never sent would spend, so that another one can.
func (w *Wallet) Release(ctx context.Context, o Order) error {
	b, err := hex.DecodeString(o.Raw)
	if err != nil {
		return errors.New("the order is not in hex")
	}
	t, err := bitcoin.ParseTransaction(b)
	if err != nil {
		return err
	}
	var locks []map[string]any
	for _, in := range t.Inputs {
		locks = append(locks, map[string]any{"txid": in.ID, "vout": in.N})
	}
	var released bool
	return w.call(ctx, &released, "lockunspent", true, locks)
}

// ErrConflict means that a block has another transaction which spends the same.
var ErrConflict = errors.New("a block has another transaction that spends the same coins")

// Sent returns the payment of an order as the wallet sees it. known is false if the wallet has never seen its transaction. The error is
// ErrConflict if the transaction can only come into a block after a reorganisation of the chain.
func (w *Wallet) Sent(ctx context.Context, o Order) (p Payment, known bool, err error) {
	seen, err := w.transaction(ctx, o.ID)
	if isRefused(err, unknownID) {
		return Payment{}, false, nil
	}
	switch {
	case err != nil:
		return Payment{}, false, err
	case seen.Confirmations < 0:
		return Payment{}, true, ErrConflict
	case seen.Confirmations == 0:
		seen.Block = ""
	}
	return Payment{ID: o.ID, N: o.N, Confirmations: seen.Confirmations, Block: seen.Block, Raw: o.Raw}, true, nil
}

// Codes of bitcoind.
const (
	unknownID   = -5  // of a transaction
	locked      = -13 // the wallet
	unusable    = -22 // it cannot be read
	failed      = -25 // among others because its inputs are spent
	notAccepted = -26 // by the rules of the network or the node
	noMethod    = -32601
)

// isRefused reports whether a wallet has answered with an error, of one of some codes if there are any.
func isRefused(err error, codes ...int) bool {
	refused, ok := errors.AsType[*RefusedError](err)
	return ok && (len(codes) == 0 || slices.Contains(codes, refused.Code))
}

// IsRejected reports whether the error of Send says that the network does not take the transaction as things are. Other errors pass.
func IsRejected(err error) bool { return isRefused(err, unusable, failed, notAccepted) }

// Payment is an output that pays to an address of ours.
type Payment struct {
	ID            string // of the transaction
	N             int    // the output
	Satoshis      int64
	Confirmations int    // 0 before a block has it, or after that block is not in the best chain any more
	Block         string // its hash; "" without confirmations
	Raw           string // the transaction in hex
}

// transaction has the members that we read of the answer to gettransaction.
type transaction struct {
	Hex           string `json:"hex"`
	Confirmations int    `json:"confirmations"` // below 0 if another one that spends the same is in a block
	Block         string `json:"blockhash"`
}

func (w *Wallet) transaction(ctx context.Context, id string) (t transaction, err error) {
	return t, w.call(ctx, &t, "gettransaction", id)
}

// Received lists all that was ever paid to an address of the wallet's, also what is spent since, and what is in no block.
func (w *Wallet) Received(ctx context.Context, address string) (all []Payment, err error) {
	script, _, err := bitcoin.Script(address)
	if err != nil {
		return nil, err
	}
	var wire []struct {
		Address string   `json:"address"`
		IDs     []string `json:"txids"`
	}
	err = w.call(ctx, &wire, "listreceivedbyaddress", 0, false, false, address)
	if isRefused(err) { // btcwallet filters nothing
		err = w.call(ctx, &wire, "listreceivedbyaddress", 0)
	}
	if err != nil {
		return nil, err
	}
	for _, of := range wire {
		if of.Address != address {
			continue
		}
		slices.Sort(of.IDs)
		for _, id := range slices.Compact(of.IDs) {
			paid, err := w.paid(ctx, id, script)
			if err != nil {
				return nil, err
			}
			all = append(all, paid...)
		}
	}
	return all, nil
}

// paid returns the outputs of a transaction that pay to a script.
func (w *Wallet) paid(ctx context.Context, id string, script []byte) (all []Payment, err error) {
	seen, err := w.transaction(ctx, id)
	if err != nil {
		return nil, err
	}
	b, err := hex.DecodeString(seen.Hex)
	if err != nil {
		return nil, fmt.Errorf("the transaction %.64q is not in hex", id)
	}
	t, err := bitcoin.ParseTransaction(b)
	if err != nil || t.ID != id {
		return nil, errors.Join(fmt.Errorf("the wallet gives another transaction than %.64q", id), err)
	}
	for n, o := range t.Outputs {
		if string(o.Script) != string(script) {
			continue
		}
		one := Payment{ID: id, N: n, Satoshis: o.Satoshis, Confirmations: max(0, seen.Confirmations), Block: seen.Block, Raw: seen.Hex}
		if one.Confirmations == 0 {
			one.Block = ""
		}
		all = append(all, one)
	}
	return all, nil
}

// Included returns what shows that a block has a transaction. It is checked.
func (w *Wallet) Included(ctx context.Context, t bitcoin.Transaction, block string) (bitcoin.Inclusion, error) {
	var wire struct {
		IDs []string `json:"tx"`
	}
	if err := w.call(ctx, &wire, "getblock", block, 1); err != nil {
		return bitcoin.Inclusion{}, err
	}
	var header string
	if err := w.call(ctx, &header, "getblockheader", block, false); err != nil {
		return bitcoin.Inclusion{}, err
	}
	in, err := bitcoin.Include(header, wire.IDs, t.ID)
	if err == nil {
		var of string
		if of, err = in.Check(t); err == nil && of != block {
			err = errors.New("the header is that of another block")
		}
	}
	return in, err
}
