package lnd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/bolt11"
	"guild/internal/hand/lightning"
)

// Answers are in the JSON form of lnd's protocol buffers: numbers of 64 bits are strings in decimals, bytes are base64.

// info is the answer to getinfo.
type info struct {
	Key    string `json:"identity_pubkey"` // in hex
	Alias  string `json:"alias"`
	Chains []struct {
		Network string `json:"network"`
	} `json:"chains"`
}

// check returns an error unless the answer has a key and one network.
func (i info) check() error {
	if b, err := hex.DecodeString(i.Key); err != nil || len(b) != len(bolt11.PubKey{}) {
		return errors.New("the node gives no public key")
	}
	if len(i.Chains) != 1 || i.Chains[0].Network == "" {
		return errors.New("the node gives not one network")
	}
	return nil
}

func (i info) network() string {
	if len(i.Chains) != 1 {
		return ""
	}
	return lightning.Text(i.Chains[0].Network)
}

// owns reports whether an invoice is the node's own.
func (i info) owns(inv bolt11.Invoice) bool { return hex.EncodeToString(inv.Payee[:]) == i.Key }

// balance is the answer to balance/channels.
type balance struct {
	Local struct {
		Msat guild.Msat `json:"msat,string"`
	} `json:"local_balance"`
}

// invoice is one that the node made.
type invoice struct {
	Hash     []byte     `json:"r_hash"`
	Preimage []byte     `json:"r_preimage"`
	Text     string     `json:"payment_request"`
	Amount   guild.Msat `json:"value_msat,string"`
	State    string     `json:"state"`
}

// transaction checks that the invoice is the one with a payment hash. lnd gives the preimage before it is paid; that is left out.
func (i invoice) transaction(hash guild.Hash) (lightning.Transaction, error) {
	t := lightning.Transaction{Amount: i.Amount}
	if string(i.Hash) != string(hash[:]) {
		return lightning.Transaction{}, errors.New("the answer is about another payment hash")
	}
	if inv, err := bolt11.Decode(i.Text); err == nil && inv.PaymentHash != hash { // which may be of another form than ours
		return lightning.Transaction{}, errors.New("the answer is about another invoice")
	}
	if err := lightning.CheckAmount(i.Amount); err != nil {
		return lightning.Transaction{}, err
	}
	switch i.State {
	case "OPEN":
	case "ACCEPTED":
		t.Accepted = true
	case "SETTLED":
		t.Settled = true
		if len(i.Preimage) == len(t.Preimage) && guild.Hash(sha256.Sum256(i.Preimage)) == hash {
			t.Preimage = [32]byte(i.Preimage)
		}
	case "CANCELED":
		t.Failed = true
	default:
		return lightning.Transaction{}, fmt.Errorf("the state %.20q is not known", i.State)
	}
	return t, nil
}

// payment is one that the node was ordered to make.
type payment struct {
	Hash     string     `json:"payment_hash"`     // in hex
	Preimage string     `json:"payment_preimage"` // in hex
	Status   string     `json:"status"`
	Failure  string     `json:"failure_reason"`
	Amount   guild.Msat `json:"value_msat,string"`
	Fees     guild.Msat `json:"fee_msat,string"`
}

// check checks that the payment is the one with a hash.
func (p payment) check(hash guild.Hash) error {
	if p.Hash != hash.Hex() {
		return errors.New("the answer is about another payment hash")
	}
	for _, m := range []guild.Msat{p.Amount, p.Fees} {
		if err := lightning.CheckAmount(m); err != nil {
			return err
		}
	}
	switch p.Status {
	case "INITIATED", "IN_FLIGHT", "SUCCEEDED", "FAILED":
		return nil
	}
	return fmt.Errorf("the status %.20q is not known", p.Status)
}

