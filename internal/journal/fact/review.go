package fact

import (
	"encoding/hex"

	"fiatjaf.com/nostr"

	"guild"
)

// ReviewSubject returns the guard of our public reviews of a service's work on a task.
func ReviewSubject(task string, s guild.Service) Subject {
	sum := guild.Sum([]byte(task + "\x00" + s.PubKey.Hex() + "\x00" + s.D))
	return Subject("review." + hex.EncodeToString(sum[:16]))
}

// ReviewDrafted carries the signed events of a review, so that publishing it again is the same review. Written by review.
type ReviewDrafted struct {
	Review  nostr.ID      `json:"review"` // id of the kind 2020 event
	Service guild.Service `json:"service"`
	Task    string        `json:"task"`
	Trust   guild.Trust   `json:"trust_micro"` // from which the rating follows
	Attempt nostr.ID      `json:"attempt,omitzero"`
	Meeting string        `json:"meeting,omitempty"`
	Cause   string        `json:"cause"`  // benchmark, first, change, violation or owner
	Events  []nostr.Event `json:"events"` // of kinds 2020 and 32020, and mirrors if configured
}

// ReviewPublished says that a relay accepted all events of a review. Written by review.
type ReviewPublished struct {
	Review nostr.ID `json:"review"`
	Relays []string `json:"relays"`
}

// ReviewHeld says that no review of a service's work on a task is published until it is resumed. Written by review.
type ReviewHeld struct {
	Service guild.Service `json:"service"`
	Task    string        `json:"task"`
	By      string        `json:"by"` // owner or provider
	Attempt nostr.ID      `json:"attempt,omitzero"`
	Reason  string        `json:"reason"`
}

// ReviewResumed ends a hold. Written by review.
type ReviewResumed struct {
	Service guild.Service `json:"service"`
	Task    string        `json:"task"`
	Reason  string        `json:"reason"`
}

// ReviewDropped says that a review is not published: it was given up, or a newer one is due. If it was published, it is
// deleted. Written by review.
type ReviewDropped struct {
	Review nostr.ID `json:"review"`
	Reason string   `json:"reason"`

	Failed   bool         `json:"failed,omitempty"`   // no relay accepted it; it is due again after a long pause
	Deletion *nostr.Event `json:"deletion,omitempty"` // the signed kind 5 event to publish, if the review was published
}

// Type returns the stored name.
func (ReviewDrafted) Type() string { return "review.drafted" }

// Type returns the stored name.
func (ReviewPublished) Type() string { return "review.published" }

// Type returns the stored name.
func (ReviewHeld) Type() string { return "review.held" }

// Type returns the stored name.
func (ReviewResumed) Type() string { return "review.resumed" }

// Type returns the stored name.
func (ReviewDropped) Type() string { return "review.dropped" }
