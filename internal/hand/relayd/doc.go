// Package relayd is the relay that guild brings along, so that a newcomer needs no other: Nostr events over a
// websocket, and blobs over HTTP (internal/hand/blossom), on one loopback port and in one directory.
//
// It owns the events that clients publish to it, and nothing else. It speaks NIP-01, 09, 11, 40, 42, 45 and
// 70. It never makes or changes an event, never connects out, and knows nothing of jobs: the node is one of
// its clients like any other.
//
// A request passes the front (front.go: Host, Origin, who may come in at all), then a session (session.go: one
// websocket, whose messages are handled strictly in order), then the store (store.go, index.go) or the feed
// (feed.go: who hears of a new event). An event is stored first, answered with OK second, and sent to the
// subscribers third. A subscription is on the feed before its stored events are read, so it misses nothing,
// and what it has been sent once from the store is not sent again.
package relayd
