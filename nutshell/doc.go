// Package nutshell reads and writes Nutshell bundles (.nut): a task, or its result, in one file with everything that an
// agent needs.
//
// A bundle is the four bytes "NUT\x01" and one compressed tar whose first entry is nutshell.json, the manifest.
// Pack writes one from a tree of files, Open reads one that a stranger may have made, and Delivery lays out the
// tree of a delivery so that Pack can write it. Bundles, deliveries and their manifests keep what this package
// does not understand: unknown fields, the order of keys and the spelling of numbers survive.
//
// The package is pure. It reads from an fs.FS or an io.ReaderAt and writes to an io.Writer; it never touches
// the disk (internal/hand/workdir does), the network, a clock or a source of randomness, so the same input always
// gives the same bytes. It streams: no bundle is held in memory, however large.
package nutshell
