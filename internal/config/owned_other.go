//go:build !unix

package config

import "io/fs"

// owned returns false, because the owner of a file is not known on this system. So no control socket is made. Only guild needs
// one, and it is not built for such systems; nutshell reads the configuration alone.
func owned(fs.FileInfo) bool { return false }