// transaction returns a payment that check has accepted.
func (p payment) transaction(hash guild.Hash) lightning.Transaction {
	t := lightning.Transaction{
		Outgoing: true, Amount: p.Amount, Fees: p.Fees, Settled: p.Status == "SUCCEEDED", Failed: p.Status == "FAILED",
	}
	if preimage, ok := lightning.Opens(p.Preimage, hash); ok && t.Settled {
		t.Preimage = preimage
	}
	return t
}

// payment returns a payment that check has accepted as the result of an order.
func (p payment) payment(hash guild.Hash) (lightning.Payment, error) {
	t := p.transaction(hash)
	switch {
	case t.Failed:
		code := lightning.PaymentFailed
		if p.Failure == "FAILURE_REASON_INSUFFICIENT_BALANCE" {
			code = lightning.InsufficientBalance
		}
		return lightning.Payment{}, &lightning.RefusedError{Method: pathSend, Code: code, Message: lightning.Text(p.Failure)}
	case !t.Settled:
		return lightning.Payment{}, wrap(pathSend, lightning.ErrUnderWay)
	case t.Preimage == [32]byte{}:
		return lightning.Payment{}, wrap(pathSend, lightning.ErrUnproven)
	}
	return lightning.Payment{Preimage: t.Preimage, Fees: t.Fees}, nil
}

// parseUpdate reads the first state of a payment from a stream, or the error there.
func parseUpdate(r io.Reader, hash guild.Hash) (payment, error) {
	var update struct {
		Result *payment `json:"result"`
		Error  *failure `json:"error"`
	}
	err := json.UnmarshalDecode(jsontext.NewDecoder(r), &update)
	switch {
	case errors.Is(err, io.EOF):
		return payment{}, lightning.ErrNoAnswer
	case err != nil:
		return payment{}, malformed(err)
	case update.Error != nil:
		return payment{}, update.Error.read()
	case update.Result == nil:
		return payment{}, errors.New("the answer has neither a result nor an error")
	}
	if err := update.Result.check(hash); err != nil {
		return payment{}, err
	}
	return *update.Result, nil
}

// failure is an error of lnd's, with a code of gRPC.
type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// existing is the code of a payment that lnd was ordered to make before.
const existing = "ALREADY_EXISTS"

// read returns the error. lnd gives no code of its own to some that matter; those are told by their messages.
func (f failure) read() error {
	const (
		notFound, alreadyExists, denied, unimplemented, unauthenticated = 5, 6, 7, 12, 16

		noInvoices = "there are no existing invoices" // a node that never made one
		noInvoice  = "unable to locate invoice"       // which lnd gives a code only to a lookup
		forbidden  = "permission denied"              // by the macaroon
		noPath     = "Not Found"                      // of a request that this lnd does not know
	)
	code := ""
	switch {
	case f.Code == notFound && f.Message == noPath:
		code = lightning.NotImplemented
	case f.Code == notFound, f.Message == noInvoices, f.Message == noInvoice:
		code = lightning.NotFound
	case f.Code == alreadyExists:
		code = existing
	case f.Code == denied, f.Message == forbidden:
		code = lightning.Restricted
	case f.Code == unauthenticated:
		code = lightning.Unauthorized
	case f.Code == unimplemented:
		code = lightning.NotImplemented
	default:
		return fmt.Errorf("lnd says: %q", guild.Cut(guild.Clean(f.Message), 500))
	}
	return &lightning.RefusedError{Code: code, Message: guild.Cut(guild.Clean(f.Message), 500)}
}

// parseFailure returns the error of an answer that is not 200. A stream that has not begun puts it into "error".
func parseFailure(b []byte, status int) error {
	var wire struct {
		failure
		Error jsontext.Value `json:"error"`
	}
	err := json.Unmarshal(b, &wire)
	if err == nil && wire.Error.Kind() == '{' {
		err = json.Unmarshal(wire.Error, &wire.failure)
	}
	if err != nil || wire.Message == "" {
		return fmt.Errorf("%d %s, which is no answer of lnd: is it the port of REST, usually 8080?", status, http.StatusText(status))
	}
	return wire.read()
}
