package hooks

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// marker is in each file and setting that this package writes for a tool.
const marker = "# nook hook"

// kept is added to the name of a hook that was there before ours.
const kept = ".before-nook"

// The hooks of git. post-commit sees each commit. reference-transaction sees each tag that "git tag" makes; a tag whose name
// has a version is a release.
var gitHooks = []struct{ name, script string }{
	// Each program that a hook starts takes as long as a quarter of a commit, so git is called once, and the shell looks for
	// a bug fix: the message begins as a conventional commit of type fix, bugfix or hotfix, or has the word fix, fixes or
	// fixed before an issue (#1, owner/repo#1, GH-1), in any case.
	{"post-commit", `bugfix() {
	case $1 in
	*:*)
		type=${1%%:*}
		type=${type%!}
		case ${type%%\(*} in [Ff][Ii][Xx] | [Bb][Uu][Gg][Ff][Ii][Xx] | [Hh][Oo][Tt][Ff][Ii][Xx]) return 0 ;; esac
		;;
	esac
	before=
	for word; do
		case $before in
		[Ff][Ii][Xx] | [Ff][Ii][Xx][Ee][Ss] | [Ff][Ii][Xx][Ee][Dd])
			case $word in '#'[0-9]* | */*'#'[0-9]* | [Gg][Hh]-[0-9]*) return 0 ;; esac
			;;
		esac
		before=${word#\(}
		before=${before%:}
	done
	return 1
}
report() {
	set -f
	set -- $(git rev-list --max-count=1 --format=%B HEAD)
	set +f
	[ "$1" = commit ] && room || return
	id=$2
	shift 2
	put "git-commit-$id" git.commit
	if bugfix "$@"; then put "git-bugfix-$id" git.bugfix; fi
}
`},
	// A tag that comes with a fetch or a clone is no release of this agent, so the command that makes the tag is looked at.
	{"reference-transaction", `report() {
	command=
	while read -r old new ref; do
		case $old in *[!0]*) continue ;; esac
		case $new in *[!0]*) ;; *) continue ;; esac
		case $ref in refs/tags/*[0-9].[0-9]* | refs/tags/v[0-9]* | refs/tags/*/v[0-9]*) ;; *) continue ;; esac
		[ "$command" ] || command=$(tr '\0' ' ' </proc/$PPID/cmdline || ps -o args= -p $PPID)
		case " $command " in
		*" fetch "* | *" pull "* | *" clone "*) return ;;
		*[\ -]"tag "*) room && put "git-release-$new" git.release ;;
		esac
	done
}
`},
}

// common is what both scripts share: room says whether the spool takes another file, and put spools an event. The file's time
// is that of the event.
const common = `agent=AGENT
spool=${NOOK_HOME:-HOME}/spool
room() {
	case $spool in /.nook/*) return 1 ;; esac # without a home
	umask 077
	[ -d "$spool" ] || mkdir -p "$spool" || return
	set -- "$spool"/*.json
	[ $# -lt MAXFILES ]
}
put() {
	printf '{"agentId":%s,"id":"%s","trigger":"%s","type":"agent.completed"}' "$agent" "$1" "$2" >"$spool/.tmp-$$-$1" &&
		mv -f "$spool/.tmp-$$-$1" "$spool/$1.json"
}
`

// gitScript returns the script of a hook. before is the command that runs the hook that was there before, or "". It gets its
// input and its arguments, and its status is that of the hook.
func gitScript(c Config, name, script, before string) (string, error) {
	agent, err := json.Marshal(c.AgentID)
	if err != nil {
		return "", err
	}
	home := "$HOME/.nook"
	if c.Home != "" {
		home = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(c.Home)
	}
	body := strings.NewReplacer("AGENT", quoted(string(agent)), "{NOOK_HOME:-HOME}/spool", "{NOOK_HOME:-\""+home+"\"}/spool",
		"MAXFILES", fmt.Sprint(MaxFiles)).Replace(common + script)
	isCommit := name == "post-commit" // which has no input
	run := "report >/dev/null 2>&1\nexit 0\n"
	switch {
	case isCommit && before != "":
		run = "status=0\nif [ -x \"$0" + kept + "\" ]; then\n\t" + before + "\n\tstatus=$?\nfi\nreport >/dev/null 2>&1\nexit $status\n"
	case before != "":
		run = "state=$1\nstatus=0\nin=$(cat; echo .)\nin=${in%.}\nif [ -x \"$0" + kept + "\" ]; then\n" +
			"\tprintf %s \"$in\" | " + before + "\n\tstatus=$?\nfi\n" +
			"if [ \"$state\" = committed ]; then printf %s \"$in\" | report >/dev/null 2>&1; fi\nexit $status\n"
	case !isCommit:
		body = "[ \"$1\" = committed ] || exit 0\n" + body
	}
	return "#!/bin/sh\n" + marker + ": reports commits and releases to Nook; \"nook hooks uninstall git\" removes it\n" + body + run, nil
}

