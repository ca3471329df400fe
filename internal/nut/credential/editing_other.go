//go:build !unix

package credential

import (
	"os/exec"
	"strings"
)

const defaultEditor = "notepad"

// editorCommand returns the command that opens a file in an editor. This system may have no shell, so the editor's name and its
// arguments are split at spaces.
func editorCommand(editor, file string) *exec.Cmd {
	argv := strings.Fields(editor)
	if len(argv) == 0 {
		argv = []string{defaultEditor} // and not the file itself
	}
	argv = append(argv, file)
	return exec.Command(argv[0], argv[1:]...)
}
