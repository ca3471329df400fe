package verify

import (
	"errors"
	"fmt"
	"strings"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nip90"
)

// sealed reports whether the content of an event is encrypted.
func sealed(e nostr.Event) bool { return e.Tags.Has("encrypted") }

// opener returns the function that opens the content of an event with the key in file. If there is no key, it returns
// one that gives the text closed instead, so that the envelope can still be parsed, and open is false.
func (x *export) opener(e nostr.Event, file, closed string) (opener nip90.Opener, open bool, err error) {
	text, there := x.files[file]
	if !sealed(e) {
		if there {
			return nil, false, fmt.Errorf("%s is for a content that is not encrypted", file)
		}
		return nil, true, nil
	}
	if !there {
		return func(nostr.PubKey, string) (string, error) { return closed, nil }, false, nil
	}
	key, err := ParseOpening(string(text))
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", file, err)
	}
	return func(_ nostr.PubKey, payload string) (string, error) { return key.Open(payload) }, true, nil
}

// readRequest reads the request that the receipt names, as far as it is open, and returns the first difference from
// the receipt, or nil. Its author is the customer. The task and the idempotency key are encrypted in a sealed request,
// so they are compared only if it is open.
func (x *export) readRequest() error {
	v, err := x.event(FileRequest)
	if err != nil {
		return err
	}
	e, r := v.Event(), x.receipt
	if e.ID != r.RequestEvent {
		return fmt.Errorf("it is the event %.8s, and the receipt names %.8s", e.ID.Hex(), r.RequestEvent.Hex())
	}
	if !nip90.IsRequest(int(e.Kind)) {
		return fmt.Errorf("kind %d is not that of a request", e.Kind)
	}
	// The receipt names this event by its id, so its author is the customer even if a later check of the request fails.
	x.customer, x.hasCustomer = e.PubKey, true
	open, isOpen, err := x.opener(e, FileRequestKey, "[]")
	if err != nil {
		return err
	}
	order, err := nip90.ParseRequest(e, open)
	if err != nil {
		return err
	}
	x.request = sealedRequest{event: e, order: order, open: isOpen}
	switch {
	case !order.Asks(r.ProviderPubKey):
		return fmt.Errorf("it asks another provider than %s", r.ProviderID)
	case order.Job != r.Job.String():
		return fmt.Errorf("it is of the job %.40q, and the receipt of %s", order.Job, r.Job)
	case isOpen && order.Get(nip90.ParamJobType) != r.Task:
		return fmt.Errorf("its task is %.80q, and the receipt's %.80q", order.Get(nip90.ParamJobType), r.Task)
	case isOpen && order.Get(nip90.ParamIdempotencyKey) != r.IdempotencyKey:
		return fmt.Errorf("its idempotency key is %.64q, and the receipt's %.64q", order.Get(nip90.ParamIdempotencyKey), r.IdempotencyKey)
	case isOpen:
		x.request.payload, err = payloadOf(order)
	}
	return err
}

// checkRequest checks that the request is the one that the receipt names.
func (x *export) checkRequest() (string, error) {
	if !x.known {
		return "", noReceipt
	}
	if err := x.request.broken; err != nil {
		return "", x.orphaned(err, FileRequest, FileRequestKey)
	}
	e := x.request.event
	return fmt.Sprintf("kind %d, %s", e.Kind, reading(e, x.request.open)), nil
}

// orphaned returns err, or an error of its own if there is a key without its event.
func (x *export) orphaned(err error, event, key string) error {
	_, hasEvent := x.files[event]
	if _, hasKey := x.files[key]; hasKey && !hasEvent {
		return fmt.Errorf("%s is there, and %s is not", key, event)
	}
	return err
}

// reading describes how much of an event could be read.
func reading(e nostr.Event, open bool) string {
	switch {
	case !open:
		return "encrypted: only its envelope was read"
	case sealed(e):
		return "encrypted, and opened with its key"
	default:
		return "in clear"
	}
}

// whyNoRequest returns the reason why nothing can be compared with the request, or nil.
func (x *export) whyNoRequest() error {
	switch {
	case !x.known:
		return noReceipt
	case x.request.broken != nil:
		return absence("there is no request that holds")
	case !x.request.open:
		return absence("the request is encrypted, and " + FileRequestKey + " is not there")
	}
	return nil
}

