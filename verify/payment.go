package verify

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/bolt11"
	"guild/nip90"
	"guild/receipt"
)

// payment is the data about one payment. The signatures of its events have been checked.
type payment struct {
	receipt     receipt.Receipt
	request     *nostr.Event // the receipt's request, or nil
	quote       *nostr.Event // or nil
	open        nip90.Opener // of an encrypted quote; nil without its key
	transaction []byte       // hex; empty without a transaction
	inclusion   []byte       // JSON; nil without a block
}

// prove checks that the proof of payment shows that the receipt's amount was paid to the provider. It returns a
// description of what is proven.
func (p payment) prove() (string, error) {
	proof, amount := p.receipt.PaymentProof, p.receipt.AmountMsats
	switch {
	case proof == nil && amount == 0 && p.receipt.Refund != nil:
		return p.refund()
	case proof == nil && amount == 0:
		return "", absence("nothing was owed")
	case proof == nil:
		return "", fmt.Errorf("the receipt says that %s were paid, and has no proof of it", amount)
	case amount <= 0:
		return "", errors.New("the receipt has a proof of payment, and says that nothing was paid")
	}
	if bid, ok := p.bid(); ok && amount > bid && strings.HasPrefix(p.assetID(), "BTC_") {
		return "", fmt.Errorf("%s were paid, and the request offered %s at most", amount, bid)
	}
	switch proof.Type {
	case "lightning_preimage":
		return p.lightning()
	case "cashu_proof":
		return p.cashu()
	case "onchain_txid":
		return p.onchain()
	case "taproot_assets_proof":
		return "", absence("a payment in Taproot Assets is not checked by this program")
	}
	return "", fmt.Errorf("%.40q is not a type of proof", proof.Type)
}

// bid returns the maximal price that the request offers. The bid tag is clear text even if the request is sealed. As
// in nip90, the last tag counts.
func (p payment) bid() (guild.Msat, bool) {
	if p.request == nil {
		return 0, false
	}
	for _, tag := range slices.Backward(p.request.Tags) {
		if len(tag) >= 2 && tag[0] == "bid" {
			n, err := strconv.ParseUint(tag[1], 10, 63)
			return guild.Msat(n), err == nil && n > 0 // a bid of 0 is not a bid
		}
	}
	return 0, false
}

// assetID returns the asset that the receipt names, or "".
func (p payment) assetID() string {
	if p.receipt.AssetID == nil {
		return ""
	}
	return *p.receipt.AssetID
}

// quoted reads the quote. It must be the provider's answer to the receipt's request and ask for the receipt's amount.
func (p payment) quoted() (nip90.Feedback, error) {
	f, err := p.asked()
	if err == nil && f.Amount != p.receipt.AmountMsats {
		err = fmt.Errorf("the quote asks for %s, and the receipt says that %s were paid", f.Amount, p.receipt.AmountMsats)
	}
	return f, err
}

// asked reads the quote, which must be the provider's answer to the receipt's request.
func (p payment) asked() (nip90.Feedback, error) {
	f, err := nip90.ParseFeedback(*p.quote, p.open)
	switch {
	case p.quote.PubKey != p.receipt.ProviderPubKey:
		return f, errors.New("the quote is not by the provider of the receipt")
	case errors.Is(err, nip90.ErrEncrypted):
		return f, absence("the quote is sealed, and no key to it is in the export")
	case err != nil:
		return f, fmt.Errorf("the quote cannot be read: %w", err)
	case f.Status != nip90.PaymentRequired:
		return f, fmt.Errorf("the quote asks for no payment: its status is %.40q", f.RawStatus)
	case f.Request != p.receipt.RequestEvent:
		return f, errors.New("the quote answers another request than the one of the receipt")
	case p.request != nil && f.Customer != (nostr.PubKey{}) && f.Customer != p.request.PubKey:
		return f, errors.New("the quote is for another customer")
	case !bindsKey(f.Extra, p.receipt.IdempotencyKey):
		return f, errors.New("the quote has another idempotency key than the receipt")
	}
	return f, nil
}

// bindsKey reports whether no tag names another idempotency key. A quote may omit the key, because the request that it
// answers has it.
func bindsKey(tags nostr.Tags, key string) bool {
	return key == "" || !slices.ContainsFunc(tags, func(tag nostr.Tag) bool {
		return len(tag) >= 3 && tag[0] == "param" && tag[1] == nip90.ParamIdempotencyKey && tag[2] != key
	})
}

// lightning checks that the preimage fits the invoice in the quote. Only the payer of an invoice learns its preimage, unless the customer
// chose it: then nothing outside of the wallets proves the payment.
func (p payment) lightning() (string, error) {
	if asset := p.assetID(); asset != "BTC_LN" {
		return "", fmt.Errorf("a Lightning payment is in BTC_LN, and the receipt has %.80q", asset)
	}
	preimage, err := hex.DecodeString(p.receipt.PaymentProof.Value)
	if err != nil || len(preimage) != 32 {
		return "", errors.New("the preimage is not 64 hex digits")
	}
	invoice, whose := p.receipt.Bolt11, "receipt"
	var named []guild.Hash // payment hashes that the customer chose
	if p.request != nil {
		named = append(named, nip90.HoldOf(p.request.Tags))
	}
	if p.quote != nil {
		f, err := p.quoted()
		if err != nil {
			return "", err
		}
		named = append(named, nip90.HoldOf(f.Extra))
		if invoice, whose = f.Invoice, "quote"; invoice == "" {
			return "", errors.New("the quote has no invoice that the preimage could fit")
		}
	}
	if invoice == "" {
		return "", absence("the provider's quote, which has the invoice that the preimage has to fit, is not in the export")
	}
	inv, err := bolt11.Decode(invoice)
	switch {
	case err != nil:
		return "", fmt.Errorf("the invoice of the %s: %w", whose, err)
	case inv.Amount != p.receipt.AmountMsats:
		return "", fmt.Errorf("the invoice is over %s, and the receipt says that %s were paid", inv.Amount, p.receipt.AmountMsats)
	case guild.Sum(preimage) != inv.PaymentHash:
		return "", errors.New("the preimage does not fit the invoice")
	case p.quote == nil:
		return "", absence("the preimage fits the receipt's own invoice; the provider's quote, which would say whose that is, is not in the export")
	case slices.Contains(named, inv.PaymentHash):
		return "", absence(fmt.Sprintf("%s over Lightning, by the customer's word: the preimage fits the invoice that the provider quoted, but the customer "+
			"chose it; it shows what was released to the provider, and whether the payment was held and taken, only the wallets know", inv.Amount))
	}
	said := fmt.Sprintf("%s over Lightning: the preimage fits the invoice that the provider quoted", inv.Amount)
	if inv.Network != bolt11.Mainnet {
		said += fmt.Sprintf(" (in the test coins of the network %s)", inv.Network)
	}
	return said, nil
}
