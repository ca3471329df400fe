package verify

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"fiatjaf.com/nostr"

	"guild"
	"guild/nipreview"
)

// checkReviews checks that the customer's public reviews are about this receipt.
func (x *export) checkReviews() (string, error) {
	if !x.known {
		return "", noReceipt
	}
	var names []string
	for name := range x.files {
		if path.Dir(name) == DirReviews {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "", absence("there is no review")
	}
	for _, name := range names {
		v, err := x.event(name)
		if err != nil {
			return "", err
		}
		r, err := nipreview.Parse(v.Event())
		if err == nil {
			err = x.compareReview(name, r)
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	return fmt.Sprintf("%d of the provider, founded on the receipt", len(names)), nil
}

// compareReview returns the first difference between a review and the receipt, or nil. The review's task was cut when
// it was written, so the receipt's task is cut in the same way.
func (x *export) compareReview(name string, r nipreview.Review) error {
	switch {
	case name != DirReviews+"/"+r.ID.Hex()+".json":
		return fmt.Errorf("it is the event %s", r.ID.Hex())
	case x.hasCustomer && r.Reviewer != x.customer:
		return fmt.Errorf("it is by %.8s, and the customer is %.8s", r.Reviewer.Hex(), x.customer.Hex())
	case r.Subject != x.receipt.ProviderPubKey:
		return fmt.Errorf("it is about %.8s, and the provider is %.8s", r.Subject.Hex(), x.receipt.ProviderPubKey.Hex())
	case r.Task != "" && r.Task != guild.Cut(guild.Clean(x.receipt.Task), nipreview.MaxTask):
		return fmt.Errorf("it is about the task %.80q, and the receipt's is %.80q", r.Task, x.receipt.Task)
	case r.Request != (nostr.ID{}) && r.Request != x.receipt.RequestEvent:
		return fmt.Errorf("it is about the request %.8s, and the receipt's is %.8s", r.Request.Hex(), x.receipt.RequestEvent.Hex())
	case r.Evidence.Receipt != x.receipt.ID:
		return fmt.Errorf("it names the receipt %.40q", r.Evidence.Receipt)
	case r.Evidence.ReceiptHash != guild.Sum(x.stated):
		return errors.New("it names another hash of the receipt")
	case r.Evidence.VerdictHash != x.receipt.VerdictHash:
		return errors.New("it names another verdict")
	}
	return nil
}
