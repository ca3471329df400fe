// Package relay is guild's Nostr relay client (NIP-01, NIP-42). It owns the sockets: which relays there are,
// what was asked of them, how far each of them has been read (the watermarks) and which events have been seen.
//
// Each socket has one reader that hands events on in the order of their arrival. What comes in is bounded
// before it is parsed, parsed strictly, matched against what was asked for, and verified exactly once however
// many relays send it; what fails is counted and given to [Config.Reject]. So whoever holds an event from here
// holds a [guild.Verified].
//
// The package decides nothing about what an event means, stores no event, and writes nothing but the file of
// watermarks.
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

// Config says which relays a Pool uses and what it does with what they send.
type Config struct {
	URLs []string         // ws:// or wss://, kept connected
	Now  func() time.Time // stamps subscriptions and authentications

	// Receive gets each distinct event of the subscriptions once. It is called for one event of a socket after
	// the other, for those of several sockets at the same time.
	Receive Receiver

	Signer     nostr.Signer // answers NIP-42 challenges; nil: never authenticate
	Watermarks *Marks       // in memory only if nil
	MaxEvent   int          // bytes of one message from a relay; 512 KiB if zero
	Log        *slog.Logger // slog.Default() if nil

	// Reject gets what was dropped, cut to 4 KiB. It is called at the same time for several sockets and must not
	// wait.
	Reject func(ctx context.Context, from string, reason Reason, raw []byte)

	// Dial opens the connection below TLS and the websocket; that of net.Dialer if nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Receiver takes an event and the URL of the relay that it came from.
type Receiver func(ctx context.Context, from string, e guild.Verified)

// Reason says why a message was dropped.
type Reason string

// The reasons for which a message of a relay is dropped, or never came.
const (
	TooLarge     Reason = "too large"     // more than Config.MaxEvent bytes
	Malformed    Reason = "malformed"     // not a message of NIP-01, or outside the bounds of one
	WrongID      Reason = "wrong id"      // the id is not the hash of the event
	BadSignature Reason = "bad signature" // the signature does not verify
	Unsolicited  Reason = "unsolicited"   // matches no subscription of ours
	Unread       Reason = "unread"        // the relay has more than it gives out; raw is the filter that asked for it
)

// Ack is what one relay said to a publication.
type Ack struct {
	URL     string
	OK      bool   // the relay has the event; true also for "duplicate:"
	Message string // as the relay put it, or "unreachable: ..." when it could not be asked
}

// Status is the state of one relay.
type Status struct {
	URL       string
	Connected bool
	Since     time.Time // of the last change of Connected
	LastError string    // why the last connection or subscription ended; empty if none did
	Events    uint64    // verified events received
	Rejected  uint64    // messages dropped, and filters not answered in full; see Reason
}

// Errors of Publish and Query.
var (
	ErrNoRelay = errors.New("no relay could be reached")
	ErrClosed  = errors.New("the relay pool has stopped")
)

// RefusedError says that relays were reached and none of them took the event.
type RefusedError struct{ Acks []Ack }

// Error lists what each relay said.
func (e *RefusedError) Error() string {
	said := make([]string, len(e.Acks))
	for i, a := range e.Acks {
		said[i] = fmt.Sprintf("%s: %s", a.URL, a.Message)
	}
	return "refused by every relay: " + strings.Join(said, "; ")
}
