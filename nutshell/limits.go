package nutshell

import "cmp"

// Limits bound a bundle that is read or packed. A field that is zero has the value of DefaultLimits.
//
// A bundle comes from a stranger, and every byte of it may be chosen to cost its reader more than its sender. Total and
// File bound the disk, Ratio a decompression bomb, Entries the work that each file costs even if it is empty, and Path
// and Depth the length of the system calls. Pack has the same limits, so that nobody makes a bundle that others refuse.
type Limits struct {
	Entries int   // files and directories in the archive
	Total   int64 // bytes of all files together
	File    int64 // bytes of one file
	Ratio   int   // bytes of the unpacked archive for each byte of the bundle; not counted below 1 MiB
	Path    int   // bytes of a path
	Depth   int   // segments of a path
}

// DefaultLimits returns the limits that every reader of guild uses by default.
func DefaultLimits() Limits {
	return Limits{Entries: 10_000, Total: 512 << 20, File: 64 << 20, Ratio: 200, Path: 4_096, Depth: 32}
}

// OrDefault returns the limits with the defaults in the place of zeros.
func (l Limits) OrDefault() Limits {
	d := DefaultLimits()
	return Limits{
		Entries: cmp.Or(l.Entries, d.Entries),
		Total:   cmp.Or(l.Total, d.Total),
		File:    cmp.Or(l.File, d.File),
		Ratio:   cmp.Or(l.Ratio, d.Ratio),
		Path:    cmp.Or(l.Path, d.Path),
		Depth:   cmp.Or(l.Depth, d.Depth),
	}
}
