// Package key owns the node's identity: where its secret key comes from, how it is stored, and that it cannot be printed by
// accident. It signs and encrypts. It opens no connection (it only reads the address of a remote signer), and writes a key
// nowhere but into the identity file. A file beside it names the public key that a home belongs to.
package key
