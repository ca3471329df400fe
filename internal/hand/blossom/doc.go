// Package blossom moves blobs: bundles and deliveries too large for an event. Server keeps them in a directory
// and speaks the four verbs of Blossom (BUD-01 and BUD-02); Client uploads to and downloads from any such
// server; Seal and OpenSealed encrypt what travels, so that a server holds only ciphertext.
//
// A blob is addressed by its SHA-256. The server streams: it never holds a blob in memory, never shows one
// before it is whole and its hash is known, and never trusts a length that somebody announced. The client
// never follows a URL to a private address unless it was told to.
package blossom
