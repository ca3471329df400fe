// Package key owns the node's identity: where its secret key comes from, how it rests on disk, and that it
// cannot be shown by accident. It signs and encrypts; it never opens a connection (a remote signer's address is
// only read here) and never writes a key anywhere but into the identity file that Create makes.
package key