// checkJobHash computes the job hash from the request and compares it with the receipt and the request. The hash is
// that of the payload, or of the parameters that name the bundle.
func (x *export) checkJobHash() (string, error) {
	if err := x.whyNoRequest(); err != nil {
		return "", err
	}
	var hash guild.Hash
	if x.request.payload != nil {
		hash = guild.Sum(x.request.payload)
	} else {
		var err error
		if hash, err = x.request.order.JobHash(); err != nil {
			return "", err
		}
	}
	if stated := x.request.order.Get(nip90.ParamJobHash); stated != "" {
		if said, err := guild.ParseHash(stated); err != nil || said != hash {
			return "", fmt.Errorf("the request says %.80q, and it is %s", stated, hash)
		}
	}
	if hash != x.receipt.JobHash {
		return "", fmt.Errorf("the receipt says %s, and of the request it is %s", x.receipt.JobHash, hash)
	}
	return hash.String(), nil
}

// readResult reads the result and returns the first difference from the receipt or the request, or nil.
func (x *export) readResult() error {
	if x.receipt.ResultEvent == (nostr.ID{}) {
		if _, there := x.files[FileResult]; there {
			return fmt.Errorf("%s is there, and the receipt names no result", FileResult)
		}
		return absence("nothing came")
	}
	v, err := x.event(FileResult)
	if err != nil {
		return err
	}
	e, r := v.Event(), x.receipt
	if e.ID != r.ResultEvent {
		return fmt.Errorf("it is the event %.8s, and the receipt names %.8s", e.ID.Hex(), r.ResultEvent.Hex())
	}
	open, isOpen, err := x.opener(e, FileResultKey, "")
	if err != nil {
		return err
	}
	result, err := nip90.ParseResult(e, open)
	if err != nil {
		return err
	}
	x.result = sealedResult{event: e, result: result, open: isOpen}
	switch {
	case e.PubKey != r.ProviderPubKey:
		return fmt.Errorf("it is by %.8s, and the provider is %s", e.PubKey.Hex(), r.ProviderID)
	case x.request.broken == nil && int(e.Kind) != nip90.ResultKind(int(x.request.event.Kind)):
		return fmt.Errorf("kind %d does not answer a request of kind %d", e.Kind, x.request.event.Kind)
	case result.Request != r.RequestEvent:
		return fmt.Errorf("it answers %.8s, and the request is %.8s", result.Request.Hex(), r.RequestEvent.Hex())
	case x.hasCustomer && result.Customer != x.customer:
		return fmt.Errorf("it is for %.8s, and the customer is %.8s", result.Customer.Hex(), x.customer.Hex())
	case x.request.broken == nil && int64(e.CreatedAt)+clockSlack < int64(x.request.event.CreatedAt):
		return errors.New("it is older than the request")
	case x.later(e):
		return errors.New("it is later than the receipt")
	case !r.Behaviour.IsZero() && result.Behaviour != r.Behaviour: // receipts from before behaviours name none
		return fmt.Errorf("it is by the behaviour %s, and the receipt says %s", result.Behaviour, r.Behaviour)
	case x.hasCustomer && e.PubKey == x.customer:
		return absence("the customer itself has signed it")
	}
	return nil
}

// later reports whether an event is later than the receipt.
func (x *export) later(e nostr.Event) bool {
	at, ok := x.receiptTime()
	early := x.request.broken == nil && at+clockSlack < int64(x.request.event.CreatedAt) // the receipt's own fault
	return ok && !early && at+clockSlack < int64(e.CreatedAt)
}

// checkResult checks that the result is the one that the receipt names, signed by the provider.
func (x *export) checkResult() (string, error) {
	if !x.known {
		return "", noReceipt
	}
	if err := x.result.broken; err != nil {
		return "", x.orphaned(err, FileResult, FileResultKey)
	}
	e := x.result.event
	return fmt.Sprintf("kind %d by the provider %s, %s", e.Kind, x.receipt.ProviderID, reading(e, x.result.open)), nil
}

// checkBundle checks that the bundle is the one that the request carried and the receipt names.
func (x *export) checkBundle() (string, error) {
	why := x.whyNoRequest()
	if !x.known {
		return "", why
	}
	var named guild.Hash
	if why == nil {
		parcel, err := x.request.order.Bundle()
		switch {
		case err == nil:
			named = parcel.Hash
		case !errors.Is(err, nip90.ErrNoBundle):
			return "", fmt.Errorf("the request: %w", err)
		case x.request.payload != nil:
			return x.unpacked(FileBundle, "request", x.receipt.BundleHash, x.samePayload)
		default: // a plain request, which names the bundle that it was made of
			named, _ = guild.ParseHash(x.request.order.Get(nip90.ParamBundleSHA256))
		}
	}
	return x.parcel(FileBundle, "request", x.receipt.BundleHash, named, why)
}

