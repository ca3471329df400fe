package verify

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"regexp"
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

// export is an export that is being checked: its files, and the parsed data that several checks compare with.
type export struct {
	contents

	receipt receipt.Receipt // the signed receipt; that of receipt.json if the signature is invalid
	stated  []byte          // bytes of receipt
	known   bool            // a receipt could be read
	loose   error           // why receipt.json is unreadable

	signed    nostr.Event // event of the receipt, if valid
	hasSigned bool
	unsigned  error // why there is no valid event

	customer    nostr.PubKey // author of the request and of all events but the provider's
	hasCustomer bool

	request sealedRequest
	result  sealedResult

	verdict    verdict // only if it is the one that the receipt names
	hasVerdict bool
	unjudged   error // why there is no such verdict

	trajectory error // why REPLAY.jsonl is not the receipt's

	sealing  seal.Checkpoint // only if valid
	sealedAt int64           // its date, in Unix s
	sealedBy nostr.PubKey
	unsealed error // why there is no valid checkpoint

	witnessedAt int64 // date of the countersignature, in Unix s, only if valid
	unwitnessed error // why there is no valid one
}

// sealedRequest is the request, as far as it could be read.
type sealedRequest struct {
	event  nostr.Event
	order  nip90.Request // only the envelope while open is false
	open   bool          // not encrypted, or opened with its key
	broken error         // why there is no valid request

	payload jsontext.Value // of a typed job without a bundle, in canonical form
}

// sealedResult is the result, as far as it could be read.
type sealedResult struct {
	event  nostr.Event
	result nip90.Result // only the envelope while open is false
	open   bool
	broken error
}

func (x *export) readReceipt() {
	var lying receipt.Receipt
	file, there := x.files[FileReceipt]
	lying, x.loose = decodeReceipt(file)
	if !there {
		x.loose = errors.New(FileReceipt + " is not there")
	}
	// The signed receipt takes precedence over receipt.json. Otherwise a changed receipt.json would make every check
	// fail that compares with it, not only its own.
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

// decodeReceipt reads a receipt and requires the canonical form of package receipt, so that two readers cannot
// understand it differently.
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

// checkReceipt checks that receipt.json is valid and equal to the signed receipt.
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
	if len(r.Extra) > 0 {
		return "", fmt.Errorf("it has a field %.40q, which no receipt has", slices.Min(slices.Collect(maps.Keys(r.Extra))))
	}
	if rule := r.ApprovalRuleID; rule != nil && !ruleForm.MatchString(*rule) {
		return "", fmt.Errorf("approval_rule_id is %.80q, and no rule is called so", *rule)
	}
	if want := receipt.NewID(r.Job, r.Attempt, r.ResultEvent, r.Supersedes); r.ID != want {
		return "", fmt.Errorf("receipt_id is %.40q; of its job, attempt, result and supersedes it would be %s", r.ID, want)
	}
	at, ok := x.receiptTime()
	switch {
	case r.Attempt != r.RequestEvent:
		return "", errors.New("attempt and request_event are not the same")
	case r.SessionID != r.Job.String():
		return "", fmt.Errorf("session_id is %.80q, and the job %s", r.SessionID, r.Job)
	case x.request.broken == nil && ok && at+clockSlack < int64(x.request.event.CreatedAt):
		return "", fmt.Errorf("timestamp is %.40q, before the request", r.Timestamp)
	}
	return fmt.Sprintf("%s of %s, %s", r.ID, r.Timestamp, guild.Sum(x.stated)), nil
}

// ruleForm is the form of approval_rule_id.
var ruleForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,63}$`)

// clockSlack limits how far the customer's clock may be set back between two events, in s.
const clockSlack = 3600

// receiptTime returns the time that the receipt states, in Unix s, and whether it is valid.
func (x *export) receiptTime() (int64, bool) {
	at, err := time.Parse(time.RFC3339Nano, x.receipt.Timestamp)
	return at.Unix(), err == nil
}

// difference names the first field in which two JSON objects differ.
func difference(is, was []byte) string {
	var a, b map[string]jsontext.Value
	if json.Unmarshal(is, &a) != nil || json.Unmarshal(was, &b) != nil {
		return "it is not an object"
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

// checkSignature checks that the author of the request signed the receipt.
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
	who := "by " + x.customer.Hex() + "; no request shows that this is the customer"
	if x.request.broken == nil {
		who = "by the customer " + x.customer.Hex()
	}
	return fmt.Sprintf("event %.8s %s", x.signed.ID.Hex(), who), nil
}

// checkSupersedes checks which receipt this one replaces.
func (x *export) checkSupersedes() (string, error) {
	switch {
	case !x.known:
		return "", noReceipt
	case x.receipt.Supersedes == "":
		return "", absence("it replaces no earlier receipt")
	case x.receipt.Supersedes == x.receipt.ID:
		return "", errors.New("it replaces itself")
	}
	return fmt.Sprintf("it replaces %.40s", x.receipt.Supersedes), nil
}

// noReceipt is the reason of every check that needs a receipt.
const noReceipt = absence("there is no receipt to hold it against")
