// Package relay is guild's Nostr relay client (NIP-01, NIP-42). It owns the connections to relays, the subscriptions, how far
// each relay was read (the watermarks), which events were seen, and how well each relay answers (Quality).
//
// Each connection has one reader, and its events are delivered in the order of their arrival. A message is limited in size
// before it is parsed, parsed strictly, matched against the subscription, and its event is verified once, however many
// relays send it. A message that fails is counted and given to [Config.Reject]. So every event from here is a
// [guild.Verified].
//
// The package does not interpret events, stores none, and writes only the file of watermarks.
//
// Four locks are used, always in this order: Pool.mu for the sets of links and subscriptions, link.mu for the state of one
// relay, session.mu for the open streams of one connection, qualities.mu for the measurements. No lock is held during network I/O or a call of Receive, so
// Receive may call any method of the pool.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"fiatjaf.com/nostr"

	"guild"
)

// Config says which relays a Pool uses and what it does with their events.
type Config struct {
	URLs []string         // ws:// or wss://, kept connected
	Now  func() time.Time // stamps subscriptions and authentications

	// Receive gets each distinct event of the subscriptions once. Calls for events of one connection follow one another;
	// those for several connections run at the same time.
	Receive Receiver

	// Ignore reports whether an event of a subscription is for nobody here. Such an event costs no verification; it is neither
	// received nor rejected. nil ignores none.
	Ignore func(nostr.Event) bool

	Signer     nostr.Signer // answers NIP-42 challenges; no authentication if nil
	Watermarks *Marks       // in memory only if nil
	MaxEvent   int          // bytes of one message from a relay; 512 KiB if zero
	Log        *slog.Logger // slog.Default() if nil

	// Reject gets dropped messages, cut to 4 KiB. It is called at the same time for several connections, and must not
	// block.
	Reject func(ctx context.Context, from string, reason Reason, raw []byte)

	// Dial opens the TCP connection; net.Dialer's DialContext if nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Receiver takes an event and the URL of the relay that it came from.
type Receiver func(ctx context.Context, from string, e guild.Verified)

// Reason says why a message was dropped.
type Reason string

// The reasons for which a message of a relay is dropped or missing.
const (
	TooLarge     Reason = "too large"     // more than Config.MaxEvent bytes
	Malformed    Reason = "malformed"     // not a message of NIP-01, or beyond its limits
	WrongID      Reason = "wrong id"      // the id is not the hash of the event
	BadSignature Reason = "bad signature" // the signature does not verify
	Unsolicited  Reason = "unsolicited"   // matches no subscription of ours
	Unread       Reason = "unread"        // the relay has more events than it returns; raw is the filter
)

// Ack is the answer of one relay to a publication.
type Ack struct {
	URL     string
	OK      bool   // the relay has the event; true also for "duplicate:"
	Message string // by the relay, or "unreachable: ..." if it could not be asked
}

// Status is the state of one relay.
type Status struct {
	URL       string
	Connected bool
	Since     time.Time // of the last change of Connected
	LastError string    // of the last connection or subscription that ended; empty if none did
	Events    uint64    // verified events received
	Rejected  uint64    // dropped messages, and filters that were not answered in full; see Reason
}

// Errors of Publish and Query.
var (
	ErrNoRelay = errors.New("no relay could be reached")
	ErrClosed  = errors.New("the relay pool has stopped")
)

// RefusedError says that relays were reached but none took the event.
type RefusedError struct{ Acks []Ack }

// Error lists the answers of the relays.
func (e *RefusedError) Error() string {
	said := make([]string, len(e.Acks))
	for i, a := range e.Acks {
		said[i] = fmt.Sprintf("%s: %s", a.URL, a.Message)
	}
	return "refused by every relay: " + strings.Join(said, "; ")
}