// checkDelivery checks that the delivery is the one that the result carried and the receipt names.
func (x *export) checkDelivery() (string, error) {
	var named guild.Hash
	var why error
	switch {
	case !x.known:
		return "", noReceipt
	case x.result.broken != nil:
		why = absence("there is no result that holds")
	case !x.result.open:
		why = absence("the result is encrypted, and " + FileResultKey + " is not there")
	default:
		parcel, err := x.result.result.Delivery()
		switch {
		case err == nil:
			named = parcel.Hash
		case !errors.Is(err, nip90.ErrNoBundle):
			return "", fmt.Errorf("the result: %w", err)
		case !x.receipt.DeliveryHash.IsZero() && strings.TrimSpace(x.result.result.Content) != "":
			return x.unpacked(FileDelivery, "result", x.receipt.DeliveryHash, x.sameContent)
		}
	}
	return x.parcel(FileDelivery, "result", x.receipt.DeliveryHash, named, why)
}

// parcel compares a bundle with the hash in the receipt (stated) and the hash in the event that carried it (named).
// why is nil, or the reason why the event could not be read.
func (x *export) parcel(file, event string, stated, named guild.Hash, why error) (string, error) {
	b, there := x.files[file]
	switch {
	case why == nil && named != stated:
		return "", fmt.Errorf("the receipt says %s, and the %s %s", orNone(stated), event, orNone(named))
	case there && stated.IsZero():
		return "", fmt.Errorf("%s is there, and the receipt names none", file)
	case stated.IsZero():
		return "", absence("the receipt names none")
	case there && guild.Sum(b) != stated:
		return "", fmt.Errorf("%s is %s, and the receipt says %s", file, guild.Sum(b), stated)
	case !there && why == nil:
		return "", absence(fmt.Sprintf("%s is not there; the receipt and the %s name the same", file, event))
	case !there:
		return "", missing(file)
	case why != nil:
		return fmt.Sprintf("%s, as the receipt says; %s", stated, why), nil
	}
	return fmt.Sprintf("%s, as the receipt and the %s say", stated, event), nil
}

func orNone(h guild.Hash) string {
	if h.IsZero() {
		return "none"
	}
	return h.String()
}

// checkPayment checks the payment, with its quote if there is a valid one.
func (x *export) checkPayment() (string, error) {
	if !x.known {
		return "", noReceipt
	}
	onchain := FileTransaction
	if _, there := x.files[onchain]; !there {
		onchain = FileInclusion
	}
	_, hasOnchain := x.files[onchain]
	_, hasKey := x.files[FileQuoteKey]
	v, err := x.event(FileQuote)
	switch {
	case err != nil && !isAbsent(err):
		return "", err
	case err == nil && v.Event().ID != x.receipt.QuoteEvent && x.receipt.QuoteEvent != (nostr.ID{}):
		return "", fmt.Errorf("the quote is the event %.8s, and the receipt names %.8s", v.Event().ID.Hex(), x.receipt.QuoteEvent.Hex())
	case x.receipt.PaymentProof == nil && (hasOnchain || err == nil && x.receipt.QuoteEvent == (nostr.ID{})):
		return "", errors.New("the receipt says that nothing was paid, and there is something about a payment")
	case hasOnchain && x.receipt.PaymentProof.Type != "onchain_txid":
		return "", fmt.Errorf("%s is there, and the payment is a %.40s", onchain, x.receipt.PaymentProof.Type)
	case err != nil && hasKey:
		return "", fmt.Errorf("%s is there, and %s is not", FileQuoteKey, FileQuote)
	}
	p := payment{receipt: x.receipt, transaction: x.files[FileTransaction], inclusion: x.files[FileInclusion]}
	if x.request.broken == nil {
		p.request = &x.request.event
	}
	if err == nil {
		e := v.Event()
		open, isOpen, err := x.opener(e, FileQuoteKey, "")
		if err != nil {
			return "", err
		}
		p.quote = &e
		if isOpen {
			p.open = open
		}
	}
	said, err := p.prove()
	if err != nil {
		return "", err
	}
	if x.receipt.Bolt11 == "" || p.quote == nil {
		return said, nil
	}
	if f, err := nip90.ParseFeedback(*p.quote, p.open); err != nil || f.Invoice != x.receipt.Bolt11 {
		return said, errors.New("the receipt has another invoice than the quote")
	}
	return said, nil
}
