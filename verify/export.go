package verify

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"fiatjaf.com/nostr"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"guild"
	"guild/nip90"
	"guild/receipt"
	"guild/seal"
)

// export is an export while it is checked: its files, and what was read from them first because several lines compare
// with it.
type export struct {
	contents

	receipt receipt.Receipt // as it was signed; as it lies there, if its signature does not hold
	stated  []byte          // the bytes of that receipt
	known   bool            // there is a receipt
	loose   error           // why receipt.json cannot be read

	signed    nostr.Event // the receipt's event, if it holds
	hasSigned bool
	unsigned  error // why it does not

	customer    nostr.PubKey // who made the request and signed all of it
	hasCustomer bool

	request sealedRequest
	result  sealedResult

	verdict    verdict // if it is the one that the receipt names
	hasVerdict bool
	unjudged   error // why it is not

	trajectory error // why REPLAY.jsonl is not the one that the receipt names

	sealing  seal.Checkpoint // if it holds
	unsealed error           // why it does not
}

// sealedRequest is the request and how much of it could be read.
type sealedRequest struct {
	event  nostr.Event
	order  nip90.Request // only the envelope if it is not open
	open   bool          // there is no ciphertext, or a key that opens it
	broken error         // why there is no request that holds

	payload jsontext.Value // of a typed job that travels without a bundle, in its canonical form
}

// sealedResult is the result and how much of it could be read.
type sealedResult struct {
	event  nostr.Event
	result nip90.Result // only the envelope if it is not open
	open   bool
	broken error
}

// read takes the files apart, in the order in which one vouches for the next: the receipt's event for the receipt, the
// receipt for the request, the request for the customer.
func read(files contents) *export {
	x := &export{contents: files}
	x.readReceipt()
	if !x.known {
		return x
	}
	x.readRequest()
	x.readResult()
	x.verdict, x.unjudged = x.readVerdict()
	x.hasVerdict = x.unjudged == nil
	x.trajectory = x.compareTrajectory()
	x.sealing, x.unsealed = x.checkpoint()
	return x
}

func (x *export) readReceipt() {
	var lying receipt.Receipt
	file, there := x.files[FileReceipt]
	lying, x.loose = decodeReceipt(file)
	if !there {
		x.loose = errors.New(FileReceipt + " is not there")
	}
	v, err := x.event(FileReceiptEvent)
	if err == nil {
		x.receipt, err = receipt.ParseEvent(v)
	}
	switch {
	case err == nil:
		x.signed, x.hasSigned, x.known = v.Event(), true, true
		x.stated = []byte(x.signed.Content)
		x.customer, x.hasCustomer = x.signed.PubKey, true
	case x.loose == nil:
		x.receipt, x.stated, x.known = lying, file, true
	}
	x.unsigned = err
}

// decodeReceipt reads a receipt that is written as package receipt writes it: then no two readers understand it
// differently.
func decodeReceipt(b []byte) (receipt.Receipt, error) {
	r, err := receipt.Decode(b)
	if err != nil {
		return receipt.Receipt{}, err
	}
	if again, err := r.Encode(); err != nil || !bytes.Equal(again, b) {
		return receipt.Receipt{}, errors.New("not a receipt in its canonical form")
	}
	return r, nil
}

// checkReceipt wants a receipt of the right form, which is the one that was signed.
func (x *export) checkReceipt() (string, error) {
	if x.loose != nil {
		return "", x.loose
	}
	if file := x.files[FileReceipt]; x.hasSigned && !bytes.Equal(file, x.stated) {
		return "", fmt.Errorf("not what was signed: %s", difference(file, x.stated))
	}
	r := x.receipt
	if err := r.Validate(); err != nil {
		return "", err
	}
	if want := receipt.NewID(r.Job, r.Attempt, r.ResultEvent, r.Supersedes); r.ID != want {
		return "", fmt.Errorf("receipt_id is %.40q; of its job, attempt, result and supersedes it would be %s", r.ID, want)
	}
	switch {
	case r.Attempt != r.RequestEvent:
		return "", errors.New("attempt and request_event are not the same")
	case r.SessionID != r.Job.String():
		return "", fmt.Errorf("session_id is %.80q, and the job %s", r.SessionID, r.Job)
	case x.request.broken == nil && x.before(x.request.event.CreatedAt):
		return "", fmt.Errorf("timestamp is %.40q, before the request", r.Timestamp)
	}
	return fmt.Sprintf("%s of %s, %s", r.ID, r.Timestamp, guild.Sum(x.stated)), nil
}

// clockSlack is how far the customer's clock may have been set back between two events, in s.
const clockSlack = 3600

// receiptTime is what the receipt says when it was made, in Unix s.
func (x *export) receiptTime() (int64, bool) {
	at, err := time.Parse(time.RFC3339Nano, x.receipt.Timestamp)
	return at.Unix(), err == nil
}

// before reports whether the receipt is older than something that was there before it.
func (x *export) before(other nostr.Timestamp) bool {
	at, ok := x.receiptTime()
	return ok && at+clockSlack < int64(other)
}

// difference names the first field in which two JSON objects are not the same.
func difference(is, was []byte) string {
	var a, b map[string]jsontext.Value
	if json.Unmarshal(is, &a) != nil || json.Unmarshal(was, &b) != nil {
		return "it is no object"
	}
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !bytes.Equal(a[name], b[name]) {
			return fmt.Sprintf("%.40s was %.80s and is %.80s", name, orNothing(b[name]), orNothing(a[name]))
		}
	}
	return "it is spelled otherwise"
}

func orNothing(v []byte) []byte {
	if v == nil {
		return []byte("not there")
	}
	return v
}

// checkSignature wants the receipt to be signed by whoever asked for the work.
func (x *export) checkSignature() (string, error) {
	if x.unsigned != nil {
		if isAbsent(x.unsigned) {
			return "", fmt.Errorf("%s is not there: nobody has signed the receipt", FileReceiptEvent)
		}
		return "", x.unsigned
	}
	if x.signed.PubKey != x.customer {
		return "", fmt.Errorf("signed by %.8s, and the request by %.8s", x.signed.PubKey.Hex(), x.customer.Hex())
	}
	return fmt.Sprintf("event %.8s by the customer %s", x.signed.ID.Hex(), x.customer.Hex()), nil
}

// checkSupersedes says which receipt this one stands for.
func (x *export) checkSupersedes() (string, error) {
	switch {
	case !x.known:
		return "", noReceipt
	case x.receipt.Supersedes == "":
		return "", absence("it stands for no earlier receipt")
	case x.receipt.Supersedes == x.receipt.ID:
		return "", errors.New("it stands for itself")
	}
	return fmt.Sprintf("it stands for %.40s", x.receipt.Supersedes), nil
}

// noReceipt is why nothing else can be checked.
const noReceipt = absence("there is no receipt to hold it against")
