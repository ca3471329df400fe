// Command nook is `guild nook`: it runs the guild beside it, or else the one in PATH, with the same arguments.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

func main() {
	fmt.Fprintf(os.Stderr, "nook: %v\nhint: install guild in the same directory\n", run(os.Args[1:]))
	os.Exit(1)
}

// run becomes guild, so that the exit code, the signals and the terminal are guild's own. It returns only an error.
func run(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	guild := filepath.Join(filepath.Dir(self), "guild")
	if _, err := os.Stat(guild); err != nil {
		if guild, err = exec.LookPath("guild"); err != nil {
			return err
		}
	}
	return syscall.Exec(guild, append([]string{"guild", "nook"}, args...), os.Environ())
}
