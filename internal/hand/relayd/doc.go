// Package relayd is guild's own Nostr relay, so that a new user needs no other: events over a websocket and blobs over HTTP
// (internal/hand/blossom), on one loopback port and in one directory.
//
// It owns the events that clients publish to it. It implements NIP-01, 09, 11, 40, 42, 45 and 70. It never makes or changes
// an event, opens no connection, and knows nothing of jobs: the node is a client like any other.
//
// A request passes the door (package door: which hosts and origins are allowed) and front.go, then a session (session.go: one websocket,
// whose messages are handled in order), then the store (store.go, index.go) or the feed (feed.go: the subscriptions for new
// events). An event is first stored, then answered with OK, then sent to the subscribers. A subscription is added to the
// feed before its stored events are read, so it misses no event; and an event that it got from the store is not sent again.
package relayd
