// Package blossom moves blobs: bundles and deliveries that are too large for an event. Server keeps them in a directory and
// implements Blossom (BUD-01 and BUD-02). Client uploads to and downloads from any such server. Seal and OpenSealed encrypt
// and decrypt a blob, so that servers have only ciphertext.
//
// A blob is addressed by its SHA-256. The server streams: it never holds a blob in memory, never serves one before it is
// whole and its hash is known, and never trusts an announced length. The client connects to private addresses only if it is
// allowed to.
package blossom