// InstallGit installs the hooks in the repository of a directory, where git looks for them (core.hooksPath). A hook that is
// there is kept beside ours, which runs it first, as if git did. Hooks of an earlier InstallGit are replaced. It returns the
// paths of the hooks.
func InstallGit(ctx context.Context, dir string, c Config) ([]string, error) {
	return eachGitHook(ctx, dir, func(path, name, script string) (bool, error) {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil { // as git does
			return false, err
		}
		if err := keep(path); err != nil {
			return false, err
		}
		before, err := beforeCommand(path + kept)
		if err != nil {
			return false, err
		}
		text, err := gitScript(c, name, script, before)
		if err == nil {
			err = place(path, []byte(text), 0o755)
		}
		return true, err
	})
}

// eachGitHook calls change with the path of each hook, and returns those that it changed.
func eachGitHook(ctx context.Context, dir string, change func(path, name, script string) (bool, error)) (paths []string, err error) {
	folder, err := hooksFolder(ctx, dir)
	if err != nil {
		return nil, err
	}
	for _, h := range gitHooks {
		path := filepath.Join(folder, h.name)
		changed, err := change(path, h.name, h.script)
		if err != nil {
			return paths, err
		}
		if changed {
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// keep gives somebody else's hook a second name, so that there is no moment without a hook.
func keep(path string) error {
	ours, err := isOurs(path)
	if err != nil || ours {
		return err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Lstat(path + kept); err == nil {
		return fmt.Errorf("%s and %s are both there, and neither is ours: remove the one that is not needed", path, path+kept)
	}
	if os.Link(path, path+kept) == nil {
		return nil
	}
	return os.Rename(path, path+kept) // on a file system without links
}

// isOurs reports whether there is a hook that InstallGit has written.
func isOurs(path string) (bool, error) {
	head, err := headOf(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return strings.Contains(head, "\n"+marker), err
}

// headOf returns the beginning of a file.
func headOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := bufio.NewReader(io.LimitReader(f, 256)).Peek(256)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return string(b), err
}

// beforeCommand returns the command that runs a kept hook, or "" if there is none. A shell script is read by its own shell
// under the name that git calls it by, as some find their other files by that name.
func beforeCommand(path string) (string, error) {
	head, err := headOf(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(head, "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	if strings.HasPrefix(line, "#!") && slices.ContainsFunc(words, isShell) {
		return quoted(words...) + ` -c 'b=$1; shift; . "$b"' "$0" "$0` + kept + `" "$@"`, nil
	}
	return `"$0` + kept + `" "$@"`, nil
}

func isShell(word string) bool {
	return slices.Contains([]string{"sh", "bash", "dash", "ksh", "zsh"}, filepath.Base(word))
}

// UninstallGit removes the hooks of InstallGit and puts those back that were there before. It returns the paths that it
// changed. A hook that somebody wrote over ours stays, and so does what was kept.
func UninstallGit(ctx context.Context, dir string) ([]string, error) {
	return eachGitHook(ctx, dir, func(path, _, _ string) (bool, error) {
		ours, err := isOurs(path)
		if err != nil || !ours {
			return false, err
		}
		err = os.Rename(path+kept, path)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Remove(path)
		}
		return true, err
	})
}

// hooksFolder asks git where the hooks of a directory's repository are.
func hooksFolder(ctx context.Context, dir string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "rev-parse", "--git-path", "hooks")
	cmd.Dir = dir
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		err = errors.New(strings.TrimSpace(string(failed.Stderr)))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", dir, err)
	}
	folder := strings.TrimSuffix(string(out), "\n")
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(dir, folder)
	}
	return folder, nil
}
