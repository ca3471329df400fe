package host

import (
	"crypto/rand"
	"os"
	"path/filepath"
)

const deleteOnClose = 0x04000000 // FILE_FLAG_DELETE_ON_CLOSE

// Unnamed makes a temporary file, which is gone when it is closed or the process ends. Until then it has a name, as every file
// on Windows has.
func Unnamed() (*os.File, error) {
	name := filepath.Join(os.TempDir(), "nutshell-"+rand.Text())
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|deleteOnClose, 0o600)
}
