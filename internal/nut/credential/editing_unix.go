//go:build unix

package credential

import "os/exec"

const defaultEditor = "vi"

// editorCommand returns the command that opens a file in an editor. The shell splits off the editor's own arguments, as git does.
func editorCommand(editor, file string) *exec.Cmd {
	return exec.Command("sh", "-c", editor+` "$@"`, "sh", file)
}
