package container

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"guild/internal/sandbox"
)

// Descriptors of the first process inside, beside those that the run has.
const (
	copiesFD = 5 // it reads the tar stream of the copies; the command starts when that has ended
	filesFD  = 6 // it writes the tar stream of what is collected
	doneFD   = 7 // it writes a byte when the world stands, and one when the copies are laid out
)

// injected are environment variables that engines and shells add.
var injected = []string{"HOME", "HOSTNAME", "OLDPWD", "TERM", "container"}

// notLaidOut is the exit code of the first process before the command starts.
const notLaidOut = 125

// entry is the command line of the first process inside, for engines that set the environment themselves.
func entry(s sandbox.Spec) []string {
	var start strings.Builder
	for _, name := range injected {
		if !slices.ContainsFunc(s.Env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			fmt.Fprintf(&start, "unset %s\n", name)
		}
	}
	start.WriteString(`"$@"`)
	return append([]string{"/bin/sh", "-c", script(s, start.String()), "sandbox"}, s.Command()...)
}

// wholeEntry is the script of the first process with everything in it, so that the engine's command line, which
// others can see, tells nothing.
func wholeEntry(s sandbox.Spec, channel bool) string {
	words := []string{"/usr/bin/env", "-i"}
	for _, w := range append(slices.Clone(s.Env), s.Command()...) {
		words = append(words, quote(w))
	}
	if !channel { // the engine hands on a range of descriptors, so there is something
		words = append(words, fmt.Sprintf("%d>&-", sandbox.ChannelFD))
	}
	return script(s, strings.Join(words, " "))
}

// script is what the first process inside does: it lays the copies out, starts the command, ends all that is left
// of it and hands out what is to be collected. It has no more rights than the command, so nothing is gained by
// attacking it: whatever it says is as hostile as the command itself.
func script(s sandbox.Spec, start string) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("exec 9>&2 2>/dev/null")
	line("/bin/mkdir -p %s %s /box/tmp /box/var || exit %d", sandbox.Workspace, sandbox.Home, notLaidOut)
	line("/bin/chmod 1777 /box/tmp /box/var")
	line("echo >&%d", doneFD)
	line("/bin/tar -x -o -C / -f - <&%d || exit %d", copiesFD, notLaidOut)
	line("cd %s || exit %d", quote(path.Clean(cmp.Or(s.Dir, sandbox.Workspace))), notLaidOut)
	line("echo >&%d", doneFD)
	line(`%s 2>&9 %d<&- %d>&- %d>&- 9>&-`, start, copiesFD, filesFD, doneFD)
	line("code=$?")
	line("kill -9 -1")
	line("exec %d>&- %d>&-", sandbox.ResultsFD, sandbox.ChannelFD)
	if len(s.Collect) > 0 {
		line("%s", collect(s.Collect))
	}
	line("exit $code")
	return b.String()
}

// collect is the script that writes a tar stream of what the names hold. No link is followed to it.
func collect(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quote(path.Clean(n))
	}
	return fmt.Sprintf(`
plain() {
	at=.; old=$IFS; IFS=/; set -f
	for part in $1; do
		at=$at/$part
		if [ -L "$at" ]; then IFS=$old; return 1; fi
	done
	IFS=$old
	[ -e "$at" ]
}
if [ ! -L %[1]s ] && cd %[1]s; then
	set --
	for name in %[2]s; do plain "$name" && set -- "$@" "./$name"; done
	[ $# -gt 0 ] && /bin/tar -c --hard-dereference -f - "$@" >&%[3]d
fi`, sandbox.Workspace, strings.Join(quoted, " "), filesFD)
}

// quote makes one word of a shell's command line.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
