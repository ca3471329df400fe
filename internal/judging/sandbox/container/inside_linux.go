package container

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"guild/internal/judging/sandbox"
)

// Descriptors of the first process inside, which it does not pass on to the command.
const (
	copiesFD = 5 // the tar stream of the copies; the command starts at its end
	filesFD  = 6 // the tar stream of the collected files
	doneFD   = 7 // it writes a byte when the directories exist, and another when the copies are unpacked
)

// injected are environment variables that runtimes and shells add.
var injected = []string{"HOME", "HOSTNAME", "OLDPWD", "TERM", "container"}

// notUnpacked is the exit code of the first process if it fails before the command starts.
const notUnpacked = 125

// entry returns the command line of the first process inside, for runtimes that set the environment themselves.
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

// wholeEntry returns the script of the first process with the environment and the command in it. So these are not in
// the runtime's command line, which other users can see.
func wholeEntry(s sandbox.Spec, channel bool) string {
	words := []string{"/usr/bin/env", "-i"}
	for _, w := range append(slices.Clone(s.Env), s.Command()...) {
		words = append(words, quote(w))
	}
	if !channel { // the runtime passes on a range of descriptors, so this one is open
		words = append(words, fmt.Sprintf("%d>&-", sandbox.ChannelFD))
	}
	return script(s, strings.Join(words, " "))
}

// script returns the script of the first process inside: it unpacks the copies, starts the command, kills the remaining
// processes and writes the collected files. It has the same privileges as the command, so its output is as untrusted as
// the command's.
func script(s sandbox.Spec, start string) string {
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("exec 9>&2 2>/dev/null")
	line("/bin/mkdir -p %s %s /box/tmp /box/var || exit %d", sandbox.Workspace, sandbox.Home, notUnpacked)
	line("/bin/chmod 1777 /box/tmp /box/var")
	line("echo >&%d", doneFD)
	line("/bin/tar -x -o -C / -f - <&%d || exit %d", copiesFD, notUnpacked)
	line("cd %s || exit %d", quote(path.Clean(cmp.Or(s.Dir, sandbox.Workspace))), notUnpacked)
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

// collect returns the part of the script that writes the named files as a tar stream. It follows no links in the names.
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

// quote returns s as one word for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
