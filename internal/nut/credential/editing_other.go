//go:build !unix

package credential

import (
	"os/exec"
	"strings"
)

const defaultEditor = "notepad"

// editing is the command that opens a file in an editor. There is no shell that is always there, so a space ends the editor's
// name and each of its arguments.
func editing(editor, file string) *exec.Cmd {
	argv := append(strings.Fields(editor), file)
	return exec.Command(argv[0], argv[1:]...)
}
