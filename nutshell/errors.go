package nutshell

import (
	"errors"
	"fmt"

	"guild"
)

// Errors about a bundle as a whole.
var (
	ErrNotBundle  = errors.New("not a Nutshell bundle")
	ErrEncrypted  = errors.New(`an encrypted bundle (NUT\x02, an undocumented form of the reference program)`)
	ErrNoManifest = errors.New("the bundle has no nutshell.json")
	ErrTruncated  = errors.New("the bundle ends too early")
	ErrDamaged    = errors.New("the bundle is damaged")
	ErrTrailing   = errors.New("there are bytes after the end of the archive")
	ErrChanged    = errors.New("the file changed while it was read")
)

// EntryError is a file or directory that a bundle must not contain, or must not contain at this path.
type EntryError struct{ Path, Reason string }

func (e *EntryError) Error() string { return fmt.Sprintf("%.200q: %s", e.Path, e.Reason) }

// LimitError is a limit that a bundle exceeds. What is the field of Limits, or names a bound of JSON documents; Path is
// set if one entry exceeds it.
type LimitError struct {
	What  string
	Limit int64
	Path  string
}

func (e *LimitError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("more than the limit of %d (%s)", e.Limit, e.What)
	}
	return fmt.Sprintf("%.200q: more than the limit of %d (%s)", e.Path, e.Limit, e.What)
}

// HashError is a file whose hash is not the one in files.tree of the manifest.
type HashError struct {
	Path      string
	Want, Got guild.Hash
}

func (e *HashError) Error() string {
	return fmt.Sprintf("%.200q: the manifest says %v, the file is %v", e.Path, e.Want, e.Got)
}

// SizeError is a file whose size is not the one in the manifest, or with an empty path a wrong number of files.
type SizeError struct {
	Path      string
	Want, Got int64
}

func (e *SizeError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("files.total_count: the manifest says %d, the archive has %d", e.Want, e.Got)
	}
	return fmt.Sprintf("%.200q: the manifest says %d bytes, the file has %d", e.Path, e.Want, e.Got)
}

// ManifestError says why a JSON document of a bundle cannot be used. File is its path, Field the dotted path of the
// member at fault, if there is one.
type ManifestError struct{ File, Field, Reason string }

func (e *ManifestError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s: %s: %s", e.File, e.Field, e.Reason)
}

// PlaintextError is a vault that Pack refuses because it is not encrypted.
type PlaintextError struct{ Vault string }

func (e *PlaintextError) Error() string {
	return fmt.Sprintf("%.200q: the vault is not encrypted: whoever gets the bundle gets the credentials", e.Vault)
}
