//go:build unix

package host

import "os"

// Unnamed makes a temporary file without a name, which is gone when it is closed.
func Unnamed() (*os.File, error) {
	f, err := os.CreateTemp("", "nutshell-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}
